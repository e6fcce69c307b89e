//! Notifications of the kernel about the files of a directory.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::error::{Result, Trying};

/// A subscription to the changes of the files in one directory. Reading does not block: poll the descriptor.
#[derive(Debug)]
pub struct DirectoryMonitor {
    inotify: Inotify,
}

/// What happened since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DirectoryChange {
    /// Files were made, written, renamed or removed, or notifications were lost: look again.
    Files,
    /// The directory itself was removed or renamed: nothing more is reported.
    Gone,
}

impl DirectoryMonitor {
    /// Of this directory, which must exist. Everything that changes after this call is reported. A file that somebody writes is
    /// reported when it is closed.
    pub fn open(directory: &Path) -> Result<Self> {
        let what = || format!("watch directory {}", directory.display());
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).trying(what)?;
        let files = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE;
        let itself = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_ONLYDIR;
        inotify.add_watch(directory, files | itself).trying(what)?;
        Ok(Self { inotify })
    }

    /// What changed; an error of kind [`io::ErrorKind::WouldBlock`] if nothing did.
    pub fn read(&self) -> io::Result<DirectoryChange> {
        let events = match self.inotify.read_events() {
            Err(Errno::EAGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
            read => read?,
        };
        let gone = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_IGNORED;
        let change = |mask: AddWatchFlags| {
            if mask.intersects(gone) { DirectoryChange::Gone } else { DirectoryChange::Files }
        };
        let changes = events.iter().map(|event| change(event.mask));
        changes.max().ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl AsFd for DirectoryMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl AsRawFd for DirectoryMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
