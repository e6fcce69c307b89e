//! A child process that is awaited without blocking a thread, and that ends when its handle is dropped.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{ChildStdin, ChildStdout};

use crate::installed;
use crate::namespace::Namespace;

/// A running child. It leads a process group, and whatever is left of that group ends with it.
#[derive(Debug)]
pub(super) struct Child {
    process: Owned,
    pidfd: AsyncFd<OwnedFd>,
}

/// A process that is ours to kill and to reap.
#[derive(Debug)]
struct Owned {
    child: std::process::Child,
    reaped: bool,
}

impl Child {
    /// Starts what [`command`] began, in a namespace.
    pub(super) async fn spawn(namespace: &Namespace, command: Command) -> io::Result<Self> {
        let namespace = namespace.clone();
        let process = tokio::task::spawn_blocking(move || {
            namespace.spawn(command).map(|child| Owned { child, reaped: false })
        })
        .await??;
        // Cannot name another process: the child is ours and was not waited for.
        let pidfd = pidfd_open(Pid::from_child(&process.child), PidfdFlags::empty())?;
        #[expect(
            deprecated,
            reason = "an OwnedFd keeps what the newer and unsafe function has its caller promise"
        )]
        let pidfd = AsyncFd::with_interest(pidfd, Interest::READABLE)?;
        Ok(Self { process, pidfd })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// The child's standard input and output, if they are pipes and were not taken before.
    pub(super) fn pipes(&mut self) -> io::Result<(Option<ChildStdin>, Option<ChildStdout>)> {
        let (stdin, stdout) = (self.process.child.stdin.take(), self.process.child.stdout.take());
        Ok((stdin.map(ChildStdin::from_std).transpose()?, stdout.map(ChildStdout::from_std).transpose()?))
    }

    /// Sends a signal to the child alone. One that has ended gets none.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(self.pidfd.get_ref(), signal);
    }

    /// Waits for the end. May be dropped and called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let _ended = self.pidfd.readable().await?;
        self.process.end()
    }
}

impl Owned {
    /// Ends the whole group and waits for its leader. While that was not waited for, no other group can have its number.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.reaped {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        self.reaped = true;
        self.child.wait()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The beginnings of a command that runs `program` with an environment of its own: it dies with the thread that starts it, and
/// counts as one of the lab's.
pub(super) fn command(namespace: &Namespace, program: &str) -> crate::Result<Command> {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(installed::program("setpriv".as_ref())?);
    let (mark, lab) = namespace.mark();
    command.args(["--pdeathsig", "KILL", "--", program]).env_clear().env(mark, lab).process_group(0);
    Ok(command)
}
