//! Firewalls of others that drop what the node forwards.
//!
//! What leaves the cluster is forwarded from the node's link to its uplink. A chain of somebody else's with the policy `drop`, as Docker gives
//! iptables' `FORWARD`, stops it, whatever the rules in our own table say: with nf_tables every chain has to let a packet pass. Such a chain
//! is looked for, with every rule of its table that names the link: whoever wrote one has thought of it. Tables of the older ip_tables are
//! not seen here.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::socket::SockProtocol;

use crate::error::Result;
use crate::netlink::{DUMP, Message, Received, Socket, attribute};

/// `NFNLGRP_NFTABLES`, as a bit.
const NFTABLES: u32 = 1 << 6;
const NEW_CHAIN: u16 = 0x0a03;
const GET_CHAIN: u16 = 0x0a04;
const DELETE_CHAIN: u16 = 0x0a05;
const NEW_RULE: u16 = 0x0a06;
const GET_RULE: u16 = 0x0a07;
const DELETE_RULE: u16 = 0x0a08;
/// A request about all families: `nfgenmsg` of `NFPROTO_UNSPEC`.
const ALL_FAMILIES: [u8; 4] = [0; 4];
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const HOOK_NUMBER: u16 = 1;
const RULE_TABLE: u16 = 1;
/// `NF_INET_FORWARD`
const FORWARD: u32 = 2;
/// `NF_DROP`
const DROP: u32 = 0;

/// A chain that drops what the node forwards and no rule accepts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DroppingChain {
    /// The family, as nft calls it.
    pub family: &'static str,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
}

impl fmt::Display for DroppingChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.family, self.table, self.chain)
    }
}

/// The chains that drop what the node forwards, in the calling thread's network namespace, without those in whose table some rule names `link`.
pub fn dropping_chains(link: &str) -> Result<Vec<DroppingChain>> {
    let mut socket = Socket::open(SockProtocol::NetlinkNetFilter)?;
    let what = || "list the chains of nftables".to_owned();
    let chains = socket.ask(GET_CHAIN, DUMP, &ALL_FAMILIES, what)?;
    let chains: BTreeSet<_> = chains.iter().filter_map(dropping_chain).collect();
    if chains.is_empty() {
        return Ok(Vec::new());
    }
    let what = || "list the rules of nftables".to_owned();
    let rules = socket.ask(GET_RULE, DUMP, &ALL_FAMILIES, what)?;
    let naming: BTreeSet<_> =
        rules.iter().filter(|rule| names(rule, link)).filter_map(table_of_rule).collect();
    let is_open = |chain: &DroppingChain| !naming.contains(&(chain.family, chain.table.clone()));
    Ok(chains.into_iter().filter(is_open).collect())
}

/// A subscription to changes of the calling thread's network namespace after which [`dropping_chains`] may say something else. Reading does not
/// block: poll the descriptor.
#[derive(Debug)]
pub struct ForwardMonitor {
    socket: Socket,
    link: String,
}

impl ForwardMonitor {
    /// Everything that changes after this call is reported.
    pub fn open(link: &str) -> Result<Self> {
        let socket = Socket::subscribe(SockProtocol::NetlinkNetFilter, NFTABLES)?;
        Ok(Self { socket, link: link.to_owned() })
    }

    /// Takes what is reported at once: whether it concerns those chains. An error of kind [`io::ErrorKind::WouldBlock`] if there is nothing.
    pub fn read(&self) -> io::Result<Vec<()>> {
        let is_concerned = |message: &Message| match message.kind {
            NEW_CHAIN => forward_chain(message).is_some(),
            // The notification of its end has no more than its name.
            DELETE_CHAIN => true,
            NEW_RULE | DELETE_RULE => names(message, &self.link),
            _ => false,
        };
        match self.socket.receive()? {
            Received::Lost => Ok(vec![()]),
            Received::Messages(messages) => {
                Ok(messages.iter().filter(|message| is_concerned(message)).map(|_| ()).collect())
            }
        }
    }
}

impl AsFd for ForwardMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for ForwardMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }
}

/// The attributes of a chain that packets pass which are forwarded, and its family.
fn forward_chain(message: &Message) -> Option<(&'static str, &[u8])> {
    let (header, attributes) = message.payload().split_first_chunk::<4>()?;
    let family = family(header[0])?;
    let number = attribute(attribute(attributes, CHAIN_HOOK)?, HOOK_NUMBER)?;
    (number == FORWARD.to_be_bytes()).then_some((family, attributes))
}

fn dropping_chain(message: &Message) -> Option<DroppingChain> {
    let (family, attributes) = forward_chain(message)?;
    let drops = attribute(attributes, CHAIN_POLICY) == Some(&DROP.to_be_bytes()[..]);
    let (table, chain) = (text(attributes, CHAIN_TABLE)?, text(attributes, CHAIN_NAME)?);
    drops.then_some(DroppingChain { family, table, chain })
}

fn table_of_rule(message: &Message) -> Option<(&'static str, String)> {
    let (header, attributes) = message.payload().split_first_chunk::<4>()?;
    Some((family(header[0])?, text(attributes, RULE_TABLE)?))
}

/// Whether a rule has the name of a link in it, as what it compares with.
fn names(message: &Message, link: &str) -> bool {
    let name = [link.as_bytes(), &[0]].concat();
    message.payload().windows(name.len()).any(|window| window == name)
}

/// The families in which packets are forwarded: `NFPROTO_INET`, `NFPROTO_IPV4` and `NFPROTO_IPV6`.
fn family(number: u8) -> Option<&'static str> {
    match number {
        1 => Some("inet"),
        2 => Some("ip"),
        10 => Some("ip6"),
        _ => None,
    }
}

fn text(attributes: &[u8], kind: u16) -> Option<String> {
    let value = attribute(attributes, kind)?;
    let value = value.strip_suffix(&[0]).unwrap_or(value);
    std::str::from_utf8(value).ok().map(str::to_owned)
}
