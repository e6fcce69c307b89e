//! Who asks for interfaces, whether they have got them, and who is to be decided again when something changes.

use std::collections::BTreeSet;

use portolan_api::Provider;
use portolan_api::portolan::HolderKind;

use super::evaluation::Evaluation;
use super::holding::Holding;
use super::pods::machine_of;
use super::{Name, World};
use crate::attachment::AttachmentId;
use crate::dirty::Dirty;
use crate::holder;
use crate::lock::Lock;
use crate::pod::Pod;
use crate::request::{Needs, Request, Requester};

/// Something that the answer to a request depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    Nad(Name),
    Provider(Provider),
    Subnet(String),
    /// Which subnet is for the pods of a namespace.
    Namespace(String),
    /// Which subnet is for all others.
    Default,
    Machine(Name),
    Node(String),
    IpPool(String),
    /// Whether all VPCs and Subnets are known.
    Networks,
}

impl World {
    /// What a requester asks for, if anything: a pod that is not scheduled yet, has finished or is on its node's network does
    /// not.
    pub fn request(&self, requester: &Requester) -> Option<Request> {
        match self.needs(requester) {
            Needs::Interfaces(request) => Some(*request),
            Needs::Unknown | Needs::Nothing { .. } => None,
        }
    }

    /// Whether a requester needs anything of Portolan's, as far as is known.
    pub fn needs(&self, requester: &Requester) -> Needs {
        match self.evaluate(requester) {
            Some(evaluation) if evaluation.concerns_us() => Needs::Interfaces(Box::new(evaluation.request)),
            Some(Evaluation { request, .. }) => Needs::Nothing { warnings: request.warnings },
            None => match requester {
                Requester::Pod { namespace, name } => match self.pod(namespace, name) {
                    Some(pod) if pod.finished || pod.host_network => Needs::Nothing { warnings: Vec::new() },
                    _ => Needs::Unknown,
                },
                _ => Needs::Unknown,
            },
        }
    }

    /// Whoever has not got all that was asked for, and may or may not be able to get it.
    pub fn unsatisfied(&self) -> impl Iterator<Item = &Requester> {
        self.topics.keys()
    }

    /// Everyone for whom a decision may come to something: who has not got all that was asked for, and who holds what may have to be given
    /// back. For the others a decision changes nothing.
    pub fn open_requesters(&self) -> BTreeSet<Requester> {
        let mut holders: Vec<Requester> =
            self.holdings.keys().map(|id| holder::requester(self, id)).collect();
        // The interfaces of one holder are beside each other.
        holders.dedup();
        holders.retain(|requester| !matches!(self.standing(requester), Standing::Settled));
        holders.into_iter().chain(self.unsatisfied().cloned()).collect()
    }

    /// Finds out again whether someone has got all that was asked for.
    pub(super) fn reconsider(&mut self, requester: &Requester, dirty: &mut Dirty) {
        let topics: Vec<Topic> = self.topics.get(requester).cloned().collect();
        let was_open = !topics.is_empty();
        for topic in topics {
            self.waiting.remove(&topic, requester);
            self.topics.remove(requester, &topic);
        }
        let (topics, open) = match self.standing(requester) {
            Standing::Settled => (BTreeSet::new(), false),
            Standing::HoldsMore => (BTreeSet::new(), true),
            Standing::Open => match self.evaluate(requester) {
                None => (BTreeSet::new(), was_open || self.held_for(requester).next().is_some()),
                Some(evaluation) if evaluation.concerns_us() => (evaluation.topics, true),
                Some(mut evaluation) => {
                    // What a pod asks others for may become ours; where it runs does not make it so.
                    evaluation.topics.retain(|topic| !matches!(topic, Topic::Node(_)));
                    (evaluation.topics, was_open || self.held_for(requester).next().is_some())
                }
            },
        };
        for topic in topics {
            self.waiting.insert(topic.clone(), requester.clone());
            self.topics.insert(requester.clone(), topic);
        }
        if open {
            dirty.requesters.insert(requester.clone());
        }
    }

    /// Tells whoever waits for any of these that it changed.
    pub(super) fn publish(&mut self, topics: &[Topic], dirty: &mut Dirty) {
        let concerned: BTreeSet<_> =
            topics.iter().flat_map(|topic| self.waiting.get(topic)).cloned().collect();
        for requester in concerned {
            self.reconsider(&requester, dirty);
        }
    }

    /// Whether the locks alone show that someone has got everything.
    ///
    /// What was decided is written into each lock, so this does not depend on whether networks that were asked for still
    /// exist: who has got everything is left in peace whatever becomes of them.
    fn standing(&self, requester: &Requester) -> Standing {
        if let Requester::Subnet { name } = requester {
            return if self.is_gateway_settled(name) { Standing::Settled } else { Standing::Open };
        }
        let (current, others): (Vec<_>, Vec<_>) =
            self.held_for(requester).partition(|id| self.is_current(requester, id));
        let whole = |id: &&AttachmentId| {
            self.holdings.get(*id).is_some_and(|holding| {
                let names = holding.locks.iter().filter_map(|name| self.locks.get(name));
                let mut decided = names.flat_map(|lock| lock.interfaces.iter());
                holding.attachment.is_some()
                    && !holding.surplus
                    && decided.all(|decided| current.iter().any(|id| id.interface() == decided.interface))
            })
        };
        match () {
            () if current.is_empty() || !current.iter().all(whole) => Standing::Open,
            () if others.is_empty() => Standing::Settled,
            () => Standing::HoldsMore,
        }
    }

