//! The Status of everything that can go wrong with a resource's objects.

use apimachinery::{GroupKind, GroupResource, Status};
use apischema::FieldError;
use apistore::StoreError;

use crate::registry::Resource;

impl Resource {
    /// `deployments.apps`
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// `Deployment.apps`
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }

    /// There is no object of that name.
    pub fn not_found(&self, name: &str) -> Status {
        Status::not_found(&self.group_resource(), name)
    }

    /// There is an object of that name.
    pub fn already_exists(&self, name: &str) -> Status {
        Status::already_exists(&self.group_resource(), name)
    }

    /// The object is not as the client thinks.
    pub fn conflict(&self, name: &str, why: &str) -> Status {
        Status::conflict(&self.group_resource(), name, why)
    }

    /// The object was changed since the client read it.
    pub fn modified(&self, name: &str) -> Status {
        Status::modified(&self.group_resource(), name)
    }

    /// The object is not what it should be.
    pub fn invalid(&self, name: &str, errors: &[FieldError]) -> Status {
        Status::invalid(&self.group_kind(), name, errors)
    }

    /// It is not allowed.
    pub fn forbidden(&self, name: &str, why: &str) -> Status {
        Status::forbidden(&self.group_resource(), name, why)
    }

    /// The store did not do as it should.
    pub fn store_failed(&self, error: &StoreError) -> Status {
        match error {
            StoreError::Compacted { asked, oldest } => {
                Status::expired(format!("too old resource version: {} ({})", asked.0, oldest.0))
            }
            StoreError::Unknown { .. } => Status::expired(error.to_string()),
            StoreError::Future { asked, current } => Status::too_large_resource_version(asked.0, current.0),
            StoreError::Failed(_) | StoreError::Closed => Status::internal_error(error),
        }
    }
}
