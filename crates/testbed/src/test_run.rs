//! Runs the body of a test in a lab of its own.

use std::any::Any;
use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use portolan_lab::Lab;

use crate::test_lab::TestLab;

/// How long a body that blocks its thread is given, after the deadline, to come back by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Runs `body` as a test in a [`TestLab`] of its own, with the defaults of [`Test`].
///
/// The body runs on a current-thread tokio runtime inside the lab's home namespace: every socket it opens is there, so fixed
/// ports on 127.0.0.1 are its own. When it fails, the ends of all components' logs are printed. Afterwards the lab is gone;
/// with `PORTOLAN_LAB_KEEP=1` in the environment its directory stays.
///
/// ```no_run
/// use portolan_testbed::{OVN_NB_SCHEMA, OvsdbServer, Result};
///
/// # /*
/// #[test]
/// # */
/// fn northbound_database_is_served() {
///     portolan_testbed::test(async |lab| -> Result<()> {
///         let server = OvsdbServer::builder("nb").schema_file(OVN_NB_SCHEMA).start(&lab)?;
///         assert!(server.endpoint().starts_with("unix:"));
///         Ok(())
///     });
/// }
/// ```
pub fn test<R: Outcome>(body: impl AsyncFnOnce(TestLab) -> R + Send + 'static) {
    Test::new().run(body);
}

/// A test that wants other than the defaults.
#[derive(Debug)]
#[must_use = "nothing is tested until the body is run"]
pub struct Test {
    deadline: Duration,
}

impl Test {
    /// The defaults: a deadline of 120 seconds.
    #[expect(clippy::new_without_default, reason = "a test is run, not stored in things that have defaults")]
    pub fn new() -> Self {
        Self { deadline: Duration::from_secs(120) }
    }

    /// How long the test may take in all before it fails.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs the body, as [`test()`] describes.
    ///
    /// # Panics
    /// When the test fails: that is its purpose.
    pub fn run<R: Outcome>(self, body: impl AsyncFnOnce(TestLab) -> R + Send + 'static) {
        let lab = match TestLab::new() {
            Ok(lab) => lab,
            Err(error) => panic!("no lab: {}", with_sources(&error)),
        };
        let failure = self.run_in(&lab, body);
        if failure.is_some() {
            eprintln!("{}", lab.log_tails());
            let test = thread::current().name().unwrap_or("test").to_owned();
            if let Some(directory) = lab.collect_failure(&test) {
                eprintln!("objects, databases, flows and whole logs are in {}", directory.display());
            }
        }
        lab.close();
        if Lab::is_kept() {
            eprintln!("kept {}", lab.path().display());
        }
        match failure {
            None => {}
            Some(Failure::Panic(panic)) => resume_unwind(panic),
            Some(Failure::Said(text)) => panic!("{text}"),
        }
    }

    fn run_in<R: Outcome>(
        &self,
        lab: &TestLab,
        body: impl AsyncFnOnce(TestLab) -> R + Send + 'static,
    ) -> Option<Failure> {
        let (deadline, lab_of_body) = (self.deadline, lab.clone());
        let (done, end) = mpsc::channel::<()>();
        let name = thread::current().name().unwrap_or("test").to_owned();
        let thread = lab.home().spawn_thread(&name, move || {
            let _done = done;
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return Some(format!("no tokio runtime: {error}")),
            };
            match runtime.block_on(async { tokio::time::timeout(deadline, body(lab_of_body)).await }) {
                Ok(outcome) => outcome.failure(),
                Err(_) => Some(format!("the test was not done after {deadline:?}")),
            }
        });
        let thread = match thread {
            Ok(thread) => thread,
            Err(error) => return Some(Failure::Said(with_sources(&error))),
        };
        if end.recv_timeout(self.deadline + GRACE) == Err(mpsc::RecvTimeoutError::Timeout) {
            // It blocks its thread, so that the runtime cannot interrupt it. The thread is given up; closing the lab ends
            // everything it could still be talking to.
            return Some(Failure::Said(format!(
                "the test was not done after {deadline:?} and blocks its thread"
            )));
        }
        match thread.join() {
            Ok(said) => said.map(Failure::Said),
            Err(panic) => Some(Failure::Panic(panic)),
        }
    }
}

enum Failure {
    Panic(Box<dyn Any + Send>),
    Said(String),
}

/// What the body of a test may return: nothing, or a `Result` of nothing.
pub trait Outcome {
    /// Why the test failed; none if it did not.
    fn failure(self) -> Option<String>;
}

impl Outcome for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: Debug + std::fmt::Display> Outcome for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| format!("{error}\n{error:?}"))
    }
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
