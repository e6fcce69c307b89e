//! How a component says that it is ready, and the waiting for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use crate::error::{Result, Trying};
use crate::scratch::Scratch;

/// How a daemon says that it is ready.
#[derive(Clone, Debug)]
pub enum Ready {
    /// It does not: it counts as ready once it runs.
    Spawned,
    /// It listens on this Unix socket.
    Socket(PathBuf),
    /// It sends `READY=1` as sd_notify(3) describes.
    Notify,
}

/// A wait that was armed before the daemon was started, so that no notice can be missed.
#[derive(Debug)]
pub(crate) enum Waiting {
    Spawned,
    Socket { path: PathBuf, directory: OwnedFd },
    Notify { socket: UnixDatagram, path: PathBuf },
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Ready,
    Exited,
    TimedOut,
}

impl Ready {
    pub(crate) fn arm(&self, name: &str, scratch: &Scratch) -> Result<Waiting> {
        match self {
            Ready::Spawned => Ok(Waiting::Spawned),
            Ready::Socket(path) => {
                remove_stale(path)?;
                let parent = path.parent().unwrap_or(Path::new("/"));
                let directory = watch_directory(parent).trying(|| format!("watch {}", parent.display()))?;
                Ok(Waiting::Socket { path: path.clone(), directory })
            }
            Ready::Notify => {
                let path = scratch.directory("notify")?.join(name.replace('/', "."));
                remove_stale(&path)?;
                let socket = UnixDatagram::bind(&path).trying(|| format!("listen on {}", path.display()))?;
                Ok(Waiting::Notify { socket, path })
            }
        }
    }
}

impl Waiting {
    /// What the daemon needs in its environment to give notice.
    pub(crate) fn environment(&self) -> Option<(&'static str, &Path)> {
        match self {
            Waiting::Notify { path, .. } => Some(("NOTIFY_SOCKET", path)),
            Waiting::Spawned | Waiting::Socket { .. } => None,
        }
    }

    /// Waits until the daemon whose pidfd is `process` is ready, has ended, or `deadline` has come.
    pub(crate) fn wait(&self, process: BorrowedFd<'_>, deadline: Instant) -> io::Result<Waited> {
        loop {
            let (notices, at_most) = match self {
                Waiting::Spawned => return Ok(Waited::Ready),
                Waiting::Socket { path, directory } => match UnixStream::connect(path) {
                    Ok(_) => return Ok(Waited::Ready),
                    // The socket is there, but listen(2) comes just after bind(2) and makes no event.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                        (directory.as_fd(), Some(Duration::from_millis(1)))
                    }
                    Err(_) => (directory.as_fd(), None),
                },
                Waiting::Notify { socket, .. } => (socket.as_fd(), None),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Waited::TimedOut);
            }
            let [exited, noticed] = readable([process, notices], at_most.unwrap_or(left).min(left))?;
            if exited {
                return Ok(Waited::Exited);
            }
            if noticed && self.take_notice()? {
                return Ok(Waited::Ready);
            }
        }
    }

    /// Reads what woke us. True if it was the notice of being ready.
    fn take_notice(&self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        match self {
            Waiting::Spawned => Ok(true),
            Waiting::Socket { directory, .. } => {
                rustix::io::read(directory, &mut buffer)?;
                Ok(false)
            }
            Waiting::Notify { socket, .. } => {
                let length = socket.recv(&mut buffer)?;
                Ok(buffer[..length].split(|&byte| byte == b'\n').any(|line| line == b"READY=1"))
            }
        }
    }
}

/// Which of the descriptors can be read, after waiting at most `timeout` for the first.
pub(crate) fn readable<const N: usize>(fds: [BorrowedFd<'_>; N], timeout: Duration) -> io::Result<[bool; N]> {
    let mut ready = [false; N];
    for index in readable_of(&fds, timeout)? {
        ready[index] = true;
    }
    Ok(ready)
}

/// The indexes of those descriptors that can be read, after waiting at most `timeout` for the first.
pub(crate) fn readable_of(fds: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<usize>> {
    let mut polled: Vec<_> = fds.iter().map(|&fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {
            let ready = polled.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty());
            Ok(ready.map(|(index, _)| index).collect())
        }
        Err(error) => Err(error.into()),
    }
}

fn watch_directory(directory: &Path) -> rustix::io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&watch, directory, inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO)?;
    Ok(watch)
}

/// A socket that a killed daemon left behind must not look like a new one.
fn remove_stale(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).trying(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
