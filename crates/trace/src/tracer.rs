//! Answers a question: both directions, each by the pod's routes, OVN and the objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use ovsdb::{Endpoints, TlsFiles};
use ovsdb_core::Uuid;
use portolan_model::{Unit, World};
use portolan_plan::Settings;

use crate::api::{Difference, Leg, TraceStatus, Verdict};
use crate::database::{Northbound, Southbound, datapath};
use crate::desired::Desired;
use crate::error::{Error, OvnError};
use crate::explain::Explanation;
use crate::observed::{Binding, DatapathKind, Observed, Rows, may_be_rule};
use crate::ovn_trace::output::{End, Flow, Traced};
use crate::ovn_trace::{OvnTrace, Ways};
use crate::packet::{Direction, Packet};
use crate::question::{Destination, PodName, Question};
use crate::start::{Conversation, Port, Start};

/// Lends the World.
pub trait Worlds: Sync {
    /// What a reader makes of the World as it is now. A reader does not wait and does not take long.
    fn read<T: Send + 'static>(
        &self,
        reader: impl FnOnce(&World) -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, NotAvailable>> + Send;
}

/// There is no World to read: the process is stopping, or has not seen everything yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the objects are not known yet; try again")]
pub struct NotAvailable;

/// Where OVN's databases are.
#[derive(Clone, Debug)]
pub struct Databases {
    /// The endpoints of the northbound database.
    pub northbound: Endpoints,
    /// The endpoints of the southbound database.
    pub southbound: Endpoints,
    /// Certificates for `ssl:` endpoints.
    pub tls: Option<TlsFiles>,
}

/// Answers questions about traffic.
#[derive(Clone)]
pub struct Tracer {
    northbound: Northbound,
    southbound: Southbound,
    ovn_trace: OvnTrace,
    settings: Settings,
}

/// One direction of a question.
#[derive(Clone)]
struct Trip {
    start: Start,
    meant: Destination,
    visible: BTreeSet<String>,
}

impl Tracer {
    /// A tracer of these databases. Connects in the background, on the current tokio runtime.
    ///
    /// # Panics
    /// Outside of a runtime, and without an endpoint.
    pub fn connect(databases: &Databases, settings: Settings) -> Self {
        let Databases { northbound, southbound, tls } = databases;
        Self {
            northbound: Northbound::connect(northbound.clone(), tls.as_ref()),
            southbound: Southbound::connect(southbound.clone(), tls.as_ref()),
            ovn_trace: OvnTrace { endpoints: southbound.clone(), tls: tls.clone() },
            settings,
        }
    }

    /// Answers a question. Pods of other namespaces than those in `visible` are not named.
    ///
    /// # Errors
    /// When a pod of the question does not exist or has no interface. What OVN does not answer is said in the answer.
    pub async fn answer(
        &self,
        worlds: &impl Worlds,
        question: &Question,
        visible: BTreeSet<String>,
    ) -> Result<Result<TraceStatus, Error>, NotAvailable> {
        let asked = question.clone();
        let prepared = worlds
            .read(move |world| {
                let conversation = Conversation::choose(world, &asked)?;
                let start = conversation.start(world, &asked.from, asked.payload, Direction::Forward)?;
                Ok::<_, Error>((conversation, start))
            })
            .await?;
        let (mut conversation, start) = match prepared {
            Ok((conversation, Some(start))) => (conversation, start),
            Ok((_, None)) => unreachable!("a question has a sender"),
            Err(error) => return Ok(Err(error)),
        };
        let trip = Trip { start, meant: question.to.clone(), visible: visible.clone() };
        let forward = self.leg(worlds, trip).await?;
        let receiver = receiver(&forward);
        let reply = match receiver.filter(|_| forward.arrives == Some(true) && forward.error.is_none()) {
            None => None,
            Some(receiver) => {
                conversation.receiver = Some(receiver);
                let (from, payload) = (question.from.clone(), question.payload);
                let start = worlds
                    .read(move |world| conversation.start(world, &from, payload, Direction::Reply))
                    .await?;
                match start {
                    // The pod has gone meanwhile.
                    Err(error) => return Ok(Err(error)),
                    Ok(None) => None,
                    Ok(Some(start)) => {
                        let trip = Trip { start, meant: Destination::Pod(question.from.clone()), visible };
                        Some(self.leg(worlds, trip).await?)
                    }
                }
            }
        };
        let verdict = verdict(&forward, reply.as_ref());
        Ok(Ok(TraceStatus { verdict, question: question.to_string(), forward, reply }))
    }

    async fn leg(&self, worlds: &impl Worlds, trip: Trip) -> Result<Leg, NotAvailable> {
        let start = &trip.start;
        let mut leg = Leg {
            arrives: None,
            path: vec![start.sender.clone()],
            cause: None,
            differences: Vec::new(),
            notes: start.notes.clone(),
            error: None,
        };
        let packet = match &start.outcome {
            Ok(packet) => packet.clone(),
            Err(cause) => {
                (leg.arrives, leg.cause) = (Some(false), Some((**cause).clone()));
                return Ok(leg);
            }
        };
        match self.ask(worlds, &trip, &packet).await? {
            Ok(answered) => Ok(answered),
            Err(error) => {
                leg.error = Some(error.to_string());
                Ok(leg)
            }
        }
    }

