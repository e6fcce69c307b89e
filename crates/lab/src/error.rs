//! What can go wrong when raising a component.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a component could not be raised, reached or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel or the file system refused something. Most often: not root.
    #[error("cannot {what}")]
    System {
        /// What was tried, as in "cannot …".
        what: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A program that the lab needs is missing.
    #[error("{program} is not installed: run `make setup`")]
    NotInstalled {
        /// The program's name.
        program: String,
    },
    /// A binary of this workspace is missing.
    #[error("there is no {program} in {directory}: build the whole workspace")]
    NotBuilt {
        /// The program's name.
        program: String,
        /// Where it should be.
        directory: PathBuf,
    },
    /// A kubeconfig cannot be used.
    #[error("{file} is no kubeconfig that can be used: {why}")]
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The API server refused, or did not answer.
    #[error("cannot {what}: {why}")]
    ApiServer {
        /// What was tried, as in "cannot …".
        what: String,
        /// Its answer.
        why: String,
    },
    /// A command ran and failed.
    #[error("`{command}` failed ({status}): {output}")]
    CommandFailed {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it said, standard error first.
        output: String,
    },
    /// A component ended before it was ready.
    #[error("{name} ended ({status}) before it was ready; the end of {log}:\n{tail}")]
    Exited {
        /// The component.
        name: String,
        /// How it ended.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A component runs but gave no sign of being ready in time.
    #[error("{name} was not ready after {waited:?}; the end of {log}:\n{tail}")]
    NotReady {
        /// The component.
        name: String,
        /// How long it was given.
        waited: Duration,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A component did not end in time when asked to.
    #[error("{name} did not stop within {waited:?} of SIGTERM")]
    NotStopped {
        /// The component.
        name: String,
        /// How long it was given.
        waited: Duration,
    },
    /// A component answered, but not what was asked for.
    #[error("{peer} answered {answer}")]
    Refused {
        /// Who was asked.
        peer: String,
        /// The answer.
        answer: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
}

/// Adds to an [`io::Error`] what was being tried.
pub trait Trying<T> {
    /// Turns the error into an [`Error::System`]; `what` completes "cannot …".
    fn trying(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Trying<T> for Result<T, E> {
    fn trying(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::System { what: what(), source: error.into() })
    }
}
