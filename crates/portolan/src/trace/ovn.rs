//! OVN's own answer: `ovn-trace` on the southbound database, which says what the logical flows would do with a packet.

pub(crate) mod output;

use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use portolan_api::Mac;
use portolan_model::World;
use portolan_model::ovn_match::{Packet, Protocol};
use serde_json::Value;

use self::output::{Flow, Traced, TracedEnd};
use super::walk::Direction;
use crate::lab::{Lab, is_installed};
use crate::output::plain;

/// How long OVN's tools may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often conntrack is asked at most: once where a packet enters a switch, once where it leaves.
const CONNTRACK_QUESTIONS: usize = 8;

/// Where OVN's southbound database is.
#[derive(Clone, Debug)]
pub(crate) enum Southbound {
    /// That of a lab.
    Lab(Lab),
    /// At these endpoints.
    At(String),
}

/// A packet that OVN is asked about.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The switch where it begins.
    pub(crate) datapath: String,
    /// The port where it enters.
    pub(crate) port: String,
    pub(crate) source: Mac,
    pub(crate) destination: Mac,
    pub(crate) packet: Packet,
    pub(crate) direction: Direction,
}

/// Where a port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The chassis that has it.
    pub(crate) chassis: Option<String>,
    /// Its flows are there.
    pub(crate) up: bool,
}

impl Southbound {
    /// Follows a packet.
    pub(crate) async fn trace(&self, question: &Question) -> anyhow::Result<Traced> {
        let mut arguments = vec!["--detailed".to_owned(), "--no-leader-only".to_owned()];
        let state = match question.direction {
            Direction::There => "--ct=new",
            Direction::Back => "--ct=est,rpl",
        };
        arguments.extend(std::iter::repeat_n(state.to_owned(), CONNTRACK_QUESTIONS));
        arguments.extend([question.datapath.clone(), question.microflow()]);
        let output = self.run("ovn-trace", &arguments).await?;
        let said = String::from_utf8_lossy(&output.stdout);
        if let Some(traced) = output::read(&said).filter(|_| output.status.success()) {
            return Ok(traced);
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        let words = [complaint.trim(), said.trim()].join(" ");
        bail!("ovn-trace does not answer ({}): {}", output.status, plain(words.trim()))
    }

    /// Where a port is; none if OVN has no such port.
    pub(crate) async fn binding(&self, port: &str) -> anyhow::Result<Option<Binding>> {
        let condition = format!("logical_port={}", Value::from(port));
        let found = self.find("Port_Binding", "chassis,up", Some(&condition)).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let up = row.get(1) == Some(&Value::Bool(true));
        let Some(uuid) = row.first().filter(|value| value[0] == "uuid") else {
            return Ok(Some(Binding { chassis: None, up }));
        };
        let chassis = self.find("Chassis", "_uuid,name", None).await?;
        let name = chassis.iter().find(|row| row.first() == Some(uuid)).and_then(|row| row.get(1)?.as_str());
        Ok(Some(Binding { chassis: name.map(str::to_owned), up }))
    }

    /// The ends of the tunnel from a chassis to another: `geneve 172.31.0.11 → 172.31.0.12`; none if one has no such end.
    pub(crate) async fn tunnel(&self, from: &str, to: &str) -> anyhow::Result<Option<String>> {
        let encaps = self.find("Encap", "chassis_name,type,ip", None).await?;
        let text =
            |row: &Vec<Value>, at: usize| row.get(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let of = |chassis: &str| {
            let rows = encaps.iter().filter(|row| text(row, 0) == chassis);
            rows.map(|row| (text(row, 1), text(row, 2))).collect::<Vec<_>>()
        };
        let theirs = of(to);
        let found = of(from).into_iter().find_map(|(kind, ip)| {
            let (_, other) = theirs.iter().find(|(other, _)| *other == kind)?;
            Some(format!("{kind} {ip} → {other}"))
        });
        Ok(found)
    }

    async fn find(
        &self,
        table: &str,
        columns: &str,
        condition: Option<&str>,
    ) -> anyhow::Result<Vec<Vec<Value>>> {
        let mut arguments: Vec<String> =
            ["--no-leader-only", "--timeout=10", "--format=json"].map(str::to_owned).into();
        arguments.extend([format!("--columns={columns}"), "find".into(), table.into()]);
        arguments.extend(condition.map(str::to_owned));
        let output = self.run("ovn-sbctl", &arguments).await?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            // The last line has it, without the time and the module.
            let line = said.lines().last().unwrap_or_default();
            let line = line.rsplit('|').next().unwrap_or(line);
            bail!("OVN's southbound database cannot be asked{}: {}", self.whence(), plain(line.trim()));
        }
        let answer: Value =
            serde_json::from_slice(&output.stdout).context("ovn-sbctl did not answer in JSON")?;
        serde_json::from_value(answer["data"].clone())
            .context("ovn-sbctl answered in another form than expected")
    }

    fn whence(&self) -> &'static str {
        match self {
            Southbound::Lab(_) => "",
            Southbound::At(_) => " (--ovn-sb says where it is)",
        }
    }

