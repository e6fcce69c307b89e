//! Marks what is volatile because of where it is in an answer.

use serde_json::{Map, Value};

use super::Normalizer;

/// Marks, while a case runs, the resource version of an object; no server sends these.
pub(super) const OBJECT: &str = "\u{1}object:";
/// The same of a list, a table or a bookmark.
pub(super) const SNAPSHOT: &str = "\u{1}snapshot:";

/// How many characters a server adds to a `generateName`, which it cuts if need be.
const GENERATED: usize = 5;

impl Normalizer {
    /// Marks what only its place tells to be volatile.
    pub(crate) fn mark(&mut self, value: &mut Value) {
        match value {
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.mark(element)),
            Value::Object(fields) => {
                let is_bookmark = fields.get("type").and_then(Value::as_str) == Some("BOOKMARK");
                if is_bookmark && let Some(Value::Object(object)) = fields.get_mut("object") {
                    mark_version(object, SNAPSHOT);
                }
                self.mark_object(fields);
                fields.values_mut().for_each(|field| self.mark(field));
            }
            _ => {}
        }
    }

    fn mark_object(&mut self, fields: &mut Map<String, Value>) {
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_snapshot = kind == "Table" || kind.ends_with("List");
        mark_version(fields, if is_snapshot { SNAPSHOT } else { OBJECT });
        match kind.as_str() {
            "Status" => sort_causes(fields),
            "Table" => {
                mark_ages(fields);
                self.mark_descriptions(fields);
            }
            _ => {}
        }
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            self.mark_metadata(metadata);
        }
        if let Some(hash) = fields.get_mut("storageVersionHash") {
            *hash = "<hash>".into();
        }
        for field in ["nodePort", "healthCheckNodePort"] {
            if let Some(port) = fields.get_mut(field)
                && port.as_u64().is_some_and(|port| port != 0 && !self.text.contains(&port.to_string()))
            {
                *port = "<port>".into();
            }
        }
    }

    fn mark_metadata(&mut self, metadata: &mut Map<String, Value>) {
        if let Some(Value::String(token)) = metadata.get_mut("continue")
            && !token.is_empty()
        {
            "<continue>".clone_into(token);
        }
        if let Some(Value::Array(managers)) = metadata.get_mut("managedFields") {
            let fields = ["operation", "manager", "apiVersion", "subresource"];
            managers.sort_by_cached_key(|manager| {
                fields.map(|field| manager[field].as_str().unwrap_or_default().to_owned())
            });
        }
        let text = |field: &str| metadata.get(field).and_then(Value::as_str);
        if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
            && let Some((start, _)) = name.split_at_checked(name.len().saturating_sub(GENERATED))
            && prefix.starts_with(start)
        {
            self.names.insert(name.to_owned(), format!("{start}<generated>"));
        }
    }

    fn mark_descriptions(&self, table: &mut Map<String, Value>) {
        let columns = table.get_mut("columnDefinitions").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten() {
            if let Some(Value::String(description)) = column.get_mut("description")
                && !description.is_empty()
                && !self.text.contains(description.as_str())
            {
                "<description>".clone_into(description);
            }
        }
    }
}

fn mark_version(object: &mut Map<String, Value>, mark: &str) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata")
        && let Some(Value::String(version)) = metadata.get_mut("resourceVersion")
        && version.parse::<u64>().is_ok()
    {
        *version = format!("{mark}{version}");
    }
}

/// Sorts the causes of an error, and what its message says of them.
fn sort_causes(status: &mut Map<String, Value>) {
    let Some(Value::Array(causes)) = status.get_mut("details").and_then(|details| details.get_mut("causes"))
    else {
        return;
    };
    let text = |cause: &Value| -> String {
        let part = |name: &str| cause[name].as_str().unwrap_or_default();
        format!("{}: {}", part("field"), part("message"))
    };
    let told = |causes: &[Value]| {
        let mut texts: Vec<String> = Vec::new();
        for text in causes.iter().map(text) {
            // One that comes twice is told once.
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        format!("[{}]", texts.join(", "))
    };
    let before = told(causes);
    causes.sort_by_cached_key(text);
    let after = told(causes);
    if let Some(Value::String(message)) = status.get_mut("message") {
        *message = message.replace(&before, &after);
    }
}

/// Ages are texts in columns of certain names, or of the type `date`. The later tables of a watch do not tell their columns.
fn mark_ages(table: &mut Map<String, Value>) {
    let columns = table.get("columnDefinitions").and_then(Value::as_array).cloned();
    let is_age = |column: &Value| {
        ["Age", "Last Seen", "First Seen"].iter().any(|name| column["name"] == *name)
            || column["type"] == "date"
    };
    for row in table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        let cells = row.get_mut("cells").and_then(Value::as_array_mut);
        for (index, cell) in cells.into_iter().flatten().enumerate() {
            let may_be_age = columns.as_ref().is_none_or(|columns| columns.get(index).is_some_and(is_age));
            if may_be_age && cell.as_str().is_some_and(is_age_text) {
                *cell = "<age>".into();
            }
        }
    }
}

/// `5s`, `3m20s`, `2d`.
fn is_age_text(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|first: char| first.is_ascii_digit());
        let mut after = unit.chars();
        if unit.len() == rest.len() || !after.next().is_some_and(|unit| "ydhms".contains(unit)) {
            return false;
        }
        rest = after.as_str();
    }
    !text.is_empty()
}
