//! One follower: list, watch, resume, and begin anew when that is what the API server asks for.

use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::definitions::Definitions;
use crate::existence::{Kind, Origin, is_absent};
use crate::objects::{self, Listed, list_page};
use crate::pause::{FollowerPauses, Recovery};
use crate::status::Progress;
use crate::unreadable::{Received, Unreadable, partial};

/// How many objects are read with one request.
const PAGE: u32 = 500;
/// How long one watch lasts. The API server closes it then, and it is resumed.
const WATCH_SECONDS: u32 = 290;
/// A connection on which nothing came for this long is dead: at the latest now the API server should have closed it.
const SILENCE: Duration = Duration::from_secs(300);
/// A watch that lived this long was a success, also if it brought nothing.
const LIVED: Duration = Duration::from_secs(5);
/// After so many refusals in a row the version may be what is refused (a restored store counts from an earlier one): list again.
const REFUSALS: u32 = 3;

/// A kind that can be followed.
pub trait Object:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// What a follower reports.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an object that was applied is larger still than one that was deleted"
)]
pub enum Change<K> {
    /// An object was created or changed.
    Applied(K),
    /// An object was created or changed, and cannot be decoded. It exists: what it asks for is not known.
    Unreadable(Box<Unreadable<K>>),
    /// An object was deleted.
    Deleted(PartialObjectMeta<K>),
    /// These are all objects there are. What is missing here was deleted at some time, or is not shown: confirm by a live
    /// read before removing anything for it.
    Listed(Listed<K>),
}

impl<K: Resource<DynamicType = ()>> Change<K> {
    /// This object was deleted.
    pub fn deleted(object: &K) -> Self {
        Change::Deleted(partial(object))
    }

    /// These are all objects there are.
    pub fn listed(objects: impl Into<Listed<K>>) -> Self {
        Change::Listed(objects.into())
    }
}

/// Which objects of a kind are followed.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    fields: Option<String>,
    labels: Option<String>,
    is_listed_after_failures: bool,
}

impl Selection {
    /// All of them.
    pub fn all() -> Self {
        Selection::default()
    }

    /// Those that a field selector matches, as in `spec.nodeName=one`.
    pub fn fields(selector: impl Into<String>) -> Self {
        Selection { fields: Some(selector.into()), ..Selection::default() }
    }

    /// Those that a label selector matches.
    pub fn labels(selector: impl Into<String>) -> Self {
        Selection { labels: Some(selector.into()), ..Selection::default() }
    }

    /// After every failure they are listed anew, and no watch is resumed: such a kind is back in step once all that was missed meanwhile is
    /// reported, where otherwise a watch that was resumed may have to bring it still. For kinds of which there are few objects.
    #[must_use]
    pub fn listed_after_failures(self) -> Self {
        Selection { is_listed_after_failures: true, ..self }
    }

    fn list(&self, next_page: Option<String>) -> ListParams {
        ListParams {
            field_selector: self.fields.clone(),
            label_selector: self.labels.clone(),
            limit: Some(PAGE),
            continue_token: next_page,
            ..ListParams::default()
        }
    }

    fn watch(&self) -> WatchParams {
        WatchParams {
            field_selector: self.fields.clone(),
            label_selector: self.labels.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            send_initial_events: false,
        }
    }
}

/// Some of the objects of a list.
#[derive(Clone, Debug)]
pub struct Page<K> {
    /// What there is.
    pub listed: Listed<K>,
    /// The first of its list: pages of an earlier one were of a list that could not be read to its end.
    pub first: bool,
}

/// What becomes of the pages of a list.
pub(crate) enum Pages<P> {
    /// They are collected: the list is reported as a whole.
    Collected,
    /// They are reported as they come, then that they were all.
    Reported(P),
}

/// Follows one kind.
pub(crate) struct Follower<K, C, P> {
    api: Api<K>,
    kind: Kind,
    selection: Selection,
    definitions: Definitions,
    recovery: Recovery,
    pauses: FollowerPauses,
    progress: Progress,
    /// Requests have failed since the last that succeeded.
    failing: bool,
    pages: Pages<P>,
    consume: C,
}

/// How a watch ended.
enum End {
    /// The API server closed it.
    Closed,
    /// It broke.
    Broken(Error),
}

