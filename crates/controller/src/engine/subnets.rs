//! The gate that every subnet passes before it is used: create, then list.
//!
//! A subnet is judged by lists that were begun after this process had observed it, in the generation that is judged. Of two
//! rivals that are created at once one was stored first, so it is in the lists by which the other is judged: at most one of them
//! is found valid, whoever judges and however often. The lists need not show the same instant, because what they show beyond
//! what was observed before is compared with, but not judged.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1;
use kube::{Resource, ResourceExt};
use portolan_api::{FieldError, kubeovn, portolan};
use portolan_model::doors::Meta;
use portolan_model::node::POD_CIDRS_ANNOTATION;
use portolan_model::node_subnet::node_subnet;
use portolan_model::validate::{Findings, VPC_IS_TERMINATING, node_prefixes, validate};
use portolan_model::{Group, Life, Node, Source, Subnet, Validation, World, doors};
use portolan_watch::{Change, Listed};

use super::{Action, Engine, Retry};

/// A subnet of either group, by name.
pub type SubnetKey = (Group, String);

/// Subnets to be judged, each with the UID and generation that were observed.
pub type Candidates = BTreeMap<SubnetKey, (String, Option<i64>)>;

/// The subnets that were observed, as far as the gate is concerned.
#[derive(Debug, Default)]
pub(super) struct SubnetGate {
    observed: BTreeMap<SubnetKey, Observed>,
    to_judge: BTreeSet<SubnetKey>,
    /// The ones that are being judged now: one judgement at a time.
    judging: Option<Candidates>,
    /// The ones whose lists failed: judged again after a pause.
    unjudged: BTreeSet<SubnetKey>,
    /// Nodes whose prefixes nobody asks for, while a Subnet serves all nodes.
    idle: BTreeSet<SubnetKey>,
    /// Nodes whose prefixes were found free of clashes and that do not say so yet, with their UIDs and what they will say: lists show those
    /// prefixes as unused meanwhile.
    promised: BTreeMap<SubnetKey, (String, String)>,
    /// Something changed that may have stood in the way of a subnet.
    recheck: bool,
}

#[derive(Debug)]
struct Observed {
    uid: String,
    generation: Option<i64>,
    life: Life,
    validation: Validation,
    /// What its condition says about this generation, unless that it is valid.
    refusal: Option<String>,
    /// The object, unless it is valid.
    open: Option<OpenSubnet>,
}

/// A subnet that is not valid, or not yet.
#[derive(Debug)]
pub(super) enum OpenSubnet {
    Portolan(Box<portolan::Subnet>),
    KubeOvn(Box<kubeovn::Subnet>),
    /// The prefixes of a Node.
    Node(Box<Node>),
}

/// What consistent lists of the API server have.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// Of `portolan.dev`.
    pub subnets: Vec<portolan::Subnet>,
    /// Of `kubeovn.io`.
    pub kubeovn_subnets: Vec<kubeovn::Subnet>,
    /// Of `portolan.dev`.
    pub vpcs: Vec<portolan::Vpc>,
    /// Of `kubeovn.io`.
    pub kubeovn_vpcs: Vec<kubeovn::Vpc>,
    /// On the primary network: what else has prefixes in its VPC.
    pub nodes: Vec<v1::Node>,
    /// Subnets of `portolan.dev` that cannot be decoded, as far as can be told: compared with, never judged.
    pub outlined_subnets: Vec<portolan::Subnet>,
    /// The same of `kubeovn.io`.
    pub outlined_kubeovn_subnets: Vec<kubeovn::Subnet>,
}

/// What was found about a subnet, for its condition `Validated`.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Which subnet.
    pub subnet: SubnetKey,
    /// Its UID and the generation that was judged.
    pub judged: (String, Option<i64>),
    /// Why it does not fit the others; empty if it does.
    pub errors: String,
}

/// A Subnet of either group.
pub(super) trait GatedSubnet: Resource<DynamicType = ()> + Source<Key = String> + Clone {
    const GROUP: Group;
    fn validation(&self) -> Validation;
    /// What the condition `Validated` says about the current generation, if it is false.
    fn refusal(&self) -> Option<String>;
    fn findings(&self, world: &World) -> Findings;
    fn open(&self) -> OpenSubnet;

    fn gate_key(&self) -> SubnetKey {
        (Self::GROUP, self.name_any())
    }
}

impl GatedSubnet for portolan::Subnet {
    const GROUP: Group = Group::Portolan;

    fn validation(&self) -> Validation {
        doors::portolan::validation(self)
    }

    fn refusal(&self) -> Option<String> {
        let conditions = &self.status.as_ref()?.conditions;
        let found = conditions.iter().find(|c| c.type_ == portolan_api::condition::VALIDATED)?;
        let is_current = found.observed_generation == self.metadata.generation;
        (is_current && found.status != "True").then(|| found.message.clone())
    }

