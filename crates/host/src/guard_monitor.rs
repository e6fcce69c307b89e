//! Notifications of the kernel about the guards of links.
//!
//! A notification says that a chain or one of its rules changed. What is left of the guard takes all of the chain: it is looked at, and what
//! is reported may be newer than the notification, never older.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use nix::sys::socket::SockProtocol;

use crate::error::Result;
use crate::guard::{Admits, TABLE};
use crate::netlink::{Received, Socket};
use crate::nf_tables::{Lister, chain_concerned};

/// The group of nf_tables, `NFNLGRP_NFTABLES`, as a bit.
const GROUP: u32 = 1 << 6;

/// A subscription to the changes of the guards of one network namespace. Reading does not block: poll the descriptor.
#[derive(Debug)]
pub struct GuardMonitor {
    socket: Socket,
    lister: Mutex<Lister>,
}

/// A change of a link's guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardChange {
    /// The link of this name has its guard, which lets this through.
    Present(String, Admits),
    /// The link of this name has none, or a chain that lets through something else.
    Removed(String),
    /// Notifications were lost: list all guards again. What is reported after this is newer than the loss.
    Lost,
}

impl GuardMonitor {
    /// Of the calling thread's network namespace. Everything that changes after this call is reported.
    pub fn open() -> Result<Self> {
        let socket = Socket::subscribe(SockProtocol::NetlinkNetFilter, GROUP)?;
        Ok(Self { socket, lister: Lister::open()?.into() })
    }

    /// The next changes; an error of kind [`io::ErrorKind::WouldBlock`] if there are none yet.
    pub fn read(&self) -> io::Result<Vec<GuardChange>> {
        Ok(match self.socket.receive()? {
            Received::Lost => vec![GuardChange::Lost],
            Received::Messages(messages) => {
                let links = messages.iter().filter_map(|message| chain_concerned(message, TABLE));
                let links: BTreeSet<String> = links.collect();
                links.into_iter().map(|link| self.look_at(link)).collect()
            }
        })
    }

    fn look_at(&self, link: String) -> GuardChange {
        let mut lister = self.lister.lock().unwrap_or_else(PoisonError::into_inner);
        match lister.chain(TABLE, &link, || format!("look at the guard of link {link}")) {
            Ok(chain) => match chain.as_ref().and_then(Admits::of) {
                Some(admits) => GuardChange::Present(link, admits),
                None => GuardChange::Removed(link),
            },
            Err(_) => GuardChange::Lost,
        }
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
