//! Network namespaces, by descriptor.

use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use nix::sched::{CloneFlags, setns};

use crate::error::{Result, Trying};

/// Runs `body` in a network namespace, on a thread that is made for it and ends with it.
///
/// Sockets that it opens stay in that namespace wherever they are used afterwards, so it is best kept short.
pub fn within<T: Send>(netns: BorrowedFd<'_>, body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, || {
                setns(netns.as_fd(), CloneFlags::CLONE_NEWNET)
                    .trying(|| "enter a network namespace".into())?;
                body()
            })
            .trying(|| "start a thread".into())?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
