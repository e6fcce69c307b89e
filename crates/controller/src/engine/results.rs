//! What pods are told by annotations about what they got, and the difference to what they were told.
//!
//! It is off the way of pods: nobody waits for it, and a pod that asked in no words of Kube-OVN's or OVN4NFV's has none.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use portolan_api::nfn_network::NFN_INTERFACES;
use portolan_api::portolan::HolderKind;
use portolan_model::{Attachment, Unit};
use portolan_watch::{Change, Listed};

use super::{Action, Engine};

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

/// What a pod says. There is one for each of a cluster's pods that may have results: small, and without texts.
#[derive(Debug)]
enum Seen {
    /// All that it should say, which has this hash.
    All(u64),
    /// Something else, perhaps.
    Some {
        /// Hashes of its annotations, each with its value, in ascending order.
        says: Box<[u64]>,
        /// Hash of what was asked to be written and has not been seen.
        asked: Option<u64>,
    },
}

impl Seen {
    fn says(&self, annotation: u64) -> bool {
        match self {
            Seen::All(_) => false,
            Seen::Some { says, .. } => says.binary_search(&annotation).is_ok(),
        }
    }

    fn asked(&self) -> Option<u64> {
        match self {
            Seen::All(_) => None,
            Seen::Some { asked, .. } => *asked,
        }
    }
}

/// What the pods say that may have results, and which are to be compared with what they should say.
#[derive(Debug)]
pub(super) struct Results {
    /// By the hashes of their UIDs.
    seen: HashMap<u64, Seen>,
    to_compare: BTreeSet<PodName>,
    /// How many pods may be told something now.
    room: usize,
}

impl Default for Results {
    fn default() -> Self {
        Results { seen: HashMap::new(), to_compare: BTreeSet::new(), room: usize::MAX }
    }
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
}

impl Engine {
    /// Whoever writes what pods are told has room for so many more. Those that are left are compared when there is room again: after a
    /// start there may be very many, and what is written to one takes more memory than its name.
    pub fn set_room_for_results(&mut self, pods: usize) {
        self.results.room = pods;
    }

    /// Whether there are pods that were not compared for want of room.
    pub fn has_results_to_compare(&self) -> bool {
        !self.results.to_compare.is_empty() && self.is_synced() && !self.stands_by()
    }

    /// Everything is compared again, whatever was asked for.
    pub(super) fn compare_all_results(&mut self) {
        let pods = self.world.pods().map(|pod| (pod.namespace.to_string(), pod.name.to_string()));
        self.results.to_compare = pods.collect();
        for seen in self.results.seen.values_mut() {
            if let Seen::Some { asked, .. } = seen {
                *asked = None;
            }
        }
    }

    /// Takes in a change of a pod.
    pub(super) fn observe_results(&mut self, change: &Change<Pod>) {
        match change {
            Change::Applied(pod) => self.observe_pod(pod),
            Change::Unreadable(unreadable) => drop(self.results.seen.remove(&id(&unreadable.object))),
            Change::Deleted(pod) => drop(self.results.seen.remove(&id(pod))),
            Change::Listed(Listed { objects, .. }) => {
                objects.iter().for_each(|pod| self.observe_pod(pod));
                let present: HashSet<u64> =
                    self.world.pods().map(|pod| pod.uid.with_text(|uid| hash(uid))).collect();
                self.results.seen.retain(|pod, _| present.contains(pod));
            }
        }
    }

    fn observe_pod(&mut self, pod: &Pod) {
        let before = self.results.seen.remove(&id(pod));
        let key = key(pod);
        let asks = self.world.pod(&key.0, &key.1).is_some_and(|known| !known.annotations.is_empty());
        // Nobody reads what is said about one that is on its way out.
        if !asks || pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        let results = pod.annotations().iter().filter(|(key, _)| may_be_result(key));
        let mut says: Box<[u64]> = results.map(hash).collect();
        says.sort_unstable();
        let asked = before.and_then(|before| before.asked());
        self.results.seen.insert(id(pod), Seen::Some { says, asked });
        self.results.to_compare.insert(key);
    }

    /// Units changed in the World: so may have what the pods that use them should say.
    pub(super) fn compare_results_of_unit(&mut self, unit: &Unit) {
        let pods: Vec<PodName> = match unit {
            Unit::Attachment(id) => self.world.attachment(id).and_then(pod_of).into_iter().collect(),
            Unit::Subnet(name) => self.world.attachments_of_subnet(name).filter_map(pod_of).collect(),
            Unit::Vpc(_) | Unit::Peering(_) | Unit::Node(_) | Unit::Chassis(_) | Unit::Service { .. } => {
                return;
            }
        };
        self.results.to_compare.extend(pods);
    }

    /// Asks for what differs.
    pub(super) fn compare_results(&mut self) {
        while self.results.room > 0
            && let Some(key) = self.results.to_compare.pop_first()
        {
            // One of this name that was not seen may have nothing of what an earlier one said.
            let Some(pod) = self.world.pod(&key.0, &key.1) else { continue };
            let Some(seen) = self.results.seen.get_mut(&pod.uid.with_text(|uid| hash(uid))) else { continue };
            let mut annotations = self.world.results(&key.0, &key.1);
            let all = hash(&annotations);
            if matches!(seen, Seen::All(said) if *said == all) {
                continue;
            }
            if annotations.is_empty() {
                // It may be told something once more is known; what it says by then need not be written again.
                continue;
            }
            annotations.retain(|key, value| !seen.says(hash((key, value))));
            if annotations.is_empty() {
                *seen = Seen::All(all);
                continue;
            }
            let missing = Some(hash(&annotations));
            if seen.asked() == missing {
                continue;
            }
            match seen {
                Seen::Some { asked, .. } => *asked = missing,
                Seen::All(_) => *seen = Seen::Some { says: Box::default(), asked: missing },
            }
            let uid = pod.uid.to_string();
            let (namespace, name) = key;
            let results = PodResults { namespace, name, uid, annotations };
            self.results.room -= 1;
            self.actions.push(Action::ShowResults(results));
        }
    }
}

fn key(pod: &impl ResourceExt) -> PodName {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

fn id(pod: &impl ResourceExt) -> u64 {
    hash(pod.meta().uid.as_deref().unwrap_or_default())
}

/// Whether an annotation may be one that is written here: most of a pod's are others'.
fn may_be_result(key: &str) -> bool {
    key == NFN_INTERFACES || key.contains(".kubernetes.io/")
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
