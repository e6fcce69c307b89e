//! What links of network functions need: such a link is not made and removed, but moved, renamed, and given back.

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, LinkVfInfo, VfInfo, VfInfoMac};

use super::{Link, Rtnetlink, SET_LINK};
use crate::MacAddress;
use crate::error::Result;

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

/// A message about a link, by its index: its name may change meanwhile.
fn of(link: &Link) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = link.index;
    message
}

#[cfg(test)]
mod tests {
    use super::super::bytes;
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
}
