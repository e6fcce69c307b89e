//! Which followers are in step with the API server, and since when the others are not.

use std::cell::OnceCell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use crate::Object;
use crate::existence::Kind;

/// What is known about all followers of one API server. Clones show the same.
#[derive(Clone, Debug)]
pub struct Status(Arc<Table>);

#[derive(Debug)]
struct Table {
    rows: Mutex<Vec<Row>>,
    revision: watch::Sender<u64>,
}

#[derive(Debug)]
struct Row {
    kind: String,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    InStep,
    Behind { since: Instant, error: Option<String> },
}

/// A kind of which changes may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Its plural and group, as in `vpcs.kubeovn.io`.
    pub kind: String,
    /// Since when.
    pub since: Instant,
    /// The last error; none if it was never tried or goes on without one.
    pub error: Option<String>,
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: not in step for {:.1}s", self.kind, self.since.elapsed().as_secs_f32())?;
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

impl Status {
    pub(crate) fn new() -> Self {
        Status(Arc::new(Table { rows: Mutex::default(), revision: watch::Sender::new(0) }))
    }

    /// The kinds that are not in step, in the order in which they were begun.
    pub fn behind(&self) -> Vec<Behind> {
        let rows = self.rows();
        let behind = rows.iter().filter_map(|row| match &row.state {
            State::InStep => None,
            State::Behind { since, error } => {
                Some(Behind { kind: row.kind.clone(), since: *since, error: error.clone() })
            }
        });
        behind.collect()
    }

    /// True if every follower has listed its kind and has a watch open since.
    pub fn is_in_step(&self) -> bool {
        self.rows().iter().all(|row| matches!(row.state, State::InStep))
    }

    /// True if something failed since a kind was in step, or since it is followed. A watch that is only slow nobody knows of.
    pub fn has_lost<K: Object>(&self) -> bool {
        let kind = OnceCell::new();
        self.rows().iter().any(|row| {
            matches!(row.state, State::Behind { error: Some(_), .. })
                && row.kind == *kind.get_or_init(|| Kind::of::<K>().to_string())
        })
    }

    /// Waits until every follower is in step.
    pub async fn in_step(&self) {
        let mut revision = self.changes();
        while !self.is_in_step() {
            revision.changed().await.expect("invariant: the sender lives as long as this handle");
        }
    }

    /// Changes whenever a follower falls behind or gets back in step. What is there now counts as seen.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.revision.subscribe()
    }

    pub(crate) fn add(&self, kind: String) -> Progress {
        let mut rows = self.rows();
        rows.push(Row { kind, state: State::Behind { since: Instant::now(), error: None } });
        Progress { status: self.clone(), row: rows.len() - 1 }
    }

    fn rows(&self) -> MutexGuard<'_, Vec<Row>> {
        self.0.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One follower's row.
#[derive(Debug)]
pub(crate) struct Progress {
    status: Status,
    row: usize,
}

impl Progress {
    pub(crate) fn in_step(&self) {
        let mut rows = self.status.rows();
        let row = &mut rows[self.row];
        let State::Behind { since, error } = std::mem::replace(&mut row.state, State::InStep) else { return };
        if error.is_some() {
            tracing::info!(kind = row.kind, after = ?since.elapsed(), "in step with the API server again");
        } else {
            tracing::debug!(kind = row.kind, "in step with the API server");
        }
        drop(rows);
        self.status.0.revision.send_modify(|revision| *revision += 1);
    }

    pub(crate) fn behind(&self, text: String) {
        let mut rows = self.status.rows();
        let row = &mut rows[self.row];
        let since = match &row.state {
            State::Behind { since, error } if error.as_ref() == Some(&text) => {
                tracing::debug!(kind = row.kind, error = text, "still not in step with the API server");
                *since
            }
            State::Behind { since, .. } => {
                tracing::warn!(kind = row.kind, error = text, "cannot follow");
                *since
            }
            State::InStep => {
                tracing::warn!(kind = row.kind, error = text, "fell behind the API server");
                Instant::now()
            }
        };
        row.state = State::Behind { since, error: Some(text) };
        drop(rows);
        self.status.0.revision.send_modify(|revision| *revision += 1);
    }
}
