//! OpenAPI: what objects look like, for clients that check or explain them.
//!
//! Version 3 has an index, and a document for each group and version, whose address holds a hash, so that clients can keep it
//! for ever. Version 2 is one document of everything; clients still check lists with it. A document is made when it is first
//! requested, and kept for as long as the registry does not change.

mod descriptions;
mod paths;
mod schemas;
mod v2;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use self::descriptions::Descriptions;
use crate::discovery::{Group, GroupVersion};

const JSON: &str = "application/json";

/// The documents about the same resources that were requested before.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    documents: Mutex<HashMap<Name, Arc<OnceLock<Arc<Written>>>>>,
}

/// A document as it is sent.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) bytes: Bytes,
    pub(crate) media_type: &'static str,
    /// A hash of the bytes, in quotes.
    pub(crate) etag: String,
    compressed: OnceLock<Option<Bytes>>,
}

/// Which document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    V2,
    V2Protobuf,
    /// The index of those of version 3.
    V3,
    /// By path: `/apis/apps/v1`
    V3Of(String),
}

impl Cache {
    /// The document at a path below `/openapi/`. Only documents that exist are kept.
    pub(crate) fn find(&self, groups: &[Group<'_>], path: &str, accept: &str) -> Option<Arc<Written>> {
        let name = match path.strip_prefix("/openapi/")? {
            "v2" if v2::wants_protobuf(accept) => Name::V2Protobuf,
            "v2" => Name::V2,
            "v3" => Name::V3,
            path => Name::V3Of(path.strip_prefix("v3")?.to_owned()),
        };
        let version = match &name {
            Name::V3Of(path) => Some(versions(groups).find(|version| version.path() == *path)?),
            _ => None,
        };
        let kept = {
            let mut documents = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
            documents.entry(name.clone()).or_default().clone()
        };
        // Who needs it while it is made waits.
        let written = kept.get_or_init(|| {
            Arc::new(match (name, version) {
                (Name::V2Protobuf, _) => Written::new(v2::protobuf(groups).into(), v2::PROTOBUF),
                (Name::V2, _) => Written::new(to_bytes(&v2::document(groups)), JSON),
                (_, None) => Written::new(index(groups), JSON),
                (_, Some(version)) => Written::new(to_bytes(&document(version)), JSON),
            })
        });
        Some(written.clone())
    }
}

impl Written {
    fn new(bytes: Bytes, media_type: &'static str) -> Written {
        let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
        Written { bytes, media_type, etag: format!("\"{hash}\""), compressed: OnceLock::new() }
    }

    /// The compressed bytes; made by the first who needs them, absent if that cannot be done.
    pub(crate) fn compressed(&self, compress: impl FnOnce(&Bytes) -> Option<Bytes>) -> Option<&Bytes> {
        self.compressed.get_or_init(|| compress(&self.bytes)).as_ref()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Registry, Resource, Scope};

    #[test]
    fn a_document_is_made_once_for_the_same_resources_and_anew_when_they_change() {
        let thing = |plural: &str, kind: &str| Resource::new("ex.io", "v1", plural, kind, Scope::Namespaced);
        let registry = Registry::new([thing("ships", "Ship")]);
        let paths = ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/ex.io/v1"];
        let snapshot = registry.snapshot();
        let first: Vec<_> = paths.iter().map(|path| snapshot.openapi(path, "").unwrap()).collect();
        for (path, first) in paths.iter().zip(&first) {
            assert!(Arc::ptr_eq(&registry.snapshot().openapi(path, "").unwrap(), first), "{path}");
        }
        let protobuf = snapshot.openapi("/openapi/v2", v2::PROTOBUF).unwrap();
        assert_ne!(protobuf.etag, first[0].etag);
        assert!(snapshot.openapi("/openapi/v3/apis/other.io/v1", "").is_none());

        registry.insert(thing("harbours", "Harbour"));
        for (path, first) in paths.iter().zip(&first) {
            let changed = registry.snapshot().openapi(path, "").unwrap();
            assert_ne!(changed.etag, first.etag, "{path}");
        }
    }
}
