//! Explains one direction: OVN's path in terms of objects, the cause if the packet does not arrive, and how OVN differs from what
//! the objects ask for.
//!
//! OVN decides what happens. Why is read from provenance: a logical flow names the northbound row that it was made for, the row
//! carries the unit that it was planned for, and the unit is an object that somebody wrote.

mod cause;

use std::collections::BTreeSet;

use portolan_model::{Unit, UnitState, World};

use crate::api::{Cause, Difference, Hop, Leg, Reason, Rule};
use crate::desired::{Desired, object_of};
use crate::observed::{DatapathKind, Observed, may_be_rule};
use crate::ovn_trace::output::{Passage, Traced};
use crate::packet::Packet;
use crate::question::{Destination, PodName};
use crate::rule::named;
use crate::start::{Port, Start, pod_of};

use self::cause::Stopped;

/// One direction and all that is known about it.
pub(crate) struct Explanation<'a> {
    pub(crate) world: &'a World,
    pub(crate) start: &'a Start,
    pub(crate) packet: &'a Packet,
    /// What is meant by the packet's destination.
    pub(crate) meant: &'a Destination,
    pub(crate) observed: &'a Observed,
    /// What the units on the path should have.
    pub(crate) desired: &'a [Desired],
    /// The tunnel between the nodes of both ends, as OVN has it.
    pub(crate) tunnel: Option<&'a str>,
    /// The namespaces whose pods may be named.
    pub(crate) visible: &'a BTreeSet<String>,
}

/// What becomes of the packet on one way.
struct Outcome {
    arrives: Option<bool>,
    cause: Option<Cause>,
    /// The pod that receives it.
    receiver: Option<Hop>,
    notes: Vec<String>,
}

