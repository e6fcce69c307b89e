//! What Kubernetes says about its types and their fields, for those who ask to have them explained.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What is said about types and their fields. It is long, few ask for it, and nobody asks often: it is read when it is
/// wanted and not kept.
#[derive(Debug)]
pub struct Descriptions {
    // By the type's name; by the field's name, which for the type itself is empty. What is said is a sentence or, of a field
    // that may have certain values only, keywords of a schema.
    by_type: BTreeMap<String, BTreeMap<String, Value>>,
}

impl Descriptions {
    /// Reads them.
    pub fn read() -> Descriptions {
        let by_type = serde_json::from_str(include_str!("descriptions.json"))
            .expect("invariant: the generated file is JSON; a test reads it");
        Descriptions { by_type }
    }

    /// What is said about a field of a type; about the type itself, if the field's name is empty.
    pub fn of(&self, type_name: &str, field: &str) -> Option<&str> {
        match self.by_type.get(type_name)?.get(field)? {
            Value::String(description) => Some(description),
            keywords => keywords["description"].as_str(),
        }
    }

    /// Puts into a type's schema what is said about it and its fields.
    pub fn add_to(&self, type_name: &str, schema: &mut Value) {
        let Some(described) = self.by_type.get(type_name) else { return };
        for (field, said) in described {
            let described = match field.as_str() {
                "" => Some(&mut *schema),
                field => schema.get_mut("properties").and_then(|properties| properties.get_mut(field)),
            };
            let Some(Value::Object(described)) = described else { continue };
            match said {
                Value::Object(keywords) => merge(described, keywords),
                description => {
                    described.insert("description".into(), description.clone());
                }
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
    fn kinds_and_their_fields_are_described() {
        let descriptions = Descriptions::read();
        let name = "io.k8s.api.core.v1.Pod";
        let mut schema = components().documents()[name].clone();
        descriptions.add_to(name, &mut schema);
        assert_eq!(schema["description"], descriptions.of(name, "").unwrap());
        assert_eq!(schema["properties"]["spec"]["description"], descriptions.of(name, "spec").unwrap());
        assert_eq!(descriptions.of(name, "nothing"), None);

        let name = "io.k8s.api.core.v1.Container";
        let mut schema = components().documents()[name].clone();
        descriptions.add_to(name, &mut schema);
        let policies = json!(["Always", "IfNotPresent", "Never"]);
        assert_eq!(schema["properties"]["imagePullPolicy"]["enum"], policies);
        let name = "io.k8s.api.core.v1.PersistentVolumeClaimSpec";
        let mut schema = components().documents()[name].clone();
        descriptions.add_to(name, &mut schema);
        assert_eq!(schema["properties"]["accessModes"]["items"]["type"], "string");
        assert!(schema["properties"]["accessModes"]["items"]["enum"].is_array());
    }

    #[test]
    fn whoever_is_not_known_stays_as_they_are() {
        let mut schema = json!({"type": "object"});
        Descriptions::read().add_to("com.example.v1.Ship", &mut schema);
        assert_eq!(schema, json!({"type": "object"}));
    }
}
