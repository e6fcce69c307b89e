//! `portolan lab` and `kubectl`, as a person types them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A directory of labs for one test. Labs that are still up when it is dropped are ended.
pub(crate) struct Labs {
    // The lab's sockets are below it, and their paths may not be long.
    directory: tempfile::TempDir,
}

impl Labs {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir_in("/tmp").unwrap() }
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.directory.path().join("labs")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
        command
            .arg("lab")
            .args(arguments)
            .env("PORTOLAN_LAB_DIRECTORY", self.directory())
            .stdin(Stdio::null());
        command.env_remove("PORTOLAN_LAB_NAME");
        command
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs `portolan lab …`, which must succeed; returns what it prints.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "portolan lab {}: {said}", arguments.join(" "));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `portolan lab …`, which must fail; returns what it complains about.
    #[track_caller]
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(!output.status.success(), "portolan lab {} succeeds", arguments.join(" "));
        String::from_utf8(output.stderr).unwrap()
    }

    /// Runs `portolan …` for who says nothing of a cluster; it must succeed. Returns what it prints, and what it remarks.
    #[track_caller]
    pub(crate) fn look(&self, arguments: &[&str]) -> (String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
        command.args(arguments).env("PORTOLAN_LAB_DIRECTORY", self.directory()).env_remove("KUBECONFIG");
        // Whoever runs the tests may have a kubeconfig, which a lab does not take precedence over.
        command.env("HOME", self.directory()).env_remove("KUBERNETES_SERVICE_HOST");
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "portolan {}: {said}", arguments.join(" "));
        (String::from_utf8(output.stdout).unwrap(), said)
    }

    /// Starts `portolan lab …` to read from.
    pub(crate) fn follow(&self, arguments: &[&str]) -> Follow {
        Follow::start(self.command(arguments))
    }

    /// A kubectl that uses the kubeconfig of a lab.
    pub(crate) fn kubectl(&self, lab: &str) -> Kubectl {
        Kubectl {
            kubeconfig: self.directory().join(lab).join("kubeconfig"),
            home: self.directory.path().into(),
        }
    }
}

impl Drop for Labs {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.directory()).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let _ = self.command(&["down", &name]).output();
        }
    }
}

/// A command that goes on and is read from. It is killed when this is dropped.
pub(crate) struct Follow {
    child: Child,
}

impl Follow {
    fn start(mut command: Command) -> Self {
        Self { child: command.stdout(Stdio::piped()).spawn().unwrap() }
    }

    /// Reads until a line contains `words`; returns everything up to there.
    pub(crate) fn until(mut self, words: &str) -> String {
        let mut said = String::new();
        for line in BufReader::new(self.child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            said.push_str(&line);
            said.push('\n');
            if line.contains(words) {
                return said;
            }
        }
        panic!("it ended without saying {words:?}: {said}");
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    /// Runs kubectl, which must succeed; returns what it prints.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> String {
        use std::io::Write as _;
        let mut kubectl = Command::new(program())
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = kubectl.stdin.take().unwrap().write_all(input.as_bytes());
        let output = kubectl.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {}: {said}", arguments.join(" "));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Starts kubectl and waits for its first line.
    #[track_caller]
    pub(crate) fn first_line(&self, arguments: &[&str]) -> String {
        let mut kubectl = Command::new(program());
        kubectl.args(arguments).env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home);
        Follow::start(kubectl).until("").trim().to_owned()
    }

    /// An object, as JSON.
    #[track_caller]
    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.run(&["get", kind, name, "--output=json"], "")).unwrap()
    }

    /// Waits for something of an object, as `kubectl wait --for` does.
    #[track_caller]
    pub(crate) fn wait(&self, condition: &str, object: &str) {
        self.run(&["wait", &format!("--for={condition}"), object, "--timeout=60s"], "");
    }
}

/// That of the machine, or else the one that was built for tests.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cache = std::env::var_os("PORTOLAN_CACHE").unwrap_or_else(|| "/var/cache/portolan".into());
    let built = Path::new(&cache).join("bin");
    let directories = std::env::split_paths(&path).chain([built]);
    directories.map(|directory| directory.join("kubectl")).find(|file| file.exists()).unwrap()
}