impl<K, C, F, P, G> Follower<K, C, P>
where
    K: Object,
    C: FnMut(Change<K>) -> F,
    F: Future<Output = ()>,
    P: FnMut(Page<K>) -> G,
    G: Future<Output = ()>,
{
    pub(crate) fn new(
        api: Api<K>,
        selection: Selection,
        definitions: Definitions,
        recovery: Recovery,
        progress: Progress,
        pages: Pages<P>,
        consume: C,
    ) -> Self {
        let pauses = FollowerPauses::new(recovery.clone());
        Follower {
            api,
            kind: Kind::of::<K>(),
            selection,
            definitions,
            recovery,
            pauses,
            progress,
            failing: false,
            pages,
            consume,
        }
    }

    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            match self.list().await {
                Ok((listed, version)) => {
                    self.succeeded();
                    (self.consume)(Change::Listed(listed)).await;
                    self.watch_from(version).await;
                }
                Err(error) => self.cannot_list(error).await,
            }
        }
    }

    /// All objects that were not reported by page, and the version at which they were all.
    async fn list(&mut self) -> Result<(Listed<K>, String), Error> {
        let (mut collected, mut next_page) = (Listed::default(), None);
        loop {
            let first = next_page.is_none();
            let (page, metadata) = list_page(&self.api, &self.selection.list(next_page)).await?;
            page.unreadable.iter().for_each(|unreadable| warn_of(&self.kind, unreadable));
            collected.extend(self.report_page(page, first).await);
            next_page = metadata.continue_.filter(|token| !token.is_empty());
            if next_page.is_none() {
                return Ok((collected, metadata.resource_version.unwrap_or_default()));
            }
        }
    }

    /// Reports a page if pages are reported. Gives it back if not.
    async fn report_page(&mut self, listed: Listed<K>, first: bool) -> Listed<K> {
        match &mut self.pages {
            Pages::Collected => listed,
            Pages::Reported(consume) => {
                consume(Page { listed, first }).await;
                Listed::default()
            }
        }
    }

    /// A failed list says nothing about what there is. Only if the kind itself is certainly absent there is nothing.
    async fn cannot_list(&mut self, error: Error) {
        let mut changes = self.definitions.changes();
        // The watches of definitions first: they are what will tell when the kind comes into being. Who has no right to a kind is refused
        // before anyone looks whether it exists.
        let may_be_absent = matches!(error.code(), Some(403 | 404))
            && match self.kind.origin() {
                Origin::BuiltIn => false,
                Origin::Aggregation => self.definitions.are_followed(),
                Origin::Defined => self.definitions.lack(&self.kind),
            };
        if may_be_absent && is_absent(&self.api.clone().into_client(), &self.kind).await.unwrap_or(false) {
            tracing::info!(kind = %self.kind, "the API server has no such kind: there are no objects of it");
            self.succeeded();
            self.pauses.reset();
            let nothing = self.report_page(Listed::default(), true).await;
            (self.consume)(Change::Listed(nothing)).await;
            self.progress.in_step();
            if self.kind.origin() == Origin::Aggregation {
                // This follower's own empty list is no reason to ask again.
                changes = self.definitions.changes();
            }
            changes.next().await;
            while self.kind.origin() == Origin::Defined && self.definitions.lack(&self.kind) {
                changes.next().await;
            }
        } else {
            self.failed(&error).await;
        }
    }

    /// Watches until a new list is needed.
    async fn watch_from(&mut self, mut version: String) {
        let mut refusals = 0;
        while refusals < REFUSALS {
            let parameters = self.selection.watch();
            let error = match objects::watch(&self.api, &parameters, &version).await.map_err(Error::from) {
                Ok(events) => {
                    refusals = 0;
                    self.succeeded();
                    self.progress.in_step();
                    match self.read(events, &mut version).await {
                        End::Closed => continue,
                        End::Broken(error) => error,
                    }
                }
                Err(error) => {
                    refusals += u32::from(error.code().is_some());
                    error
                }
            };
            self.failed(&error).await;
            if self.selection.is_listed_after_failures || error.is_expired() || error.code() == Some(404) {
                return;
            }
        }
    }

    /// Reports what a watch brings, until it ends.
    async fn read(
        &mut self,
        events: impl Stream<Item = kube::Result<WatchEvent<Received<K>>>>,
        version: &mut String,
    ) -> End {
        let mut events = pin!(events);
        let opened = Instant::now();
        let mut brought_something = false;
        loop {
            let event = match timeout(SILENCE, events.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => return End::Broken(error.into()),
                Ok(None) if brought_something || opened.elapsed() >= LIVED => {
                    self.pauses.reset();
                    return End::Closed;
                }
                // Not an error, but at once again would be a loop without a pause.
                Ok(None) => return End::Broken(Error::Cut(opened.elapsed())),
                Err(_) => return End::Broken(Error::Silent(SILENCE)),
            };
            let (change, seen) = match event {
                WatchEvent::Added(Received::Readable(object))
                | WatchEvent::Modified(Received::Readable(object)) => {
                    let seen = object.resource_version();
                    (Change::Applied(object), seen)
                }
                WatchEvent::Added(Received::Unreadable(unreadable))
                | WatchEvent::Modified(Received::Unreadable(unreadable)) => {
                    warn_of(&self.kind, &unreadable);
                    let seen = unreadable.object.resource_version();
                    (Change::Unreadable(unreadable), seen)
                }
                WatchEvent::Deleted(received) => {
                    let object = received.into_partial();
                    let seen = object.resource_version();
                    (Change::Deleted(object), seen)
                }
                WatchEvent::Bookmark(bookmark) => {
                    *version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => return End::Broken(kube::Error::Api(status).into()),
            };
            if !brought_something {
                brought_something = true;
                self.pauses.reset();
            }
            (self.consume)(change).await;
            // Only now: whoever resumes from here must not miss what was not consumed.
            if let Some(seen) = seen {
                *version = seen;
            }
        }
    }

    fn succeeded(&mut self) {
        if std::mem::take(&mut self.failing) {
            self.recovery.announce();
        }
    }

    async fn failed(&mut self, error: &Error) {
        self.failing = true;
        self.progress.behind(error.to_string());
        let mut changes = self.definitions.changes();
        let defined = self.kind.origin() == Origin::Defined;
        tokio::select! {
            () = self.pauses.wait(error.retry_after()) => {}
            // Its definition may be what was missing.
            () = changes.next(), if defined => {}
        }
    }
}

fn warn_of<K: Object>(kind: &Kind, unreadable: &Unreadable<K>) {
    let object = &unreadable.object;
    let name = match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    };
    tracing::warn!(%kind, name, error = %unreadable, "cannot read an object: correct the field, or delete the object");
}
