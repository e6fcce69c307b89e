//! Objects by their names, which the objects have themselves.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use smol_str::SmolStr;

use crate::doors::attachment::RequestedAttachment;
use crate::lock::Lock;
use crate::nad::Nad;
use crate::pod::{Pod, StatefulSet};
use crate::service::{EndpointSlice, Service};

/// Something that has a name.
pub(crate) trait HasName {
    fn name(&self) -> &str;
}

macro_rules! has_name {
    ($($object:ty),*) => {
        $(impl HasName for $object {
            fn name(&self) -> &str {
                &self.name
            }
        })*
    };
}
has_name!(EndpointSlice, Lock, Nad, Pod, RequestedAttachment, Service, StatefulSet);

/// Objects by name. An entry takes a pointer, where a map would have the name once more.
#[derive(Clone)]
pub(crate) struct Named<T>(BTreeSet<ByName<T>>);

/// Objects by namespace and name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Namespaced<T: HasName>(BTreeMap<SmolStr, Named<T>>);

impl<T: HasName> Named<T> {
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.0.get(name).map(|entry| &*entry.0)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Puts an object in the place of the one that has its name.
    pub(crate) fn insert(&mut self, object: T) {
        self.0.replace(ByName(Box::new(object)));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// In the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|entry| &*entry.0)
    }
}

impl<T: HasName> Namespaced<T> {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&T> {
        self.0.get(namespace)?.get(name)
    }

    /// Puts an object in the place of the one that has its name.
    pub(crate) fn insert(&mut self, namespace: &str, object: T) {
        if let Some(named) = self.0.get_mut(namespace) {
            return named.insert(object);
        }
        let mut named = Named::default();
        named.insert(object);
        self.0.insert(namespace.into(), named);
    }

    pub(crate) fn remove(&mut self, namespace: &str, name: &str) {
        if let Some(named) = self.0.get_mut(namespace) {
            named.remove(name);
            if named.0.is_empty() {
                self.0.remove(namespace);
            }
        }
    }

    /// In the order of namespaces and names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.values().flat_map(Named::iter)
    }

    /// Those of one namespace, in the order of their names.
    pub(crate) fn of(&self, namespace: &str) -> impl Iterator<Item = &T> {
        self.0.get(namespace).into_iter().flat_map(Named::iter)
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named(BTreeSet::new())
    }
}

impl<T: HasName> Default for Namespaced<T> {
    fn default() -> Self {
        Namespaced(BTreeMap::new())
    }
}

impl<T: HasName + PartialEq> PartialEq for Named<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: HasName + fmt::Debug> fmt::Debug for Named<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|object| (object.name(), object))).finish()
    }
}

/// Compared by name alone.
#[derive(Clone)]
struct ByName<T>(Box<T>);

impl<T: HasName> Borrow<str> for ByName<T> {
    fn borrow(&self) -> &str {
        self.0.name()
    }
}

impl<T: HasName> PartialEq for ByName<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl<T: HasName> Eq for ByName<T> {}

impl<T: HasName> PartialOrd for ByName<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: HasName> Ord for ByName<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name().cmp(other.0.name())
    }
}
