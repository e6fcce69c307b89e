//! What links of network functions need: such a link is not made and removed, but moved, renamed, and given back.

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_route::link::{
    LinkAttribute, LinkExtentMask, LinkFlags, LinkMessage, LinkVfInfo, VfInfo, VfInfoMac,
};

use super::{GET_LINK, Link, Rtnetlink, SET_LINK, bytes, parse_link};
use crate::MacAddress;
use crate::error::Result;
use crate::netlink::ACK;

impl Rtnetlink {
    /// Sets a link down.
    pub fn set_down(&mut self, link: &Link) -> Result<()> {
        let mut message = of(link);
        message.header.change_mask = LinkFlags::Up;
        self.change(SET_LINK, 0, &message, || format!("set link {} down", link.name))
    }

    /// Renames a link that is down, and notes something on it or removes what is noted there: both in one step, which a process that
    /// is killed has done or not. Whoever sets it up meanwhile by its former name loses: it is down under the new one.
    pub fn rename(&mut self, link: &Link, name: &str, alias: Option<&str>, mtu: Option<u32>) -> Result<()> {
        let mut message = of(link);
        message.header.change_mask = LinkFlags::Up;
        message.attributes.extend(mtu.map(LinkAttribute::Mtu));
        message.attributes.push(LinkAttribute::IfName(name.into()));
        message.attributes.push(LinkAttribute::IfAlias(alias.unwrap_or_default().into()));
        self.change(SET_LINK, 0, &message, || format!("rename link {} to {name}", link.name))
    }

    /// Moves a link into another namespace and renames it there, in one step. It is down afterwards, and has lost its addresses and what
    /// was noted on it.
    ///
    /// If the namespace has a link of that name, the link may have been moved and not renamed.
    pub fn move_link(&mut self, link: &Link, netns: BorrowedFd<'_>, name: &str) -> Result<()> {
        let mut message = of(link);
        message.attributes.push(LinkAttribute::IfName(name.into()));
        message.attributes.push(LinkAttribute::IfAlias(String::new()));
        message.attributes.push(LinkAttribute::NetNsFd(netns.as_raw_fd()));
        let what = || format!("move link {} into another network namespace as {name}", link.name);
        self.change(SET_LINK, 0, &message, what)
    }

    /// The MAC address that the card has for a virtual function, by the link of its physical function; none if the card does not say.
    pub fn function_mac(&mut self, physical: &Link, function: u32) -> Result<Option<MacAddress>> {
        let mut message = of(physical);
        message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::Vf]));
        let what = || format!("look at virtual function {function} of {}", physical.name);
        let answer = self.socket.ask(GET_LINK, ACK, &bytes(&message), what)?;
        let links = answer.iter().filter_map(|message| parse_link(message, what).transpose());
        let attributes = links.collect::<Result<Vec<_>>>()?.into_iter().flat_map(|link| link.attributes);
        Ok(mac_of(attributes, function))
    }

    /// Sets the MAC address of a virtual function by the link of its physical function: the only way while a driver for user space or
    /// a virtual machine has the function.
    pub fn set_function_mac(&mut self, physical: &Link, function: u32, mac: MacAddress) -> Result<()> {
        let mut message = of(physical);
        let mac = VfInfo::Mac(VfInfoMac::new(function, &mac));
        message.attributes.push(LinkAttribute::VfInfoList(vec![LinkVfInfo(vec![mac])]));
        let what = || format!("set the MAC address of virtual function {function} of {}", physical.name);
        self.change(SET_LINK, 0, &message, what)
    }
}

/// What attributes of a physical function's link say about the MAC address of one of its functions. None is all zeroes.
fn mac_of(attributes: impl IntoIterator<Item = LinkAttribute>, function: u32) -> Option<MacAddress> {
    let infos = attributes.into_iter().filter_map(|attribute| match attribute {
        LinkAttribute::VfInfoList(infos) => Some(infos),
        _ => None,
    });
    let macs = infos.flatten().flat_map(|info| info.0).filter_map(|info| match info {
        VfInfo::Mac(mac) if mac.vf_id == function => mac.mac.first_chunk().copied(),
        _ => None,
    });
    macs.into_iter().find(|mac| *mac != MacAddress::default())
}

/// A message about a link, by its index: its name may change meanwhile.
fn of(link: &Link) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = link.index;
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mac_address_of_a_function_is_set_as_the_kernels_headers_have_it() {
        let mut message = of(&Link { index: 7, ..Link::default() });
        let mac = VfInfo::Mac(VfInfoMac::new(3, &[2, 0, 0, 0, 0, 9]));
        message.attributes.push(LinkAttribute::VfInfoList(vec![LinkVfInfo(vec![mac])]));
        // struct ifinfomsg; IFLA_VFINFO_LIST (22) of one IFLA_VF_INFO (1) of one IFLA_VF_MAC (1): struct ifla_vf_mac.
        let text = bytes(&message);
        let word = |at: usize| u16::from_ne_bytes([text[at], text[at + 1]]);
        assert_eq!(text[4..8], 7_u32.to_ne_bytes());
        let nested = 0x7fff;
        assert_eq!([word(16), word(18) & nested], [4 + 4 + 4 + 36, 22]);
        assert_eq!([word(20), word(22) & nested], [4 + 4 + 36, 1]);
        assert_eq!([word(24), word(26) & nested], [4 + 36, 1]);
        assert_eq!(text[28..32], 3_u32.to_ne_bytes());
        assert_eq!(text[32..38], [2, 0, 0, 0, 0, 9]);
        assert_eq!(text.len(), 64);
    }

    #[test]
    fn the_mac_address_of_a_function_is_the_one_that_the_card_has_for_it() {
        let of = |function, mac: &[u8]| LinkVfInfo(vec![VfInfo::Mac(VfInfoMac::new(function, mac))]);
        let infos = LinkAttribute::VfInfoList(vec![
            of(0, &[2, 0, 0, 0, 0, 8]),
            of(1, &[2, 0, 0, 0, 0, 9]),
            of(2, &[0; 6]),
        ]);
        let says = |function| mac_of([LinkAttribute::Mtu(1500), infos.clone()], function);
        assert_eq!([says(0), says(1)], [Some([2, 0, 0, 0, 0, 8]), Some([2, 0, 0, 0, 0, 9])]);
        assert_eq!([says(2), says(3), mac_of([], 0)], [None; 3], "nothing was set");
    }
}
