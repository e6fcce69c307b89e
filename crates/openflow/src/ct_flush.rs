//! Makes Open vSwitch forget connections that it tracks: `NXT_CT_FLUSH`, which Open vSwitch has since 3.1.
//!
//! A connection has two tuples: `original` is that of its first packet, before any address translation; `reply` is that of the
//! packets that answer, as they come. A connection from a client through a load balancer to a backend has the balancer's
//! address as `original.destination`, and the backend's as `reply.source`.
//!
//! What a switch does with such a message was observed on Open vSwitch 3.1 and 3.5 (`tests/it/flushing.rs`). All tracked
//! connections of the switch are looked at for each message, on the thread that serves OpenFlow, unless the original tuple is
//! complete and the reply is empty: that is one look-up. Open vSwitch 3.1 ignores properties that it does not know, and so
//! would forget more than a later one: only those that it knows are used here.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU8;

mod wire;

/// The subtype of the message among Nicira's extensions.
pub(crate) const NXT_CT_FLUSH: u32 = 32;

/// Which connections to forget. A connection is forgotten if it agrees with everything that is said here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CtFlush {
    protocol: Option<Protocol>,
    zones: Zones,
    original: Tuple,
    reply: Tuple,
}

/// Where connections are looked for. Each zone tracks the connections that pass it by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Zones {
    /// In all zones.
    #[default]
    All,
    /// In this one.
    One(u16),
}

/// The number of a protocol on top of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol(NonZeroU8);

impl Protocol {
    /// ICMP, for IPv4.
    pub const ICMP: Protocol = Protocol(NonZeroU8::MIN);
    /// TCP.
    pub const TCP: Protocol = Protocol(NonZeroU8::MIN.saturating_add(5));
    /// UDP.
    pub const UDP: Protocol = Protocol(NonZeroU8::MIN.saturating_add(16));
    /// ICMPv6.
    pub const ICMPV6: Protocol = Protocol(NonZeroU8::MIN.saturating_add(57));
    /// SCTP.
    pub const SCTP: Protocol = Protocol(NonZeroU8::MIN.saturating_add(131));

    /// The protocol with this number; 0 is none that connections are tracked of.
    pub fn new(number: u8) -> Option<Protocol> {
        NonZeroU8::new(number).map(Protocol)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0.get()
    }

    fn is_icmp(self) -> bool {
        self == Protocol::ICMP || self == Protocol::ICMPV6
    }
}

/// What packets of one direction have. What is not set may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tuple {
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    source_port: Option<u16>,
    destination_port: Option<u16>,
    icmp: Option<Icmp>,
}

/// What ICMP has in place of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Icmp {
    /// The identifier.
    pub id: u16,
    /// The type, which differs between the two directions: 8 for an echo request, 0 for its reply.
    pub kind: u8,
    /// The code.
    pub code: u8,
}

impl Tuple {
    /// Any packet.
    pub fn any() -> Tuple {
        Tuple::default()
    }

    /// From this address.
    pub fn source(self, address: impl Into<IpAddr>) -> Tuple {
        Tuple { source: Some(address.into().to_canonical()), ..self }
    }

    /// To this address.
    pub fn destination(self, address: impl Into<IpAddr>) -> Tuple {
        Tuple { destination: Some(address.into().to_canonical()), ..self }
    }

    /// From this port.
    pub fn source_port(self, port: u16) -> Tuple {
        Tuple { source_port: Some(port), ..self }
    }

    /// To this port.
    pub fn destination_port(self, port: u16) -> Tuple {
        Tuple { destination_port: Some(port), ..self }
    }

    /// With this in place of ports.
    pub fn icmp(self, icmp: Icmp) -> Tuple {
        Tuple { icmp: Some(icmp), ..self }
    }

    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.source.into_iter().chain(self.destination)
    }

    fn ports(&self) -> impl Iterator<Item = u16> {
        self.source_port.into_iter().chain(self.destination_port)
    }

    /// Open vSwitch takes it for none at all. What ICMP has does not count.
    fn looks_empty(&self) -> bool {
        self.addresses().next().is_none() && self.ports().next().is_none()
    }
}

