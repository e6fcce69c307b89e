//! How [`CtFlush`] is on the wire: the protocol's number, then properties, of which tuples have properties again.
//!
//! ```text
//!  0  protocol, seven zeros
//!  8  property 0 (original) or 1 (reply): four zeros, then
//!       0 source, 1 destination      16 bytes; IPv4 as IPv6-mapped
//!       2 source port, 3 destination port, 4 ICMP identifier      2 bytes and two zeros
//!       5 ICMP type, 6 ICMP code      1 byte
//!     property 2 (zone)      2 bytes and two zeros
//! ```

use std::net::{IpAddr, Ipv6Addr};

use super::{CtFlush, Icmp, NXT_CT_FLUSH, Protocol, Tuple, Zones};
use crate::message::{Body, MessageError, NICIRA};
use crate::property::{properties, write_property};

const ORIGINAL: u16 = 0;
const REPLY: u16 = 1;
const ZONE: u16 = 2;

const SOURCE: u16 = 0;
const DESTINATION: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;
const ICMP_ID: u16 = 4;
const ICMP_TYPE: u16 = 5;
const ICMP_CODE: u16 = 6;

/// What a tuple's properties begin behind, so that they are aligned.
const TUPLE_PADDING: [u8; 4] = [0; 4];

impl CtFlush {
    /// What follows the header of a message that says this.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = vec![self.protocol.map_or(0, Protocol::number), 0, 0, 0, 0, 0, 0, 0];
        for (kind, tuple) in [(ORIGINAL, &self.original), (REPLY, &self.reply)] {
            let mut value = TUPLE_PADDING.to_vec();
            tuple.write(&mut value, self.protocol);
            if value.len() > TUPLE_PADDING.len() {
                write_property(&mut out, kind, |out| out.extend(value));
            }
        }
        if let Zones::One(zone) = self.zones {
            write_property(&mut out, ZONE, |out| out.extend(number(zone)));
        }
        out
    }

    /// The message that says this.
    pub(crate) fn body(written: &[u8]) -> Body<'_> {
        Body::Experimenter { experimenter: NICIRA, subtype: NXT_CT_FLUSH, body: written }
    }

    /// Reads a message that flushes connections; none if it is another message.
    ///
    /// What a switch would do with it counts: a complete original tuple without a zone is for zone 0.
    pub fn read(body: &Body<'_>) -> Result<Option<CtFlush>, MessageError> {
        let Body::Experimenter { experimenter: NICIRA, subtype: NXT_CT_FLUSH, body } = body else {
            return Ok(None);
        };
        let too_short =
            MessageError::Length { what: "a message that flushes connections", length: body.len() };
        let (&[protocol, zeros @ ..], rest) = body.split_first_chunk::<8>().ok_or(too_short)?;
        if zeros != [0; 7] {
            return Err(MessageError::CtFlush { reason: "has something else than zeros as padding" });
        }
        let mut flush = CtFlush { protocol: Protocol::new(protocol), ..CtFlush::everything() };
        for property in properties(rest) {
            match property? {
                (ORIGINAL, value) => flush.original.read(value)?,
                (REPLY, value) => flush.reply.read(value)?,
                (ZONE, value) => flush.zones = Zones::One(read_number(value)?),
                _ => return Err(MessageError::CtFlush { reason: "has a property that nobody knows" }),
            }
        }
        flush.keep_what_is_compared();
        let families = [flush.original, flush.reply];
        let mut families = families.iter().flat_map(Tuple::addresses).map(|address| address.is_ipv4());
        if families.next().is_some_and(|first| families.any(|other| other != first)) {
            return Err(MessageError::CtFlush { reason: "mixes addresses of IPv4 and IPv6" });
        }
        if flush.zones == Zones::All && flush.is_looked_up() {
            flush.zones = Zones::One(0);
        }
        Ok(Some(flush))
    }

    /// Ports of ICMP, and what ICMP has of other protocols, mean nothing to a switch; what ICMP lacks is 0.
    pub(super) fn keep_what_is_compared(&mut self) {
        let is_icmp = self.protocol.is_some_and(Protocol::is_icmp);
        for tuple in [&mut self.original, &mut self.reply] {
            if is_icmp {
                (tuple.source_port, tuple.destination_port) = (None, None);
                tuple.icmp.get_or_insert_default();
            } else {
                tuple.icmp = None;
            }
        }
    }
}

impl Tuple {
    /// For ICMP, what only ICMP has is always written, as ovs-ofctl does.
    fn write(&self, out: &mut Vec<u8>, protocol: Option<Protocol>) {
        let addresses = [(SOURCE, self.source), (DESTINATION, self.destination)];
        for (kind, address) in addresses.into_iter().filter_map(|(kind, address)| Some((kind, address?))) {
            write_property(out, kind, |out| out.extend(mapped(address).octets()));
        }
        if protocol.is_some_and(Protocol::is_icmp) {
            let Icmp { id, kind, code } = self.icmp.unwrap_or_default();
            write_property(out, ICMP_ID, |out| out.extend(number(id)));
            write_property(out, ICMP_TYPE, |out| out.push(kind));
            write_property(out, ICMP_CODE, |out| out.push(code));
            return;
        }
        let ports = [(SOURCE_PORT, self.source_port), (DESTINATION_PORT, self.destination_port)];
        for (kind, port) in ports.into_iter().filter_map(|(kind, port)| Some((kind, port?))) {
            write_property(out, kind, |out| out.extend(number(port)));
        }
    }

    fn read(&mut self, value: &[u8]) -> Result<(), MessageError> {
        let value = value.get(TUPLE_PADDING.len()..).ok_or(MessageError::Property)?;
        for property in properties(value) {
            match property? {
                (SOURCE, value) => self.source = address(value)?,
                (DESTINATION, value) => self.destination = address(value)?,
                (SOURCE_PORT, value) => self.source_port = port(value)?,
                (DESTINATION_PORT, value) => self.destination_port = port(value)?,
                (ICMP_ID, value) => self.icmp.get_or_insert_default().id = read_number(value)?,
                (ICMP_TYPE, value) => [self.icmp.get_or_insert_default().kind] = fixed(value)?,
                (ICMP_CODE, value) => [self.icmp.get_or_insert_default().code] = fixed(value)?,
                _ => {
                    return Err(MessageError::CtFlush {
                        reason: "has a tuple with a property that nobody knows",
                    });
                }
            }
        }
        Ok(())
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Zeros stand for any address, and 0 for any port.
fn address(value: &[u8]) -> Result<Option<IpAddr>, MessageError> {
    let address = Ipv6Addr::from(fixed(value)?);
    Ok((!address.is_unspecified()).then(|| address.to_canonical()))
}

fn port(value: &[u8]) -> Result<Option<u16>, MessageError> {
    let port = read_number(value)?;
    Ok((port != 0).then_some(port))
}

/// The padding of numbers counts as part of the property.
fn number(number: u16) -> [u8; 4] {
    let [high, low] = number.to_be_bytes();
    [high, low, 0, 0]
}

fn read_number(value: &[u8]) -> Result<u16, MessageError> {
    let [high, low, _, _] = fixed(value)?;
    Ok(u16::from_be_bytes([high, low]))
}

fn fixed<const N: usize>(value: &[u8]) -> Result<[u8; N], MessageError> {
    value.try_into().map_err(|_| MessageError::Property)
}

#[cfg(test)]
mod tests;
