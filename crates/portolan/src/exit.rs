//! Exit codes: each means one thing, for every command that asks a cluster.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It did what was asked; traffic that was traced arrives.
    Success = 0,
    /// Traffic that was traced does not arrive.
    NotReachable = 1,
    /// The command line is wrong, or a file that it names.
    Usage = 2,
    /// There is no such object.
    NotFound = 3,
    /// The cluster does not answer, not in time or not now, or there is none.
    Unreachable = 4,
    /// The cluster does not know the user, or does not allow it.
    Forbidden = 5,
    /// OVN does not have what the objects ask for.
    Disagreement = 6,
    /// It cannot be told whether traffic that was traced arrives.
    Unknown = 7,
    /// Anything else failed.
    Failed = 8,
    /// What was planned would change something, wait or be refused.
    WouldChange = 9,
    /// Something is wrong with the cluster that was examined.
    ProblemsFound = 10,
}

/// The list, for `--help`.
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0  success; for trace: the traffic arrives, and so does its reply
  1  trace: the traffic does not arrive
  2  the command line is wrong, or a file that it names, or PORTOLAN_LOG
  3  there is no such object
  4  the cluster does not answer, is too busy (429), too slow (504) or not ready (503), or no cluster is configured
  5  the cluster rejects the credentials (401) or the request (403)
  6  trace: OVN does not have what the objects ask for
  7  trace: it cannot be told whether the traffic arrives
  8  anything else failed
  9  plan: OVN would change, or something in the manifest would wait or be refused
  10 doctor: something does not work, or will not";

/// A failure with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn with(exit: Exit, message: impl Into<String>) -> anyhow::Error {
        Self { exit, message: message.into() }.into()
    }

    pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
        Self::with(Exit::Usage, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> anyhow::Error {
        Self::with(Exit::NotFound, message)
    }
}

impl Exit {
    /// The code of a failure, whatever was added to it on its way up.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        error.downcast_ref::<Failure>().map_or(Exit::Failed, |failure| failure.exit)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_failure_keeps_its_code_under_added_context() {
        let failed: anyhow::Result<()> = Err(Failure::not_found("Subnet \"x\" does not exist"));
        let error = failed.context("get").unwrap_err();
        assert_eq!(Exit::of(&error), Exit::NotFound);
        assert_eq!(Exit::of(&anyhow::anyhow!("else")), Exit::Failed);
    }

    #[test]
    fn every_code_is_listed_in_the_help() {
        use Exit::*;
        let all = [
            Success,
            NotReachable,
            Usage,
            NotFound,
            Unreachable,
            Forbidden,
            Disagreement,
            Unknown,
            Failed,
            WouldChange,
            ProblemsFound,
        ];
        let number = |line: &str| line.split_whitespace().next().unwrap().parse().unwrap();
        let listed: Vec<u8> = EXIT_CODES.lines().skip(1).map(number).collect();
        assert_eq!(all.map(|exit| exit as u8), listed.as_slice());
    }
}
