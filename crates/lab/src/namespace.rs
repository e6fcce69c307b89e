//! A namespace held by a thread: it exists as long as the thread does, and whatever runs in it ends with it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::command::Command;
use crate::error::{Error, Result, Trying};
use crate::readiness::readable_of;
use crate::scratch::{MARK, Scratch};

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace, or a network and a mount namespace.
///
/// Cloning gives another handle to the same namespace; it ends when the last handle is dropped. Commands that were started
/// in it are killed then.
#[derive(Clone, Debug)]
pub struct Namespace {
    keeper: Arc<Keeper>,
}

/// Invariant: children of the lab are forked by the keeper's thread alone, so that they are born in its namespaces, and get
/// their parent-death signal when it ends in whatever way: the kernel sends that when the *thread* that forked them ends.
#[derive(Debug)]
struct Keeper {
    name: String,
    thread_id: ThreadId,
    kernel_thread_id: u32,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    children: Mutex<Vec<OwnedFd>>,
    scratch: Arc<Scratch>,
    entrance: Option<PathBuf>,
}

impl Namespace {
    /// A new network namespace with its loopback up. The mounts seen in it are the caller's.
    pub(crate) fn network(scratch: &Arc<Scratch>, name: &str) -> Result<Self> {
        Self::start(scratch, name, None, CloneFlags::CLONE_NEWNET, || Ok(()))
    }

    /// A new network and mount namespace, in which `mount` has put its mounts before anything else runs there. What runs there
    /// enters a control group by the file `entrance`.
    pub(crate) fn network_and_mounts(
        scratch: &Arc<Scratch>,
        name: &str,
        entrance: Option<PathBuf>,
        mount: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        Self::start(scratch, name, entrance, CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS, mount)
    }

    fn start(
        scratch: &Arc<Scratch>,
        name: &str,
        entrance: Option<PathBuf>,
        kinds: CloneFlags,
        mount: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (started, start) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                let entered = unshare(kinds)
                    .trying(|| "make a namespace (are you root?)".into())
                    .and_then(|()| mount());
                let entered =
                    entered.map(|()| rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
                let go = entered.is_ok();
                let _ = started.send(entered);
                if go {
                    queue.into_iter().for_each(|job| job());
                }
            })
            .trying(|| format!("start the thread of namespace {name}"))?;
        let kernel_thread_id = start.recv().unwrap_or_else(|_| Err(thread_is_gone(name)))?;
        let keeper = Keeper {
            name: name.into(),
            thread_id: thread.thread().id(),
            kernel_thread_id,
            jobs: Some(jobs),
            thread: Some(thread),
            children: Mutex::default(),
            scratch: Arc::clone(scratch),
            entrance,
        };
        let namespace = Self { keeper: Arc::new(keeper) };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// A network namespace with the mounts of this one.
    pub fn network_beside(&self, name: &str) -> Result<Self> {
        let (scratch, name) = (Arc::clone(&self.keeper.scratch), name.to_owned());
        self.run(move || Self::network(&scratch, &name))
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.keeper.name
    }