    fn findings(&self, world: &World) -> Findings {
        validate(self, world)
    }

    fn open(&self) -> OpenSubnet {
        OpenSubnet::Portolan(Box::new(self.clone()))
    }
}

impl GatedSubnet for kubeovn::Subnet {
    const GROUP: Group = Group::KubeOvn;

    fn validation(&self) -> Validation {
        doors::kubeovn::validation(self)
    }

    fn refusal(&self) -> Option<String> {
        let conditions = self.status.as_ref()?.conditions.as_ref()?;
        let found = conditions.iter().find(|c| c.type_ == portolan_api::condition::VALIDATED)?;
        let is_current = found.observed_generation == self.metadata.generation;
        (is_current && found.status != "True").then(|| found.message.clone().unwrap_or_default())
    }

    fn findings(&self, world: &World) -> Findings {
        validate(self, world)
    }

    fn open(&self) -> OpenSubnet {
        OpenSubnet::KubeOvn(Box::new(self.clone()))
    }
}

impl SubnetGate {
    pub(super) fn take<K: GatedSubnet>(&mut self, change: &Change<K>, world: &World) {
        match change {
            Change::Applied(subnet) => self.put(subnet),
            // Nobody can judge what cannot be read. It has no effect until it can be.
            Change::Unreadable(subnet) => self.remove(&(K::GROUP, subnet.object.name_any())),
            Change::Deleted(subnet) => self.remove(&(K::GROUP, subnet.name_any())),
            Change::Listed(Listed { objects: subnets, .. }) => {
                let names: BTreeSet<String> = subnets.iter().map(ResourceExt::name_any).collect();
                let gone: Vec<_> = self.observed.keys().filter(|key| key.0 == K::GROUP).cloned().collect();
                // What is only missing from the list is still known.
                let is_known = |name: &String| names.contains(name) || world.is_missing_of::<K>(name);
                for key in gone.iter().filter(|key| !is_known(&key.1)) {
                    self.remove(key);
                }
                subnets.iter().for_each(|subnet| self.put(subnet));
            }
        }
    }

    fn put<K: GatedSubnet>(&mut self, subnet: &K) {
        let (key, meta, validation) = (subnet.gate_key(), Meta::of(subnet), subnet.validation());
        let is_open = validation != Validation::Current;
        let refusal = subnet.refusal();
        let before = self.observed.get(&key);
        let same = before.is_some_and(|old| {
            (&old.uid, old.generation, old.life) == (&meta.uid, meta.generation, meta.life)
        });
        // The first sight of a generation is a reason to judge it, unless that was done before this process began; and so is
        // a condition that someone took away.
        let lost = same && before.is_some_and(|old| old.validation != validation || old.refusal.is_some());
        if !is_open {
            self.to_judge.remove(&key);
        } else if refusal.is_none() && (!same || lost) {
            self.to_judge.insert(key.clone());
        }
        // What stood in the way may have gone before the refusal was observed.
        let changed = |old: &Observed| old.validation != validation || old.refusal != refusal;
        self.recheck |= !same || lost || before.is_none_or(changed);
        let open = is_open.then(|| subnet.open());
        let Meta { uid, generation, life, .. } = meta;
        self.observed.insert(key, Observed { uid, generation, life, validation, refusal, open });
    }

    pub(super) fn remove(&mut self, key: &SubnetKey) {
        self.observed.remove(key);
        self.to_judge.remove(key);
        self.idle.remove(key);
        self.promised.remove(key);
        self.recheck = true;
    }

    /// Takes in the Node of this name as it is now.
    pub(super) fn put_node(&mut self, name: &str, node: Option<&Node>) {
        let key = (Group::Core, node_subnet(name));
        let Some(node) = node.filter(|node| node.pod_cidrs.is_some()) else {
            if self.observed.contains_key(&key) {
                self.remove(&key);
            }
            return;
        };
        let validation = node.prefixes_validation();
        let is_kept = |(uid, _): &(String, String)| *uid != node.uid || validation == Validation::Current;
        if self.promised.get(&key).is_some_and(is_kept) {
            self.promised.remove(&key);
        }
        // Prefixes never change.
        let before = self.observed.get(&key).filter(|old| old.uid == node.uid);
        if before.is_some_and(|old| old.validation == validation) {
            return;
        }
        // No object says why it was refused.
        let refusal = None;
        let open = (validation != Validation::Current).then(|| OpenSubnet::Node(Box::new(node.clone())));
        if open.is_some() {
            self.to_judge.insert(key.clone());
        } else {
            self.to_judge.remove(&key);
            self.idle.remove(&key);
        }
        self.recheck = true;
        let (uid, generation, life) = (node.uid.clone(), None, Life::Protected);
        self.observed.insert(key, Observed { uid, generation, life, validation, refusal, open });
    }