    async fn ask(
        &self,
        worlds: &impl Worlds,
        trip: &Trip,
        packet: &Packet,
    ) -> Result<Result<Leg, OvnError>, NotAvailable> {
        let (unplugged, tunnel) = match self.ports(&trip.start).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(difference) = unplugged.iter().find(|one| one.1 == Missing::Port) {
            // ovn-trace knows nothing of a packet that enters by a port that is not there.
            let leg = Leg {
                arrives: None,
                path: vec![trip.start.sender.clone()],
                cause: None,
                differences: vec![difference.0.clone()],
                notes: trip.start.notes.clone(),
                error: None,
            };
            return Ok(Ok(leg));
        }
        let (mut observed, routers) = match self.observe(packet).await {
            Ok(observed) => observed,
            Err(error) => return Ok(Err(error)),
        };
        let on_path: Vec<Unit> = observed.datapaths.values().filter_map(|one| one.unit.clone()).collect();
        let ends = [&trip.start.from, &trip.start.to].into_iter().flatten().map(|port| port.unit.clone());
        let ends: Vec<Unit> = ends.collect();
        let settings = self.settings.clone();
        let desired = worlds.read(move |world| desired(world, &on_path, &ends, &settings)).await?;
        if let Err(error) = self.look_up(packet, &mut observed, &routers, &desired).await {
            return Ok(Err(error));
        }
        let (trip, packet) = (trip.clone(), packet.clone());
        let (observed, desired) = (Arc::new(observed), Arc::new(desired));
        let explained = worlds.read(move |world| {
            let explanation = Explanation {
                world,
                start: &trip.start,
                packet: &packet,
                meant: &trip.meant,
                observed: &observed,
                desired: &desired,
                tunnel: tunnel.as_deref(),
                visible: &trip.visible,
            };
            explanation.leg()
        });
        let mut leg = explained.await?;
        leg.differences.extend(unplugged.into_iter().map(|(difference, _)| difference));
        Ok(Ok(leg))
    }

    /// How the ports of both ends differ from where they should be, and the tunnel between them.
    async fn ports(&self, start: &Start) -> Result<(Vec<(Difference, Missing)>, Option<String>), OvnError> {
        let ends: Vec<&Port> = [&start.from, &start.to].into_iter().flatten().collect();
        let names: Vec<_> = ends.iter().map(|port| port.name.as_str()).collect();
        let bindings = self.southbound.bindings(&names).await?;
        let mut differences: Vec<_> = ends
            .iter()
            .zip(&bindings)
            .filter_map(|(port, binding)| misplaced(port, binding.as_ref()))
            .collect();
        let chassis: Vec<_> =
            bindings.iter().flatten().filter_map(|binding| binding.chassis.as_deref()).collect();
        let tunnel = match *chassis.as_slice() {
            [from, to] if from != to => {
                let tunnel = self.southbound.tunnel(from, to).await?;
                if tunnel.is_none() {
                    let message = format!("OVN has no tunnel between chassis {from} and {to}");
                    differences.push((Difference { message, object: None }, Missing::Tunnel));
                }
                tunnel
            }
            _ => None,
        };
        Ok((differences, tunnel))
    }

    /// Follows the packet, and finds what the switches and routers on its ways were made for.
    async fn observe(&self, packet: &Packet) -> Result<(Observed, Vec<(String, Uuid)>), OvnError> {
        let ways = self.ovn_trace.follow(packet).await?;
        let names: BTreeSet<&str> = passages(&ways).map(|passage| passage.datapath.as_str()).collect();
        let found = self.southbound.datapaths(&names).await?;
        let mut rows = Rows::default();
        let table = |kind| match kind {
            DatapathKind::Switch => "Logical_Switch",
            DatapathKind::Router => "Logical_Router",
        };
        self.northbound.read(found.iter().map(|(_, _, kind, uuid)| (table(*kind), *uuid)), &mut rows).await?;
        let routers = found.iter().map(|(name, uuid, ..)| (name.clone(), *uuid)).collect();
        let datapaths =
            found.into_iter().map(|(name, _, kind, uuid)| (name, datapath(kind, rows.get(uuid)))).collect();
        let observed = Observed {
            ways,
            datapaths,
            hints: Default::default(),
            routes_in_effect: Default::default(),
            rows,
        };
        Ok((observed, routers))
    }

