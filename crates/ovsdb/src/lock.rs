//! OVSDB locks: at most one client of a server holds a name.

use ovsdb_core::SmolStr;
use tokio::sync::{mpsc, watch};

use crate::session::Control;

/// Whether a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// Another client has it, or there is no connection; it is asked for again by itself.
    Waiting,
    /// This client has it.
    Held,
    /// Another client took it away; it is not asked for again.
    Stolen,
}

/// How a lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    Queue,
    Steal,
}

/// A lock that this client wants, or has. Dropping it gives it up.
///
/// A lock belongs to a connection, so it is lost when the connection breaks and asked for again on the next. That it is
/// held now says nothing about the moment when a transaction arrives: a transaction that relies on it begins with
/// [`Transaction::assert_lock`](ovsdb_core::Transaction::assert_lock).
#[derive(Debug)]
pub struct Lock {
    pub(crate) name: SmolStr,
    pub(crate) state: watch::Receiver<LockState>,
    pub(crate) controls: mpsc::UnboundedSender<Control>,
}

impl Lock {
    /// The lock's name.
    pub fn name(&self) -> &SmolStr {
        &self.name
    }

    /// Whether the lock is held, as far as is known here.
    pub fn state(&self) -> LockState {
        *self.state.borrow()
    }

    /// Waits until the lock is held; `false` if it was stolen or the client is gone.
    pub async fn held(&mut self) -> bool {
        let settled = self.state.wait_for(|state| *state != LockState::Waiting).await;
        settled.is_ok_and(|state| *state == LockState::Held)
    }

    /// Waits until the state changes, and returns it; none if the client is gone.
    pub async fn changed(&mut self) -> Option<LockState> {
        self.state.changed().await.ok()?;
        Some(*self.state.borrow_and_update())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Nobody is left to listen when the client is gone; its connection took the lock with it.
        drop(self.controls.send(Control::Unlock { name: self.name.clone() }));
    }
}