impl Explanation<'_> {
    pub(crate) fn leg(&self) -> Leg {
        let ways: Vec<_> = self.observed.ways.iter().map(|traced| (traced, self.outcome(traced))).collect();
        let alike = ways.iter().all(|(_, outcome)| outcome.arrives == ways[0].1.arrives);
        // Where ways differ, the one that fails is worth showing.
        let chosen = ways.into_iter().min_by_key(|(_, outcome)| outcome.arrives == Some(true));
        let (traced, mut outcome) = chosen.expect("invariant: there is a first way");
        if !alike {
            outcome = Outcome { arrives: None, cause: Some(self.load_shared(outcome.cause)), ..outcome };
        } else if !self.observed.ways.others.is_empty() {
            outcome.notes.push(
                "a route on the path shares the load among several next hops; all lead to the same end"
                    .into(),
            );
        }
        let mut path = vec![self.start.sender.clone()];
        path.extend(self.hops(traced));
        path.extend(self.tunnel_to(outcome.receiver.as_ref()));
        path.extend(outcome.receiver);
        let mut notes = self.start.notes.clone();
        notes.extend(outcome.notes);
        Leg {
            arrives: outcome.arrives,
            path,
            cause: outcome.cause,
            differences: self.differences(),
            notes,
            error: None,
        }
    }

    /// The switches and routers on the path, up to where it turns back on itself.
    fn hops(&self, traced: &Traced) -> Vec<Hop> {
        let mut hops = Vec::new();
        let mut seen = BTreeSet::new();
        for passage in &traced.passages {
            let hop = self.hop(passage);
            if let (Some(Hop::Router { name: from, .. }), Hop::Router { name: to, .. }) = (hops.last(), &hop)
            {
                let peering = Hop::Peering { from: from.clone(), to: to.clone() };
                hops.push(peering);
            }
            if !seen.insert(&passage.datapath) {
                break;
            }
            hops.push(hop);
        }
        if let Some(Hop::Peering { .. }) = hops.last() {
            hops.pop();
        }
        hops
    }

    fn hop(&self, passage: &Passage) -> Hop {
        let rules = self.rules(passage);
        match self.observed.datapaths.get(&passage.datapath) {
            Some(datapath) => match (&datapath.unit, datapath.kind) {
                (Some(Unit::Subnet(name)), _) => Hop::Switch { name: name.clone(), rules },
                (Some(Unit::Vpc(name)), _) => Hop::Router { name: name.clone(), rules },
                (_, DatapathKind::Switch) => Hop::Switch { name: foreign(&passage.datapath), rules },
                (_, DatapathKind::Router) => Hop::Router { name: foreign(&passage.datapath), rules },
            },
            None => Hop::Switch { name: foreign(&passage.datapath), rules },
        }
    }

    /// The rules that applied, each once.
    fn rules(&self, passage: &Passage) -> Vec<Rule> {
        let mut rules: Vec<Rule> = Vec::new();
        for flow in passage.flows.iter().filter(|flow| may_be_rule(flow)) {
            if let Some(row) = self.observed.row_of(flow) {
                let rule = row.rule(self.packet.destination);
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        rules
    }

    fn outcome(&self, traced: &Traced) -> Outcome {
        let stops =
            |cause| Outcome { arrives: Some(false), cause: Some(cause), receiver: None, notes: Vec::new() };
        match Stopped::of(self, traced) {
            Stopped::No { port } => self.received(traced, port),
            Stopped::Because(cause) => stops(*cause),
        }
    }

    /// The packet left by a logical port.
    fn received(&self, traced: &Traced, port: &str) -> Outcome {
        let mut outcome = Outcome { arrives: Some(true), cause: None, receiver: None, notes: Vec::new() };
        if let Some(to) = self.start.to.as_ref().filter(|to| to.name == port) {
            outcome.receiver = Some(self.pod_hop(&to.pod, &to.interface, to.node.clone()));
            return outcome;
        }
        if port == self.packet.inport && matches!(self.meant, Destination::Address(_)) {
            let router = traced.passages.iter().map(|passage| self.hop(passage)).find_map(|hop| match hop {
                Hop::Router { name, .. } => Some(name),
                _ => None,
            });
            if let Some(router) = router {
                outcome
                    .notes
                    .push(format!("router {router} itself has {} and answers", self.packet.destination));
                return outcome;
            }
        }
        let attachment = self.world.attachments().find(|one| one.iface_id() == port);
        let Some(attachment) = attachment else {
            outcome.arrives = None;
            outcome.cause = Some(Cause {
                reason: Reason::DeliveredElsewhere,
                message: format!("it leaves OVN by port {port}, which is not Portolan's"),
                advice: String::new(),
                object: None,
                stage: None,
            });
            return outcome;
        };
        let pod = pod_of(attachment);
        let has_address = attachment.addresses.contains(&self.packet.destination);
        let label = self.label(pod.as_ref());
        if has_address && matches!(self.meant, Destination::Address(_)) {
            match pod.filter(|pod| self.visible.contains(&pod.namespace)) {
                Some(pod) => {
                    outcome.receiver = Some(self.pod_hop(
                        &pod,
                        attachment.id.interface(),
                        attachment.node().map(str::to_owned),
                    ));
                }
                None => outcome.notes.push(format!("{label} has {}", self.packet.destination)),
            }
            return outcome;
        }
        let subnet = attachment.subnet();
        let (arrives, reason, message, advice) = if has_address {
            (
                Some(false),
                Reason::DeliveredElsewhere,
                format!("on switch {subnet}, {} is the address of {label}", self.packet.destination),
                "use different prefixes for networks that should reach each other",
            )
        } else {
            (
                None,
                Reason::HandedToPod,
                format!("switch {subnet} hands it to {label}, which must route it itself"),
                "trace from that pod, or look at its routes",
            )
        };
        let cause = Cause { reason, message, advice: advice.into(), object: None, stage: None };
        Outcome { arrives, cause: Some(cause), ..outcome }
    }

    fn pod_hop(&self, pod: &PodName, interface: &str, node: Option<String>) -> Hop {
        Hop::Pod {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            interface: interface.to_owned(),
            address: self.packet.destination,
            node,
        }
    }

    /// What a pod may be called to whoever asks.
    fn label(&self, pod: Option<&PodName>) -> String {
        match pod {
            Some(pod) if self.visible.contains(&pod.namespace) => format!("pod {pod}"),
            Some(_) => "a pod of another namespace".to_owned(),
            None => "another port".to_owned(),
        }
    }

    fn tunnel_to(&self, receiver: Option<&Hop>) -> Option<Hop> {
        let Some(Hop::Pod { node: Some(to), .. }) = receiver else { return None };
        let Hop::Pod { node: Some(from), .. } = &self.start.sender else { return None };
        let tunnel = || Hop::Tunnel {
            from: from.clone(),
            to: to.clone(),
            encapsulation: self.tunnel.map(str::to_owned),
        };
        (from != to).then(tunnel)
    }

    fn load_shared(&self, cause: Option<Cause>) -> Cause {
        let why = cause.map(|cause| format!(": by one, {}", cause.message)).unwrap_or_default();
        Cause {
            reason: Reason::LoadShared,
            message: format!(
                "a route shares the load among several next hops, and only some lead to the receiver{why}"
            ),
            advice: "remove the next hops that lead elsewhere".into(),
            object: None,
            stage: None,
        }
    }

    /// How OVN differs from what the objects ask for: rows that are missing or different, rules that no object asks for, flows
    /// of rows that are gone.
    fn differences(&self) -> Vec<Difference> {
        let mut differences: Vec<_> = self
            .desired
            .iter()
            .flat_map(|desired| desired.differences(|uuid| self.observed.rows.get(uuid)))
            .collect();
        let flows =
            self.observed.ways.iter().flat_map(|traced| &traced.passages).flat_map(|passage| &passage.flows);
        for flow in flows.filter(|flow| may_be_rule(flow)) {
            if self.observed.is_stale(flow) {
                let message = format!(
                    "ovn-northd is behind: stage {} still has a flow ({}) of a row that is not in the northbound database",
                    flow.stage, flow.matches
                );
                differences.push(Difference { message, object: None });
            }
            let Some(row) = self.observed.row_of(flow) else { continue };
            let unit = row.unit();
            let planned =
                unit.as_ref().and_then(|unit| self.desired.iter().find(|desired| desired.unit == *unit));
            let is_asked_for = match (&unit, planned) {
                (None, _) => false,
                (Some(_), Some(desired)) => {
                    desired.state == UnitState::Held
                        || desired.rows.iter().any(|one| one.uuid() == row.0.uuid())
                }
                // It is of something that is not on the path as the objects have it.
                (Some(unit), None) => self.world.state(unit) != UnitState::Absent,
            };
            if !is_asked_for {
                let owner = unit
                    .map(|unit| format!(" (it was made for {})", named(&object_of(&unit))))
                    .unwrap_or_default();
                let message = format!("OVN applies {}, which no object asks for{owner}", row.describe());
                differences.push(Difference { message, object: None });
            }
        }
        differences.sort();
        differences.dedup();
        differences
    }

    /// The port by which the packet enters OVN.
    fn sender(&self) -> Option<&Port> {
        self.start.from.as_ref()
    }
}

fn foreign(datapath: &str) -> String {
    format!("{datapath} (not Portolan's)")
}
