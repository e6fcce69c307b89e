//! Which transactions changed a table of nftables.
//!
//! Whoever changes the table too counts its own: as many as it made are its own, and one more is somebody else's. What it wrote need not be
//! listed to know that it is there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::SockProtocol;

use crate::change_monitor::{NFTABLES, is_of_table};
use crate::error::Result;
use crate::netlink::{Message, Received, Socket};

/// `NFT_MSG_NEWGEN`, by which the kernel ends what it tells of a transaction.
const END_OF_TRANSACTION: u16 = (10 << 8) | 15;
/// How much of others' is read at a time.
const AT_A_TIME: usize = 64;

/// A subscription to changes of a table in one network namespace. Reading does not block: poll the descriptor.
#[derive(Debug)]
pub struct TableMonitor {
    socket: Socket,
    table: String,
    /// The transaction whose end has not come yet has changed it.
    is_changed: AtomicBool,
}

/// What happened to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// One transaction changed it.
    Transaction,
    /// Notifications were lost: any number may have.
    Lost,
}

impl TableMonitor {
    /// Of a table of family `inet`, in the calling thread's network namespace. Every change after this call is reported: that of a
    /// transaction before whoever made it is told that it is made.
    pub fn open(table: &str) -> Result<Self> {
        let socket = Socket::subscribe(SockProtocol::NetlinkNetFilter, NFTABLES)?;
        Ok(Self { socket, table: table.to_owned(), is_changed: AtomicBool::new(false) })
    }

    /// Takes what is reported, which may be nothing if there was much of others'; an error of kind [`io::ErrorKind::WouldBlock`] if there
    /// is no more.
    pub fn read(&self) -> io::Result<Vec<TableChange>> {
        for _ in 0..AT_A_TIME {
            match self.socket.receive()? {
                Received::Lost => {
                    self.is_changed.store(false, Ordering::Relaxed);
                    return Ok(vec![TableChange::Lost]);
                }
                Received::Messages(messages) => {
                    let ended = messages.iter().filter(|message| self.ends_change(message)).count();
                    if ended > 0 {
                        return Ok(vec![TableChange::Transaction; ended]);
                    }
                }
            }
        }
        Ok(Vec::new())
    }

    /// True at the end of a transaction that has changed the table.
    fn ends_change(&self, message: &Message) -> bool {
        if message.kind == END_OF_TRANSACTION {
            return self.is_changed.swap(false, Ordering::Relaxed);
        }
        if is_of_table(message, &self.table) {
            self.is_changed.store(true, Ordering::Relaxed);
        }
        false
    }
}

impl AsFd for TableMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for TableMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }
}
