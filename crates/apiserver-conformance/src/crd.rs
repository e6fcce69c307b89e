//! The CRD that a case asks for in short.

use serde_json::{Value, json};

use crate::case::Crd;

impl Crd {
    /// The plural name of its resource.
    pub(crate) fn plural(&self) -> String {
        format!("{}s", self.crd.to_lowercase())
    }

    /// The whole object, with variables to be filled in.
    pub(crate) fn object(&self) -> Value {
        let plural = self.plural();
        let mut version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": self.schema}},
        });
        for (field, value) in &self.version {
            version[field] = value.clone();
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{{{{group}}}}")},
            "spec": {
                "group": "{{group}}", "scope": self.scope, "versions": [version],
                "names": {"kind": self.crd, "plural": plural, "singular": self.crd.to_lowercase(), "listKind": format!("{}List", self.crd)},
            },
        })
    }
}
