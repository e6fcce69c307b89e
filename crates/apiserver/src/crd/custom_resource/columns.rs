//! What `kubectl get` shows of custom resources.

use std::borrow::Cow;

use apimachinery::jsonpath::{self, JsonPath};
use jiff::Timestamp;
use serde_json::Value;

use crate::crd::definition::ColumnDefinition;
use crate::registry::{Column, ColumnFormat, Columns, human_duration};

/// How old an object is.
pub(crate) fn age(object: &Value, now: Timestamp) -> String {
    match object.pointer("/metadata/creationTimestamp").and_then(Value::as_str) {
        Some(time) => since(time, now),
        None => "<unknown>".into(),
    }
}

/// A column that is looked up by a path.
struct PathColumn {
    path: JsonPath,
    kind: String,
}

/// The columns that a version of a definition asks for; the age if it asks for none.
pub(super) fn columns(definitions: &[ColumnDefinition]) -> Columns {
    let mut headings = vec![Column::name()];
    let mut paths = Vec::new();
    for definition in definitions {
        // A path that cannot be read ends what is shown, as in kube-apiserver.
        let Ok(path) = JsonPath::parse(&definition.json_path) else { break };
        headings.push(heading(definition));
        paths.push(PathColumn { path, kind: definition.kind.clone() });
    }
    if definitions.is_empty() {
        headings.push(Column { kind: "date".into(), ..Column::age() });
        let path = JsonPath::parse(".metadata.creationTimestamp").expect("invariant: the path is right");
        paths.push(PathColumn { path, kind: "date".into() });
    }
    Columns::new(headings, move |object, now| {
        let name = object.pointer("/metadata/name").cloned().unwrap_or_default();
        let cells = paths.iter().map(|column| cell(column, object, now));
        std::iter::once(name).chain(cells).collect()
    })
}

fn heading(definition: &ColumnDefinition) -> Column {
    let description = if definition.description.is_empty() {
        format!("Custom resource definition column (in JSONPath format): {}", definition.json_path)
    } else {
        definition.description.clone()
    };
    let format = match definition.format.as_str() {
        "" => ColumnFormat::Plain,
        other => ColumnFormat::Other(other.into()),
    };
    Column {
        format,
        priority: definition.priority,
        ..Column::new(&definition.name, &definition.kind, &description)
    }
}

fn cell(column: &PathColumn, object: &Value, now: Timestamp) -> Value {
    let Some(found) = column.path.first(object) else { return Value::Null };
    match (column.kind.as_str(), &*found) {
        ("string", Value::Null) => "<no value>".into(),
        ("string", value) => jsonpath::print(value).into(),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            // Go cuts off what is behind the point.
            #[allow(clippy::cast_possible_truncation)]
            (None, Some(float)) => (float as i64).into(),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(number)) => match number.as_f64() {
            // A whole number is written without a point.
            Some(float) if float.fract() == 0.0 && number.is_i64() => Value::Number(number.clone()),
            Some(float) => float.into(),
            None => Value::Null,
        },
        ("boolean", Value::Bool(_)) => Cow::into_owned(found),
        ("date", Value::String(time)) => since(time, now).into(),
        _ => Value::Null,
    }
}

fn since(time: &str, now: Timestamp) -> String {
    if matches!(time, "" | "null") {
        return "<unknown>".into();
    }
    match time.parse::<Timestamp>() {
        Ok(time) => human_duration(now.duration_since(time).as_secs()),
        Err(_) => "<invalid>".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(kind: &str, path: &str) -> ColumnDefinition {
        ColumnDefinition {
            name: "C".into(),
            kind: kind.into(),
            json_path: path.into(),
            ..ColumnDefinition::default()
        }
    }

    fn shown(kind: &str, path: &str, object: &Value) -> Value {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        columns(&[definition(kind, path)]).cells(object, now)[1].clone()
    }

    #[test]
    fn a_cell_is_of_its_columns_type() {
        let object = json!({"spec": {"n": 3, "f": 1.5, "t": "x", "b": true, "m": {"a": 1}, "z": null}});
        assert_eq!(shown("string", ".spec.t", &object), "x");
        assert_eq!(shown("string", ".spec.n", &object), "3");
        assert_eq!(shown("string", ".spec.m", &object), r#"{"a":1}"#);
        assert_eq!(shown("string", ".spec.z", &object), "<no value>");
        assert_eq!(shown("string", ".spec.none", &object), Value::Null);
        assert_eq!(shown("integer", ".spec.n", &object), 3);
        assert_eq!(shown("integer", ".spec.f", &object), 1);
        assert_eq!(shown("integer", ".spec.t", &object), Value::Null);
        assert_eq!(shown("number", ".spec.f", &object), 1.5);
        assert_eq!(shown("boolean", ".spec.b", &object), true);
        assert_eq!(shown("boolean", ".spec.n", &object), Value::Null);
    }

    #[test]
    fn dates_are_shown_as_ages() {
        let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:59:00Z"}, "d": "soon", "e": ""});
        assert_eq!(shown("date", ".metadata.creationTimestamp", &object), "60s");
        assert_eq!(shown("date", ".d", &object), "<invalid>");
        assert_eq!(shown("date", ".e", &object), "<unknown>");
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let default = columns(&[]);
        assert_eq!(default.cells(&object, now), [json!("a"), json!("60s")]);
        assert_eq!((default.columns[1].name.as_str(), default.columns[1].kind.as_str()), ("Age", "date"));
    }

    #[test]
    fn headings_say_where_a_value_is_from() {
        let columns = columns(&[definition("string", ".spec.t")]);
        assert_eq!(
            columns.columns[1].description,
            "Custom resource definition column (in JSONPath format): .spec.t"
        );
    }
}
