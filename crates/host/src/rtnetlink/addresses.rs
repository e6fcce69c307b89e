//! The addresses that links have.

use ipnet::IpNet;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};

use super::{Link, NEW_ADDRESS, Rtnetlink, bytes};
use crate::error::{Error, Result};
use crate::netlink::{DUMP, Message};

const GET_ADDRESS: u16 = 22;

impl Rtnetlink {
    /// The addresses of a link, with the lengths of their prefixes.
    pub fn addresses(&mut self, link: &Link) -> Result<Vec<IpNet>> {
        let what = || format!("list the addresses of {}", link.name);
        let answer = self.socket.ask(GET_ADDRESS, DUMP, &bytes(&AddressMessage::default()), what)?;
        let mut found = Vec::new();
        for message in &answer {
            found.extend(read_address(message, what)?.filter(|(index, _)| *index == link.index));
        }
        Ok(found.into_iter().map(|(_, address)| address).collect())
    }
}

/// An address and the index of its link.
fn read_address(message: &Message, what: impl Fn() -> String) -> Result<Option<(u32, IpNet)>> {
    if message.kind != NEW_ADDRESS {
        return Ok(None);
    }
    let unreadable = |reason: String| Error::Answer { what: what(), reason };
    let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&message.bytes)
        .map_err(|error| unreadable(error.to_string()))?;
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(found)) = parsed.payload else {
        return Ok(None);
    };
    // Of an address with a peer, `Local` is the link's own.
    let local = found.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let address = local.or_else(|| {
        found.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    });
    let Some(address) = address else { return Ok(None) };
    let net = IpNet::new(address, found.header.prefix_len).map_err(|error| unreadable(error.to_string()))?;
    Ok(Some((found.header.index, net)))
}
