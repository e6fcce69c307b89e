//! Daemons: started in a namespace, watched until ready, killed with it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::{Error, Result, Trying};
use crate::namespace::Namespace;
use crate::readiness::{Ready, Waited, Waiting, readable};

/// How many lines of a log are worth showing.
const TAIL: usize = 40;

/// What to run as a daemon.
#[derive(Clone)]
#[must_use = "a daemon does not run until it is started"]
pub struct Daemon {
    name: String,
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    ready: Ready,
    probe: Option<Probe>,
    patience: Duration,
}

/// Asks a daemon, from its namespace, whether it is ready.
type Probe = Arc<dyn Fn() -> bool + Send + Sync>;

/// The pause between two questions to a daemon that is not ready yet.
const PROBE_PAUSE: Duration = Duration::from_millis(20);

impl Daemon {
    /// A daemon that counts as ready once it runs. Its name must be unique in the lab: it is also that of its log.
    pub fn new(name: impl Into<String>, program: impl AsRef<OsStr>) -> Self {
        Self {
            name: name.into(),
            program: program.as_ref().into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            ready: Ready::Spawned,
            probe: None,
            patience: Duration::from_secs(30),
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().into());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().into()));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// How it says that it is ready.
    pub fn ready(mut self, ready: Ready) -> Self {
        self.ready = ready;
        self
    }

    /// A question whose answer must be yes, after its notice, before it counts as ready. It is asked from the daemon's namespace. For
    /// daemons that give notice too early, and whose being ready makes no event.
    pub fn probe(mut self, probe: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.probe = Some(Arc::new(probe));
        self
    }

    /// How long it may take to become ready, and to stop; 30 seconds unless set.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts it in a namespace and waits until it is ready.
    pub fn start(self, namespace: &Namespace) -> Result<Process> {
        let process = self.spawn(namespace)?;
        process.wait_until_ready()?;
        Ok(process)
    }

    /// Starts it. It must be waited for with [`Process::wait_until_ready`].
    pub fn spawn(self, namespace: &Namespace) -> Result<Process> {
        let log = namespace.scratch().directory("log")?.join(format!("{}.log", self.name.replace('/', ".")));
        let process = Process {
            daemon: self,
            namespace: namespace.clone(),
            log,
            running: Mutex::new(Running::default()),
        };
        process.spawn_again(&mut process.running())?;
        Ok(process)
    }
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, program, arguments, .. } = self;
        f.debug_struct("Daemon")
            .field("name", name)
            .field("program", program)
            .field("arguments", arguments)
            .finish_non_exhaustive()
    }
}

/// A daemon that was started. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    daemon: Daemon,
    namespace: Namespace,
    log: PathBuf,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    child: Option<(Child, OwnedFd)>,
    waiting: Option<Waiting>,
    last_status: Option<ExitStatus>,
}

