//! The schemas of a group and version.

use serde_json::{Map, Value, json};

use super::descriptions::Descriptions;
use crate::discovery::GroupVersion;
use crate::registry::Resource;

const REFERENCE: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// A type in which nothing special is said about the fields that all have.
const EVERY_KIND: &str = "io.k8s.api.core.v1.ConfigMap";

/// The name of a kind's schema: that which Kubernetes gives its own kinds, or one made of group, version and kind.
pub(super) fn name(group: &str, version: &str, kind: &str) -> String {
    if let Some(known) = core_type(group, version, kind) {
        return known.to_owned();
    }
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// `{"$ref": …}`
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

/// The name of a type of `meta.k8s.io`.
pub(super) fn meta_name(kind: &str) -> String {
    format!("{META}.{kind}")
}

/// The schemas of a version's kinds, and of all that they refer to.
pub(super) fn schemas(version: &GroupVersion<'_>) -> Value {
    let mut all = Map::new();
    for (resource, index) in &version.resources {
        let own = |kind: &str| name(version.group, version.version, kind);
        if core_type(version.group, version.version, &resource.kind).is_none() {
            all.insert(own(&resource.kind), custom(version, resource, *index));
        }
        add_known(&mut all, &own(&resource.kind));
        let list = own(&resource.list_kind);
        add_known(&mut all, &list);
        all.entry(list).or_insert_with(|| custom_list(version, resource));
        for subresource in &resource.versions[*index].subresources {
            let (group, version, kind) = crate::discovery::response_kind(version, resource, subresource);
            add_known(&mut all, &name(group, version, kind));
        }
    }
    for kind in ["DeleteOptions", "ObjectMeta", "ListMeta", "Status"] {
        add_known(&mut all, &meta_name(kind));
    }
    all.insert(meta_name("Patch"), json!({"type": "object"}));
    // Kinds that are not Kubernetes' own refer to some that are.
    let referred: Vec<String> = all.values().flat_map(references).collect();
    for name in referred {
        add_known(&mut all, &name);
    }
    Value::Object(all)
}

/// Adds what is said about Kubernetes' own types, and about what every object has.
pub(super) fn describe(
    schemas: &mut Map<String, Value>,
    version: &GroupVersion<'_>,
    descriptions: &Descriptions,
) {
    for (name, schema) in schemas.iter_mut() {
        descriptions.add_to(name, schema);
    }
    for (resource, _) in &version.resources {
        if core_type(version.group, version.version, &resource.kind).is_some() {
            continue;
        }
        let (kind, list) = (&resource.kind, &resource.list_kind);
        let own = name(version.group, version.version, kind);
        let of_lists = name(version.group, version.version, list);
        // What `k8s-openapi` says of metadata is about that of objects.
        for (name, fields) in
            [(&own, &["apiVersion", "kind", "metadata"][..]), (&of_lists, &["apiVersion", "kind"])]
        {
            let Some(schema) = schemas.get_mut(name) else { continue };
            for field in fields {
                if let Some(description) = descriptions.of(EVERY_KIND, field) {
                    schema["properties"][field]["description"] = json!(description);
                }
            }
        }
        if let Some(schema) = schemas.get_mut(&of_lists) {
            let conventions =
                "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
            schema["description"] = json!(format!("{list} is a list of {kind}"));
            schema["properties"]["items"]["description"] =
                json!(format!("List of {}. More info: {conventions}", resource.plural));
        }
    }
}

fn core_type(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    let kinds = apischema::core::kinds().iter();
    let mut found =
        kinds.filter(|known| known.group == group && known.version == version && known.kind == kind);
    found.next().map(|known| known.type_name.as_str())
}

/// Adds a type that Kubernetes has, and all that it refers to.
fn add_known(all: &mut Map<String, Value>, name: &str) {
    let documents = apischema::core::components().documents();
    let mut missing = vec![name.to_owned()];
    while let Some(name) = missing.pop() {
        if all.contains_key(&name) {
            continue;
        }
        let Some(document) = documents.get(&name) else { continue };
        missing.extend(references(document));
        all.insert(name, document.clone());
    }
}

fn references(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut values = vec![value];
    while let Some(value) = values.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref")
                    && let Some(name) = reference.strip_prefix(REFERENCE)
                {
                    found.push(name.to_owned());
                }
                values.extend(fields.values());
            }
            Value::Array(items) => values.extend(items),
            _ => {}
        }
    }
    found
}

fn custom(version: &GroupVersion<'_>, resource: &Resource, index: usize) -> Value {
    let mut document = match &resource.versions[index].schema {
        Some(schema) => schema.to_json(),
        None => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    let properties = &mut document["properties"];
    if !properties.is_object() {
        *properties = json!({});
    }
    properties["apiVersion"] = json!({"type": "string"});
    properties["kind"] = json!({"type": "string"});
    properties["metadata"] = json!({"allOf": [reference(&meta_name("ObjectMeta"))], "default": {}});
    document["x-kubernetes-group-version-kind"] = json!([gvk(version, &resource.kind)]);
    document
}

fn custom_list(version: &GroupVersion<'_>, resource: &Resource) -> Value {
    let item = reference(&name(version.group, version.version, &resource.kind));
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": item},
            "kind": {"type": "string"},
            "metadata": {"allOf": [reference(&meta_name("ListMeta"))], "default": {}},
        },
        "x-kubernetes-group-version-kind": [gvk(version, &resource.list_kind)],
    })
}

/// `{"group": …, "version": …, "kind": …}`
pub(super) fn gvk(version: &GroupVersion<'_>, kind: &str) -> Value {
    json!({"group": version.group, "version": version.version, "kind": kind})
}
