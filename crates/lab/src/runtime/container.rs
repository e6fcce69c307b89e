//! One container of a pod: a command that runs on the machine's own root file system.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::jiff::Timestamp;

use super::child::{self, Child};
use super::environment::{self, Unsupported};
use super::sandbox::Sandbox;

/// The pause before a container that ended runs again: doubled each time, and forgotten after a run of this length.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A container, over all of its runs.
#[derive(Debug)]
pub(super) struct Container {
    name: String,
    role: Role,
    pub(super) state: State,
    /// How the run before the last ended, as far as it was followed by another.
    pub(super) last: Option<Ended>,
    pub(super) restarts: u32,
    /// That of its last run.
    environment: Vec<(String, String)>,
    pause: Duration,
}

/// What a pod has the container for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the next one begins.
    Init,
    /// An init container that goes on beside the others.
    Sidecar,
    Main,
}

/// What a container does.
#[derive(Debug)]
pub(super) enum State {
    /// It has not run yet, or cannot.
    Waiting(Option<Unsupported>),
    Running(Run),
    Ended(Ended),
}

/// A run. A container without a command has no process: it merely holds the sandbox.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) started: Timestamp,
    since: Instant,
    process: Option<Child>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) started: Timestamp,
    pub(super) finished: Timestamp,
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
    /// When it runs again; never if none.
    pub(super) again: Option<Instant>,
}

impl Container {
    pub(super) fn new(spec: &core::Container, role: Role) -> Self {
        Self {
            name: spec.name.clone(),
            role,
            state: State::Waiting(None),
            last: None,
            restarts: 0,
            environment: Vec::new(),
            pause: FIRST_PAUSE,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Whether it has run to its end, well, and will not run again.
    pub(super) fn has_succeeded(&self) -> bool {
        matches!(&self.state, State::Ended(ended) if ended.code == 0 && ended.again.is_none())
    }

    /// Whether it will not run again.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.state, State::Ended(ended) if ended.again.is_none())
    }

    /// The process that runs it.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.state {
            State::Running(run) => run.process.as_ref().map(Child::id),
            State::Waiting(_) | State::Ended(_) => None,
        }
    }

    /// Starts it. A container that cannot be started waits and says why.
    pub(super) async fn start(
        &mut self,
        pod: &core::Pod,
        spec: &core::Container,
        sandbox: &Sandbox,
        log: &Path,
    ) -> io::Result<()> {
        match environment::of(pod, spec, &sandbox.addresses()) {
            Err(unsupported) => {
                self.state = State::Waiting(Some(unsupported));
                return Ok(());
            }
            Ok(environment) => self.environment = environment,
        }
        let process = spawn(spec, &self.environment, sandbox, log).await?;
        if let State::Ended(ended) = &self.state {
            self.last = Some(ended.clone());
            self.restarts += 1;
        }
        self.state = State::Running(Run { started: Timestamp::now(), since: Instant::now(), process });
        Ok(())
    }

    /// Notes that it could not be started, as a run that ended at once.
    pub(super) fn not_started(&mut self, policy: RestartPolicy) {
        let now = Timestamp::now();
        self.end(now, Duration::ZERO, 128, None, policy);
    }

    /// Waits for the end of its run; forever if it has no process.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        match &mut self.state {
            State::Running(Run { process: Some(process), .. }) => process.wait().await,
            _ => std::future::pending().await,
        }
    }

    /// Notes how its run ended.
    pub(super) fn note_end(&mut self, status: &io::Result<ExitStatus>, policy: RestartPolicy) {
        let State::Running(run) = &self.state else { return };
        let (started, ran) = (run.started, run.since.elapsed());
        let signal = status.as_ref().ok().and_then(ExitStatusExt::signal);
        let code = status.as_ref().ok().and_then(ExitStatus::code).or(signal.map(|signal| 128 + signal));
        self.end(started, ran, code.unwrap_or(-1), signal, policy);
    }

    fn end(
        &mut self,
        started: Timestamp,
        ran: Duration,
        code: i32,
        signal: Option<i32>,
        policy: RestartPolicy,
    ) {
        if ran >= LONGEST_PAUSE {
            self.pause = FIRST_PAUSE;
        }
        let again = policy.applies(self.role, code).then(|| Instant::now() + self.pause);
        if again.is_some() {
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        self.state = State::Ended(Ended { started, finished: Timestamp::now(), code, signal, again });
    }

    /// Sends a signal to its process. One that merely holds the sandbox ends at once, and well.
    pub(super) fn signal(&mut self, signal: rustix::process::Signal) {
        match &self.state {
            State::Running(Run { process: Some(process), .. }) => process.signal(signal),
            State::Running(run) => {
                let (started, ran) = (run.started, run.since.elapsed());
                self.end(started, ran, 0, None, RestartPolicy::Never);
            }
            State::Waiting(_) | State::Ended(_) => {}
        }
    }
}

/// When a container that ended runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    pub(super) fn of(spec: &core::PodSpec) -> Self {
        match spec.restart_policy.as_deref() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        }
    }

    fn applies(self, role: Role, code: i32) -> bool {
        match (role, self) {
            (Role::Sidecar, _) | (Role::Main, RestartPolicy::Always) => true,
            (_, RestartPolicy::Never) => false,
            (_, RestartPolicy::Always | RestartPolicy::OnFailure) => code != 0,
        }
    }
}

/// Starts the container's command; none if it has none. The image's own is not known: there is no image.
async fn spawn(
    spec: &core::Container,
    environment: &[(String, String)],
    sandbox: &Sandbox,
    log: &Path,
) -> io::Result<Option<Child>> {
    let expand = |word: &String| environment::expand(word, environment);
    let mut words = spec.command.iter().flatten().chain(spec.args.iter().flatten()).map(expand);
    let Some(program) = words.next() else { return Ok(None) };
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let mut command = child::command(sandbox.namespace(), &program).map_err(io::Error::other)?;
    command
        .args(words)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(spec.working_dir.as_deref().map_or_else(|| PathBuf::from("/"), PathBuf::from))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    Child::spawn(sandbox.namespace(), command).await.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_policies_are_those_of_kubernetes() {
        use RestartPolicy::{Always, Never, OnFailure};
        let applies =
            |role| [Always, OnFailure, Never].map(|policy| [0, 1].map(|code| policy.applies(role, code)));
        assert_eq!(applies(Role::Main), [[true, true], [false, true], [false, false]]);
        assert_eq!(applies(Role::Init), [[false, true], [false, true], [false, false]]);
        assert_eq!(applies(Role::Sidecar), [[true; 2]; 3]);
    }

    #[test]
    fn the_pause_before_another_run_grows_and_has_an_end() {
        let spec = core::Container { name: "main".into(), ..core::Container::default() };
        let mut container = Container::new(&spec, Role::Main);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(container.pause.as_secs());
            container.not_started(RestartPolicy::Always);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
