//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the process needs besides connections: the store, logs, calls of webhooks.
const RESERVED: usize = 128;

/// Raises the limit of open files as far as the process may, and returns how many connections fit into it.
pub fn max_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit of open files cannot be raised");
        }
    }
    // Absent is unlimited.
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    files.unwrap_or(usize::MAX).saturating_sub(RESERVED).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        let connections = max_connections();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum, "it was raised");
        assert!(limit.current.is_none_or(|files| connections as u64 + RESERVED as u64 <= files));
    }
}
