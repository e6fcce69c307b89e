//! What pods are told by annotations about what they got, and the difference to what they were told.
//!
//! It is off the way of pods: nobody waits for it, and a pod that asked in no words of Kube-OVN's or OVN4NFV's has none.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use portolan_api::portolan::HolderKind;
use portolan_model::{Attachment, Unit};
use portolan_watch::{Change, Listed};

use super::{Action, Engine, Kind};

/// Namespace and name.
type PodName = (String, String);

/// Annotations that a pod should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodResults {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// Its UID: another pod of its name is left alone.
    pub uid: String,
    /// Those that differ.
    pub annotations: BTreeMap<String, String>,
}

/// What a pod says.
#[derive(Debug)]
struct Seen {
    uid: String,
    /// Hashes of its annotations, each with its value: most of them are long, and all that is asked is whether they are there.
    says: BTreeSet<u64>,
    /// Hash of what was asked to be written and has not been seen.
    asked: Option<u64>,
}

/// What the pods say that may have results, and which are to be compared with what they should say.
#[derive(Debug, Default)]
pub(super) struct Results {
    seen: BTreeMap<PodName, Seen>,
    to_compare: BTreeSet<PodName>,
}

impl Results {
    /// Nothing is to be compared until everything is.
    pub(super) fn forget_comparisons(&mut self) {
        self.to_compare.clear();
    }

    /// How many are to be compared.
    pub(super) fn comparisons(&self) -> usize {
        self.to_compare.len()
    }

    /// Everything is compared again, whatever was asked for.
    pub(super) fn begin_anew(&mut self) {
        self.to_compare = self.seen.keys().cloned().collect();
        for seen in self.seen.values_mut() {
            seen.asked = None;
        }
    }
}

impl Engine {
    /// Takes in a change of a pod.
    pub(super) fn observe_results(&mut self, change: &Change<Pod>) {
        match change {
            Change::Applied(pod) => self.observe_pod(pod),
            Change::Unreadable(unreadable) => drop(self.results.seen.remove(&key(&unreadable.object))),
            Change::Deleted(pod) => drop(self.results.seen.remove(&key(pod))),
            Change::Listed(Listed { objects, .. }) => {
                let listed: BTreeSet<PodName> = objects.iter().map(key).collect();
                let pages = &self.pages;
                self.results.seen.retain(|pod, _| listed.contains(pod) || pages.have(Kind::Pod, pod));
                objects.iter().for_each(|pod| self.observe_pod(pod));
            }
        }
    }

    fn observe_pod(&mut self, pod: &Pod) {
        let key = key(pod);
        let before = self.results.seen.remove(&key);
        let asks = self.world.pod(&key.0, &key.1).is_some_and(|known| !known.annotations.is_empty());
        // Nobody reads what is said about one that is on its way out.
        if !asks || pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        let uid = pod.uid().unwrap_or_default();
        let says = pod.annotations().iter().map(hash).collect();
        let asked = before.filter(|before| before.uid == uid).and_then(|before| before.asked);
        self.results.seen.insert(key.clone(), Seen { uid, says, asked });
        self.results.to_compare.insert(key);
    }

    /// Units changed in the World: so may have what the pods that use them should say.
    pub(super) fn compare_results_of_unit(&mut self, unit: &Unit) {
        let pods: Vec<PodName> = match unit {
            Unit::Attachment(id) => self.world.attachment(id).and_then(pod_of).into_iter().collect(),
            Unit::Subnet(name) => self.world.attachments_of_subnet(name).filter_map(pod_of).collect(),
            Unit::Vpc(_) | Unit::Peering(_) => return,
        };
        self.results.to_compare.extend(pods);
    }

    /// Asks for what differs.
    pub(super) fn compare_results(&mut self) {
        for key in std::mem::take(&mut self.results.to_compare) {
            let Some(seen) = self.results.seen.get_mut(&key) else { continue };
            // An earlier pod of this name may have been seen last.
            if self.world.pod(&key.0, &key.1).is_none_or(|pod| pod.uid != seen.uid) {
                continue;
            }
            let mut annotations = self.world.results(&key.0, &key.1);
            annotations.retain(|key, value| !seen.says.contains(&hash((key, value))));
            if annotations.is_empty() {
                seen.asked = None;
                continue;
            }
            let asked = Some(hash(&annotations));
            if std::mem::replace(&mut seen.asked, asked) == asked {
                continue;
            }
            let (namespace, name) = key;
            let results = PodResults { namespace, name, uid: seen.uid.clone(), annotations };
            self.actions.push(Action::ShowResults(results));
        }
    }
}

fn key(pod: &impl ResourceExt) -> PodName {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

/// The pod that uses an interface.
fn pod_of(attachment: &Attachment) -> Option<PodName> {
    let name = match (&attachment.user, attachment.id.kind()) {
        (Some(user), _) => &user.pod,
        (None, HolderKind::Pod) => attachment.id.name(),
        (None, _) => return None,
    };
    Some((attachment.id.namespace()?.to_owned(), name.to_owned()))
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
