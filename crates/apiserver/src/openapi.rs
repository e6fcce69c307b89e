//! OpenAPI: what objects look like, for clients that check or explain them.
//!
//! Version 3 has an index, and a document for each group and version, whose address holds a hash, so that clients can keep it
//! for ever. Version 2 is one document of everything; clients still check lists with it. Documents are long and seldom asked
//! for: they are made when they are, and only the index is kept.

mod descriptions;
mod paths;
mod schemas;
mod v2;

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use self::descriptions::Descriptions;
use crate::discovery::{Group, GroupVersion};

const JSON: &str = "application/json";

/// The index of the documents, which clients ask for often. It is made once for the same resources.
pub(crate) type Index = OnceLock<Bytes>;

/// What is at a path below `/openapi/`, and its media type.
pub(crate) fn find(
    groups: &[Group<'_>],
    kept: &Index,
    path: &str,
    accept: &str,
) -> Option<(Bytes, &'static str)> {
    match path.strip_prefix("/openapi/")? {
        "v2" if v2::wants_protobuf(accept) => Some((v2::protobuf(groups).into(), v2::PROTOBUF)),
        "v2" => Some((to_bytes(&v2::document(groups)), JSON)),
        "v3" => Some((kept.get_or_init(|| index(groups)).clone(), JSON)),
        path => {
            let path = path.strip_prefix("v3")?;
            let version = versions(groups).find(|version| version.path() == path)?;
            Some((to_bytes(&document(version)), JSON))
        }
    }
}

fn versions<'a>(groups: &'a [Group<'a>]) -> impl Iterator<Item = &'a GroupVersion<'a>> {
    groups.iter().flat_map(|group| &group.versions)
}

fn index(groups: &[Group<'_>]) -> Bytes {
    let mut index = Map::new();
    for version in versions(groups) {
        // Descriptions are those of this build, whatever the document.
        let mut hash = Sha256::new_with_prefix(env!("CARGO_PKG_VERSION"));
        hash.update(to_bytes(&facts(version)));
        let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02X}")).collect();
        let path = version.path();
        let address = format!("/openapi/v3{path}?hash={hash}");
        index.insert(path.trim_start_matches('/').into(), json!({"serverRelativeURL": address}));
    }
    to_bytes(&json!({"paths": index}))
}

fn document(version: &GroupVersion<'_>) -> Value {
    let mut document = facts(version);
    if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") {
        schemas::describe(schemas, version, &Descriptions::make());
    }
    document
}

/// A document without the descriptions of what is Kubernetes' own.
fn facts(version: &GroupVersion<'_>) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths::paths(version),
        "components": {"schemas": schemas::schemas(version)},
    })
}

fn to_bytes(value: &Value) -> Bytes {
    serde_json::to_vec(value).expect("a JSON value is always serialised to memory").into()
}