    /// True if an interface is held for the requester as it is now, not for an earlier one of the same name.
    pub fn is_current(&self, requester: &Requester, id: &AttachmentId) -> bool {
        match requester {
            Requester::Pod { namespace, name } => {
                let Some(pod) = self.pod(namespace, name) else { return false };
                let asks = !pod.finished && !pod.host_network && pod.node().is_some();
                let attachment = self.holdings.get(id).and_then(Holding::attachment);
                let user = attachment.and_then(|attachment| attachment.user.as_deref());
                // Every lock has to follow the pod: the agent of its node looks for all of them.
                let followed = || {
                    let locks = self.held_locks(id).counted;
                    let follows = |lock: &&Lock| {
                        lock.node() == pod.node() && holder::is_used_by(id, lock.user.as_deref(), pod)
                    };
                    attachment.is_some_and(|attachment| attachment.node() == pod.node())
                        && locks.iter().all(follows)
                };
                asks && holder::is_used_by(id, user, pod) && (!id.kind().is_sticky() || followed())
            }
            Requester::NetworkAttachment { namespace, name } => {
                self.network_attachment(namespace, name).is_some_and(|object| object.uid == *id.uid())
            }
            Requester::Node { name } => self.node(name).is_some_and(|node| node.uid == *id.uid()),
            Requester::Vip { name } => self.vip(name).is_some_and(|vip| vip.uid == *id.uid()),
            Requester::Subnet { .. } | Requester::VirtualMachine { .. } => false,
        }
    }

    /// The interfaces whose addresses a pod uses.
    pub(crate) fn used_by(&self, pod: &Pod) -> impl Iterator<Item = &AttachmentId> {
        self.held_for(&Requester::pod(pod.namespace.as_str(), pod.name.as_str())).filter(move |id| {
            let locks = self.holdings.get(*id).into_iter().flat_map(|holding| &holding.locks);
            let mut locks = locks.filter_map(|name| self.locks.get(name));
            locks.any(|lock| holder::is_used_by(id, lock.user.as_deref(), pod))
        })
    }

    /// True if a requester has got everything that was decided for it.
    pub fn is_satisfied(&self, requester: &Requester) -> bool {
        matches!(self.standing(requester), Standing::Settled | Standing::HoldsMore)
    }

    /// True if a requester is here what it is in another World: it exists in both, and asks in the same words.
    pub fn has_same_requester(&self, other: &World, requester: &Requester) -> bool {
        match requester {
            Requester::Pod { namespace, name } => {
                let pod = self.pod(namespace, name);
                pod.is_some() && pod == other.pod(namespace, name)
            }
            Requester::NetworkAttachment { namespace, name } => {
                let object = self.network_attachment(namespace, name);
                object.is_some() && object == other.network_attachment(namespace, name)
            }
            Requester::Node { name } => self.node(name).is_some() && self.node(name) == other.node(name),
            Requester::Vip { name } => self.vip(name).is_some() && self.vip(name) == other.vip(name),
            Requester::Subnet { name } => {
                let facts = |world: &World| {
                    let subnet = world.known_subnet(name)?;
                    Some((subnet.uid.clone(), subnet.domain.clone(), subnet.config.gateway))
                };
                facts(self).is_some() && facts(self) == facts(other)
            }
            Requester::VirtualMachine { namespace, name } => {
                let machine = self.machine(namespace, name);
                machine.is_some() && machine == other.machine(namespace, name)
            }
        }
    }

    /// Everything that anyone asking in this name holds, now or in an earlier life.
    pub(super) fn held_for(&self, requester: &Requester) -> impl Iterator<Item = &AttachmentId> + use<'_> {
        let (kinds, namespace, name): (&[HolderKind], _, _) = match requester {
            Requester::Pod { namespace, name } => {
                (&[HolderKind::Pod, HolderKind::StatefulSet], Some(namespace.clone()), name)
            }
            Requester::NetworkAttachment { namespace, name } => {
                (&[HolderKind::NetworkAttachment], Some(namespace.clone()), name)
            }
            Requester::Node { name } => (&[HolderKind::Node], None, name),
            Requester::Subnet { name } => (&[HolderKind::Subnet], None, name),
            Requester::Vip { name } => (&[HolderKind::Vip], None, name),
            Requester::VirtualMachine { namespace, name } => {
                (&[HolderKind::VirtualMachine], Some(namespace.clone()), name)
            }
        };
        let machine = match requester {
            Requester::Pod { namespace, name } => {
                let key = (namespace.clone(), name.clone());
                let machine = self.pods.get(namespace, name).and_then(machine_of);
                machine.filter(|machine| self.pod_of_machine(machine) == Some(&key))
            }
            _ => None,
        };
        let machine = machine.map(|(namespace, name)| (HolderKind::VirtualMachine, Some(namespace), name));
        let names = kinds.iter().map(|kind| (*kind, namespace.clone(), name.clone())).chain(machine);
        let names: Vec<_> = names.collect();
        names
            .into_iter()
            .flat_map(|(kind, namespace, name)| self.held_in_name(kind, namespace.as_deref(), &name))
    }

    /// Everything that anyone asking in this name holds, now or in an earlier life.
    pub fn holdings_of(&self, requester: &Requester) -> Vec<AttachmentId> {
        self.held_for(requester).cloned().collect()
    }
}

/// What the locks of someone who asks show.
enum Standing {
    /// Something may be missing.
    Open,
    /// Everything that was decided is there.
    Settled,
    /// Everything is there, and more: an earlier one of the same name held something.
    HoldsMore,
}
