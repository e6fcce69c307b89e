//! What was decided for most holders is the same, and is kept once.

use std::sync::Arc;

use portolan_api::portolan::DecidedInterface;

/// What the last lock says that was decided. Most say the same as the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent(Option<Arc<[DecidedInterface]>>);

impl Recent {
    /// The same, in the memory of the last if they are equal.
    pub(super) fn share(&mut self, decided: Arc<[DecidedInterface]>) -> Arc<[DecidedInterface]> {
        match &self.0 {
            Some(last) if *last == decided => Arc::clone(last),
            _ => {
                self.0 = Some(Arc::clone(&decided));
                decided
            }
        }
    }
}

/// It says nothing about the World.
impl PartialEq for Recent {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
