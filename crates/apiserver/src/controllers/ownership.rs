//! Who owns an object, read from its bytes without parsing the rest.

use memchr::memmem;
use serde::Deserialize;

use crate::storage::StoredObject;
use crate::verbs::{FOREGROUND, ORPHAN};

/// What garbage collection needs to know of an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) finalizers: Vec<String>,
    pub(super) owner_references: Vec<OwnerReference>,
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OwnerReference {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) block_owner_deletion: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
}

impl Metadata {
    /// Reads stored bytes; absent if nothing in them concerns owners, which for most objects a search for three words shows.
    pub(super) fn if_concerned(stored: &StoredObject) -> Option<Self> {
        let json = stored.json();
        let has = |word: &str| memmem::find(json, word.as_bytes()).is_some();
        let concerned = has("\"ownerReferences\"") || has(FOREGROUND) || has(ORPHAN);
        if concerned { Some(Self::read(stored)) } else { None }
    }

    /// Reads stored bytes.
    pub(super) fn read(stored: &StoredObject) -> Self {
        let object: Object = serde_json::from_slice(stored.json()).unwrap_or_default();
        Metadata { resource_version: stored.revision.0.to_string(), ..object.metadata }
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether its deletion waits for that of its dependents.
    pub(super) fn waits_for_dependents(&self) -> bool {
        self.is_deleting() && self.has_finalizer(FOREGROUND)
    }

    pub(super) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }
}