    async fn run(&self, program: &str, arguments: &[String]) -> anyhow::Result<Output> {
        if !is_installed(program) {
            bail!("{program} is not installed on this machine: it is in the package ovn-common");
        }
        let mut command = match self {
            Southbound::Lab(lab) => lab.at_central(program)?,
            Southbound::At(endpoints) => {
                let mut command = std::process::Command::new(program);
                command.arg(format!("--db={endpoints}"));
                command
            }
        };
        command.args(arguments).stdin(Stdio::null());
        let running = tokio::process::Command::from(command).kill_on_drop(true).output();
        match tokio::time::timeout(PATIENCE, running).await {
            Ok(output) => output.with_context(|| format!("cannot run {program}")),
            Err(_) => Err(anyhow!("{program} did not answer within {} s", PATIENCE.as_secs())),
        }
    }
}

impl Question {
    /// The packet, in OVN's own words.
    fn microflow(&self) -> String {
        let Packet { source, destination, protocol } = self.packet;
        let ip = if source.is_ipv4() { "ip4" } else { "ip6" };
        let ports = |name: &str, source: Option<u16>, destination: Option<u16>| {
            let of = |field: &str, port: Option<u16>| {
                port.map(|port| format!(" && {name}.{field} == {port}")).unwrap_or_default()
            };
            format!("{name}{}{}", of("src", source), of("dst", destination))
        };
        let payload = match protocol {
            Protocol::Tcp { source, destination } => ports("tcp", source, destination),
            Protocol::Udp { source, destination } => ports("udp", source, destination),
            Protocol::EchoRequest if source.is_ipv4() => "icmp4.type == 8 && icmp4.code == 0".into(),
            Protocol::EchoReply if source.is_ipv4() => "icmp4.type == 0 && icmp4.code == 0".into(),
            Protocol::EchoRequest => "icmp6.type == 128 && icmp6.code == 0".into(),
            Protocol::EchoReply => "icmp6.type == 129 && icmp6.code == 0".into(),
        };
        format!(
            "inport == {} && eth.src == {} && eth.dst == {} && ip.ttl == 64 && {ip}.src == {source} && {ip}.dst == {destination} && {payload}",
            Value::from(self.port.as_str()),
            self.source,
            self.destination,
        )
    }
}

impl TracedEnd {
    /// What happened, in users' words.
    pub(crate) fn explain(&self, world: &World) -> String {
        match self {
            TracedEnd::Output { port } => format!("it comes out at {}", port_name(port)),
            TracedEnd::Asked(flow) => {
                format!("{} does not know who has the next address, and asks for it", place(&flow.datapath))
            }
            TracedEnd::Answered { by, with } => {
                format!("{} answers with {with} in stage {}", place(&by.datapath), by.stage)
            }
            TracedEnd::Dropped(flow) => flow.explain(world),
        }
    }
}

impl Flow {
    fn explain(&self, world: &World) -> String {
        let subnet = self.datapath.strip_prefix("subnet:").and_then(|name| world.subnet(name));
        let place = place(&self.datapath);
        let rule = match self.priority {
            Some(priority) => format!("priority {priority}, {}", self.matches),
            None => "nothing matches".into(),
        };
        match self.stage.as_str() {
            "ls_in_check_port_sec" | "ls_in_apply_port_sec" => {
                format!("{place} drops it by port security: the sender does not have this MAC or address")
            }
            "ls_out_check_port_sec" | "ls_out_apply_port_sec" => {
                format!("{place} drops it by port security: the receiver does not have this MAC or address")
            }
            "ls_in_l2_lkup" | "ls_in_l2_unknown" => format!("{place} knows nobody with this MAC address"),
            "ls_out_acl" if subnet.is_some_and(|subnet| subnet.config.private) => {
                format!("{place} drops it, as the Subnet is private")
            }
            stage if stage.contains("_acl") => format!("{place} drops it by an ACL ({rule})"),
            "lr_in_admission" => {
                format!("{place} does not take it: it is not addressed to the router ({rule})")
            }
            "lr_in_ip_routing" | "lr_in_ip_routing_ecmp" => format!("{place} has no route"),
            "lr_in_policy" | "lr_in_policy_ecmp" => {
                let priority = self.priority.unwrap_or_default();
                format!("{place} drops it by policy route {priority} ({})", self.matches)
            }
            "lr_in_arp_resolve" => format!("{place} does not know who has the next address"),
            stage => format!("{place} drops it in stage {stage} ({rule})"),
        }
    }
}

/// `router blue` for `vpc:blue`.
pub(crate) fn place(datapath: &str) -> String {
    match datapath.split_once(':') {
        Some(("vpc", name)) => format!("router {name}"),
        Some(("subnet", name)) => format!("switch {name}"),
        _ => format!("{datapath}, which is not Portolan's,"),
    }
}

/// `pod default/a` for `port:default/a/net1/1cd0b8a3`.
fn port_name(port: &str) -> String {
    let parts =
        port.strip_prefix("port:").map(|port| port.split('/').collect::<Vec<_>>()).unwrap_or_default();
    match parts.as_slice() {
        [namespace, pod, interface, _] => format!("pod {namespace}/{pod} ({interface})"),
        _ => format!("port {port}"),
    }
}
