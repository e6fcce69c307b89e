//! Everything that can be done with objects, whoever asks: a request over HTTP, or a controller in the same process.
//!
//! The verbs are in [`crate::verbs`]; this is what they work with.

use std::sync::Arc;

use apimachinery::Status;
use apistore::StoreError;

use crate::admission::AdmissionChain;
use crate::endpoint::Endpoint;
use crate::registry::Registry;
use crate::storage::{Storage, StoredObject};
use crate::watch::Hub;

/// Everything that can be done with objects.
#[derive(Clone, Debug)]
pub struct Api {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    storage: Storage,
    hub: Hub,
    registry: Arc<Registry>,
    admission: AdmissionChain,
}

impl Api {
    /// Puts the parts together.
    pub fn new(storage: Storage, hub: Hub, registry: Arc<Registry>, admission: AdmissionChain) -> Api {
        Api { shared: Arc::new(Shared { storage, hub, registry, admission }) }
    }

    /// The store.
    pub fn storage(&self) -> &Storage {
        &self.shared.storage
    }

    /// The watchers.
    pub fn hub(&self) -> &Hub {
        &self.shared.hub
    }

    /// The resources.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.shared.registry
    }

    /// The admission plug-ins.
    pub fn admission(&self) -> &AdmissionChain {
        &self.shared.admission
    }

    /// One object as it is stored now.
    pub async fn read(&self, endpoint: &Endpoint) -> Result<StoredObject, Status> {
        let resource = &endpoint.resource;
        let got = self.storage().get(&endpoint.key(&endpoint.name)).await;
        let entry = got
            .map_err(|error: StoreError| resource.store_failed(&error))?
            .entry
            .ok_or_else(|| resource.not_found(&endpoint.name))?;
        StoredObject::from_entry(&entry).map_err(Status::internal_error)
    }
}
