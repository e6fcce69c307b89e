//! `portolan trace`: whether and by which way traffic goes from a pod to another, or where and why it stops. First from the model,
//! which is what users asked for; then by OVN's own trace, which is what the logical flows would do.
//!
//! ```text
//!  objects ─▶ World ─▶ guest, router: walk ─▶ Path ──┐
//!                                                    ├─▶ verdict ─▶ show: text or JSON, exit code
//!  southbound ─▶ ovn-trace ─▶ ovn/output ─▶ Traced ──┘
//! ```

mod choice;
mod guest;
mod ovn;
mod path;
mod router;
mod show;
mod verdict;
mod walk;

use anyhow::bail;
use clap::{Args, ValueEnum};
use portolan_api::Mac;
use portolan_model::ovn_match::{Packet, Protocol};
use portolan_model::{Subnet, World};

use self::choice::Conversation;
pub(crate) use self::choice::PodName;
use self::guest::{Exit, Guest};
use self::ovn::{Question, Southbound};
use self::verdict::{Answer, Leg, Verdict, compare, verdict};
use self::walk::{Direction, Walked, walk};
use crate::cluster::{Cluster, Which};
use crate::output::{print, width};
use crate::waiting::Waiting;

/// Where OVN's southbound database is on a machine of OVN's own packages.
const USUAL_SOUTHBOUND: &str = "unix:/run/ovn/ovnsb_db.sock";
/// Some port of a client: the first of those that are given out.
const CLIENT_PORT: u16 = 49152;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  portolan trace vm1 vm2                     a ping, and its answer
  portolan trace vm1 shop/web --port 443     TCP to a port, in another namespace
  portolan trace vm1 vm2 --network vswitch1  by their interfaces on this network
  portolan trace vm1 vm2 -o json             for programs

Exit code:
  0  reachable
  1  not reachable
  2  model and OVN do not agree, or nobody can tell")]
pub(crate) struct Arguments {
    /// Who sends: POD, or NAMESPACE/POD.
    #[arg(value_name = "POD_A")]
    from: String,
    /// Who should get it.
    #[arg(value_name = "POD_B")]
    to: String,
    /// The port of POD_B; TCP unless --protocol says otherwise.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// What is sent: icmp (a ping), tcp or udp.
    #[arg(long, value_name = "PROTOCOL", hide_possible_values = true)]
    protocol: Option<Carried>,
    /// The network, where pods have several: a network attachment definition, NAME or NAMESPACE/NAME.
    #[arg(long, value_name = "NAD")]
    network: Option<String>,
    /// The namespace of pods that are named without one.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// How to say it: text or json.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true,
        hide_default_value = true
    )]
    output: Format,
    /// OVN's southbound database. That of the lab, or the usual socket on this machine, unless given.
    #[arg(long, value_name = "ENDPOINTS", env = "OVN_SB_DB", hide_env_values = true)]
    ovn_sb: Option<String>,
    /// Do not ask OVN.
    #[arg(long, conflicts_with = "ovn_sb")]
    model_only: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Carried {
    Icmp,
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Everything that was found out.
pub(crate) struct Trace {
    pub(crate) what: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) there: Leg,
    pub(crate) back: Option<Leg>,
    pub(crate) verdict: Verdict,
}

/// Traces, says what was found, and returns the exit code.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<u8> {
    let carried = arguments.carried()?;
    let cluster = arguments.which.find().await?;
    let snapshot = cluster.snapshot().await?;
    let world = &snapshot.world;
    let namespace = arguments.namespace.as_deref().unwrap_or(&cluster.namespace);
    let names = [PodName::parse(&arguments.from, namespace)?, PodName::parse(&arguments.to, namespace)?];
    if names[0] == names[1] {
        bail!("{} is one pod; name two", names[0]);
    }
    let [from, to] = [names[0].find(&snapshot)?, names[1].find(&snapshot)?];
    let conversation = Conversation::choose(&from, &to, arguments.network.as_deref(), namespace)?;
    let southbound = if arguments.model_only { None } else { Some(arguments.southbound(&cluster)) };
    let tracer = Tracer { world, from: &from, to: &to, conversation, carried, southbound };
    let trace = tracer.trace(names[0].to_string(), names[1].to_string()).await;
    print(&match arguments.output {
        Format::Text => show::text(&trace, width()),
        Format::Json => show::json(&trace)?,
    })?;
    Ok(trace.verdict.exit_code())
}

