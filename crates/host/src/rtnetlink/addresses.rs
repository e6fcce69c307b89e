//! The addresses that links have.

use ipnet::IpNet;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};

use super::{Link, NEW_ADDRESS, Rtnetlink, bytes};
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
    /// The addresses of a link, with the lengths of their prefixes.
    pub fn addresses(&mut self, link: &Link) -> Result<Vec<IpNet>> {
        let found = self.list_addresses(|| format!("list the addresses of {}", link.name))?;
        let of_link = found.into_iter().filter(|(_, found)| found.link == link.index);
        Ok(of_link.map(|(_, found)| found.address).collect())
    }

    /// The addresses of all links by which others can reach them, in the kernel's order.
    pub fn all_addresses(&mut self) -> Result<Vec<LinkAddress>> {
        let found = self.list_addresses(|| "list addresses".to_owned())?;
        let reachable = found.into_iter().filter(|(scope, _)| *scope == AddressScope::Universe);
        Ok(reachable.map(|(_, found)| found).collect())
    }

    fn list_addresses(&mut self, what: impl Fn() -> String) -> Result<Vec<(AddressScope, LinkAddress)>> {
        let answer = self.socket.ask(GET_ADDRESS, DUMP, &bytes(&AddressMessage::default()), &what)?;
        answer.iter().filter_map(|message| read_address(message, &what).transpose()).collect()
    }
}

fn read_address(message: &Message, what: impl Fn() -> String) -> Result<Option<(AddressScope, LinkAddress)>> {
    if message.kind != NEW_ADDRESS {
        return Ok(None);
    }
    let unreadable = |reason: String| Error::Answer { what: what(), reason };
    let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&message.bytes)
        .map_err(|error| unreadable(error.to_string()))?;
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(found)) = parsed.payload else {
        return Ok(None);
    };
    // Of a link between two peers the address of the link itself is `Local`; IPv6 has only the other one.
    let (mut local, mut other) = (None, None);
    for attribute in found.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(address),
            AddressAttribute::Address(address) => other = Some(address),
            _ => {}
        }
    }
    let Some(address) = local.or(other) else { return Ok(None) };
    let address =
        IpNet::new(address, found.header.prefix_len).map_err(|error| unreadable(error.to_string()))?;
    Ok(Some((found.header.scope, LinkAddress { link: found.header.index, address })))
}
