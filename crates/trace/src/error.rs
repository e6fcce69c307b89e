//! What keeps a question from being answered.

use std::time::Duration;

/// A question that cannot be answered, and why. Each variant is something that the person who asks can act on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The question itself is wrong.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field of the Trace.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no such pod.
    #[error("pod {0} does not exist")]
    NoPod(crate::PodName),
    /// The pod has no interface of Portolan's, for this reason.
    #[error("pod {pod} {why}")]
    NoInterface {
        /// The pod.
        pod: crate::PodName,
        /// The rest of the sentence.
        why: String,
    },
}

/// Why OVN could not be asked. The rest of an answer is given without it.
#[derive(Debug, thiserror::Error)]
pub enum OvnError {
    /// The database does not answer.
    #[error("OVN's {database} database does not answer: {why}")]
    Unreachable {
        /// `northbound` or `southbound`.
        database: &'static str,
        /// The last failure to connect.
        why: String,
    },
    /// The database refused a query.
    #[error("OVN's {database} database refused a query: {source}")]
    Refused {
        /// `northbound` or `southbound`.
        database: &'static str,
        /// Why.
        source: ovsdb::TransactError,
    },
    /// `ovn-trace` is not there.
    #[error("ovn-trace is not installed here: it is part of OVN (Debian: ovn-common)")]
    NotInstalled,
    /// `ovn-trace` could not be started.
    #[error("ovn-trace cannot be started: {0}")]
    NotStarted(#[source] std::io::Error),
    /// `ovn-trace` took too long.
    #[error("ovn-trace did not answer within {} s", .0.as_secs())]
    Late(Duration),
    /// `ovn-trace` printed something else than a trace.
    #[error("ovn-trace failed ({status}): {output}")]
    Failed {
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it printed, shortened.
        output: String,
    },
}
