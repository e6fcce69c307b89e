//! `metadata.managedFields`: who owns which fields of an object.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields_v1::Form;
use super::set::FieldSet;
use crate::time;
use apischema::go_text;

/// All managers of an object with what they own.
pub(super) type Managers<'a> = BTreeMap<Manager<'a>, Owned<'a>>;

/// Who manages fields. Two entries with the same identity are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) operation: Operation,
    /// Empty for who applies: he stays the same when he changes to another version.
    pub(super) api_version: Cow<'a, str>,
    pub(super) subresource: Cow<'a, str>,
}

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// What a manager owns.
#[derive(Clone, Debug)]
pub(super) struct Owned<'a> {
    pub(super) set: FieldSet<'a>,
    pub(super) api_version: Cow<'a, str>,
    pub(super) time: Option<Cow<'a, str>>,
    /// The set as it was written, as long as it is the same.
    written: Option<&'a Value>,
}

impl<'a> Manager<'a> {
    pub(super) fn new(
        name: &'a str,
        operation: Operation,
        api_version: &'a str,
        subresource: &'a str,
    ) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Manager {
            name: Cow::Borrowed(if name.is_empty() { "unknown" } else { name }),
            operation,
            api_version: Cow::Borrowed(api_version),
            subresource: Cow::Borrowed(subresource),
        }
    }
}

/// As conflicts name it.
impl std::fmt::Display for Manager<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&go_text::quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(formatter, " with subresource {}", go_text::quote(&self.subresource))?;
        }
        match self.operation {
            Operation::Update => write!(formatter, " using {}", self.api_version),
            Operation::Apply => Ok(()),
        }
    }
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

impl<'a> Owned<'a> {
    pub(super) fn new(set: FieldSet<'a>, api_version: &'a str, time: Option<Cow<'a, str>>) -> Self {
        Owned { set, api_version: Cow::Borrowed(api_version), time, written: None }
    }

    /// Puts another set in place of this one.
    pub(super) fn replace(&mut self, set: FieldSet<'a>) {
        self.set = set;
        self.written = None;
    }

    /// Takes away fields. The set is written anew only if it had some of them.
    pub(super) fn lose(&mut self, fields: &FieldSet<'_>) {
        if self.set.intersects(fields) {
            let set = std::mem::take(&mut self.set);
            self.replace(set.difference(fields));
        }
    }
}

/// Whether a client asks to forget all managers: it sends no entry, or one that is empty.
pub(super) fn is_reset(entries: Option<&Vec<Value>>) -> bool {
    match entries.map(Vec::as_slice) {
        None => false,
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        Some(_) => false,
    }
}

/// Reads the entries of an object. What it returns as an error is the whole message.
pub(super) fn decode(entries: &[Value]) -> Result<Managers<'_>, String> {
    let mut managers = Managers::new();
    for (at, entry) in entries.iter().enumerate() {
        let text = |field| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
            other => {
                return Err(format!(
                    "invalid fieldsType {} in managed fields entry {at}",
                    go_text::quote(other)
                ));
            }
        }
        let (set, written) = match entry.get("fieldsV1").filter(|fields| !fields.is_null()) {
            Some(fields) => {
                let (set, form) = FieldSet::from_fields_v1_noting_form(fields).map_err(|why| {
                    format!(
                        "error decoding versioned set from {}: error decoding set: {why}",
                        go_text::plain(entry)
                    )
                })?;
                (set, (form == Form::Canonical).then_some(fields))
            }
            None => (FieldSet::new(), None),
        };
        let time = entry.get("time").and_then(Value::as_str).map(Cow::Borrowed);
        // The name is part of the identity as it is, even if there is none.
        let manager = Manager {
            name: Cow::Borrowed(text("manager")),
            ..Manager::new("-", operation, api_version, text("subresource"))
        };
        managers.insert(manager, Owned { set, api_version: Cow::Borrowed(api_version), time, written });
    }
    Ok(managers)
}

/// Writes the entries of an object; null if nobody manages anything.
pub(super) fn encode(managers: &Managers<'_>) -> Value {
    if managers.is_empty() {
        return Value::Null;
    }
    let mut entries: Vec<_> = managers
        .iter()
        .map(|(manager, owned)| {
            let seconds = owned.time.as_deref().and_then(time::seconds).unwrap_or_default();
            (manager.operation, seconds, &manager.name, &owned.api_version, &manager.subresource, owned)
        })
        .collect();
    entries.sort_by(|left, right| {
        let key = |entry: &(Operation, i64, &Cow<'_, str>, &Cow<'_, str>, &Cow<'_, str>, _)| {
            (entry.0, entry.1, entry.2.to_string(), entry.3.to_string(), entry.4.to_string())
        };
        key(left).cmp(&key(right))
    });
    let entries = entries.into_iter().map(|(operation, _, name, api_version, subresource, owned)| {
        let mut entry = Map::new();
        if !name.is_empty() {
            entry.insert("manager".to_owned(), json!(name));
        }
        entry.insert("operation".to_owned(), json!(operation.as_str()));
        entry.insert("apiVersion".to_owned(), json!(api_version));
        let time = owned.time.as_deref().and_then(time::normal);
        entry.extend(time.map(|time| ("time".to_owned(), Value::String(time))));
        entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
        let fields = owned.written.cloned().unwrap_or_else(|| owned.set.to_fields_v1());
        entry.insert("fieldsV1".to_owned(), fields);
        if !subresource.is_empty() {
            entry.insert("subresource".to_owned(), json!(subresource));
        }
        Value::Object(entry)
    });
    Value::Array(entries.collect())
}

/// The most managers that own fields by updates.
const MAX_UPDATERS: usize = 10;
/// Who owns what the oldest of too many owned.
const ANCIENT: &str = "ancient-changes";

/// Folds the oldest updaters into one per version until there are not too many.
pub(super) fn cap_updaters(managers: &mut Managers<'_>) {
    let mut updaters: Vec<_> = managers
        .iter()
        .filter(|(manager, _)| manager.operation == Operation::Update)
        .map(|(manager, owned)| {
            (owned.time.as_deref().and_then(time::seconds).unwrap_or_default(), manager.clone())
        })
        .collect();
    let mut count = updaters.len();
    if count <= MAX_UPDATERS {
        return;
    }
    updaters.sort();
    let mut first_of_version = BTreeMap::new();
    for (_, manager) in updaters {
        if count <= MAX_UPDATERS {
            break;
        }
        let Some(version) = managers.get(&manager).map(|owned| owned.api_version.clone()) else { continue };
        let Some(first) = first_of_version.get(&version) else {
            first_of_version.insert(version, manager);
            continue;
        };
        let bucket = Manager {
            name: Cow::Borrowed(ANCIENT),
            operation: Operation::Update,
            api_version: version,
            subresource: Cow::Borrowed(""),
        };
        if !managers.contains_key(&bucket) {
            let Some(owned) = managers.remove(first) else { continue };
            managers.insert(bucket.clone(), owned);
        }
        if manager == bucket {
            continue;
        }
        let Some(merged) = managers.remove(&manager) else { continue };
        if let Some(owned) = managers.get_mut(&bucket) {
            let set = std::mem::take(&mut owned.set);
            owned.replace(merged.set.union(set));
            // The merged one is the more recent.
            owned.time = merged.time;
        }
        count -= 1;
    }
}

/// What is wrong with the entries of an object, as a server warns when an admission webhook broke them.
pub fn validate_managed_fields(object: &Value) -> Result<(), String> {
    let entries = crate::meta::managed_fields(object);
    decode(entries.map(Vec::as_slice).unwrap_or_default()).map(|_| ())
}
