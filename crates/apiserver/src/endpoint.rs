//! What of which resource a request is about.

use std::borrow::Cow;
use std::sync::Arc;

use apimachinery::Status;
use bytes::Bytes;
use serde_json::Value;

use crate::registry::{Resource, Version};
use crate::storage::StoredObject;

/// What of which resource a request is about.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The resource.
    pub resource: Arc<Resource>,
    /// Which of its versions.
    pub version: usize,
    /// Empty for all namespaces, and for resources without.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
}

impl Endpoint {
    /// One object, in the version that it is stored in.
    pub fn object(resource: Arc<Resource>, namespace: &str, name: &str) -> Endpoint {
        let version = resource.storage_version;
        Endpoint {
            resource,
            version,
            namespace: namespace.into(),
            name: name.into(),
            subresource: String::new(),
        }
    }

    /// All objects in a namespace, or with an empty one all, in the version that they are stored in.
    pub fn collection(resource: Arc<Resource>, namespace: &str) -> Endpoint {
        Endpoint::object(resource, namespace, "")
    }

    /// The version.
    pub fn version(&self) -> &Version {
        &self.resource.versions[self.version]
    }

    /// `v1` or `apps/v1`
    pub fn api_version(&self) -> String {
        self.resource.api_version(&self.version().name)
    }

    /// What marks stored objects that can be shown as they are.
    pub fn mark(&self) -> Cow<'_, str> {
        mark(&self.resource, self.version)
    }

    /// The key of the object of a name.
    pub fn key(&self, name: &str) -> Bytes {
        self.resource.key.object(&self.namespace, name)
    }

    /// What keys start with.
    pub fn prefix(&self) -> Bytes {
        self.resource.key.prefix(&self.namespace)
    }

    /// A stored object in this version.
    pub fn read(&self, stored: &StoredObject) -> Result<Value, Status> {
        let mut object = stored.to_value().map_err(Status::internal_error)?;
        if stored.mark() != self.mark() {
            self.resource.strategy.convert(&mut object, &self.api_version())?;
        }
        Ok(object)
    }

    /// The bytes to store for an object of this version.
    pub fn write(&self, object: &Value) -> Result<Bytes, Status> {
        let storage_version = self.resource.storage_version;
        let mark = mark(&self.resource, storage_version);
        if self.version == storage_version {
            return Ok(StoredObject::encode_marked(object, &mark));
        }
        let mut object = object.clone();
        let stored = &self.resource.versions[storage_version].name;
        self.resource.strategy.convert(&mut object, &self.resource.api_version(stored))?;
        Ok(StoredObject::encode_marked(&object, &mark))
    }
}

fn mark(resource: &Resource, version: usize) -> Cow<'_, str> {
    let version = &resource.versions[version];
    if version.mark.is_empty() {
        Cow::Owned(resource.api_version(&version.name))
    } else {
        Cow::Borrowed(&version.mark)
    }
}
