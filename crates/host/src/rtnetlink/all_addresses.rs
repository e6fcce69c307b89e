//! The addresses of a namespace's links.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};

use super::{NEW_ADDRESS, Rtnetlink, bytes};
use crate::error::{Error, Result};
use crate::netlink::{DUMP, Message};

const GET_ADDRESS: u16 = 22;

/// An address that others can reach a link by: none of the link's own, nor of the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    /// The link's number.
    pub link: u32,
    /// The address, with its network.
    pub address: IpNet,
}

impl Rtnetlink {
    /// The addresses of all links, in the kernel's order.
    pub fn all_addresses(&mut self) -> Result<Vec<LinkAddress>> {
        let what = || "list addresses".to_owned();
        let answer = self.socket.ask(GET_ADDRESS, DUMP, &bytes(&AddressMessage::default()), what)?;
        answer.iter().filter_map(|message| read_address(message, what).transpose()).collect()
    }
}

fn read_address(message: &Message, what: impl Fn() -> String) -> Result<Option<LinkAddress>> {
    if message.kind != NEW_ADDRESS {
        return Ok(None);
    }
    let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&message.bytes)
        .map_err(|error| Error::Answer { what: what(), reason: error.to_string() })?;
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(found)) = parsed.payload else {
        return Ok(None);
    };
    if found.header.scope != AddressScope::Universe {
        return Ok(None);
    }
    // Of a link between two peers the address of the link itself is `Local`; IPv6 has only the other one.
    let (mut local, mut other): (Option<IpAddr>, Option<IpAddr>) = (None, None);
    for attribute in found.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(address),
            AddressAttribute::Address(address) => other = Some(address),
            _ => {}
        }
    }
    let address = local.or(other).and_then(|address| IpNet::new(address, found.header.prefix_len).ok());
    Ok(address.map(|address| LinkAddress { link: found.header.index, address }))
}
