//! OpenAPI v3: what objects look like, for clients that check or explain them.
//!
//! There is an index, and a document for each group and version. A document's address holds a hash of it, so that clients can
//! keep it for ever.

mod paths;
mod schemas;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::discovery::{Group, GroupVersion};

/// The OpenAPI documents by path, as JSON.
pub(crate) fn documents(groups: &[Group<'_>]) -> BTreeMap<String, Bytes> {
    let mut documents = BTreeMap::new();
    let mut index = Map::new();
    for version in groups.iter().flat_map(|group| &group.versions) {
        let document = to_bytes(&document(version));
        let hash: String = Sha256::digest(&document).iter().map(|byte| format!("{byte:02X}")).collect();
        let path = version.path();
        let address = format!("/openapi/v3{path}?hash={hash}");
        index.insert(path.trim_start_matches('/').into(), json!({"serverRelativeURL": address}));
        documents.insert(format!("/openapi/v3{path}"), document);
    }
    documents.insert("/openapi/v3".into(), to_bytes(&json!({"paths": index})));
    documents
}

fn document(version: &GroupVersion<'_>) -> Value {
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
