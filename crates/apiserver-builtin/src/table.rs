//! What `kubectl get` shows of core kinds: columns by name, and cells in the words that people know.

mod headings;

use jiff::Timestamp;
use serde_json::Value;

use super::labels::read_selector;
use super::value::{entries, is_set, items, text};
use apiserver::registry::{Column, ColumnFormat, Columns, human_duration};

/// Columns from headings. `Name` and `Age` are what they are for all kinds; `*` marks those that are shown only with
/// `-o wide`, `#` and `?` those of whole numbers and of yes or no, and `@` those of a name.
pub(super) fn columns(
    headings: &[&str],
    cells: impl Fn(&Value, Timestamp) -> Vec<Value> + Send + Sync + 'static,
) -> Columns {
    let columns: Vec<_> = headings.iter().map(|heading| column(heading)).collect();
    Columns::new(columns, cells)
}

fn column(heading: &str) -> Column {
    let (heading, format) = match heading.strip_prefix('@') {
        Some(heading) => (heading, ColumnFormat::Name),
        None => (heading, ColumnFormat::Plain),
    };
    let (heading, wide) = heading.strip_suffix('*').map_or((heading, false), |heading| (heading, true));
    let (heading, kind) = match heading.as_bytes().last() {
        Some(b'#') => (&heading[..heading.len() - 1], "integer"),
        Some(b'?') => (&heading[..heading.len() - 1], "boolean"),
        _ => (heading, "string"),
    };
    let column = match heading {
        "Name" => Column::name(),
        "Age" => Column::age(),
        _ => Column { format, ..Column::new(heading, kind, headings::meaning(heading)) },
    };
    if wide { column.wide() } else { column }
}

/// The name of an object.
pub(super) fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"]).into()
}

/// How old an object is.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now).into()
}

/// How long ago a time was.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    match time.as_str().and_then(|time| time.parse::<Timestamp>().ok()) {
        Some(time) => human_duration(now.duration_since(time).as_secs()),
        None => "<unknown>".into(),
    }
}

/// A text, or what stands for none.
pub(super) fn or<'a>(value: &'a Value, none: &'a str) -> &'a str {
    match text(value) {
        "" => none,
        text => text,
    }
}

/// Labels as they are selected by: `a=b,c=d`.
pub(super) fn labels(labels: &Value) -> String {
    let pairs: Vec<_> = entries(labels).map(|(key, value)| format!("{key}={}", text(value))).collect();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",") }
}

/// A selector of labels.
pub(super) fn selector(selector: &Value) -> String {
    match read_selector(selector) {
        Some(selector) if selector.to_string().is_empty() => "<none>".into(),
        Some(selector) => selector.to_string(),
        None => "<error>".into(),
    }
}

/// The names and the images of the containers of a pod's template.
pub(super) fn containers(pod_spec: &Value) -> [Value; 2] {
    let all = |field: &str| -> Value {
        let texts: Vec<_> =
            items(&pod_spec["containers"]).iter().map(|container| text(&container[field])).collect();
        texts.join(",").into()
    };
    [all("name"), all("image")]
}

/// The addresses of a load balancer.
pub(super) fn load_balancer(status: &Value) -> String {
    let mut addresses: Vec<_> = items(&status["loadBalancer"]["ingress"])
        .iter()
        .filter_map(|ingress| {
            [&ingress["ip"], &ingress["hostname"]].map(text).into_iter().find(|text| !text.is_empty())
        })
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

/// The first three of a list, and how many more there are.
pub(super) fn first_three(list: &[String]) -> String {
    let shown = list[..list.len().min(3)].join(",");
    match list.len() {
        0 => "<unset>".into(),
        1..=3 => shown,
        more => format!("{shown} + {} more...", more - 3),
    }
}

/// Whether a deletion has begun.
pub(super) fn is_deleting(object: &Value) -> bool {
    is_set(&object["metadata"]["deletionTimestamp"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn headings_say_what_a_column_is() {
        let columns = columns(&["Name", "Desired#", "Suspend?", "Node*", "Age"], |_, _| Vec::new()).columns;
        let kinds: Vec<_> =
            columns.iter().map(|column| (&*column.name, &*column.kind, column.priority)).collect();
        assert_eq!(
            kinds,
            [
                ("Name", "string", 0),
                ("Desired", "integer", 0),
                ("Suspend", "boolean", 0),
                ("Node", "string", 1),
                ("Age", "string", 0)
            ]
        );
        assert_eq!(columns[0].format.as_str(), "name");
    }

    #[test]
    fn selectors_are_shown_as_they_are_asked_for() {
        assert_eq!(selector(&json!({"matchLabels": {"b": "c", "a": "b"}})), "a=b,b=c");
        assert_eq!(selector(&json!({})), "<none>");
        assert_eq!(selector(&json!({"matchExpressions": [{"key": "a", "operator": "Nope"}]})), "<error>");
        assert_eq!(labels(&json!(null)), "<none>");
        assert_eq!(labels(&json!({"a": ""})), "a=");
        assert_eq!(first_three(&["1", "2", "3", "4", "5"].map(String::from)), "1,2,3 + 2 more...");
    }
}
