//! The packet that is followed, and how OVN writes it.

use std::fmt;
use std::net::IpAddr;

use portolan_api::Mac;

use crate::api::{Protocol, TraceSpec};
use crate::error::Error;

/// The source port of a client: the first that the kernel gives out.
const CLIENT_PORT: u16 = 49152;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// An echo request.
    Ping,
    /// TCP to a port.
    Tcp(u16),
    /// UDP to a port.
    Udp(u16),
}

/// Whether a packet begins a conversation or replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The first packet.
    Forward,
    /// Its reply.
    Reply,
}

/// A packet as it enters a logical switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The logical switch.
    pub datapath: String,
    /// The logical port that it enters by.
    pub inport: String,
    /// The sender's MAC address.
    pub source_mac: Mac,
    /// The next hop's MAC address.
    pub destination_mac: Mac,
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
    /// What it carries.
    pub payload: Payload,
    /// Whether it begins a conversation.
    pub direction: Direction,
}

impl Payload {
    /// Protocol and port of a question.
    ///
    /// # Errors
    /// When the port is missing, or when there is one for a ping.
    pub fn of(spec: &TraceSpec) -> Result<Self, Error> {
        let invalid = |problem: &str| Error::Invalid { field: "spec.port", problem: problem.into() };
        match (spec.protocol, spec.port) {
            (Protocol::Icmp, None) => Ok(Payload::Ping),
            (Protocol::Icmp, Some(_)) => Err(invalid("a ping has no port; choose TCP or UDP, or no port")),
            (_, None) => Err(invalid("TCP and UDP need a port")),
            (_, Some(0)) => Err(invalid("must be between 1 and 65535")),
            (Protocol::Tcp, Some(port)) => Ok(Payload::Tcp(port)),
            (Protocol::Udp, Some(port)) => Ok(Payload::Udp(port)),
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Payload::Ping => f.write_str("ping"),
            Payload::Tcp(port) => write!(f, "TCP to port {port}"),
            Payload::Udp(port) => write!(f, "UDP to port {port}"),
        }
    }
}

impl Packet {
    /// The packet in OVN's expression language. Names of ports are quoted; everything else is a number or an address.
    pub(crate) fn microflow(&self) -> String {
        let Packet { source, destination, .. } = self;
        let (ip, icmp, echo) = match (source, self.direction) {
            (IpAddr::V4(_), Direction::Forward) => ("ip4", "icmp4", 8),
            (IpAddr::V4(_), Direction::Reply) => ("ip4", "icmp4", 0),
            (IpAddr::V6(_), Direction::Forward) => ("ip6", "icmp6", 128),
            (IpAddr::V6(_), Direction::Reply) => ("ip6", "icmp6", 129),
        };
        let ports = |name: &str, port: u16| {
            let (source, destination) = match self.direction {
                Direction::Forward => (CLIENT_PORT, port),
                Direction::Reply => (port, CLIENT_PORT),
            };
            format!("{name} && {name}.src == {source} && {name}.dst == {destination}")
        };
        let payload = match self.payload {
            Payload::Ping => format!("{icmp}.type == {echo} && {icmp}.code == 0"),
            Payload::Tcp(port) => ports("tcp", port),
            Payload::Udp(port) => ports("udp", port),
        };
        format!(
            "inport == {} && eth.src == {} && eth.dst == {} && ip.ttl == 64 && {ip}.src == {source} && {ip}.dst == {destination} && {payload}",
            quoted(&self.inport),
            self.source_mac,
            self.destination_mac,
        )
    }
}

/// A string of OVN's expression language, which has JSON's escapes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: Payload, direction: Direction) -> Packet {
        Packet {
            datapath: "subnet:web".into(),
            inport: "port:default/a/net1/1cd0b8a3".into(),
            source_mac: Mac::new([10, 88, 10, 0, 0, 5]),
            destination_mac: Mac::new([10, 88, 10, 0, 0, 1]),
            source: [10, 0, 0, 5].into(),
            destination: [10, 0, 1, 9].into(),
            payload,
            direction,
        }
    }

    #[test]
    fn a_reply_swaps_the_ports() {
        let forward = packet(Payload::Tcp(80), Direction::Forward).microflow();
        assert!(forward.ends_with("tcp && tcp.src == 49152 && tcp.dst == 80"), "{forward}");
        let reply = packet(Payload::Tcp(80), Direction::Reply).microflow();
        assert!(reply.ends_with("tcp && tcp.src == 80 && tcp.dst == 49152"), "{reply}");
        assert!(packet(Payload::Ping, Direction::Reply).microflow().contains("icmp4.type == 0"));
    }

    #[test]
    fn a_port_name_cannot_change_the_expression() {
        let evil =
            Packet { inport: "x\" || 1 || \"\\\n".into(), ..packet(Payload::Ping, Direction::Forward) };
        assert!(evil.microflow().starts_with(r#"inport == "x\" || 1 || \"\\\u000a" && eth.src"#));
    }
}
