//! The resources that the server knows.
//!
//! A [`Resource`] describes one: its names, its versions, and the [`Strategy`] by which its kind adds behaviour of its own.
//! The set may change while the server runs; whoever reads it holds one [`Snapshot`], in which nothing changes.

mod age;
mod column;
mod resource;
mod strategy;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

pub use age::human_duration;
pub use column::{Column, ColumnFormat, Columns};
pub use resource::{
    ALL_VERBS, NameRule, Origin, Resource, ScalePaths, Scope, Subresource, SubresourceKind, Version,
};
pub use strategy::{
    Action, GarbageCollection, Generation, GenericStrategy, Strategy, SubresourceHandler, SubresourceRequest,
    keep_all_but, take_field,
};

use tokio::sync::watch;

use crate::discovery::{Discovered, Documents};
use crate::openapi;

/// The resources now.
#[derive(Debug)]
pub struct Registry {
    current: RwLock<Arc<Snapshot>>,
    changed: watch::Sender<()>,
}

/// The resources at one instant.
#[derive(Debug, Default)]
pub struct Snapshot {
    // By group and plural; groups in the order in which discovery shows them.
    resources: BTreeMap<(String, String), Arc<Resource>>,
    by_kind: HashMap<(String, String), Arc<Resource>>,
    documents: OnceLock<Documents>,
}

impl Registry {
    /// A registry of these resources.
    pub fn new(resources: impl IntoIterator<Item = Resource>) -> Registry {
        let registry = Registry { current: RwLock::default(), changed: watch::Sender::default() };
        registry.change(|all| {
            for resource in resources {
                all.insert((resource.group.clone(), resource.plural.clone()), Arc::new(resource));
            }
        });
        registry
    }

    /// The resources at this instant.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Hears of every change of the resources from now on.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Adds a resource, or replaces the one of the same group and plural.
    pub fn insert(&self, resource: Resource) {
        self.change(|all| {
            all.insert((resource.group.clone(), resource.plural.clone()), Arc::new(resource));
        });
    }

    /// Takes a resource out.
    pub fn remove(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        let mut removed = None;
        self.change(|all| removed = all.remove(&(group.to_owned(), plural.to_owned())));
        removed
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<(String, String), Arc<Resource>>)) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut resources = current.resources.clone();
        change(&mut resources);
        let by_kind = resources
            .values()
            .map(|resource| ((resource.group.clone(), resource.kind.clone()), resource.clone()))
            .collect();
        *current = Arc::new(Snapshot { resources, by_kind, documents: OnceLock::new() });
        drop(current);
        self.changed.send_replace(());
    }
}

impl Snapshot {
    /// The resource of a group and plural.
    pub fn resource(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        // A map by borrowed pairs cannot be asked with borrowed parts; a request costs two small copies.
        self.resources.get(&(group.to_owned(), plural.to_owned()))
    }

    /// Whether the server has resources of a group, besides what definitions made.
    pub fn has_built_in(&self, group: &str) -> bool {
        let first = (group.to_owned(), String::new());
        let of_group = self.resources.range(first..).take_while(|((of, _), _)| of == group);
        of_group.map(|(_, resource)| resource).any(|resource| !resource.is_custom())
    }

    /// The resource of a group and kind.
    pub fn kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.by_kind.get(&(group.to_owned(), kind.to_owned()))
    }

    /// All resources, by group and plural.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// What discovery says of these resources at a path. The documents are made when first asked for.
    pub fn document(&self, path: &str, accept: &str) -> Option<Discovered<'_>> {
        self.documents.get_or_init(|| Documents::new(self)).find(path, accept)
    }

    /// The OpenAPI document at a path. It is made when first requested, which takes long.
    pub(crate) fn openapi(&self, path: &str, accept: &str) -> Option<Arc<openapi::Written>> {
        self.documents.get_or_init(|| Documents::new(self)).openapi(self, path, accept)
    }
}
