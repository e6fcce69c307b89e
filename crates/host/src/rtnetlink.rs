//! Links and addresses; `routes` has the routes, `functions` what links of network functions need besides.

mod addresses;
mod functions;
mod routes;

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use ipnet::IpNet;
use netlink_packet_core::{Emitable, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    AfSpecInet, AfSpecInet6, AfSpecUnspec, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo,
    LinkMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::libc::{self, EADDRNOTAVAIL, ENODEV};
use nix::sys::socket::SockProtocol;

use crate::error::{Error, Result};
use crate::netlink::{ACK, Attributes, CREATE, DUMP, EXCLUSIVE, Message, REPLACE, Socket, attributes};
use crate::{MacAddress, netns};

pub(crate) const NEW_LINK: u16 = 16;
pub(crate) const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
pub(crate) const NEW_ADDRESS: u16 = 20;
pub(crate) const DELETE_ADDRESS: u16 = 21;

/// The links, addresses and routes of one network namespace.
#[derive(Debug)]
pub struct Rtnetlink {
    socket: Socket,
}

/// A pair of links to be made.
#[derive(Clone, Copy, Debug)]
pub struct Veth<'a> {
    /// The end that stays.
    pub name: &'a str,
    /// The end that goes into the other namespace.
    pub peer: &'a str,
    /// That namespace.
    pub peer_netns: BorrowedFd<'a>,
    /// The other end's MAC address, if it is known already.
    pub peer_mac: Option<MacAddress>,
    /// The largest packet of both.
    pub mtu: u32,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What someone noted on it.
    pub alias: Option<String>,
    /// Its MAC address.
    pub mac: Option<MacAddress>,
    /// Its largest packet.
    pub mtu: u32,
    /// Whether it is set up.
    pub up: bool,
    /// What made it.
    pub kind: LinkKind,
    /// Whether it has no IPv6, and answers ARP for its own addresses only: see [`guard::make_strict`](crate::guard::make_strict).
    pub is_strict: bool,
    /// The device that it belongs to, such as a PCI address, if it belongs to one. Kernels say so since 5.14.
    pub device: Option<String>,
    /// The index of the link that it is a part of, such as a bridge or the kernel's Open vSwitch.
    pub master: Option<u32>,
    /// The index of the link of the same namespace that it is on, such as a VLAN or a macvlan is. Ends of pairs are on none.
    pub lower: Option<u32>,
}

/// What made a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// It is one end of a pair.
    Veth,
    /// It is a tap, or an internal port of Open vSwitch's userspace datapath, which are taps too.
    Tap,
    /// It is an internal port of Open vSwitch's datapath in the kernel.
    OpenVSwitch,
    /// Anything else.
    #[default]
    Other,
}

pub use self::addresses::LinkAddress;
pub use self::routes::Route;
pub(crate) use self::routes::{DELETE_ROUTE, NEW_ROUTE};

/// Changes to a link. Fields that are left out stay as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkSettings<'a> {
    /// Its MAC address.
    pub mac: Option<MacAddress>,
    /// Its largest packet.
    pub mtu: Option<u32>,
    /// A note on it.
    pub alias: Option<&'a str>,
    /// Sets it up.
    pub up: bool,
}

