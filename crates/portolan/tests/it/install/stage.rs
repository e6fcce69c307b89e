//! Directories of a node, and an agent that is played.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use portolan_cni::protocol;
use portolan_cni::{Answer, CniError, Code, Request, Verb};
use portolan_host::DirectoryMonitor;
use portolan_testbed::cluster::Programs;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Stage {
    directory: TempDir,
}

/// A primary's list.
pub(crate) fn primary(round: u32) -> Value {
    json!({"cniVersion": "1.0.0", "name": "cluster", "plugins": [{"type": "bridge", "round": round}]})
}

pub(crate) fn types(list: &Value) -> Vec<&str> {
    list["plugins"].as_array().unwrap().iter().map(|plugin| plugin["type"].as_str().unwrap()).collect()
}

impl Stage {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("net.d")).unwrap();
        Self { directory }
    }

    pub(crate) fn configurations(&self) -> PathBuf {
        self.directory.path().join("net.d")
    }

    pub(crate) fn bin(&self) -> PathBuf {
        self.directory.path().join("bin")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("cni.sock")
    }

    /// Replaces a file of the directory of configurations at once, as a careful program does.
    pub(crate) fn write(&self, name: &str, contents: &Value) {
        let hidden = self.directory.path().join("written");
        std::fs::write(&hidden, contents.to_string()).unwrap();
        std::fs::rename(hidden, self.configurations().join(name)).unwrap();
    }

    pub(crate) fn files(&self) -> Vec<String> {
        names(&self.configurations())
    }

    pub(crate) fn programs(&self) -> Vec<String> {
        names(&self.bin())
    }

    /// What a container runtime reads: the first configuration by name.
    pub(crate) fn first(&self) -> Value {
        let first = self.files().into_iter().find(|name| !name.starts_with('.')).unwrap();
        let text = std::fs::read(self.configurations().join(&first)).unwrap();
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{first}: {error}"))
    }

    /// When the files that are installed were written.
    pub(crate) fn modified(&self) -> Vec<SystemTime> {
        let of = |directory: PathBuf| {
            let paths = names(&directory).into_iter().map(move |name| directory.join(name));
            paths.map(|path| path.metadata().unwrap().modified().unwrap())
        };
        of(self.configurations()).chain(of(self.bin())).collect()
    }

    pub(crate) fn wait_for(&self, name: &str) {
        self.wait_until(|| self.files().iter().any(|file| file == name));
    }

    /// Waits until something holds of the directory of configurations. It is looked at whenever something may have changed.
    pub(crate) fn wait_until(&self, holds: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let place = self.configurations();
            let monitor = DirectoryMonitor::open(if place.is_dir() { &place } else { self.directory.path() });
            if holds() {
                return;
            }
            let Ok(monitor) = monitor else { continue };
            wait_for_change(&monitor, end.saturating_duration_since(Instant::now()));
            assert!(Instant::now() < end, "it does not hold after {PATIENCE:?}: {:?}", self.files());
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(Programs::built().unwrap().portolan());
        let directories = [
            ("--conf-dir", self.configurations()),
            ("--bin-dir", self.bin()),
            ("--cni-socket", self.socket()),
        ];
        command.args(words).env_remove("PORTOLAN_LOG");
        for (flag, path) in directories {
            command.arg(flag).arg(path);
        }
        command
    }

    /// Starts an installation.
    pub(crate) fn install(&self, words: &[&str]) -> Child {
        let mut command = self.command(&["agent", "install"]);
        command.args(words).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Ends one that follows.
    pub(crate) fn end(&self, install: &mut Child) {
        let id = rustix::process::Pid::from_child(install);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(install.wait().unwrap().success());
    }

    pub(crate) fn uninstall(&self) -> String {
        let output = self.command(&["agent", "uninstall"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Waits until a directory changes, or until it has been long enough.
fn wait_for_change(monitor: &DirectoryMonitor, patience: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec::try_from(patience).unwrap();
    poll(&mut [PollFd::new(monitor, PollFlags::IN)], Some(&timeout)).unwrap();
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// An agent that answers STATUS: some times that it is not ready, and then that it is. It listens until it is dropped.
pub(crate) struct Agent {
    socket: PathBuf,
    asked: mpsc::Receiver<()>,
    go_on: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    pub(crate) fn listen(socket: &Path, not_ready: usize) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let (tell, asked) = mpsc::channel();
        let (go_on, told) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if told.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
                    return;
                }
                let is_ready = number >= not_ready;
                if !is_ready {
                    tell.send(()).unwrap();
                    told.recv().unwrap();
                }
                answer(stream.unwrap(), is_ready);
            }
        });
        Self { socket: socket.to_owned(), asked, go_on: Some(go_on), thread: Some(thread) }
    }

    /// Waits until it is asked while it is not ready.
    pub(crate) fn asked(&self) {
        self.asked.recv_timeout(PATIENCE).unwrap();
    }

    /// Lets it answer.
    pub(crate) fn go_on(&self) {
        self.go_on.as_ref().unwrap().send(()).unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.go_on = None;
        let _woken = UnixStream::connect(&self.socket);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the played agent failed");
    }
}

/// Whoever asks may have been killed meanwhile.
fn answer(mut stream: UnixStream, is_ready: bool) {
    let Ok(Some(request)) = protocol::receive::<Request>(&mut stream) else { return };
    assert_eq!(request.verb, Verb::Status);
    let missing = CniError::new(Code::NotAvailable, "the agent is not ready", "nodes");
    let answer = if is_ready { Answer::Done } else { Answer::Error(missing) };
    let _ = protocol::send(&mut stream, &answer, None);
}
