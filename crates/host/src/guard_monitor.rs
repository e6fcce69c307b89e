//! Notifications of the kernel about the guards of links.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::socket::SockProtocol;

use crate::error::Result;
use crate::guard::TABLE;
use crate::netlink::{Message, Received, Socket, attribute};

/// The group of nf_tables, `NFNLGRP_NFTABLES`, as a bit.
const GROUP: u32 = 1 << 6;
/// The part of nfnetlink that is nf_tables, and its messages about chains.
const NF_TABLES: u16 = 10 << 8;
const NEW_CHAIN: u16 = NF_TABLES | 3;
const DELETE_CHAIN: u16 = NF_TABLES | 5;
/// `NFPROTO_NETDEV`
const NETDEV: u8 = 5;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_POLICY: u16 = 5;
/// `NF_DROP`
const DROP: [u8; 4] = 0u32.to_be_bytes();

/// A subscription to the changes of the guards of one network namespace. Reading does not block: poll the descriptor.
#[derive(Debug)]
pub struct GuardMonitor {
    socket: Socket,
}

/// A change of a link's guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardChange {
    /// The link of this name has its guard.
    Present(String),
    /// The link of this name has none, or one that lets everything through.
    Removed(String),
    /// Notifications were lost: list all guards again. What is reported after this is newer than the loss.
    Lost,
}

impl GuardMonitor {
    /// Of the calling thread's network namespace. Everything that changes after this call is reported.
    pub fn open() -> Result<Self> {
        Ok(Self { socket: Socket::subscribe(SockProtocol::NetlinkNetFilter, GROUP)? })
    }

    /// The next changes; an error of kind [`io::ErrorKind::WouldBlock`] if there are none yet.
    pub fn read(&self) -> io::Result<Vec<GuardChange>> {
        Ok(match self.socket.receive()? {
            Received::Lost => vec![GuardChange::Lost],
            Received::Messages(messages) => messages.iter().filter_map(read_change).collect(),
        })
    }
}

impl AsFd for GuardMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for GuardMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }
}

/// The change that a message is about, if it is about a guard.
fn read_change(message: &Message) -> Option<GuardChange> {
    if message.kind != NEW_CHAIN && message.kind != DELETE_CHAIN {
        return None;
    }
    let (header, attributes) = message.payload().split_first_chunk::<4>()?;
    if header[0] != NETDEV || text(attributes, CHAIN_TABLE)? != TABLE {
        return None;
    }
    let link = text(attributes, CHAIN_NAME)?;
    let drops = attribute(attributes, CHAIN_POLICY) == Some(&DROP[..]);
    Some(match message.kind {
        NEW_CHAIN if drops => GuardChange::Present(link),
        _ => GuardChange::Removed(link),
    })
}

fn text(attributes: &[u8], kind: u16) -> Option<String> {
    let value = attribute(attributes, kind)?;
    let value = value.strip_suffix(&[0]).unwrap_or(value);
    std::str::from_utf8(value).ok().map(str::to_owned)
}
