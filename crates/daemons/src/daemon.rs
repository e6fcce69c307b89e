//! A daemon to be run.

use std::convert::Infallible;
use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;

use crate::error::Error;

/// Asks a daemon by its control socket, or otherwise; the answer says what is wrong, if something is.
pub(crate) type Check =
    Arc<dyn Fn(PathBuf) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

type Doing = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;
/// What is done before the daemon starts.
pub(crate) type Prepare = Box<dyn FnOnce() -> Doing + Send>;
/// What is done when it is ready, given its control socket. It is tried again until it succeeds.
pub(crate) type Begin = Box<dyn Fn(PathBuf) -> Doing + Send>;
/// Says what is wrong, if something is.
pub(crate) type Report = watch::Sender<Result<(), String>>;
/// What goes on while it runs, once it is ready for the first time, given its control socket.
pub(crate) type Keep =
    Box<dyn FnOnce(PathBuf, Report) -> Pin<Box<dyn Future<Output = Infallible> + Send>> + Send>;

/// A daemon: what is started, how it is asked whether it is ready, and how it is stopped.
#[must_use = "a daemon does not run until it is supervised"]
pub struct Daemon {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Its control socket by its process id; known before it starts for those that can be told.
    pub(crate) control: Control,
    /// What makes it ready, each with its name.
    pub(crate) checks: Vec<(&'static str, Check)>,
    /// What is done before it starts.
    pub(crate) prepare: Option<Prepare>,
    /// While this is true it counts as ready although it does not run yet.
    pub(crate) idle: Option<watch::Receiver<bool>>,
    /// What is done when it is ready for the first time.
    pub(crate) begin: Option<Begin>,
    /// What goes on beside it from then on, each with its name. What it reports decides whether the daemon is ready.
    pub(crate) keeps: Vec<(&'static str, Keep)>,
    pub(crate) stop: Stop,
}

/// Where a daemon's control socket is.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    /// There.
    At(PathBuf),
    /// In this directory, under its name and process id, as the libraries of Open vSwitch have it.
    InDirectory(PathBuf),
}

/// How a daemon is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// By SIGTERM.
    Signal,
    /// By a command of its control socket; by SIGTERM if that fails.
    Command(&'static str, &'static [&'static str]),
}

impl Daemon {
    pub(crate) fn new(program: impl Into<OsString>, control: Control) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            control,
            checks: Vec::new(),
            prepare: None,
            idle: None,
            begin: None,
            keeps: Vec::new(),
            stop: Stop::Signal,
        }
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub(crate) fn stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    pub(crate) fn check<F>(
        mut self,
        name: &'static str,
        check: impl Fn(PathBuf) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.checks.push((name, Arc::new(move |control| Box::pin(check(control)))));
        self
    }

    /// Has something done before it starts.
    pub fn prepare<F>(mut self, step: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.prepare = Some(Box::new(move || Box::pin(step())));
        self
    }

    /// While this is true there is nothing that the daemon could do yet, so that it counts as ready before it runs.
    pub fn idle_while(mut self, idle: watch::Receiver<bool>) -> Self {
        self.idle = Some(idle);
        self
    }

    /// Waits for something else when all is prepared, before the daemon starts.
    pub fn after<F>(mut self, step: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let prepare = self.prepare.take();
        self.prepare(move || async move {
            if let Some(prepare) = prepare {
                prepare().await?;
            }
            step().await;
            Ok(())
        })
    }

    pub(crate) fn begin<F>(mut self, step: impl Fn(PathBuf) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.begin = Some(Box::new(move |control| Box::pin(step(control))));
        self
    }

    pub(crate) fn keep<F>(
        mut self,
        name: &'static str,
        task: impl FnOnce(PathBuf, Report) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Infallible> + Send + 'static,
    {
        self.keeps.push((name, Box::new(move |control, report| Box::pin(task(control, report)))));
        self
    }

    /// Its program, for messages.
    pub(crate) fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

impl Control {
    /// The socket of the daemon with this process id.
    pub(crate) fn path(&self, program: &str, pid: u32) -> PathBuf {
        match self {
            Control::At(path) => path.clone(),
            Control::InDirectory(directory) => directory.join(format!("{program}.{pid}.ctl")),
        }
    }
}
