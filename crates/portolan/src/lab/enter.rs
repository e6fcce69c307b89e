//! Commands that become another program: in a pod, on a node, on a log. They keep this terminal, its signals and its exit code.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::place::Place;
use super::protocol::{self, Entry, Request, Target};

/// Becomes `command` inside of a target.
pub(super) fn exec(place: &Place, target: Target, command: &[OsString]) -> anyhow::Result<()> {
    let entry: Entry = protocol::ask(&place.control_socket(), place.name(), &Request::Enter { target })?;
    // A shell, as for who does not say what.
    let shell = [OsString::from("sh")];
    let command = if command.is_empty() { &shell } else { command };
    become_program(nsenter(&entry, true).args(command))
}

/// Becomes a tcpdump on a pod's interfaces.
pub(super) fn tcpdump(place: &Place, target: Target, arguments: &[OsString]) -> anyhow::Result<()> {
    if !is_installed("tcpdump") {
        bail!("tcpdump is not installed: run `make setup`");
    }
    let entry: Entry = protocol::ask(&place.control_socket(), place.name(), &Request::Enter { target })?;
    let has_interface = arguments.iter().any(|argument| {
        let text = argument.to_string_lossy();
        text == "--interface"
            || text.starts_with("--interface=")
            || (text.starts_with("-i") && !text.starts_with("--"))
    });
    let mut command = nsenter(&entry, false);
    command.args(["tcpdump", "-nn", "-l"]);
    if !has_interface {
        command.args(["-i", "any"]);
    }
    become_program(command.args(arguments))
}

/// Shows a log, and becomes who follows it if asked to.
pub(super) fn logs(place: &Place, request: &Request, follow: bool) -> anyhow::Result<()> {
    let log: PathBuf = protocol::ask(&place.control_socket(), place.name(), request)?;
    if !follow {
        let mut file = match std::fs::File::open(&log) {
            // It has said nothing yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            opened => opened.with_context(|| format!("cannot read {}", log.display()))?,
        };
        return match std::io::copy(&mut file, &mut std::io::stdout().lock()) {
            // Whoever read this has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        };
    }
    let keeper = place.state().map(|state| format!("--pid={}", state.pid));
    become_program(Command::new("tail").args(["-n", "+1", "-F"]).args(keeper).arg(log))
}

fn nsenter(entry: &Entry, with_mounts: bool) -> Command {
    let argument = |flag: &str, path: &std::path::Path| format!("--{flag}={}", path.display());
    let mut command = Command::new("nsenter");
    command.arg(argument("net", &entry.net)).envs(&entry.environment);
    if with_mounts {
        command.arg(argument("mount", &entry.mnt));
    }
    command.arg("--");
    command
}

fn become_program(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_owned();
    Err(command.exec()).with_context(|| format!("cannot run {}", program.display()))
}

/// Whether a program is on this machine.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    directories.map(|directory| directory.join(program)).any(|file| file.is_file())
}