/// Why nothing is to be flushed this way: it would do something else than it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFlush {
    /// Nothing is said of connections, so all would be forgotten.
    #[error("nothing is said of the connections: CtFlush::zone and CtFlush::everything are for that")]
    Everything,
    /// An address that no packet has: a switch takes it for any address.
    #[error("no packet has the address {0}")]
    UnspecifiedAddress(IpAddr),
    /// IPv4 and IPv6 in one connection.
    #[error("addresses of IPv4 and IPv6 are mixed")]
    MixedFamilies,
    /// A switch takes port 0 for any port.
    #[error("port 0 would stand for any port")]
    PortZero,
    /// Ports of a protocol that has none, or of none.
    #[error("ports need a protocol that has ports")]
    Ports,
    /// An ICMP identifier, type and code with another protocol.
    #[error("an ICMP identifier, type and code need the protocol ICMP or ICMPv6")]
    IcmpOfAnother,
    /// A switch takes an ICMP identifier, type or code that is not set for 0 and not for any.
    #[error(
        "for ICMP both tuples need identifier, type and code, unless the original is complete and the reply is empty"
    )]
    IcmpIncomplete,
    /// An ICMP tuple without addresses counts as none at all.
    #[error("for ICMP every tuple that is used needs an address")]
    IcmpWithoutAddress,
    /// A switch looks for a complete original tuple in zone 0 when no zone is named.
    #[error(
        "a complete original tuple needs a zone, or something of the reply: without, it stands for zone 0 only"
    )]
    CompleteWithoutZone,
}

impl CtFlush {
    /// The connections of `protocol` that agree with both tuples, in `zones`.
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    /// use openflow::{CtFlush, Protocol, Tuple, Zones};
    ///
    /// // Everything that a load balancer has sent to one backend, whoever the clients are.
    /// let frontend = Tuple::any().destination(Ipv4Addr::new(10, 96, 0, 10)).destination_port(53);
    /// let backend = Tuple::any().source(Ipv4Addr::new(10, 244, 1, 5)).source_port(5353);
    /// let flush = CtFlush::new(Some(Protocol::UDP), Zones::All, frontend, backend)?;
    /// # Ok::<(), openflow::InvalidFlush>(())
    /// ```
    pub fn new(
        protocol: Option<Protocol>,
        zones: Zones,
        original: Tuple,
        reply: Tuple,
    ) -> Result<CtFlush, InvalidFlush> {
        let tuples = [original, reply];
        let is_set = |tuple: &Tuple| *tuple != Tuple::any();
        if protocol.is_none() && !tuples.iter().any(is_set) {
            return Err(InvalidFlush::Everything);
        }
        if let Some(address) = tuples.iter().flat_map(Tuple::addresses).find(IpAddr::is_unspecified) {
            return Err(InvalidFlush::UnspecifiedAddress(address));
        }
        let mut addresses = tuples.iter().flat_map(Tuple::addresses);
        if addresses.next().is_some_and(|first| addresses.any(|other| other.is_ipv4() != first.is_ipv4())) {
            return Err(InvalidFlush::MixedFamilies);
        }
        if tuples.iter().flat_map(Tuple::ports).any(|port| port == 0) {
            return Err(InvalidFlush::PortZero);
        }
        let mut flush = CtFlush { protocol, zones, original, reply };
        if protocol.is_some_and(Protocol::is_icmp) {
            flush.check_icmp()?;
        } else {
            flush.check_ports()?;
        }
        if zones == Zones::All && flush.is_looked_up() {
            return Err(InvalidFlush::CompleteWithoutZone);
        }
        flush.keep_what_is_compared();
        Ok(flush)
    }

