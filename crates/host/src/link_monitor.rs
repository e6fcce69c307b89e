//! Notifications of the kernel about links.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::socket::SockProtocol;

use crate::error::Result;
use crate::netlink::{Message, Received, Socket};
use crate::rtnetlink::{DELETE_ADDRESS, DELETE_LINK, Link, NEW_ADDRESS, read_link};

/// `RTMGRP_LINK`
const LINKS: u32 = 1;
/// `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR`
const ADDRESSES: u32 = 0x10 | 0x100;

/// A subscription to the changes of the links of one network namespace. Reading does not block: poll the descriptor.
#[derive(Debug)]
pub struct LinkMonitor {
    socket: Socket,
}

/// A change of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// The link is new or changed.
    Present(Link),
    /// The link was removed.
    Removed(Link),
    /// A link was given an address or lost one.
    Addresses,
    /// Notifications were lost: list all links again. What is reported after this is newer than the loss.
    Lost,
}

impl LinkMonitor {
    /// Of the calling thread's network namespace. Everything that changes after this call is reported.
    pub fn open() -> Result<Self> {
        Ok(Self { socket: Socket::subscribe(SockProtocol::NetlinkRoute, LINKS)? })
    }

    /// Likewise, with changes of addresses.
    pub fn open_with_addresses() -> Result<Self> {
        Ok(Self { socket: Socket::subscribe(SockProtocol::NetlinkRoute, LINKS | ADDRESSES)? })
    }

    /// The next changes; an error of kind [`io::ErrorKind::WouldBlock`] if there are none yet.
    pub fn read(&self) -> io::Result<Vec<LinkChange>> {
        let messages = match self.socket.receive()? {
            Received::Lost => return Ok(vec![LinkChange::Lost]),
            Received::Messages(messages) => messages,
        };
        let change = |message: &Message| match read_link(message, || "read a notification about links".into())
        {
            Ok(Some(link)) if message.kind == DELETE_LINK => Some(LinkChange::Removed(link)),
            Ok(Some(link)) => Some(LinkChange::Present(link)),
            Ok(None) if [NEW_ADDRESS, DELETE_ADDRESS].contains(&message.kind) => Some(LinkChange::Addresses),
            Ok(None) => None,
            Err(_) => Some(LinkChange::Lost),
        };
        Ok(messages.iter().filter_map(change).collect())
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for LinkMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }
}
