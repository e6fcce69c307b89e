//! What a manifest would change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kube::{Resource, ResourceExt as _};
use portolan_ipam::Ipam;
use portolan_model::validate::{Findings, validate};
use portolan_model::{Claim, Requester, World, doors};
use portolan_plan::comparison::{Change, Picture, UnitDifference};
use portolan_plan::{Plan, Rows, Settings, plan};

use super::apply::{Applied, Name, Objects};
use super::manifest::Document;
use crate::cluster::{Lists, Snapshot};

/// The node of pods that are bound to none: which one they get matters for nothing that is said here.
const ANY_NODE: &str = "any-node";

/// Kinds from which pods come.
const WORKLOADS: &[&str] = &[
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "ReplicaSet",
    "ReplicationController",
    "VirtualMachine",
    "VirtualMachineInstance",
];

/// What would change.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// In OVN's rows.
    units: Vec<UnitDifference>,
    /// Pods, NetworkAttachments and Vips that would get addresses that they do not have, and how many.
    served: BTreeMap<Name, usize>,
    /// What would wait or be refused, and why.
    problems: Vec<String>,
    /// What has no effect, or not the one that its author may have meant.
    warnings: Vec<String>,
    /// Objects of the manifest from which nothing in OVN comes.
    ignored: Vec<Name>,
}

impl Outcome {
    pub(super) fn of(
        mut objects: Objects,
        documents: Vec<Document>,
        namespace: &str,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let before = Snapshot::of(objects.lists.clone()).world;
        let mut outcome = Outcome::default();
        let (mut applied, mut subnets) = (BTreeSet::new(), BTreeSet::new());
        for document in documents {
            match objects.apply(document, namespace)? {
                Applied::Ignored(name) => outcome.ignored.push(name),
                Applied::Object(name) => {
                    if name.kind == "Subnet" {
                        subnets.insert(name.name.clone());
                    }
                    applied.insert(name);
                }
            }
        }
        objects.validate(&subnets);
        bind(&mut objects.lists, &applied);
        let after = Snapshot::of(objects.lists.clone()).world;
        outcome.units =
            picture(&before, None, settings).compare(&picture(&after, Some((&before, settings)), settings));
        outcome.judge(&objects.lists, &applied, &after);
        outcome.decide(&applied, &after);
        Ok(outcome)
    }

    /// True if nothing changes and there is nothing to say.
    pub(super) fn is_nothing(&self) -> bool {
        self.units.is_empty() && self.served.is_empty() && self.problems.is_empty()
    }

    /// What there is to say about the objects of the manifest.
    fn judge(&mut self, lists: &Lists, applied: &BTreeSet<Name>, world: &World) {
        macro_rules! judge {
            ($($list:ident),* $(,)?) => {
                $(for object in &lists.$list {
                    let name = Name::of(object);
                    if applied.contains(&name) {
                        self.note(&name, &validate(object, world));
                    }
                })*
            };
        }
        judge!(vpcs, kubeovn_vpcs, subnets, kubeovn_subnets, ip_pools, vips);
        judge!(nads, network_attachments, pods);
    }

    fn note(&mut self, name: &Name, findings: &Findings) {
        self.problems
            .extend(findings.errors.iter().map(|error| format!("{name} would not be in effect: {error}")));
        self.warnings.extend(findings.warnings.iter().map(|warning| format!("{name}: {warning}")));
    }

    /// Who would get addresses, wait, or be refused: those of the manifest, and those who wait for something in it.
    fn decide(&mut self, applied: &BTreeSet<Name>, world: &World) {
        let mut ipam = Ipam::of(world);
        let of_manifest = applied.iter().filter_map(requester);
        let waiting = world.unsatisfied().filter(|one| name_of(one).is_some()).cloned();
        let all: BTreeSet<Requester> = of_manifest.chain(waiting).collect();
        for requester in all {
            let Some(name) = name_of(&requester) else { continue };
            let decision = ipam.decide(world, &requester);
            if applied.contains(&name) {
                let refusals = decision.refusals.iter();
                self.problems.extend(
                    refusals.map(|refusal| format!("{name} would not get all it asks for: {refusal}")),
                );
            }
            // What one gets, no other can have.
            for lock in decision.create.iter().filter_map(|lock| doors::portolan::lock(lock).ok()) {
                _ = ipam.promise(Claim::of(&lock), lock.attachment.clone());
            }
            if !decision.create.is_empty() {
                self.served.insert(name, decision.create.len());
            }
        }
    }
}

