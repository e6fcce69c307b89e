//! What a match means for one packet, as far as that can be known without OVN.
//!
//! OVN resolves `!` down to the comparisons, and a comparison also asks that the packet has the field: `!(tcp.dst == 80)` is not
//! true of a ping. So negation is carried down here as well, and a field that the packet has not makes its comparison false.

use std::net::IpAddr;

use super::lexer::{Number, ones};

/// A packet, as far as a match can be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes to; of the same family.
    pub destination: IpAddr,
    /// What it carries.
    pub protocol: Protocol,
}

/// What a packet carries. A port of `None` is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// An echo request.
    EchoRequest,
    /// An echo reply.
    EchoReply,
    /// TCP.
    Tcp {
        /// The source port.
        source: Option<u16>,
        /// The destination port.
        destination: Option<u16>,
    },
    /// UDP.
    Udp {
        /// The source port.
        source: Option<u16>,
        /// The destination port.
        destination: Option<u16>,
    },
}

/// An expression that was read.
pub(super) enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Relation(Relation),
    Literal(bool),
    /// Something of which nothing can be known here.
    Unknown,
}

/// A field compared with constants.
pub(super) struct Relation {
    pub(super) field: &'static str,
    /// The lowest bit that counts, and how many do.
    pub(super) low: u32,
    pub(super) width: u32,
    pub(super) operator: &'static str,
    /// None for what is no number: a text, an address set, a port group.
    pub(super) constants: Vec<Option<Number>>,
}

/// A field of a packet.
enum Value {
    Known(u128),
    /// The packet has no such field.
    Missing,
    Unknown,
}

impl Expression {
    pub(super) fn holds(&self, packet: &Packet) -> Option<bool> {
        self.evaluate(packet, false)
    }

    fn evaluate(&self, packet: &Packet, negated: bool) -> Option<bool> {
        match (self, negated) {
            (Expression::All(parts), false) | (Expression::Any(parts), true) => {
                combine(parts, packet, negated, false)
            }
            (Expression::Any(parts), false) | (Expression::All(parts), true) => {
                combine(parts, packet, negated, true)
            }
            (Expression::Not(part), _) => part.evaluate(packet, !negated),
            (Expression::Relation(relation), _) => relation.evaluate(packet, negated),
            (Expression::Literal(value), _) => Some(*value != negated),
            (Expression::Unknown, _) => None,
        }
    }
}

/// `decisive` if any part is that; its contrary if all are; else nobody knows.
fn combine(parts: &[Expression], packet: &Packet, negated: bool, decisive: bool) -> Option<bool> {
    let mut known = true;
    for part in parts {
        match part.evaluate(packet, negated) {
            Some(value) if value == decisive => return Some(decisive),
            Some(_) => {}
            None => known = false,
        }
    }
    known.then_some(!decisive)
}

impl Relation {
    fn evaluate(&self, packet: &Packet, negated: bool) -> Option<bool> {
        let value = match packet.field(self.field) {
            Value::Missing => return Some(false),
            Value::Unknown => return None,
            Value::Known(value) => (value >> self.low) & ones(self.width),
        };
        let mut any_unknown = false;
        let mut holds = false;
        for constant in &self.constants {
            match constant {
                Some(constant) => holds |= self.compare(value, *constant),
                None => any_unknown = true,
            }
        }
        // Several constants: one that fits is enough for `==`, and enough against `!=`.
        let equal_is_decided = matches!(self.operator, "==" | "!=") && holds;
        if any_unknown && !equal_is_decided {
            return None;
        }
        let holds = if self.operator == "!=" { !holds } else { holds };
        Some(holds != negated)
    }

    /// Whether the value and a constant relate; for `!=`, whether they are equal.
    fn compare(&self, value: u128, constant: Number) -> bool {
        let mask = constant.mask.unwrap_or(u128::MAX);
        match self.operator {
            "<" => value < constant.value,
            "<=" => value <= constant.value,
            ">" => value > constant.value,
            ">=" => value >= constant.value,
            _ => value & mask == constant.value & mask,
        }
    }
}

