//! Conditions as Kube-OVN has them: the usual fields, and a second time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
use crate::condition::ConditionUpdate;

/// One aspect of an object's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// Why, as one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The `metadata.generation` this was decided for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When anything of it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When its status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// Sets a condition; true if that changed anything that needs writing.
pub fn set_condition(conditions: &mut Vec<Condition>, new: ConditionUpdate<'_>, now: &Time) -> bool {
    let status = new.status.as_str();
    let index = conditions.iter().position(|c| c.type_ == new.type_);
    let old = match index {
        Some(index) => &mut conditions[index],
        None => {
            conditions.push(Condition { type_: new.type_.to_owned(), ..Condition::default() });
            let last = conditions.len() - 1;
            &mut conditions[last]
        }
    };
    let same = old.status == status
        && old.reason.as_deref() == Some(new.reason)
        && old.message.as_deref() == Some(new.message)
        && old.observed_generation == new.generation;
    if same {
        return false;
    }
    if old.status != status {
        status.clone_into(&mut old.status);
        old.last_transition_time = Some(now.clone());
    }
    old.reason = Some(new.reason.to_owned());
    old.message = Some(new.message.to_owned());
    old.observed_generation = new.generation;
    old.last_update_time = Some(now.clone());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_times_are_kept() {
        let at = |text: &str| serde_json::from_value::<Time>(text.into()).unwrap();
        let (first, second) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
        let mut conditions = Vec::new();
        let mut update = ConditionUpdate {
            type_: "Ready",
            status: true.into(),
            reason: "Ready",
            message: "",
            generation: Some(1),
        };
        assert!(set_condition(&mut conditions, update, &first));
        assert!(!set_condition(&mut conditions, update, &second));
        update.generation = Some(2);
        assert!(set_condition(&mut conditions, update, &second));
        assert_eq!(conditions[0].last_transition_time, Some(first));
        assert_eq!(conditions[0].last_update_time, Some(second));
    }
}
