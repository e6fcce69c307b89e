//! Notifications of the kernel that something changed, for whoever looks at all of it again.
//!
//! A node's kernel has much more of links, routes and nftables than one program's part of it, and others change that all the time: what
//! does not concern that part is left out here.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::socket::SockProtocol;

use crate::error::Result;
use crate::netlink::{Message, Received, Socket, attribute};
use crate::rtnetlink::{
    DELETE_ADDRESS, DELETE_LINK, DELETE_ROUTE, NEW_ADDRESS, NEW_LINK, NEW_ROUTE, Rtnetlink,
};

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV6_IFADDR`, `RTMGRP_IPV4_ROUTE` and `RTMGRP_IPV6_ROUTE`
const ROUTING: u32 = 1 | 0x10 | 0x100 | 0x40 | 0x400;
/// `NFNLGRP_NFTABLES`, as a bit.
pub(crate) const NFTABLES: u32 = 1 << 6;
/// `NFNL_SUBSYS_NFTABLES`
const OF_NFTABLES: u16 = 10;
/// `NFPROTO_INET`
const INET: u8 = 1;
/// The attribute that names the table, of messages on tables and on all that is in one.
const TABLE: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const RTA_OIF: u16 = 4;
/// How much of others' is read at a time: a routing daemon changes a million routes without a pause.
const AT_A_TIME: usize = 64;
/// Lengths of `ifinfomsg`, of `rtmsg` and of `nfgenmsg`.
const LINK_HEADER: usize = 16;
const ROUTE_HEADER: usize = 12;
const NETFILTER_HEADER: usize = 4;

/// A subscription to changes of one network namespace. Reading does not block: poll the descriptor.
#[derive(Debug)]
pub struct ChangeMonitor {
    socket: Socket,
    part: Part,
}

/// What is reported.
#[derive(Debug)]
enum Part {
    /// Changes of a link and of routes by it; and of addresses of any link.
    Link {
        name: String,
        /// 0 while there is none.
        index: AtomicU32,
    },
    /// Changes of a table of nftables.
    Table(String),
}

impl ChangeMonitor {
    /// Of a link, the routes by it and all addresses, in the calling thread's network namespace. Everything that changes after this call
    /// is reported.
    pub fn of_link(name: &str) -> Result<Self> {
        let socket = Socket::subscribe(SockProtocol::NetlinkRoute, ROUTING)?;
        let index = Rtnetlink::open()?.link(name)?.map_or(0, |link| link.index);
        Ok(Self { socket, part: Part::Link { name: name.to_owned(), index: index.into() } })
    }

    /// Of a table of nftables, of family `inet`.
    pub fn of_table(name: &str) -> Result<Self> {
        let socket = Socket::subscribe(SockProtocol::NetlinkNetFilter, NFTABLES)?;
        Ok(Self { socket, part: Part::Table(name.to_owned()) })
    }

    /// Takes what is reported, which may be nothing if there was much of others'; an error of kind [`io::ErrorKind::WouldBlock`] if there
    /// is no more. What was lost is a change too.
    pub fn read(&self) -> io::Result<Vec<()>> {
        for _ in 0..AT_A_TIME {
            match self.socket.receive()? {
                Received::Lost => return Ok(vec![()]),
                Received::Messages(messages) => {
                    // Each is looked at: one may say which link the next is of.
                    let concerned = messages.iter().filter(|message| self.part.is_concerned(message)).count();
                    if concerned > 0 {
                        return Ok(vec![(); concerned]);
                    }
                }
            }
        }
        Ok(Vec::new())
    }
}

impl Part {
    fn is_concerned(&self, message: &Message) -> bool {
        let payload = message.payload();
        match self {
            Part::Table(name) => is_of_table(message, name),
            Part::Link { name, index } => match message.kind {
                NEW_LINK | DELETE_LINK => {
                    let named = payload.get(LINK_HEADER..).and_then(|rest| attribute(rest, IFLA_IFNAME));
                    let is_it = named.is_some_and(|named| is_text(named, name));
                    if is_it {
                        let number = number(payload.get(4..8).unwrap_or_default());
                        let exists = message.kind == NEW_LINK;
                        index.store(if exists { number } else { 0 }, Ordering::Relaxed);
                    }
                    is_it
                }
                NEW_ROUTE | DELETE_ROUTE => {
                    let by = payload.get(ROUTE_HEADER..).and_then(|rest| attribute(rest, RTA_OIF));
                    let index = index.load(Ordering::Relaxed);
                    index != 0 && by.is_some_and(|by| number(by) == index)
                }
                NEW_ADDRESS | DELETE_ADDRESS => true,
                _ => false,
            },
        }
    }
}

/// Whether a notification is about a table of family `inet`, or about something in it.
pub(crate) fn is_of_table(message: &Message, name: &str) -> bool {
    let payload = message.payload();
    let table = payload.get(NETFILTER_HEADER..).and_then(|rest| attribute(rest, TABLE));
    message.kind >> 8 == OF_NFTABLES
        && payload.first() == Some(&INET)
        && table.is_some_and(|table| is_text(table, name))
}

fn is_text(attribute: &[u8], text: &str) -> bool {
    attribute.strip_suffix(&[0]).unwrap_or(attribute) == text.as_bytes()
}

fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

impl AsFd for ChangeMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for ChangeMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }
}