impl Packet {
    fn field(&self, name: &str) -> Value {
        let v4 = self.source.is_ipv4();
        let yes = |holds: bool| Value::Known(u128::from(holds));
        let address = |address: IpAddr, family_v4: bool| match (address, family_v4) {
            (IpAddr::V4(v4), true) => Value::Known(v4.to_bits().into()),
            (IpAddr::V6(v6), false) => Value::Known(v6.to_bits()),
            _ => Value::Missing,
        };
        let icmp_type = match (self.protocol, v4) {
            (Protocol::EchoRequest, true) => Some(8),
            (Protocol::EchoReply, true) => Some(0),
            (Protocol::EchoRequest, false) => Some(128),
            (Protocol::EchoReply, false) => Some(129),
            _ => None,
        };
        let icmp = |of_v4: bool, value: Option<u128>| match value {
            Some(value) if v4 == of_v4 => Value::Known(value),
            _ => Value::Missing,
        };
        let port = |port: Option<u16>| port.map_or(Value::Unknown, |port| Value::Known(port.into()));
        match name {
            "eth.type" => Value::Known(if v4 { 0x800 } else { 0x86dd }),
            "ip" => yes(true),
            "ip4" => yes(v4),
            "ip6" => yes(!v4),
            "ip.proto" => Value::Known(self.number()),
            "ip.frag" | "ip.is_frag" | "ip.later_frag" | "ip.first_frag" => Value::Known(0),
            "ip4.src" => address(self.source, true),
            "ip4.dst" => address(self.destination, true),
            "ip6.src" => address(self.source, false),
            "ip6.dst" => address(self.destination, false),
            "arp" | "rarp" | "sctp" | "igmp" | "mldv1" | "mldv2" | "nd" | "nd_ns" | "nd_na" | "nd_rs"
            | "nd_ra" => yes(false),
            "tcp" => yes(matches!(self.protocol, Protocol::Tcp { .. })),
            "udp" => yes(matches!(self.protocol, Protocol::Udp { .. })),
            "icmp" => yes(icmp_type.is_some()),
            "icmp4" => yes(icmp_type.is_some() && v4),
            "icmp6" => yes(icmp_type.is_some() && !v4),
            "icmp4.type" => icmp(true, icmp_type),
            "icmp4.code" => icmp(true, icmp_type.map(|_| 0)),
            "icmp6.type" => icmp(false, icmp_type),
            "icmp6.code" => icmp(false, icmp_type.map(|_| 0)),
            "tcp.src" | "tcp.dst" | "udp.src" | "udp.dst" => match (name, self.protocol) {
                ("tcp.src", Protocol::Tcp { source, .. }) | ("udp.src", Protocol::Udp { source, .. }) => {
                    port(source)
                }
                ("tcp.dst", Protocol::Tcp { destination, .. })
                | ("udp.dst", Protocol::Udp { destination, .. }) => port(destination),
                _ => Value::Missing,
            },
            "sctp.src" | "sctp.dst" | "arp.op" | "arp.spa" | "arp.tpa" | "arp.sha" | "arp.tha" => {
                Value::Missing
            }
            _ => Value::Unknown,
        }
    }

    fn number(&self) -> u128 {
        match self.protocol {
            Protocol::Tcp { .. } => 6,
            Protocol::Udp { .. } => 17,
            Protocol::EchoRequest | Protocol::EchoReply if self.source.is_ipv4() => 1,
            Protocol::EchoRequest | Protocol::EchoReply => 58,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Match;
    use super::*;

    fn packet(source: &str, destination: &str, protocol: Protocol) -> Packet {
        Packet { source: source.parse().unwrap(), destination: destination.parse().unwrap(), protocol }
    }

    fn tcp(port: u16) -> Packet {
        packet("10.0.0.5", "10.1.0.9", Protocol::Tcp { source: Some(40000), destination: Some(port) })
    }

    #[track_caller]
    fn check(packet: &Packet, expected: Option<bool>, texts: &[&str]) {
        for text in texts {
            assert_eq!(Match::parse(text).unwrap().matches(packet), expected, "{text}");
        }
    }

    #[test]
    fn addresses_ports_and_prefixes_are_compared() {
        check(
            &tcp(80),
            Some(true),
            &[
                "ip4",
                "1",
                "ip4.src == 10.0.0.0/24",
                "ip4.dst == {10.1.0.8, 10.1.0.9}",
                "tcp && tcp.dst == 80",
                "1 < tcp.dst < 1024",
                "80 >= tcp.dst",
                "ip4.src != 10.0.0.6 && !(tcp.dst == 443)",
                "ip4.src == 10.0.0.4/255.255.255.254",
                "tcp.dst[4..6] == 5",
                "!(ip4.src == 10.0.0.6 || tcp.dst == 5)",
                "ip.proto == 6",
                "ip4.src != {10.9.0.1, 10.9.0.2}",
            ],
        );
        check(
            &tcp(80),
            Some(false),
            &[
                "0",
                "ip6",
                "ip4.src == 10.0.1.0/24",
                "tcp.dst != 80",
                "icmp4",
                "ip4 && udp",
                "!(ip4.src == 10.0.0.5)",
            ],
        );
    }

    #[test]
    fn a_field_that_the_packet_has_not_is_never_compared_with_success() {
        let ping = packet("10.0.0.5", "10.1.0.9", Protocol::EchoRequest);
        check(
            &ping,
            Some(false),
            &["tcp.dst == 80", "!(tcp.dst == 80)", "tcp.dst != 80", "ip6.src == fd00::1"],
        );
        check(&ping, Some(true), &["icmp4.type == 8", "icmp"]);
        let ping = packet("fd00::5", "fd01::9", Protocol::EchoReply);
        check(&ping, Some(true), &["icmp6.type == 129", "ip6.dst == fd01::/64", "ip.proto == 58"]);
    }

    #[test]
    fn what_only_ovn_knows_is_not_guessed() {
        check(&tcp(80), None, &["inport == \"x\"", "ip4.src == $clients", "ip.ttl == 1", "ct.est && ip4"]);
        check(&tcp(80), Some(false), &["ip4.src == $clients && udp"]);
        check(&tcp(80), Some(true), &["ip4.src == $clients || tcp", "ip4.src == {$clients, 10.0.0.5}"]);
        check(&tcp(80), Some(false), &["ip4.src != {$clients, 10.0.0.5}"]);
        let any = packet("10.0.0.5", "10.1.0.9", Protocol::Udp { source: None, destination: Some(53) });
        check(&any, None, &["udp.src == 5"]);
        check(&any, Some(true), &["udp.dst == 53"]);
    }
}