    /// The prefixes of a Node were found free of clashes, and it will say so.
    pub(super) fn promise(&mut self, key: &SubnetKey, uid: &str, said: &str) {
        self.promised.insert(key.clone(), (uid.to_owned(), said.to_owned()));
    }

    /// Whether this Node is to say what was found of its prefixes, and does not yet.
    pub(super) fn is_promised(&self, key: &SubnetKey, uid: &str) -> bool {
        self.promised.get(key).is_some_and(|(promised, _)| promised == uid)
    }

    /// A listed Node as it will be once what was found of it is written.
    fn as_promised<'a>(&self, node: &'a v1::Node) -> Cow<'a, v1::Node> {
        let promised = self.promised.get(&(Group::Core, node_subnet(&node.name_any())));
        match promised.filter(|(uid, _)| node.uid().as_ref() == Some(uid)) {
            None => Cow::Borrowed(node),
            Some((_, said)) => {
                let mut node = node.clone();
                node.annotations_mut().insert(POD_CIDRS_ANNOTATION.to_owned(), said.clone());
                Cow::Owned(node)
            }
        }
    }

    /// The prefixes of a Node were refused.
    pub(super) fn refuse_node(&mut self, key: &SubnetKey, why: String) {
        if let Some(observed) = self.observed.get_mut(key) {
            observed.refusal = Some(why);
        }
    }

    /// Whether a subnet counts against the prefixes of a node. One that was refused does not: whoever makes a Subnet by mistake must not
    /// keep nodes from joining. It is judged anew before it could be used.
    pub(super) fn counts(&self, subnet: &Subnet) -> bool {
        subnet.node().is_some()
            || subnet.validation != Validation::Not
            || self.refusal(&(subnet.group, subnet.name.clone())).is_none()
    }

    /// Whether a Subnet serves all nodes, or is about to.
    fn serves_all_nodes(&self, world: &World) -> bool {
        world.default_of_nodes().is_some_and(|subnet| self.counts(subnet))
    }

    /// Why a subnet is not valid, as far as is known here.
    fn errors_of(&self, open: &OpenSubnet, world: &World) -> BTreeSet<String> {
        match open {
            OpenSubnet::Portolan(subnet) => errors(&validate(&**subnet, world)),
            OpenSubnet::KubeOvn(subnet) => errors(&validate(&**subnet, world)),
            OpenSubnet::Node(node) => texts(&node_prefixes(node, world, |other| self.counts(other))),
        }
    }

    /// Why the current generation of a subnet was found not to fit the others.
    pub(super) fn refusal(&self, key: &SubnetKey) -> Option<&str> {
        self.observed.get(key)?.refusal.as_deref()
    }

    /// The UID of a subnet that was observed.
    pub(super) fn uid(&self, key: &SubnetKey) -> Option<&str> {
        self.observed.get(key).map(|observed| observed.uid.as_str())
    }

    /// True if a subnet says of itself that it was refused because its VPC is being deleted.
    pub(super) fn waits_for_another_vpc(&self, key: &SubnetKey) -> bool {
        is_refusal_of_vpc(self.refusal(key))
    }

    /// Something changed that may have stood in the way of a subnet.
    pub(super) fn recheck(&mut self) {
        self.recheck = true;
    }

    /// What is being judged comes to nothing, and is to be judged again.
    pub(super) fn end_judgement(&mut self) {
        self.to_judge.extend(self.judging.take().into_iter().flatten().map(|(key, _)| key));
    }

    /// Everything is judged that has no verdict: one that was found may not have been written.
    pub(super) fn judge_all(&mut self) {
        self.promised.clear();
        // Of a Node nothing but this process remembers that it was refused.
        for ((group, _), one) in &mut self.observed {
            if *group == Group::Core {
                one.refusal = None;
            }
        }
        let open = self.observed.iter().filter(|(_, one)| one.open.is_some() && one.refusal.is_none());
        self.to_judge.extend(open.map(|(key, _)| key.clone()));
        self.recheck = true;
    }

    /// The subnets to be judged now, if none are being judged.
    fn begin(&mut self, world: &World) -> Option<Candidates> {
        if std::mem::take(&mut self.recheck) {
            // What was refused is judged again only if it would be judged otherwise, as far as is known here: one invalid subnet
            // must not make every change a reason to list everything.
            let refused = self.observed.iter().filter_map(|(key, observed)| {
                let (refusal, open) = (observed.refusal.as_ref()?, observed.open.as_ref()?);
                (observed.life == Life::Protected).then_some(())?;
                (join(&self.errors_of(open, world)) != *refusal).then(|| key.clone())
            });
            let refused: Vec<_> = refused.collect();
            self.to_judge.extend(refused);
            if !self.serves_all_nodes(world) {
                self.to_judge.append(&mut self.idle);
            }
        }
        if self.judging.is_some() || self.to_judge.is_empty() {
            return None;
        }
        if self.to_judge.iter().any(|(group, _)| *group == Group::Core) && self.serves_all_nodes(world) {
            let (idle, others): (BTreeSet<_>, _) =
                std::mem::take(&mut self.to_judge).into_iter().partition(|(group, name)| {
                    // What pods have addresses of goes on, also if its Node has lost the word that says so.
                    *group == Group::Core && !world.has_guests(name)
                });
            self.idle.extend(idle);
            self.to_judge = others;
        }
        let candidates: Candidates = std::mem::take(&mut self.to_judge)
            .into_iter()
            .filter_map(|key| {
                // Only what cannot vanish may be used; once it has its finalizer it is judged.
                let observed = self.observed.get(&key).filter(|observed| observed.life == Life::Protected)?;
                let judged = (observed.uid.clone(), observed.generation);
                Some((key, judged))
            })
            .collect();
        if candidates.is_empty() {
            return None;
        }
        self.judging = Some(candidates.clone());
        Some(candidates)
    }
}

