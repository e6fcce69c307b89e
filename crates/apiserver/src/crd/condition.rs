//! The conditions in a definition's status.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Whether the names that a definition asks for are its own.
pub(super) const NAMES_ACCEPTED: &str = "NamesAccepted";
/// Whether the resource is served.
pub(super) const ESTABLISHED: &str = "Established";
/// Whether the definition is being deleted.
pub(super) const TERMINATING: &str = "Terminating";

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) last_transition_time: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
}

impl Condition {
    /// A condition that is so for a reason.
    pub(super) fn new(kind: &str, is: bool, reason: &str, message: impl Into<String>) -> Condition {
        Condition {
            kind: kind.into(),
            status: if is { "True" } else { "False" }.into(),
            last_transition_time: String::new(),
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// Whether it says the same, whenever it came to be.
    pub(super) fn says(&self, other: &Condition) -> bool {
        (&self.kind, &self.status, &self.reason, &self.message)
            == (&other.kind, &other.status, &other.reason, &other.message)
    }

    /// Puts it in a list in place of the one of its type. Its time is that of the last change of its status.
    pub(super) fn put(mut self, conditions: &mut Vec<Condition>, now: &str) {
        let existing = conditions.iter_mut().find(|existing| existing.kind == self.kind);
        let since = existing.as_ref().filter(|existing| existing.status == self.status);
        let since =
            since.map(|existing| existing.last_transition_time.as_str()).filter(|since| !since.is_empty());
        self.last_transition_time = since.unwrap_or(now).into();
        match existing {
            Some(existing) => *existing = self,
            None => conditions.push(self),
        }
    }
}

/// The status of a definition's object, made if it is not there.
pub(super) fn status_mut(object: &mut Value) -> &mut Map<String, Value> {
    field_mut(object, "status")
}

/// Puts a condition in a definition's object.
pub(super) fn set_condition(object: &mut Value, condition: Condition, now: &str) {
    let status = status_mut(object);
    let conditions = status.get("conditions").and_then(|conditions| Vec::deserialize(conditions).ok());
    let mut conditions = conditions.unwrap_or_default();
    condition.put(&mut conditions, now);
    status.insert("conditions".into(), to_value(&conditions));
}

/// What is made of strings is always JSON.
pub(super) fn to_value<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("strings and lists of them are always JSON")
}

pub(super) fn field_mut<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    let fields = map_mut(object);
    map_mut(fields.entry(name).or_insert(Value::Null))
}

fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made an object above")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let mut object = json!({"status": {"conditions": null}});
        set_condition(&mut object, Condition::new(ESTABLISHED, false, "Installing", "m"), "t1");
        set_condition(&mut object, Condition::new(ESTABLISHED, false, "Other", "n"), "t2");
        assert_eq!(
            object["status"]["conditions"],
            json!([{"type": "Established", "status": "False", "lastTransitionTime": "t1", "reason": "Other", "message": "n"}])
        );
        set_condition(&mut object, Condition::new(NAMES_ACCEPTED, true, "a", "b"), "t3");
        set_condition(&mut object, Condition::new(ESTABLISHED, true, "c", "d"), "t4");
        let conditions = object["status"]["conditions"].as_array().unwrap();
        assert_eq!((conditions.len(), &conditions[0]["lastTransitionTime"]), (2, &json!("t4")));
    }
}