impl Rtnetlink {
    /// Of the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        Ok(Self { socket: Socket::open(SockProtocol::NetlinkRoute)? })
    }

    /// Of another network namespace.
    pub fn open_in(netns: BorrowedFd<'_>) -> Result<Self> {
        netns::within(netns, Self::open)
    }

    /// Makes a pair of links, both down.
    pub fn add_veth(&mut self, veth: &Veth<'_>) -> Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes.push(LinkAttribute::IfName(veth.peer.into()));
        peer.attributes.push(LinkAttribute::Mtu(veth.mtu));
        peer.attributes.push(LinkAttribute::NetNsFd(veth.peer_netns.as_raw_fd()));
        peer.attributes.extend(veth.peer_mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(veth.name.into()));
        link.attributes.push(LinkAttribute::Mtu(veth.mtu));
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let what = || format!("make links {} and {}", veth.name, veth.peer);
        self.change(NEW_LINK, CREATE | EXCLUSIVE, &link, what)
    }

    /// Changes a link.
    pub fn set_link(&mut self, name: &str, settings: LinkSettings<'_>) -> Result<()> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.into()));
        self.set(link, name, settings)
    }

    /// Changes this very link: another one may have its name by now.
    pub fn set_link_of(&mut self, link: &Link, settings: LinkSettings<'_>) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = link.index;
        self.set(message, &link.name, settings)
    }

    fn set(&mut self, mut link: LinkMessage, name: &str, settings: LinkSettings<'_>) -> Result<()> {
        if settings.up {
            link.header.flags = LinkFlags::Up;
            link.header.change_mask = LinkFlags::Up;
        }
        link.attributes.extend(settings.mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
        link.attributes.extend(settings.mtu.map(LinkAttribute::Mtu));
        link.attributes.extend(settings.alias.map(|alias| LinkAttribute::IfAlias(alias.into())));
        self.change(SET_LINK, 0, &link, || format!("change link {name}"))
            .map_err(|error| no_link(error, name))
    }

    /// A link by its name.
    pub fn link(&mut self, name: &str) -> Result<Option<Link>> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.into()));
        let what = || format!("look at link {name}");
        match self.socket.ask(GET_LINK, ACK, &bytes(&request), what) {
            Ok(answer) => {
                Ok(answer.iter().map(|message| read_link(message, what)).next().transpose()?.flatten())
            }
            Err(error) if error.os_error() == Some(ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All links.
    pub fn links(&mut self) -> Result<Vec<Link>> {
        let what = || "list links".to_owned();
        let answer = self.socket.ask(GET_LINK, DUMP, &bytes(&LinkMessage::default()), what)?;
        answer.iter().filter_map(|message| read_link(message, what).transpose()).collect()
    }

    /// Removes a link, and with it the other end of a pair; false if there is none of that name.
    pub fn delete_link(&mut self, name: &str) -> Result<bool> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.into()));
        match self.change(DELETE_LINK, 0, &link, || format!("remove link {name}")) {
            Ok(()) => Ok(true),
            Err(error) if error.os_error() == Some(ENODEV) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives a link an address, which may be used at once: Portolan's addresses are unique by their locks, so no one is asked.
    pub fn add_address(&mut self, link: &Link, address: IpNet) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address.addr());
        message.header.prefix_len = address.prefix_len();
        message.header.scope = AddressScope::Universe;
        message.header.index = link.index;
        message.attributes.push(AddressAttribute::Local(address.addr()));
        message.attributes.push(AddressAttribute::Address(address.addr()));
        match address {
            IpNet::V4(net) if net.prefix_len() < 31 => {
                message.attributes.push(AddressAttribute::Broadcast(net.broadcast()));
            }
            IpNet::V4(_) => {}
            IpNet::V6(_) => message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad)),
        }
        let what = || format!("give link {} the address {address}", link.name);
        self.change(NEW_ADDRESS, CREATE | REPLACE, &message, what)
    }

    /// Takes an address from a link; it is no error if it has none such.
    pub fn remove_address(&mut self, link: &Link, address: IpNet) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address.addr());
        message.header.prefix_len = address.prefix_len();
        message.header.index = link.index;
        message.attributes.push(AddressAttribute::Local(address.addr()));
        let what = || format!("take the address {address} from link {}", link.name);
        match self.change(DELETE_ADDRESS, 0, &message, what) {
            Err(error) if error.os_error() == Some(EADDRNOTAVAIL) => Ok(()),
            outcome => outcome,
        }
    }

    fn change(
        &mut self,
        kind: u16,
        flags: u16,
        message: &impl Emitable,
        what: impl Fn() -> String,
    ) -> Result<()> {
        self.socket.ask(kind, flags | ACK, &bytes(message), what).map(drop)
    }
}

