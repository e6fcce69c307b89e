//! The component schemas of an OpenAPI v3 document, which refer to each other by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::Schema;
use super::parse::{Parser, References, SchemaError};

/// Component schemas by name, parsed when they are first asked for. A type that many others refer to is parsed once and
/// shared.
#[derive(Debug, Default)]
pub struct Components {
    documents: BTreeMap<String, Value>,
    parsed: Mutex<HashMap<String, Arc<Schema>>>,
}

impl Components {
    /// Components whose documents are these.
    pub fn new(documents: BTreeMap<String, Value>) -> Self {
        Components { documents, parsed: Mutex::default() }
    }

    /// The documents by name.
    pub fn documents(&self) -> &BTreeMap<String, Value> {
        &self.documents
    }

    /// The schema of a component. Where a type holds itself, the inner one takes any value; it knows its name.
    pub fn schema(&self, name: &str) -> Result<Arc<Schema>, SchemaError> {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut resolution = Resolution {
            documents: &self.documents,
            parsed: &mut parsed,
            under_way: Vec::new(),
            cut: BTreeSet::new(),
        };
        resolution.resolve(name)
    }
}

struct Resolution<'a> {
    documents: &'a BTreeMap<String, Value>,
    parsed: &'a mut HashMap<String, Arc<Schema>>,
    /// The types whose schemas are being parsed, outermost first.
    under_way: Vec<String>,
    /// Those of them that something inside referred to and did not get.
    cut: BTreeSet<String>,
}

impl References for Resolution<'_> {
    fn resolve(&mut self, name: &str) -> Result<Arc<Schema>, SchemaError> {
        if let Some(schema) = self.parsed.get(name) {
            return Ok(schema.clone());
        }
        if self.under_way.iter().any(|outer| outer == name) {
            self.cut.insert(name.to_owned());
            let type_name = Some(name.into());
            return Ok(Arc::new(Schema { preserve_unknown_fields: true, type_name, ..Schema::default() }));
        }
        let document =
            self.documents.get(name).ok_or_else(|| SchemaError::UnknownReference(name.to_owned()))?;
        self.under_way.push(name.to_owned());
        let depth = self.under_way.len();
        let schema = Parser { references: self, depth }.schema(document);
        self.under_way.pop();
        let schema = Arc::new(Schema { type_name: Some(name.into()), ..schema? });
        self.cut.remove(name);
        // A type parsed inside another that it refers to is not whole, so nobody else may have it.
        if self.cut.is_empty() {
            self.parsed.insert(name.to_owned(), schema.clone());
        }
        Ok(schema)
    }

    fn open(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{AdditionalProperties, PatchStrategy};

    fn components(json: Value) -> Components {
        Components::new(serde_json::from_value(json).unwrap())
    }

    #[test]
    fn a_type_that_several_refer_to_is_shared() {
        let components = components(json!({
            "a": {"type": "object", "properties": {
                "x": {"$ref": "#/components/schemas/meta"},
                "y": {"allOf": [{"$ref": "#/components/schemas/meta"}], "default": {}},
                "z": {"allOf": [{"$ref": "#/components/schemas/meta"}], "x-kubernetes-patch-strategy": "retainKeys"},
            }},
            "meta": {"type": "object", "properties": {"name": {"type": "string"}}},
        }));
        let a = components.schema("a").unwrap();
        let meta = components.schema("meta").unwrap();
        assert!(Arc::ptr_eq(&a.properties["x"], &meta));
        assert!(Arc::ptr_eq(&a.properties["y"], &meta));
        let patch = PatchStrategy { retain_keys: true, ..PatchStrategy::default() };
        assert_eq!(*a.properties["z"], Schema { patch, ..Schema::clone(&meta) });
    }

    #[test]
    fn a_type_that_holds_itself_ends_in_one_that_takes_anything() {
        let components = components(json!({
            "outer": {"type": "object", "properties": {"tree": {"$ref": "#/components/schemas/tree"}}},
            "tree": {"type": "object", "properties": {
                "leaves": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/node"}},
            }},
            "node": {"type": "object", "properties": {"tree": {"$ref": "#/components/schemas/tree"}}},
        }));
        let outer = components.schema("outer").unwrap();
        let tree = components.schema("tree").unwrap();
        assert!(Arc::ptr_eq(&outer.properties["tree"], &tree));
        let AdditionalProperties::Of(node) = &tree.properties["leaves"].additional else { panic!() };
        assert!(node.properties["tree"].preserve_unknown_fields);
        // The node asked for by its own name is whole.
        let node = components.schema("node").unwrap();
        assert_eq!(node.properties["tree"].properties.len(), 1);
    }

    #[test]
    fn the_shapes_that_kubernetes_components_have_are_understood() {
        let components = components(json!({
            "int": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
            "raw": {"type": "object"},
            "any": {"description": "JSON"},
            "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        }));
        assert!(components.schema("int").unwrap().int_or_string);
        assert!(components.schema("raw").unwrap().preserve_unknown_fields);
        assert!(components.schema("any").unwrap().preserve_unknown_fields);
        assert!(!components.schema("quantity").unwrap().preserve_unknown_fields);
        assert_eq!(components.schema("none"), Err(SchemaError::UnknownReference("none".to_owned())));
    }
}
