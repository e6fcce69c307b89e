//! The last events of a resource, from which a watch that starts a little in the past is served.

use std::collections::VecDeque;
use std::sync::Arc;

use apistore::Revision;

use super::event::WatchEvent;

/// A bounded run of events without a gap.
#[derive(Debug)]
pub(super) struct Recent {
    events: VecDeque<Arc<WatchEvent>>,
    bytes: usize,
    /// Every event after this one is here.
    complete_after: Revision,
}

const MOST_EVENTS: usize = 1024;
const MOST_BYTES: usize = 4 << 20;

impl Recent {
    pub(super) fn new(complete_after: Revision) -> Recent {
        Recent { events: VecDeque::new(), bytes: 0, complete_after }
    }

    pub(super) fn push(&mut self, event: Arc<WatchEvent>) {
        self.bytes += event.size();
        self.events.push_back(event);
        while self.events.len() > MOST_EVENTS || self.bytes > MOST_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.size();
            self.complete_after = oldest.revision;
        }
    }

    /// Everything after a revision; absent if some of it is no longer here.
    pub(super) fn after(&self, revision: Revision) -> Option<impl Iterator<Item = &Arc<WatchEvent>>> {
        if revision < self.complete_after {
            return None;
        }
        let start = self.events.partition_point(|event| event.revision <= revision);
        Some(self.events.range(start..))
    }
}