impl Arguments {
    fn carried(&self) -> anyhow::Result<Payload> {
        match (self.protocol, self.port) {
            (None | Some(Carried::Icmp), None) => Ok(Payload::Icmp),
            (None | Some(Carried::Tcp), Some(port)) => Ok(Payload::Tcp(port)),
            (Some(Carried::Udp), Some(port)) => Ok(Payload::Udp(port)),
            (Some(Carried::Icmp), Some(_)) => {
                bail!("a ping has no port; leave out --port, or say --protocol tcp or udp")
            }
            (Some(Carried::Tcp | Carried::Udp), None) => bail!("say to which port, with --port"),
        }
    }

    fn southbound(&self, cluster: &Cluster) -> Southbound {
        match (&self.ovn_sb, &cluster.lab) {
            (Some(endpoints), _) => Southbound::At(endpoints.clone()),
            (None, Some(lab)) => Southbound::Lab(lab.clone()),
            (None, None) => Southbound::At(USUAL_SOUTHBOUND.into()),
        }
    }
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Icmp,
    Tcp(u16),
    Udp(u16),
}

impl Payload {
    fn in_packet(self, direction: Direction) -> Protocol {
        let ports = |port: u16| match direction {
            Direction::There => (Some(CLIENT_PORT), Some(port)),
            Direction::Back => (Some(port), Some(CLIENT_PORT)),
        };
        match (self, direction) {
            (Payload::Icmp, Direction::There) => Protocol::EchoRequest,
            (Payload::Icmp, Direction::Back) => Protocol::EchoReply,
            (Payload::Tcp(port), _) => {
                let (source, destination) = ports(port);
                Protocol::Tcp { source, destination }
            }
            (Payload::Udp(port), _) => {
                let (source, destination) = ports(port);
                Protocol::Udp { source, destination }
            }
        }
    }
}

impl std::fmt::Display for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Payload::Icmp => f.write_str("ping"),
            Payload::Tcp(port) => write!(f, "TCP to port {port}"),
            Payload::Udp(port) => write!(f, "UDP to port {port}"),
        }
    }
}

struct Tracer<'a, 'w> {
    world: &'w World,
    from: &'a Guest<'w>,
    to: &'a Guest<'w>,
    conversation: Conversation<'a, 'w>,
    carried: Payload,
    southbound: Option<Southbound>,
}

impl Tracer<'_, '_> {
    async fn trace(&self, from: String, to: String) -> Trace {
        let _waiting = self.southbound.as_ref().map(|_| Waiting::start("asking OVN"));
        let there = self.leg(Direction::There, self.southbound.as_ref()).await;
        // Whoever did not answer once is not asked again.
        let southbound = self.southbound.as_ref().filter(|_| !matches!(there.ovn, Answer::Failed(_)));
        let back = match there.arrives() {
            Some(true) => Some(self.leg(Direction::Back, southbound).await),
            _ => None,
        };
        let verdict = verdict(&there, back.as_ref());
        Trace { what: self.carried.to_string(), from, to, there, back, verdict }
    }

    async fn leg(&self, direction: Direction, southbound: Option<&Southbound>) -> Leg {
        let Conversation { source, destination, by } = self.conversation;
        let (from, to, ends, by) = match direction {
            Direction::There => (self.from, self.to, (source, destination), by),
            Direction::Back => (self.to, self.from, (destination, source), None),
        };
        let packet =
            Packet { source: ends.0, destination: ends.1, protocol: self.carried.in_packet(direction) };
        let Walked { path, exit } = walk(self.world, packet, direction, from, to, by);
        let ovn = match (southbound, exit) {
            (Some(southbound), Some(exit)) if path.leaves_the_pod() => {
                let asked = self.ask(southbound, &path, packet, direction, from, to, exit).await;
                asked.unwrap_or_else(|error| Answer::Failed(format!("{error:#}")))
            }
            _ => Answer::NotAsked,
        };
        Leg { path, ovn }
    }

