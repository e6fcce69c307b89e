//! Why a case could not be run. An answer that differs is no error: it is a mismatch.

/// Why a case could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the suite cannot be read or written.
    #[error("{file}: {source}")]
    File {
        /// Which.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the suite is not what it should be.
    #[error("{file}: {problem}")]
    Malformed {
        /// Which.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// The server's authority, or the client's certificate, is not usable.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server cannot be reached or broke off.
    #[error("{request}: {problem}")]
    Connection {
        /// What was asked.
        request: String,
        /// What happened.
        problem: String,
    },
    /// The server did not answer, or not as awaited, in time.
    #[error("{request}: {awaited} did not come in time; last was {last}")]
    Deadline {
        /// What was asked.
        request: String,
        /// What should have come.
        awaited: String,
        /// What came instead.
        last: String,
    },
    /// What a case needs to begin with could not be made.
    #[error("{request}: given by the case, but the server answered {status}: {body}")]
    Given {
        /// What was asked.
        request: String,
        /// The answer's status.
        status: u16,
        /// The answer's body.
        body: String,
    },
    /// A case uses a variable that was not captured.
    #[error("{{{{{0}}}}} is not known at this step")]
    UnknownVariable(String),
    /// A case captures what the answer does not have.
    #[error("{request}: nothing to capture at {path} in {body}")]
    NothingCaptured {
        /// What was asked.
        request: String,
        /// The path in the answer.
        path: String,
        /// The answer.
        body: String,
    },
    /// A case acts as somebody that the endpoint does not know.
    #[error("nobody is called {0}")]
    UnknownUser(String),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