impl Engine {
    pub(super) fn judge_subnets(&mut self) {
        if let Some(candidates) = self.subnets.begin(&self.world) {
            self.actions.push(Action::ValidateSubnets(candidates));
        }
    }

    /// What is to be said about candidates, by lists that were begun after
    /// [`Action::ValidateSubnets`] was answered. Candidates that changed meanwhile are not
    /// judged: the follower reports them again.
    pub fn judge(&mut self, candidates: &Candidates, lists: &Lists) -> Vec<Verdict> {
        self.subnets.judging = None;
        let mut world = World::new(self.world.settings());
        let nodes: Vec<_> = lists.nodes.iter().map(|node| self.subnets.as_promised(node)).collect();
        drop(world.reset(nodes.iter().map(Cow::as_ref)));
        drop(world.reset(&lists.vpcs));
        drop(world.reset(&lists.kubeovn_vpcs));
        drop(world.reset(lists.subnets.iter().chain(&lists.outlined_subnets)));
        drop(world.reset(lists.kubeovn_subnets.iter().chain(&lists.outlined_kubeovn_subnets)));
        let native = lists.subnets.iter().filter_map(|subnet| self.verdict(subnet, candidates, &world));
        let foreign =
            lists.kubeovn_subnets.iter().filter_map(|subnet| self.verdict(subnet, candidates, &world));
        let nodes = lists.nodes.iter().filter_map(|node| self.verdict_of_node(node, candidates, &world));
        native.chain(foreign).chain(nodes).collect()
    }

    /// Judges candidates, and asks for the conditions that say so.
    pub fn judge_and_write(&mut self, candidates: &Candidates, lists: &Lists) {
        if self.stands_by() {
            return self.subnets.end_judgement();
        }
        for verdict in self.judge(candidates, lists) {
            if verdict.subnet.0 == Group::Core {
                self.judged_node(verdict);
            } else {
                self.actions.push(Action::SetConditions(Self::verdict_as_update(&verdict)));
            }
        }
    }

    fn verdict<K: GatedSubnet>(
        &self,
        subnet: &K,
        candidates: &Candidates,
        listed: &World,
    ) -> Option<Verdict> {
        let (key, meta) = (subnet.gate_key(), doors::Meta::of(subnet));
        let judged = (meta.uid, meta.generation);
        if candidates.get(&key) != Some(&judged) || subnet.validation() == Validation::Current {
            return None;
        }
        // The lists have all subnets and VPCs; what else matters (definitions, locks) is as it was observed.
        let mut errors = self::errors(&subnet.findings(listed));
        errors.extend(self::errors(&subnet.findings(&self.world)));
        Some(Verdict { subnet: key, judged, errors: join(&errors) })
    }

    /// The subnets could not be listed.
    pub fn not_judged(&mut self) {
        let again = self.subnets.judging.take().into_iter().flatten().map(|(key, _)| key);
        self.subnets.unjudged.extend(again);
        self.retries.insert(Retry::Subnets);
    }

    pub(super) fn judge_again(&mut self) {
        let again = std::mem::take(&mut self.subnets.unjudged);
        self.subnets.to_judge.extend(again);
    }
}

/// True for a refusal because of a VPC that is being deleted.
pub(super) fn is_refusal_of_vpc(refusal: Option<&str>) -> bool {
    refusal.is_some_and(|refusal| refusal.contains(VPC_IS_TERMINATING))
}

fn errors(findings: &Findings) -> BTreeSet<String> {
    texts(&findings.errors)
}

pub(super) fn texts(errors: &[FieldError]) -> BTreeSet<String> {
    errors.iter().map(ToString::to_string).collect()
}

pub(super) fn join(errors: &BTreeSet<String>) -> String {
    errors.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
}
