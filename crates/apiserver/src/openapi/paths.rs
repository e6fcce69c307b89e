//! The paths of a group and version, and what can be asked there.

use serde_json::{Map, Value, json};

use super::schemas::{gvk, meta_name, name, reference};
use crate::discovery::{GroupVersion, response_kind};
use crate::registry::{Resource, Subresource};
use crate::request::Verb;

pub(super) fn paths(version: &GroupVersion<'_>) -> Value {
    let mut paths = Map::new();
    for (resource, index) in &version.resources {
        let base = version.path();
        let collection = if resource.is_namespaced() {
            format!("{base}/namespaces/{{namespace}}/{}", resource.plural)
        } else {
            format!("{base}/{}", resource.plural)
        };
        let of = Of { version, resource };
        if resource.is_namespaced() && resource.verbs.contains(&Verb::List) {
            paths.insert(
                format!("{base}/{}", resource.plural),
                json!({"get": of.operation("get", "list", &[])}),
            );
        }
        paths.insert(collection.clone(), of.collection());
        paths.insert(format!("{collection}/{{name}}"), of.object());
        for subresource in &resource.versions[*index].subresources {
            let path = format!("{collection}/{{name}}/{}", subresource.name);
            paths.insert(path, of.subresource(subresource));
        }
    }
    Value::Object(paths)
}

struct Of<'a> {
    version: &'a GroupVersion<'a>,
    resource: &'a Resource,
}

const WRITE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
const PATCH: [&str; 4] = ["dryRun", "fieldManager", "fieldValidation", "force"];
const LIST: [&str; 10] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const DELETE: [&str; 4] = ["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"];

impl Of<'_> {
    fn collection(&self) -> Value {
        self.operations(
            &self.resource.verbs,
            &[
                (Verb::List, "get", "list", &LIST),
                (Verb::Create, "post", "post", &WRITE),
                (Verb::DeleteCollection, "delete", "deletecollection", &DELETE),
            ],
        )
    }

    fn object(&self) -> Value {
        self.operations(
            &self.resource.verbs,
            &[
                (Verb::Get, "get", "get", &[]),
                (Verb::Update, "put", "put", &WRITE),
                (Verb::Patch, "patch", "patch", &PATCH),
                (Verb::Delete, "delete", "delete", &DELETE),
            ],
        )
    }

    fn subresource(&self, subresource: &Subresource) -> Value {
        let mut item = self.operations(
            &subresource.verbs,
            &[
                (Verb::Get, "get", "get", &[]),
                (Verb::Create, "post", "post", &WRITE),
                (Verb::Update, "put", "put", &WRITE),
                (Verb::Patch, "patch", "patch", &PATCH),
            ],
        );
        let (group, version, kind) = response_kind(self.version, self.resource, subresource);
        for operation in item.as_object_mut().into_iter().flat_map(|item| item.values_mut()) {
            operation["x-kubernetes-group-version-kind"] =
                json!({"group": group, "version": version, "kind": kind});
        }
        item
    }

    fn operations(&self, verbs: &[Verb], candidates: &[(Verb, &str, &str, &[&str])]) -> Value {
        let served = candidates.iter().filter(|(verb, ..)| verbs.contains(verb));
        Value::Object(
            served
                .map(|(_, method, action, parameters)| {
                    ((*method).to_owned(), self.operation(method, action, parameters))
                })
                .collect(),
        )
    }

    fn operation(&self, method: &str, action: &str, parameters: &[&str]) -> Value {
        let own = |kind: &str| reference(&name(self.version.group, self.version.version, kind));
        let content = |schema: Value| json!({"application/json": {"schema": schema}});
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
            .collect();
        let answer = match action {
            "list" => own(&self.resource.list_kind),
            "delete" | "deletecollection" => reference(&meta_name("Status")),
            _ => own(&self.resource.kind),
        };
        let mut operation = json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": content(answer)}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(self.version, &self.resource.kind),
        });
        match method {
            "post" | "put" => {
                operation["requestBody"] =
                    json!({"content": content(own(&self.resource.kind)), "required": true});
            }
            "patch" => {
                let schema = json!({"schema": reference(&meta_name("Patch"))});
                let types: Map<String, Value> = self
                    .resource
                    .patch_types()
                    .iter()
                    .map(|name| ((*name).to_owned(), schema.clone()))
                    .collect();
                operation["requestBody"] = json!({"content": types, "required": true});
            }
            _ => {}
        }
        operation
    }
}
