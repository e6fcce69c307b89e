//! The page that lists the fields of `portolan.dev`, from the definitions that a cluster loads.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Generated;

const GROUP: &str = "portolan.dev";

pub(super) fn generate(_: &Path) -> anyhow::Result<Vec<Generated>> {
    let mut page = String::from(
        "# Fields of portolan.dev/v1alpha1\n\n\
         Generated from the CustomResourceDefinitions in `deploy/crds/`; do not edit. `kubectl explain` says the same.\n\
         A field marked *required* must be set. In paths `[]` stands for the items of a list.\n",
    );
    for definition in portolan_api::crds().iter().filter(|definition| definition.spec.group == GROUP) {
        let definition = serde_json::to_value(definition)?;
        let names = &definition["spec"]["names"];
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let _ = write!(
            page,
            "\n## {}\n\n{} {}\n",
            text(&names["kind"]),
            text(&schema["description"]),
            served(&definition["spec"])
        );
        for part in ["spec", "status"] {
            let schema = &schema["properties"][part];
            if schema.is_object() {
                let _ = write!(page, "\n| `{part}` | type | meaning |\n|---|---|---|\n");
                fields(schema, "", &mut page);
            }
        }
    }
    Ok(vec![Generated { path: PathBuf::from("docs/portolan-fields.md"), content: page }])
}

fn served(spec: &Value) -> String {
    let scope = text(&spec["scope"]).to_lowercase();
    let short = spec["names"]["shortNames"].as_array().into_iter().flatten().map(text);
    let short: Vec<_> = short.map(|name| format!("`{name}`")).collect();
    let scope = if scope == "cluster" { "Cluster-scoped" } else { "Namespaced" };
    if short.is_empty() { format!("{scope}.") } else { format!("{scope}; short name {}.", short.join(", ")) }
}

/// A row for each field of an object, and for the fields below it.
fn fields(schema: &Value, prefix: &str, page: &mut String) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().map(text).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let mark = if required.contains(&name.as_str()) { " *Required.*" } else { "" };
        let meaning = text(&field["description"]).split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(page, "| `{path}` | {} | {}{mark} |", type_of(field), meaning.replace('|', "\\|"));
        // Kubernetes' own documentation has the fields of a condition.
        if name != "conditions" {
            fields(field, &format!("{path}."), page);
            fields(&field["items"], &format!("{path}[]."), page);
        }
    }
}

fn type_of(field: &Value) -> String {
    if field["x-kubernetes-int-or-string"] == true {
        return "integer or string".into();
    }
    match text(&field["type"]) {
        "array" => format!("list of {}", type_of(&field["items"])),
        "string" if field["enum"].is_array() => {
            let values = field["enum"].as_array().into_iter().flatten().map(text);
            values.map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
        }
        "" => "any".into(),
        other => other.into(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