    /// Every connection of a zone.
    pub fn zone(zone: u16) -> CtFlush {
        CtFlush { zones: Zones::One(zone), ..CtFlush::everything() }
    }

    /// Every connection that the switch tracks.
    pub fn everything() -> CtFlush {
        CtFlush { protocol: None, zones: Zones::All, original: Tuple::any(), reply: Tuple::any() }
    }

    fn check_ports(&self) -> Result<(), InvalidFlush> {
        let tuples = [self.original, self.reply];
        if tuples.iter().any(|tuple| tuple.icmp.is_some()) {
            return Err(InvalidFlush::IcmpOfAnother);
        }
        if self.protocol.is_none() && tuples.iter().flat_map(Tuple::ports).next().is_some() {
            return Err(InvalidFlush::Ports);
        }
        Ok(())
    }

    fn check_icmp(&self) -> Result<(), InvalidFlush> {
        let CtFlush { original, reply, .. } = self;
        if original.ports().chain(reply.ports()).next().is_some() {
            return Err(InvalidFlush::Ports);
        }
        let reply_is_needed = reply.icmp.is_some() || !self.is_looked_up();
        if original.icmp.is_none() || (reply_is_needed && reply.icmp.is_none()) {
            return Err(InvalidFlush::IcmpIncomplete);
        }
        if original.looks_empty() || (reply_is_needed && reply.looks_empty()) {
            return Err(InvalidFlush::IcmpWithoutAddress);
        }
        Ok(())
    }

    /// The switch looks for the one connection with this original tuple.
    fn is_looked_up(&self) -> bool {
        let Tuple { source, destination, source_port, destination_port, .. } = self.original;
        let has_ports = source_port.is_some() && destination_port.is_some();
        source.is_some()
            && destination.is_some()
            && (has_ports || self.protocol.is_some_and(Protocol::is_icmp))
            && self.reply.looks_empty()
    }
}

impl fmt::Display for CtFlush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Some(protocol) => write!(f, "protocol {}", protocol.number())?,
            None => f.write_str("any protocol")?,
        }
        for (name, tuple) in [("original", self.original), ("reply", self.reply)] {
            if tuple != Tuple::any() {
                write!(f, ", {name} {tuple}")?;
            }
        }
        match self.zones {
            Zones::All => f.write_str(", all zones"),
            Zones::One(zone) => write!(f, ", zone {zone}"),
        }
    }
}

