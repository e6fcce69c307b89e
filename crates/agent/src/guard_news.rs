//! Which of two pieces of news about the guards of links is the newer.
//!
//! The kernel's notifications come in the order of what happened. A listing of all guards, and the outcome of a change that the agent
//! made, tell of some moment between their begin and their end. So they count only where the kernel has reported nothing since they
//! began: of the link, and of notifications that it lost. What is in doubt is listed.

use std::collections::BTreeMap;

use portolan_plan::host::LinkName;

/// A moment: how much the kernel had reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Serial(u64);

/// What the kernel has reported about guards, and when.
#[derive(Debug)]
pub(crate) struct GuardNews {
    now: Serial,
    /// When it reported a link's guard last.
    of_links: BTreeMap<LinkName, Serial>,
    /// When it reported last that it lost notifications.
    lost: Serial,
    /// When the newest listing began that told everything.
    listed: Serial,
    /// When the listing began that is under way.
    listing: Option<Serial>,
}

impl Default for GuardNews {
    /// Nothing was listed yet.
    fn default() -> Self {
        let now = Serial(1);
        Self { now, of_links: BTreeMap::new(), lost: now, listed: Serial::default(), listing: None }
    }
}

impl GuardNews {
    /// To be taken before a change of a guard is begun.
    pub(crate) fn now(&self) -> Serial {
        self.now
    }

    fn next(&mut self) -> Serial {
        self.now = Serial(self.now.0 + 1);
        self.now
    }

    /// The kernel reported a link's guard.
    pub(crate) fn reported(&mut self, link: &LinkName) {
        let now = self.next();
        self.of_links.insert(link.clone(), now);
    }

    /// The kernel lost notifications.
    pub(crate) fn lost(&mut self) {
        self.lost = self.next();
    }

    /// Whether what began at a moment is the newest that is known of a link's guard.
    pub(crate) fn is_newest(&self, link: &LinkName, since: Serial) -> bool {
        self.lost <= since && self.of_links.get(link).is_none_or(|reported| *reported <= since)
    }

    /// Begins a listing, if one is needed and none is under way.
    pub(crate) fn begin_listing(&mut self) -> Option<Serial> {
        if self.listing.is_some() || self.listed >= self.lost {
            return None;
        }
        self.listing = Some(self.now);
        self.listing
    }

    /// A listing ended. It counts for links of which it [is the newest](Self::is_newest); if notifications were lost meanwhile, for
    /// none, and another one is needed.
    pub(crate) fn listing_ended(&mut self, began: Serial) {
        self.listing = None;
        if self.lost <= began {
            self.listed = began;
        }
    }

    /// Forgets what was reported of links that are of no interest any more, unless a listing may tell of them.
    pub(crate) fn retain(&mut self, is_of_interest: impl Fn(&LinkName) -> bool) {
        let listing = self.listing;
        let may_be_told = |serial: Serial| listing.is_some_and(|began| serial > began);
        self.of_links.retain(|link, serial| may_be_told(*serial) || is_of_interest(link));
    }
}
