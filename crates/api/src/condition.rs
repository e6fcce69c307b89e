//! Conditions of an object's status, by the Kubernetes conventions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The object is consistent with all others of its domain, for the generation observed. A subnet is used only
/// once this is `True` for its current generation.
pub const VALIDATED: &str = "Validated";
/// What the object asks for is in effect.
pub const READY: &str = "Ready";
/// What asks for addresses has all of them.
pub const ADDRESSED: &str = "Addressed";
/// Every field that is set has its effect; `False` names the ones that have none yet.
pub const SUPPORTED: &str = "Supported";
/// Someone deleted the object, and it stays until nothing uses it; the message names what does.
pub const TERMINATING: &str = "Terminating";
/// Every peering that the VPC asks for stands; `False` says what the other VPCs lack.
pub const PEERED: &str = "Peered";

/// Sets a condition; true if that changed anything that needs writing.
///
/// The transition time moves only when `status` does, as the conventions ask. The caller brings the time:
/// this crate has no clock.
pub fn set_condition(conditions: &mut Vec<Condition>, new: ConditionUpdate<'_>, now: &Time) -> bool {
    let ConditionUpdate { type_, status, reason, message, generation } = new;
    let status = status.as_str();
    let Some(old) = conditions.iter_mut().find(|c| c.type_ == type_) else {
        conditions.push(Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: generation,
            last_transition_time: now.clone(),
        });
        return true;
    };
    let same = old.status == status
        && old.reason == reason
        && old.message == message
        && old.observed_generation == generation;
    if same {
        return false;
    }
    if old.status != status {
        status.clone_into(&mut old.status);
        old.last_transition_time = now.clone();
    }
    reason.clone_into(&mut old.reason);
    message.clone_into(&mut old.message);
    old.observed_generation = generation;
    true
}

/// True if the condition is `True` and was decided for this generation of the object.
pub fn is_true(conditions: &[Condition], type_: &str, generation: Option<i64>) -> bool {
    conditions.iter().any(|c| c.type_ == type_ && c.status == "True" && c.observed_generation == generation)
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody can tell now.
    Unknown,
}

impl ConditionStatus {
    /// As conditions spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { ConditionStatus::True } else { ConditionStatus::False }
    }
}

impl std::fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a condition is to say.
#[derive(Clone, Copy, Debug)]
pub struct ConditionUpdate<'a> {
    /// Which condition.
    pub type_: &'a str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, as one CamelCase word.
    pub reason: &'a str,
    /// Why, for people.
    pub message: &'a str,
    /// The `metadata.generation` this was decided for.
    pub generation: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        serde_json::from_value(text.into()).unwrap()
    }

    #[test]
    fn transition_time_moves_with_the_status_alone() {
        let mut conditions = Vec::new();
        let (first, second) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
        let mut update = ConditionUpdate {
            type_: READY,
            status: ConditionStatus::Unknown,
            reason: "Waiting",
            message: "a",
            generation: Some(1),
        };
        assert!(set_condition(&mut conditions, update, &first));
        assert!(!set_condition(&mut conditions, update, &second));
        update.message = "b";
        assert!(set_condition(&mut conditions, update, &second));
        assert_eq!(conditions[0].last_transition_time, first);
        update.status = true.into();
        assert!(set_condition(&mut conditions, update, &second));
        assert_eq!(conditions[0].last_transition_time, second);
        assert!(is_true(&conditions, READY, Some(1)) && !is_true(&conditions, READY, Some(2)));
    }
}