/// `10.0.0.1:*>10.0.0.2:53`: what may be anything is a star.
impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |address: Option<IpAddr>, port: Option<u16>| {
            let port = port.map_or_else(|| "*".into(), |port| port.to_string());
            match address {
                None => format!("*:{port}"),
                Some(IpAddr::V4(address)) => format!("{address}:{port}"),
                Some(IpAddr::V6(address)) => format!("[{address}]:{port}"),
            }
        };
        write!(f, "{}>{}", end(self.source, self.source_port), end(self.destination, self.destination_port))?;
        match self.icmp {
            Some(Icmp { id, kind, code }) => write!(f, " icmp id {id} type {kind} code {code}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn refused(protocol: Option<Protocol>, original: Tuple, reply: Tuple) -> InvalidFlush {
        CtFlush::new(protocol, Zones::All, original, reply).unwrap_err()
    }

    #[test]
    fn protocols_have_their_numbers() {
        let all = [Protocol::ICMP, Protocol::TCP, Protocol::UDP, Protocol::ICMPV6, Protocol::SCTP];
        assert_eq!(all.map(Protocol::number), [1, 6, 17, 58, 132]);
        assert_eq!(Protocol::new(0), None);
    }

    #[test]
    fn what_would_flush_more_than_it_says_is_refused() {
        let any = Tuple::any();
        assert_eq!(refused(None, any, any), InvalidFlush::Everything);
        let nowhere = any.destination(Ipv6Addr::UNSPECIFIED);
        assert_eq!(
            refused(None, nowhere, any),
            InvalidFlush::UnspecifiedAddress(Ipv6Addr::UNSPECIFIED.into())
        );
        assert_eq!(refused(Some(Protocol::UDP), any.source_port(0), any), InvalidFlush::PortZero);
        let echo = any.icmp(Icmp { id: 1, kind: 8, code: 0 });
        assert_eq!(refused(Some(Protocol::ICMP), echo, echo), InvalidFlush::IcmpWithoutAddress);
    }

    #[test]
    fn what_would_flush_less_than_it_says_is_refused() {
        let any = Tuple::any();
        let complete = any.source(A).destination(B).source_port(1000).destination_port(53);
        assert_eq!(refused(Some(Protocol::UDP), complete, any), InvalidFlush::CompleteWithoutZone);
        CtFlush::new(Some(Protocol::UDP), Zones::All, complete, any.source(B)).unwrap();
        CtFlush::new(Some(Protocol::UDP), Zones::One(0), complete, any).unwrap();

        let mixed = any.source(A).destination(Ipv6Addr::LOCALHOST);
        assert_eq!(refused(None, mixed, any), InvalidFlush::MixedFamilies);
        assert_eq!(
            refused(None, any.source(A), any.source(Ipv6Addr::LOCALHOST)),
            InvalidFlush::MixedFamilies
        );
        CtFlush::new(None, Zones::All, any.source(A).destination(B.to_ipv6_mapped()), any).unwrap();
    }

    #[test]
    fn icmp_is_said_completely_or_not_at_all() {
        let any = Tuple::any();
        let (request, reply) = (Icmp { id: 1, kind: 8, code: 0 }, Icmp { id: 1, kind: 0, code: 0 });
        let icmp = |zones, original, reply| CtFlush::new(Some(Protocol::ICMP), zones, original, reply);
        let complete = any.source(A).destination(B).icmp(request);
        icmp(Zones::One(3), complete, any).unwrap();
        assert_eq!(icmp(Zones::All, complete, any), Err(InvalidFlush::CompleteWithoutZone));
        icmp(Zones::All, complete, any.source(B).icmp(reply)).unwrap();
        icmp(Zones::All, any.destination(B).icmp(request), any.source(B).icmp(reply)).unwrap();
        assert_eq!(icmp(Zones::All, any, any), Err(InvalidFlush::IcmpIncomplete));
        assert_eq!(
            icmp(Zones::All, any.destination(B).icmp(request), any),
            Err(InvalidFlush::IcmpIncomplete)
        );
        assert_eq!(icmp(Zones::One(3), any.source(A).destination(B), any), Err(InvalidFlush::IcmpIncomplete));
        assert_eq!(icmp(Zones::All, complete.source_port(1), any), Err(InvalidFlush::Ports));
    }

    #[test]
    fn ports_and_icmp_need_their_protocols() {
        let any = Tuple::any();
        assert_eq!(refused(None, any.destination_port(53), any), InvalidFlush::Ports);
        assert_eq!(refused(None, any, any.source(A).source_port(53)), InvalidFlush::Ports);
        assert_eq!(refused(Some(Protocol::UDP), any.icmp(Icmp::default()), any), InvalidFlush::IcmpOfAnother);
    }

    #[test]
    fn a_flush_reads_like_the_connections_it_is_about() {
        let original = Tuple::any().destination(A).destination_port(53);
        let reply = Tuple::any().source(B).source_port(5353);
        let flush = CtFlush::new(Some(Protocol::UDP), Zones::All, original, reply).unwrap();
        assert_eq!(
            flush.to_string(),
            "protocol 17, original *:*>10.0.0.1:53, reply 10.0.0.2:5353>*:*, all zones"
        );
        assert_eq!(CtFlush::zone(7).to_string(), "any protocol, zone 7");
    }
}