    /// Reads the rows that were planned for the path, and those that its flows were made for.
    async fn look_up(
        &self,
        packet: &Packet,
        observed: &mut Observed,
        datapaths: &[(String, Uuid)],
        desired: &[Desired],
    ) -> Result<(), OvnError> {
        let planned = desired.iter().flat_map(|desired| &desired.rows);
        self.northbound.read(planned.map(|row| (row.table().name, row.uuid())), &mut observed.rows).await?;
        let ways = observed.ways.clone();
        let mut flows: Vec<&Flow> =
            passages(&ways).flat_map(|passage| &passage.flows).filter(|flow| may_be_rule(flow)).collect();
        flows.sort_by_key(|flow| flow.uuid);
        flows.dedup_by_key(|flow| flow.uuid);
        observed.hints = self.southbound.hints(&flows).await?;
        let hinted: BTreeSet<u32> =
            flows.iter().filter_map(|flow| observed.hints.get(&flow.uuid?).copied()).collect();
        self.northbound.read_rules(&hinted, &mut observed.rows).await?;
        for traced in ways.iter().filter(|traced| lacks_route(traced)) {
            let (Some(passage), Some(flow)) = (traced.passages.last(), traced.last_flow()) else { continue };
            if let Some((name, uuid)) = datapaths.iter().find(|(name, _)| *name == passage.datapath) {
                let routes = self.southbound.routes_in_effect(*uuid, flow).await?;
                observed.routes_in_effect.insert(name.clone(), routes);
            }
        }
        debug_assert!(!packet.datapath.is_empty());
        Ok(())
    }
}

/// What is missing of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Port,
    Binding,
    Tunnel,
}

fn passages(ways: &Ways) -> impl Iterator<Item = &crate::ovn_trace::output::Passage> {
    ways.iter().flat_map(|traced| &traced.passages)
}

fn lacks_route(traced: &Traced) -> bool {
    traced.end == End::Dropped
        && traced.last_flow().is_some_and(|flow| flow.stage.starts_with("lr_in_ip_routing"))
}

/// The rows that everything on a path should have: the switches and routers, whatever else has ports on the routers, the ends, and their
/// nodes.
fn desired(world: &World, on_path: &[Unit], ends: &[Unit], settings: &Settings) -> Vec<Desired> {
    let mut units: BTreeSet<Unit> = on_path.iter().chain(ends).cloned().collect();
    for unit in ends {
        let Unit::Attachment(id) = unit else { continue };
        let attachment = world.attachment(id);
        units.extend(attachment.map(|attachment| Unit::Subnet(attachment.subnet().to_string())));
        let node = attachment.and_then(|attachment| attachment.node());
        units.extend(node.filter(|node| world.node_view(node).is_some()).map(|node| Unit::Node(node.into())));
    }
    for unit in on_path {
        let Unit::Vpc(vpc) = unit else { continue };
        units.extend(world.subnets_of_vpc(vpc).map(|subnet| Unit::Subnet(subnet.name.clone())));
        let peerings = world.peerings().filter(|peering| peering.ends.iter().any(|end| end.vpc == *vpc));
        units.extend(peerings.map(|peering| Unit::Peering(peering.pair.clone())));
    }
    units.iter().map(|unit| Desired::of(world, unit, settings)).collect()
}

/// How a port is not where its pod is.
fn misplaced(port: &Port, binding: Option<&Binding>) -> Option<(Difference, Missing)> {
    let pod = &port.pod;
    let (message, missing) = match binding {
        None => (
            format!("OVN has no port for pod {pod}: the controller or ovn-northd has not made it"),
            Missing::Port,
        ),
        Some(Binding { chassis: Some(_), up: false } | Binding { chassis: None, .. }) => (
            format!(
                "the port of pod {pod} is on no node: the pod is not plugged in, or ovn-controller of its node does not run"
            ),
            Missing::Binding,
        ),
        Some(Binding { chassis, .. }) if *chassis != port.chassis => (
            format!(
                "OVN has the port of pod {pod} on chassis {}, and the pod is on {}",
                chassis.as_deref().unwrap_or("none"),
                port.chassis.as_deref().unwrap_or("no node")
            ),
            Missing::Binding,
        ),
        Some(_) => return None,
    };
    Some((Difference { message, object: Some(crate::desired::object_of(&port.unit)) }, missing))
}

/// The pod at the end of a path.
fn receiver(leg: &Leg) -> Option<PodName> {
    match leg.path.last() {
        Some(crate::api::Hop::Pod { namespace, name, .. }) if leg.path.len() > 1 => {
            Some(PodName { namespace: namespace.clone(), name: name.clone() })
        }
        _ => None,
    }
}

/// What follows from both directions; there is no reply to what does not arrive.
fn verdict(forward: &Leg, reply: Option<&Leg>) -> Verdict {
    let legs = || std::iter::once(forward).chain(reply);
    if legs().any(|leg| !leg.differences.is_empty()) {
        return Verdict::Disagreement;
    }
    if legs().any(|leg| leg.arrives.is_none()) {
        return Verdict::Unknown;
    }
    if legs().all(|leg| leg.arrives == Some(true)) { Verdict::Reachable } else { Verdict::NotReachable }
}
