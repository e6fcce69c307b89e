//! Features of links, by ethtool's generic netlink family.

use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use nix::sys::socket::SockProtocol;

use crate::error::Result;
use crate::netlink::{ACK, Attributes, Socket};
use crate::{genl, netns};

const FEATURES_SET: u8 = 12;
const FEATURES_HEADER: u16 = 1;
const FEATURES_WANTED: u16 = 3;
const HEADER_NAME: u16 = 2;
const HEADER_FLAGS: u16 = 3;
const OMIT_REPLY: u32 = 2;
const BITSET_BITS: u16 = 3;
const BITS_BIT: u16 = 1;
const BIT_NAME: u16 = 2;

/// All by which a link can leave a checksum to others; a link that lacks one of them ignores it.
const CHECKSUMS: &[&str] =
    &["tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6", "tx-checksum-sctp"];

/// Sets features of a namespace's links.
#[derive(Debug)]
pub struct Ethtool {
    socket: Socket,
    family: u16,
}

impl Ethtool {
    /// Of the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        // The same in all namespaces, for as long as the kernel runs.
        static FAMILY: OnceLock<u16> = OnceLock::new();
        let mut socket = Socket::open(SockProtocol::NetlinkGeneric)?;
        let family = match FAMILY.get() {
            Some(family) => *family,
            None => {
                let family = genl::family(&mut socket, "ethtool")?;
                *FAMILY.get_or_init(|| family)
            }
        };
        Ok(Self { family, socket })
    }

    /// Of another network namespace.
    pub fn open_in(netns: BorrowedFd<'_>) -> Result<Self> {
        netns::within(netns, Self::open)
    }

    /// Makes the kernel fill in the checksums of what it sends through a link. Open vSwitch's userspace datapath would pass on
    /// packets whose checksum nobody has filled in.
    pub fn checksum_offload_off(&mut self, link: &str) -> Result<()> {
        let header =
            Attributes::default().text(HEADER_NAME, link).push(HEADER_FLAGS, &OMIT_REPLY.to_ne_bytes());
        // A bit that is listed without a value is to be off.
        let bits = CHECKSUMS.iter().fold(Attributes::default(), |bits, name| {
            bits.nest(BITS_BIT, &Attributes::default().text(BIT_NAME, name))
        });
        let wanted = Attributes::default().nest(BITSET_BITS, &bits);
        let attributes = Attributes::default().nest(FEATURES_HEADER, &header).nest(FEATURES_WANTED, &wanted);
        let request = [vec![FEATURES_SET, 1, 0, 0], attributes.0].concat();
        let what = || format!("turn checksum offload of link {link} off");
        self.socket.ask(self.family, ACK, &request, what).map(drop)
    }
}