fn bytes(message: &impl Emitable) -> Vec<u8> {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    bytes
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn no_link(error: Error, name: &str) -> Error {
    if error.os_error() == Some(ENODEV) { Error::NoLink(name.into()) } else { error }
}

/// The link that a message is about, whether it announces the link or its removal.
pub(crate) fn read_link(message: &Message, what: impl Fn() -> String) -> Result<Option<Link>> {
    let Some(found) = parse_link(message, what)? else { return Ok(None) };
    let mut link =
        Link { index: found.header.index, up: found.header.flags.contains(LinkFlags::Up), ..Link::default() };
    let mut is_on_other_namespace = false;
    for attribute in found.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::IfAlias(alias) => link.alias = Some(alias),
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::Address(address) => link.mac = address.try_into().ok(),
            LinkAttribute::ParentDevName(device) => link.device = Some(device),
            LinkAttribute::Controller(master) => link.master = Some(master),
            LinkAttribute::Link(lower) => link.lower = Some(lower),
            LinkAttribute::LinkNetNsId(_) => is_on_other_namespace = true,
            LinkAttribute::LinkInfo(infos) => {
                link.kind = infos.iter().find_map(kind_of).unwrap_or_default();
            }
            LinkAttribute::AfSpecUnspec(families) => link.is_strict = is_strict(&families),
            _ => {}
        }
    }
    // Of a pair it is the other end.
    if is_on_other_namespace || link.kind == LinkKind::Veth {
        link.lower = None;
    }
    Ok(Some(link))
}

/// The attributes of links that are read.
const READ: &[u16] = &[
    libc::IFLA_ADDRESS,
    libc::IFLA_IFNAME,
    libc::IFLA_MTU,
    libc::IFLA_LINK,
    libc::IFLA_MASTER,
    libc::IFLA_LINKINFO,
    libc::IFLA_IFALIAS,
    libc::IFLA_VFINFO_LIST,
    libc::IFLA_AF_SPEC,
    libc::IFLA_LINK_NETNSID,
    libc::IFLA_PARENT_DEV_NAME,
];

/// A message about a link with no others than these attributes. The crate that knows them all prepares for each the text of an error, with all
/// of its bytes as numbers: a link has some two thousand.
fn with_attributes(message: &[u8], wanted: &[u16]) -> Vec<u8> {
    // The headers of netlink and of messages about links.
    const HEADERS: usize = 32;
    let Some((headers, all)) = message.split_at_checked(HEADERS) else { return message.to_vec() };
    let wanted = attributes(all).filter(|(kind, _)| wanted.contains(kind));
    let kept = wanted.fold(Attributes::default(), |kept, (kind, value)| kept.push(kind, value));
    let mut message = [headers, &kept.0].concat();
    let length = u32::try_from(message.len()).expect("it is no longer than it was");
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

fn parse_link(message: &Message, what: impl Fn() -> String) -> Result<Option<LinkMessage>> {
    if message.kind != NEW_LINK && message.kind != DELETE_LINK {
        return Ok(None);
    }
    let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&with_attributes(&message.bytes, READ))
        .map_err(|error| Error::Answer { what: what(), reason: error.to_string() })?;
    Ok(match parsed.payload {
        NetlinkPayload::InnerMessage(
            RouteNetlinkMessage::NewLink(found) | RouteNetlinkMessage::DelLink(found),
        ) => Some(found),
        _ => None,
    })
}

fn kind_of(info: &LinkInfo) -> Option<LinkKind> {
    match info {
        LinkInfo::Kind(InfoKind::Veth) => Some(LinkKind::Veth),
        LinkInfo::Kind(InfoKind::Tun) => Some(LinkKind::Tap),
        LinkInfo::Kind(InfoKind::Other(kind)) if kind == "openvswitch" => Some(LinkKind::OpenVSwitch),
        _ => None,
    }
}

fn is_strict(families: &[AfSpecUnspec]) -> bool {
    families.iter().all(|family| match family {
        AfSpecUnspec::Inet(settings) => settings.iter().all(|setting| match setting {
            AfSpecInet::DevConf(conf) => {
                conf.arp_ignore == 1 && conf.arp_announce == 2 && conf.proxy_arp == 0
            }
            _ => true,
        }),
        // A host without IPv6 has none of it.
        AfSpecUnspec::Inet6(settings) => settings.iter().all(|setting| match setting {
            AfSpecInet6::DevConf(conf) => conf.disable_ipv6 != 0,
            _ => true,
        }),
        _ => true,
    })
}