    #[allow(clippy::too_many_arguments, reason = "one question, and all that it is about")]
    async fn ask(
        &self,
        southbound: &Southbound,
        path: &path::Path,
        packet: Packet,
        direction: Direction,
        from: &Guest<'_>,
        to: &Guest<'_>,
        exit: Exit<'_, '_>,
    ) -> anyhow::Result<Answer> {
        let receiver = to.with_address(packet.destination).map(|interface| interface.attachment);
        let attachments = [Some((from, exit.interface.attachment)), receiver.map(|receiver| (to, receiver))];
        for (guest, attachment) in attachments.into_iter().flatten() {
            if let Some(problem) = self.misplaced(southbound, guest, &attachment.iface_id).await? {
                return Ok(Answer::Disagrees(problem));
            }
        }
        let subnet = exit.interface.subnet;
        let question = Question {
            datapath: format!("subnet:{}", subnet.name),
            port: exit.interface.attachment.iface_id.clone(),
            source: exit.interface.attachment.mac,
            destination: self.next_mac(subnet, exit, receiver.map(|receiver| receiver.mac)),
            packet,
            direction,
        };
        let traced = southbound.trace(&question).await?;
        let answer = compare(path, &traced, receiver.map_or("", |receiver| &receiver.iface_id), self.world);
        match (answer, path.tunnel()) {
            (Answer::Agrees(how), Some((a, b))) => {
                let (a, b) = (self.world.chassis(a), self.world.chassis(b));
                Ok(match southbound.tunnel(a, b).await? {
                    Some(ends) => Answer::Agrees(format!("{how}, by tunnel {ends}")),
                    None => Answer::Disagrees(format!("there is no tunnel between {a} and {b}")),
                })
            }
            (answer, _) => Ok(answer),
        }
    }

    /// Why OVN has a port not where the pod is.
    async fn misplaced(
        &self,
        southbound: &Southbound,
        guest: &Guest<'_>,
        port: &str,
    ) -> anyhow::Result<Option<String>> {
        let pod = &guest.name;
        let wanted = guest.node.as_deref().map(|node| self.world.chassis(node));
        Ok(match southbound.binding(port).await? {
            None => Some(format!("OVN has no port of pod {pod}: the controller or northd has not made it")),
            Some(binding) if binding.chassis.is_none() || !binding.up => Some(format!(
                "the port of pod {pod} is on no node: the pod is not plugged in, or its node's ovn-controller does not run"
            )),
            Some(binding) if binding.chassis.as_deref() != wanted => {
                let chassis = binding.chassis.unwrap_or_default();
                let node = wanted.unwrap_or("no node");
                Some(format!("OVN has the port of pod {pod} on {chassis}, and the pod is on {node}"))
            }
            Some(_) => None,
        })
    }

    /// The MAC address that the pod sends to: what it would learn by asking who has the next address.
    fn next_mac(&self, subnet: &Subnet, exit: Exit<'_, '_>, receiver: Option<Mac>) -> Mac {
        let neighbour =
            self.world.attachments_of_subnet(&subnet.name).find(|one| one.addresses.contains(&exit.next_hop));
        let gateways = || subnet.config.gateway.addresses();
        let is_gateway = gateways().any(|gateway| gateway == exit.next_hop);
        match (neighbour, receiver) {
            (Some(neighbour), _) => neighbour.mac,
            // The router's port has one for both families.
            (None, _) if is_gateway => Mac::derive(gateways().next().unwrap_or(exit.next_hop), None),
            // Nobody answers. Whichever it is, nobody has it.
            (None, Some(receiver)) => receiver,
            (None, None) => Mac::derive(exit.next_hop, None),
        }
    }
}

#[cfg(test)]
mod tests;
