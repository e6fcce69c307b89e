//! Notifications of the kernel that something changed, for whoever looks at all of it again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::socket::SockProtocol;

use crate::error::Result;
use crate::netlink::Socket;

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV6_IFADDR`, `RTMGRP_IPV4_ROUTE` and `RTMGRP_IPV6_ROUTE`
const ROUTING: u32 = 1 | 0x10 | 0x100 | 0x40 | 0x400;
/// `NFNLGRP_NFTABLES`, as a bit.
const NFTABLES: u32 = 1 << 6;

/// A subscription to changes of one network namespace. Reading does not block: poll the descriptor.
#[derive(Debug)]
pub struct ChangeMonitor {
    socket: Socket,
}

impl ChangeMonitor {
    /// Of links, addresses and routes, in the calling thread's network namespace. Everything that changes after this call is reported.
    pub fn of_routing() -> Result<Self> {
        Ok(Self { socket: Socket::subscribe(SockProtocol::NetlinkRoute, ROUTING)? })
    }

    /// Of nftables.
    pub fn of_nftables() -> Result<Self> {
        Ok(Self { socket: Socket::subscribe(SockProtocol::NetlinkNetFilter, NFTABLES)? })
    }

    /// Takes what is reported; an error of kind [`io::ErrorKind::WouldBlock`] if there is nothing. What was lost is a change too.
    pub fn read(&self) -> io::Result<Vec<()>> {
        self.socket.receive().map(|_| vec![()])
    }
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
