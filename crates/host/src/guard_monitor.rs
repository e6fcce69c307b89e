//! Notifications of the kernel about the guards of links.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::socket::SockProtocol;

use crate::error::Result;
use crate::guard::TABLE;
use crate::netlink::{Message, Received, Socket};
use crate::nf_tables::{ChainNews, read_chain};

/// The group of nf_tables, `NFNLGRP_NFTABLES`, as a bit.
const GROUP: u32 = 1 << 6;

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
    let news = read_chain(message)?;
    let (ChainNews::Present(chain) | ChainNews::Removed(chain)) = &news;
    if chain.table != TABLE {
        return None;
    }
    let link = chain.name.clone();
    Some(match news {
        ChainNews::Present(chain) if chain.drops => GuardChange::Present(link),
        _ => GuardChange::Removed(link),
    })
}
