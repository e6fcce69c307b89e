//! Commands that run in a namespace and do not outlive it.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::{Child, Output, Stdio};

use crate::error::{Error, Result, Trying};
use crate::installed;
use crate::namespace::Namespace;
use crate::scratch::MARK;

/// Enters a control group by a file, and becomes what it is told.
const ENTER: &str = r#"echo 0 >"$0" && exec "$@""#;

/// A command to run in a [`Namespace`]. It is killed when the namespace ends.
#[derive(Debug)]
#[must_use = "a command does nothing until it is run"]
pub struct Command {
    namespace: Namespace,
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    input: Option<Vec<u8>>,
}

impl Command {
    pub(crate) fn new(namespace: Namespace, program: &OsStr) -> Self {
        Self {
            namespace,
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            input: None,
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

    /// What the command reads. Without this its standard input is empty.
    pub fn stdin(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(input.into());
        self
    }

    /// Runs it to its end and returns how it ended and what it wrote.
    pub fn output(mut self) -> Result<Output> {
        let input = self.input.take();
        let (stdin, line) = (if input.is_some() { Stdio::piped() } else { Stdio::null() }, self.line());
        let mut child = self.spawn_with(stdin, Stdio::piped(), Stdio::piped())?;
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            // A command that ends without reading says why by its status.
            let _ = stdin.write_all(&input);
        }
        child.wait_with_output().trying(|| format!("wait for `{line}`"))
    }

    /// Runs it to its end and returns what it wrote to standard output, without space around it. It must succeed.
    pub fn read(self) -> Result<String> {
        let line = self.line();
        let output = self.output()?;
        let stdout = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            return Ok(stdout);
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let said = [stderr.trim(), &stdout].join("\n").trim().to_owned();
        Err(Error::CommandFailed { command: line, status: output.status.to_string(), output: said })
    }

    /// Starts it with the given standard streams. The child is killed when the namespace ends.
    pub fn spawn_with(
        self,
        stdin: impl Into<Stdio>,
        stdout: impl Into<Stdio>,
        stderr: impl Into<Stdio>,
    ) -> Result<Child> {
        let line = self.line();
        let program = installed::program(&self.program)?;
        let mut command = match self.namespace.entrance() {
            None => std::process::Command::new("setpriv"),
            Some(entrance) => {
                let mut command = std::process::Command::new("sh");
                command.args(["-c", ENTER]).arg(entrance).arg("setpriv");
                command
            }
        };
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(self.arguments)
            .env(MARK, self.namespace.scratch().path())
            .envs(self.environment)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr);
        self.namespace.spawn(command).trying(|| format!("start `{line}`"))
    }

    pub(crate) fn line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}