    /// Runs `body` in the namespace and returns what it returns. Sockets made in it stay in the namespace wherever they are
    /// used afterwards. One `run` at a time: for what takes long, see [`Namespace::spawn_thread`].
    pub fn run<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> T {
        if thread::current().id() == self.keeper.thread_id {
            return body();
        }
        let (reply, answer) = mpsc::channel();
        let job = Box::new(move || {
            let _ = reply.send(catch_unwind(AssertUnwindSafe(body)));
        });
        let jobs = self.keeper.jobs.as_ref().expect("the queue is closed in Drop only");
        jobs.send(job).expect("the keeper runs until its queue is closed");
        match answer.recv().expect("the keeper answers every job, panics included") {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Runs `body` in the namespace on a thread of its own.
    pub fn spawn_thread<T: Send + 'static>(
        &self,
        name: &str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>> {
        let name = name.to_owned();
        // A thread starts in the namespaces of the thread that makes it.
        self.run(move || thread::Builder::new().name(name).spawn(body)).trying(|| "start a thread".into())
    }

    /// A command to run in the namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        Command::new(self.clone(), program.as_ref())
    }

    /// Starts a child in the namespace. It must set its parent-death signal by itself.
    pub(crate) fn spawn(&self, mut command: std::process::Command) -> io::Result<Child> {
        let child = self.run(move || command.spawn())?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let mut children = self.keeper.children.lock().unwrap_or_else(PoisonError::into_inner);
        let pidfds: Vec<_> = children.iter().map(AsFd::as_fd).collect();
        for ended in readable_of(&pidfds, Duration::ZERO)?.into_iter().rev() {
            children.swap_remove(ended);
        }
        children.push(pidfd);
        Ok(child)
    }

    /// Runs `ip` commands in the namespace, one per line and without the word `ip`.
    pub fn ip(&self, lines: &str) -> Result<()> {
        self.command("ip").args(["-batch", "-"]).stdin(lines).read().map(drop)
    }

    /// Sets a kernel parameter of the namespace, named as for sysctl(8).
    pub fn sysctl(&self, name: &str, value: &str) -> Result<()> {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        let value = value.to_owned();
        self.run(move || std::fs::write(&path, value).trying(|| format!("write {}", path.display())))
    }

    /// Makes a pair of veth links, one end here and one in `peer`, both up and with checksum offload off: Open vSwitch's
    /// userspace datapath would otherwise pass on packets whose checksum nobody has filled in.
    pub fn veth(&self, link: &str, peer: &Self, peer_link: &str) -> Result<()> {
        self.ip(&format!(
            "link add {link} type veth peer name {peer_link} netns {}\nlink set {link} up",
            peer.path().display()
        ))?;
        peer.ip(&format!("link set {peer_link} up"))?;
        self.checksum_offload_off(link)?;
        peer.checksum_offload_off(peer_link)
    }

    /// Makes the kernel fill in the checksums of what it sends through `link`.
    pub fn checksum_offload_off(&self, link: &str) -> Result<()> {
        self.command("ethtool").args(["-K", link, "tx", "off"]).read().map(drop)
    }

    /// The network namespace as a path that any process of the machine can open, as for `CNI_NETNS`.
    pub fn path(&self) -> PathBuf {
        self.process_directory().join("ns/net")
    }

    /// The mount namespace that its commands run in, as a path that any process of the machine can open.
    pub fn mounts_path(&self) -> PathBuf {
        self.process_directory().join("ns/mnt")
    }

    /// A path of the namespace's own mounts, seen from outside. Absolute symbolic links in it lead to the machine's files,
    /// not to the namespace's; only `/var/run` is known to be `/run`.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        let relative = path.strip_prefix("/").unwrap_or(path);
        let relative = relative
            .strip_prefix("var/run")
            .map_or_else(|_| relative.into(), |run| Path::new("run").join(run));
        self.process_directory().join("root").join(relative)
    }

    fn process_directory(&self) -> PathBuf {
        format!("/proc/{}/task/{}", std::process::id(), self.keeper.kernel_thread_id).into()
    }

    /// The environment variable by which a process counts as one of the lab: with it, the process ends with the lab, also if
    /// it was started from outside.
    pub fn mark(&self) -> (&'static str, PathBuf) {
        (MARK, self.scratch().path().into())
    }

    /// The file by which what runs here enters its control group, if it has one.
    pub(crate) fn entrance(&self) -> Option<&Path> {
        self.keeper.entrance.as_deref()
    }

    pub(crate) fn scratch(&self) -> &Scratch {
        &self.keeper.scratch
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // One that was only just started may not have set its parent-death signal yet.
        for child in self.children.get_mut().unwrap_or_else(PoisonError::into_inner) {
            let _ = pidfd_send_signal(child, Signal::KILL);
        }
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            && thread::current().id() != self.thread_id
        {
            let _ = thread.join();
        }
    }
}

fn thread_is_gone(name: &str) -> Error {
    Error::Refused { peer: format!("the thread of namespace {name}"), answer: "with a panic".into() }
}