impl Process {
    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.daemon.name
    }

    /// The file that holds what it wrote to its standard output and error, over all its restarts.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// The namespace it runs in.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its process id; none when it does not run.
    pub fn pid(&self) -> Option<u32> {
        let mut running = self.running();
        running.reap();
        running.child.as_ref().map(|(child, _)| child.id())
    }

    /// How it ended; none while it runs.
    pub fn ended(&self) -> Option<ExitStatus> {
        let mut running = self.running();
        running.reap();
        running.last_status
    }

    /// Whether it runs.
    pub fn is_alive(&self) -> bool {
        self.pid().is_some()
    }

    /// Kills it with SIGKILL and waits for its end. Nothing happens if it does not run.
    pub fn kill(&self) -> Result<()> {
        let mut running = self.running();
        running.signal(Signal::KILL).trying(|| format!("kill {}", self.name()))?;
        running.wait().trying(|| format!("wait for {}", self.name()))
    }

    /// Asks it to stop with SIGTERM and waits for its end. Nothing happens if it does not run.
    pub fn stop(&self) -> Result<()> {
        let mut running = self.running();
        running.signal(Signal::TERM).trying(|| format!("stop {}", self.name()))?;
        if running.has_ended_within(self.daemon.patience).trying(|| format!("wait for {}", self.name()))? {
            running.wait().trying(|| format!("wait for {}", self.name()))
        } else {
            Err(Error::NotStopped { name: self.name().into(), waited: self.daemon.patience })
        }
    }

    /// Starts it again as it was started first, after stopping it if it runs, and waits until it is ready.
    pub fn restart(&self) -> Result<()> {
        self.stop()?;
        self.spawn_again(&mut self.running())?;
        self.wait_until_ready()
    }

    /// Waits until it has said that it is ready.
    pub fn wait_until_ready(&self) -> Result<()> {
        let mut running = self.running();
        let Some(waiting) = running.waiting.take() else { return Ok(()) };
        let waited = match &running.child {
            Some((_, pidfd)) => waiting
                .wait(pidfd.as_fd(), Instant::now() + self.daemon.patience)
                .trying(|| format!("wait for {}", self.name()))?,
            None => Waited::Exited,
        };
        match waited {
            Waited::Ready => {
                drop(running);
                self.wait_for_probe()
            }
            Waited::Exited => {
                running.wait().trying(|| format!("wait for {}", self.name()))?;
                Err(self.exited(&running))
            }
            Waited::TimedOut => Err(self.not_ready()),
        }
    }

    fn wait_for_probe(&self) -> Result<()> {
        let Some(probe) = &self.daemon.probe else { return Ok(()) };
        let deadline = Instant::now() + self.daemon.patience;
        loop {
            let probe = Arc::clone(probe);
            if self.namespace.run(move || probe()) {
                return Ok(());
            }
            if Instant::now() > deadline || !self.is_alive() {
                return Err(self.not_ready());
            }
            std::thread::sleep(PROBE_PAUSE);
        }
    }

    /// The error to give when the daemon runs but does not do what it should within its time.
    pub fn not_ready(&self) -> Error {
        let mut running = self.running.try_lock();
        if let Ok(running) = &mut running {
            running.reap();
            if running.child.is_none() {
                return self.exited(running);
            }
        }
        Error::NotReady {
            name: self.name().into(),
            waited: self.daemon.patience,
            log: self.log.clone(),
            tail: self.log_tail(),
        }
    }

    /// How long it may take to become ready, and to stop.
    pub fn patience(&self) -> Duration {
        self.daemon.patience
    }

    fn exited(&self, running: &Running) -> Error {
        let status = running.last_status.map_or_else(|| "unknown".into(), |status| status.to_string());
        Error::Exited { name: self.name().into(), status, log: self.log.clone(), tail: self.log_tail() }
    }

    fn spawn_again(&self, running: &mut Running) -> Result<()> {
        let scratch = self.namespace.scratch();
        let waiting = self.daemon.ready.arm(&self.daemon.name.replace('/', "."), scratch)?;
        let log = self.open_log().trying(|| format!("open {}", self.log.display()))?;
        let log_too = log.try_clone().trying(|| format!("open {}", self.log.display()))?;
        let mut command = self.namespace.command(&self.daemon.program).args(&self.daemon.arguments);
        for (name, value) in &self.daemon.environment {
            command = command.env(name, value);
        }
        if let Some((name, value)) = waiting.environment() {
            command = command.env(name, value);
        }
        let child = command.spawn_with(Stdio::null(), log, log_too)?;
        let pid = Pid::from_child(&child);
        // Cannot name another process: the child is ours and was not waited for.
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).trying(|| format!("watch {}", self.name()))?;
        *running = Running { child: Some((child, pidfd)), waiting: Some(waiting), last_status: None };
        Ok(())
    }

    fn open_log(&self) -> std::io::Result<File> {
        OpenOptions::new().create(true).append(true).open(&self.log)
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn signal(&mut self, signal: Signal) -> std::io::Result<()> {
        match &self.child {
            None => Ok(()),
            Some((_, pidfd)) => match pidfd_send_signal(pidfd, signal) {
                Err(rustix::io::Errno::SRCH) => Ok(()),
                sent => Ok(sent?),
            },
        }
    }

    fn has_ended_within(&self, patience: Duration) -> std::io::Result<bool> {
        let Some((_, pidfd)) = &self.child else { return Ok(true) };
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if readable([pidfd.as_fd()], left)? == [true] {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    fn wait(&mut self) -> std::io::Result<()> {
        if let Some((child, _)) = &mut self.child {
            self.last_status = Some(child.wait()?);
            self.child = None;
        }
        Ok(())
    }

    fn reap(&mut self) {
        if let Some((child, _)) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            self.last_status = Some(status);
            self.child = None;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The last lines of a log file.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}
