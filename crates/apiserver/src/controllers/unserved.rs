//! Work that waits until a kind is served.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Work;
use crate::registry::Snapshot;

/// What has to be served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The resource of a group and plural.
    Resource(String, String),
    /// The kind of a group.
    Kind(String, String),
}

impl Kind {
    fn is_served(&self, registry: &Snapshot) -> bool {
        match self {
            Kind::Resource(group, plural) => registry.resource(group, plural).is_some(),
            Kind::Kind(group, kind) => registry.kind(group, kind).is_some(),
        }
    }
}

/// Work by the kinds that it waits for.
#[derive(Debug, Default)]
pub(super) struct Unserved {
    by_kind: BTreeMap<Kind, BTreeSet<Work>>,
    kinds: HashMap<Work, Vec<Kind>>,
}

impl Unserved {
    /// Work that waits for one of these kinds.
    pub(super) fn insert(&mut self, work: Work, kinds: Vec<Kind>) {
        self.remove(&work);
        for kind in &kinds {
            self.by_kind.entry(kind.clone()).or_default().insert(work.clone());
        }
        self.kinds.insert(work, kinds);
    }

    pub(super) fn remove(&mut self, work: &Work) {
        for kind in self.kinds.remove(work).unwrap_or_default() {
            if let Some(waiting) = self.by_kind.get_mut(&kind) {
                waiting.remove(work);
                if waiting.is_empty() {
                    self.by_kind.remove(&kind);
                }
            }
        }
    }

    /// Takes the work whose kind is served by now.
    pub(super) fn take_served(&mut self, registry: &Snapshot) -> BTreeSet<Work> {
        let served = self.by_kind.iter().filter(|(kind, _)| kind.is_served(registry));
        let work: BTreeSet<Work> = served.flat_map(|(_, work)| work.clone()).collect();
        work.iter().for_each(|work| self.remove(work));
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Registry, Resource, Scope};

    fn foos() -> Kind {
        Kind::Resource("ex.io".into(), "foos".into())
    }

    #[test]
    fn work_waits_until_its_kind_is_served() {
        let (mut unserved, registry) = (Unserved::default(), Registry::new([]));
        let (one, other) = (Work::Namespace("one".into()), Work::Namespace("other".into()));
        unserved.insert(one.clone(), vec![foos(), Kind::Kind("ex.io".into(), "Bar".into())]);
        unserved.insert(other, vec![Kind::Kind("ex.io".into(), "Bar".into())]);
        assert!(unserved.take_served(&registry.snapshot()).is_empty());
        registry.insert(Resource::new("ex.io", "v1", "foos", "Foo", Scope::Namespaced));
        assert_eq!(unserved.take_served(&registry.snapshot()), BTreeSet::from([one]));
        assert!(unserved.take_served(&registry.snapshot()).is_empty(), "each is taken once");
    }

    #[test]
    fn what_was_removed_does_not_wait() {
        let (mut unserved, registry) = (Unserved::default(), Registry::new([]));
        let work = Work::Namespace("one".into());
        unserved.insert(work.clone(), vec![foos()]);
        unserved.remove(&work);
        registry.insert(Resource::new("ex.io", "v1", "foos", "Foo", Scope::Namespaced));
        assert!(unserved.take_served(&registry.snapshot()).is_empty());
        assert!(unserved.by_kind.is_empty() && unserved.kinds.is_empty());
    }
}
