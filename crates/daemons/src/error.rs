//! What can go wrong.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why a daemon does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is missing.
    #[error("cannot start {program}: {error}; is it in the image?")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It ended by itself.
    #[error("{program} ended: {status}; its log above says why")]
    Ended {
        /// The program.
        program: String,
        /// How.
        status: ExitStatus,
    },
    /// A program that prepares a database failed.
    #[error("{what} failed: {said}")]
    Tool {
        /// What was to be done.
        what: String,
        /// What it said.
        said: String,
    },
    /// A file or directory.
    #[error("cannot {doing} {}: {error}", path.display())]
    File {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// Health checks cannot be served.
    #[error("cannot serve health checks at {address}: {error}")]
    Health {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The daemon did not answer as it should.
    #[error("{0}")]
    Answer(#[from] crate::json_rpc::Unanswered),
}

/// Adds what was done to which file.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|error| Error::File { doing, path: path.into(), error })
    }
}
