//! The values that fields of Kubernetes' types may have. The types' documents do not say them; those that a server publishes do.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The values that fields may have. Few ask for them, and nobody asks often: they are read when they are wanted and not kept.
#[derive(Debug)]
pub struct Enumerations {
    // By the type's name and the field's: keywords of the field's schema.
    by_type: BTreeMap<String, BTreeMap<String, Map<String, Value>>>,
}

impl Enumerations {
    /// Reads them.
    pub fn read() -> Enumerations {
        let by_type = serde_json::from_str(include_str!("enumerations.json"))
            .expect("invariant: the generated file is JSON of this form; a test reads it");
        Enumerations { by_type }
    }

    /// Puts into a type's schema which values its fields may have.
    pub fn add_to(&self, type_name: &str, schema: &mut Value) {
        for (field, keywords) in self.by_type.get(type_name).into_iter().flatten() {
            let field = schema.get_mut("properties").and_then(|properties| properties.get_mut(field));
            if let Some(Value::Object(schema)) = field {
                merge(schema, keywords);
            }
        }
    }
}

fn merge(into: &mut Map<String, Value>, keywords: &Map<String, Value>) {
    for (keyword, value) in keywords {
        match (into.get_mut(keyword), value) {
            (Some(Value::Object(inner)), Value::Object(keywords)) => merge(inner, keywords),
            _ => {
                into.insert(keyword.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::components;

    #[test]
    fn fields_and_elements_of_lists_have_values() {
        let enumerations = Enumerations::read();
        let name = "io.k8s.api.core.v1.Container";
        let mut schema = components().documents()[name].clone();
        enumerations.add_to(name, &mut schema);
        let policies = json!(["Always", "IfNotPresent", "Never"]);
        assert_eq!(schema["properties"]["imagePullPolicy"]["enum"], policies);
        let name = "io.k8s.api.core.v1.PersistentVolumeClaimSpec";
        let mut schema = components().documents()[name].clone();
        enumerations.add_to(name, &mut schema);
        assert_eq!(schema["properties"]["accessModes"]["items"]["type"], "string");
        assert!(schema["properties"]["accessModes"]["items"]["enum"].is_array());
    }

    #[test]
    fn whoever_is_not_known_stays_as_they_are() {
        let mut schema = json!({"type": "object"});
        Enumerations::read().add_to("com.example.v1.Ship", &mut schema);
        assert_eq!(schema, json!({"type": "object"}));
    }
}
