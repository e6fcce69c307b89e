//! What the API server would refuse: the schemas of Portolan's definitions, with their rules.

use std::sync::Arc;

use apischema::{CompiledSchema, Schema};
use serde_json::Value;

/// Why an object would be refused, in place of the one that there is, if there is one. Empty for kinds that Portolan does not define.
pub(super) fn errors(group: &str, kind: &str, object: &Value, stored: Option<&Value>) -> Vec<String> {
    let Some(schema) = schema(group, kind) else { return Vec::new() };
    let mut object = object.clone();
    apischema::default(&mut object, schema.schema());
    schema.validate(&object, stored).iter().map(ToString::to_string).collect()
}

fn schema(group: &str, kind: &str) -> Option<CompiledSchema> {
    let definitions = portolan_api::crd::crds();
    let definition =
        definitions.into_iter().find(|crd| crd.spec.group == group && crd.spec.names.kind == kind)?;
    let version = definition.spec.versions.into_iter().find(|version| version.served)?;
    let schema = serde_json::to_value(version.schema?.open_api_v3_schema?).ok()?;
    Some(CompiledSchema::new(Arc::new(Schema::from_json(&schema).ok()?)))
}
