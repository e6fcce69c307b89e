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
    /// Another client took it away. This one is next in line, and gets it back when the other gives it up.
    Stolen,
}

/// How a lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    Queue,
    Steal,
}

/// A lock that this client wants, or has. Dropping it gives it up, and so does asking for it again.
///
/// A name has letters, digits and underscores, and does not begin with a digit; servers refuse others.
///
/// A lock belongs to a connection, so it is lost when the connection breaks and asked for again on the next. That it is
/// held now says nothing about the moment when a transaction arrives: a transaction that relies on it begins with
/// [`Transaction::assert_lock`](ovsdb_core::Transaction::assert_lock).
#[derive(Debug)]
pub struct Lock {
    pub(crate) name: SmolStr,
    pub(crate) token: u64,
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

    /// Waits until the lock is held; `false` if it never will be: the server refused, the lock was asked for anew, or the
    /// session has ended.
    pub async fn held(&mut self) -> bool {
        self.state.wait_for(|state| *state == LockState::Held).await.is_ok()
    }

    /// Waits until the state changes, and returns it; none if it never will.
    pub async fn changed(&mut self) -> Option<LockState> {
        self.state.changed().await.ok()?;
        Some(*self.state.borrow_and_update())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Nobody is left to listen when the client is gone; its connection took the lock with it.
        drop(self.controls.send(Control::Unlock { name: self.name.clone(), token: self.token }));
    }
}