/// Pods of the manifest that are bound to no node would be bound to one.
fn bind(lists: &mut Lists, applied: &BTreeSet<Name>) {
    let node = lists.nodes.first().map_or_else(|| ANY_NODE.to_owned(), kube::ResourceExt::name_any);
    for pod in &mut lists.pods {
        let name = Name::of(pod);
        if let Some(spec) = pod.spec.as_mut().filter(|_| applied.contains(&name)) {
            spec.node_name.get_or_insert_with(|| node.clone());
        }
    }
}

/// The rows of every unit. What is to be left as it is has the rows that it has in the other World.
fn picture(world: &World, held: Option<(&World, &Settings)>, settings: &Settings) -> Picture {
    let mut picture = Picture::default();
    let rows = |world: &World, unit: &_, settings: &Settings| -> Option<Rows> {
        match plan(unit, world, settings) {
            Plan::Desired(rows) => Some(rows),
            Plan::Hold { .. } | Plan::Remove => None,
        }
    };
    let mut units: BTreeSet<_> = world.units().collect();
    units.extend(held.into_iter().flat_map(|(before, _)| before.units()));
    for unit in units {
        let planned = match plan(&unit, world, settings) {
            Plan::Desired(rows) => Some(rows),
            Plan::Hold { .. } => held.and_then(|(before, settings)| rows(before, &unit, settings)),
            Plan::Remove => None,
        };
        if let Some(planned) = planned {
            picture.add(&planned);
        }
    }
    picture
}

fn requester(name: &Name) -> Option<Requester> {
    let (namespace, own) = (name.namespace.clone(), name.name.clone());
    match (name.kind.as_str(), namespace) {
        ("Pod", Some(namespace)) => Some(Requester::Pod { namespace, name: own }),
        ("NetworkAttachment", Some(namespace)) => Some(Requester::NetworkAttachment { namespace, name: own }),
        ("Vip", None) => Some(Requester::vip(own)),
        _ => None,
    }
}

impl Name {
    fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let (group, kind) = (K::group(&()).into(), K::kind(&()).into());
        Name { group, kind, namespace: object.namespace(), name: object.name_any() }
    }
}

fn name_of(requester: &Requester) -> Option<Name> {
    let (group, kind, namespace, name) = match requester {
        Requester::Pod { namespace, name } => ("", "Pod", Some(namespace), name),
        Requester::NetworkAttachment { namespace, name } => {
            ("portolan.dev", "NetworkAttachment", Some(namespace), name)
        }
        Requester::Vip { name } => ("kubeovn.io", "Vip", None, name),
        Requester::Node { .. } | Requester::Subnet { .. } | Requester::VirtualMachine { .. } => return None,
    };
    Some(Name { group: group.into(), kind: kind.into(), namespace: namespace.cloned(), name: name.clone() })
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for unit in &self.units {
            write!(f, "{unit}")?;
        }
        for (name, addresses) in &self.served {
            let many = if *addresses == 1 { "1 address" } else { &format!("{addresses} addresses") };
            // A Vip has no port.
            let ports = if name.kind == "Vip" { "" } else { ", and its ports" };
            writeln!(f, "+ {name} would get {many}, which the controller chooses{ports}")?;
        }
        for problem in &self.problems {
            writeln!(f, "! {problem}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "note: {warning}")?;
        }
        for name in &self.ignored {
            let why = match WORKLOADS.contains(&name.kind.as_str()) {
                true => "what its pods ask for is seen once they exist",
                false => "nothing in OVN comes from it",
            };
            writeln!(f, "note: {name} was not looked at: {why}")?;
        }
        let count =
            |change| self.units.iter().flat_map(|unit| &unit.rows).filter(|row| row.change == change).count();
        let (added, removed, changed) =
            (count(Change::Added), count(Change::Removed), count(Change::Changed));
        if self.is_nothing() {
            return writeln!(f, "No changes.");
        }
        writeln!(f, "Rows: {added} to add, {changed} to change, {removed} to remove.")
    }
}
