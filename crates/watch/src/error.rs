//! Errors, in words that fit into a log line or a condition.

use std::fmt;
use std::time::Duration;

/// What went wrong between us and the API server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed.
    #[error("{}", Plain(.0))]
    Request(#[from] kube::Error),
    /// A watch brought nothing for longer than the API server keeps one open.
    #[error("the watch brought nothing for {0:?}, not even its end")]
    Silent(Duration),
    /// The client certificate cannot be used.
    #[error(
        "the client certificate of the kubeconfig is an X.509 version 1 certificate, which TLS libraries refuse: issue it as version 3 \
         (with openssl, by adding an extension such as extendedKeyUsage=clientAuth)"
    )]
    CertificateVersion,
    /// A watch was closed too soon to have been of use.
    #[error("the API server closed the watch after {0:?}")]
    Cut(Duration),
    /// A follower ended, which it never should.
    #[error("the follower of {kind} ended: {why}")]
    Ended {
        /// What it followed.
        kind: String,
        /// How it ended.
        why: String,
    },
}

/// Shows an error of the client as one line: code, reason and message of the API server's answer, or the chain of causes.
/// (`kube::Error` adds a debug dump of the whole answer.)
pub struct Plain<'a>(pub &'a kube::Error);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let kube::Error::Api(status) = self.0 {
            write!(f, "the API server answered {}", status.code)?;
            if !status.reason.is_empty() && !status.reason.contains(' ') {
                write!(f, " {}", status.reason)?;
            }
            if !status.message.is_empty() {
                write!(f, ": {}", status.message.trim())?;
            }
            return Ok(());
        }
        let text = match self.0 {
            // What went wrong is what it wraps.
            kube::Error::Service(error) => with_causes(&**error),
            error => with_causes(error),
        };
        f.write_str(&text)
    }
}

/// An error and its causes, in one line.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl Error {
    /// The HTTP status of the API server's answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Request(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// The version that was asked for is no longer known: list again.
    pub(crate) fn is_expired(&self) -> bool {
        self.code() == Some(410)
    }

    /// How long the API server asks its clients to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Request(kube::Error::Api(status)) if status.code == 429 => {
                let seconds = status.details.as_ref()?.retry_after_seconds;
                (seconds > 0).then(|| Duration::from_secs(seconds.into()))
            }
            _ => None,
        }
    }
}
