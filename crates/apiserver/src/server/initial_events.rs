//! The events that a watch begins with: the objects that exist already, page by page.
//!
//! Watches of the same objects in the same representation share the bytes of a page. So many that begin at once cost little more
//! than one, and those whose clients do not read hold on to no more than the pages that are kept here, or one that no longer is.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apimachinery::Status;
use apistore::Revision;
use bytes::{Bytes, BytesMut};
use tokio::sync::OnceCell;

use super::Shared;
use crate::content::Renderer;
use crate::registry::Resource;
use crate::verbs::InitialObjects;
use crate::watch::{EncodingKey, Subscription};

/// The events that a watch begins with.
#[derive(Debug)]
pub(super) struct InitialEvents {
    shared: Arc<Shared>,
    objects: InitialObjects,
    next: Next,
}

#[derive(Debug)]
enum Next {
    First,
    After(Bytes),
    End,
}

impl InitialEvents {
    pub(super) fn new(shared: Arc<Shared>, objects: InitialObjects) -> InitialEvents {
        InitialEvents { shared, objects, next: Next::First }
    }

    /// The next page of events; absent if there are no more. Table headers come with the first event.
    pub(super) async fn next(
        &mut self,
        renderer: &Renderer,
        has_sent: &mut bool,
    ) -> Result<Option<Bytes>, Status> {
        loop {
            let after = match &self.next {
                Next::First => None,
                Next::After(key) => Some(key.clone()),
                Next::End => return Ok(None),
            };
            let page = self.page(after, renderer, !*has_sent).await?;
            self.next = page.next.clone().map_or(Next::End, Next::After);
            if !page.events.is_empty() {
                *has_sent = true;
                return Ok(Some(page.events.clone()));
            }
        }
    }

    /// The revision that the events show.
    pub(super) fn revision(&self) -> Revision {
        self.objects.revision
    }

    /// Follows what happens after.
    pub(super) async fn follow(&self) -> Result<Subscription, Status> {
        self.objects.follow().await
    }

    async fn page(
        &self,
        after: Option<Bytes>,
        renderer: &Renderer,
        first: bool,
    ) -> Result<Arc<EventPage>, Status> {
        let read = || async {
            let _turn = self.shared.limits.initial_page().await;
            let page = self.objects.page(after.clone()).await?;
            // Room for all of them as they are stored, and no more: a page may be kept for long.
            let size = page.objects.iter().map(|object| object.json_len() + ENVELOPE).sum();
            let mut events = BytesMut::with_capacity(size);
            for (index, object) in page.objects.iter().enumerate() {
                events.extend_from_slice(&renderer.initial_event(object, first && index == 0));
            }
            Ok(Arc::new(EventPage { events: events.freeze(), next: page.next }))
        };
        if !self.objects.is_everything() || !renderer.is_shareable() {
            return read().await;
        }
        let key = PageKey {
            prefix: self.objects.prefix(),
            unchanged_since: self.objects.unchanged_since,
            after: after.clone(),
            encoding: renderer.encoding_key(false),
            resource: ByAddress(renderer.resource().clone()),
        };
        self.shared.initial_pages.get(key, read).await
    }
}

/// A page of events.
#[derive(Debug)]
struct EventPage {
    events: Bytes,
    /// The key after which the next page begins.
    next: Option<Bytes>,
}

/// The pages that were read last.
#[derive(Debug, Default)]
pub(crate) struct InitialPages {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    pages: HashMap<PageKey, KeptPage>,
    /// Invariant: each key of `pages` once, the oldest first.
    order: VecDeque<PageKey>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct KeptPage {
    /// Filled by the first who needs it; others wait for that one.
    page: Arc<OnceCell<Arc<EventPage>>>,
    /// Zero until it is filled.
    bytes: usize,
}

const MAX_BYTES: usize = 16 << 20;
// What an event has besides its object.
const ENVELOPE: usize = r#"{"type":"ADDED","object":}"#.len() + 1;
const MAX_PAGES: usize = 1024;

/// What makes two pages equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PageKey {
    prefix: Bytes,
    unchanged_since: Revision,
    after: Option<Bytes>,
    encoding: EncodingKey,
    /// The resource as it was defined when the watch began: another definition may show objects differently.
    resource: ByAddress,
}

/// A resource that equals no other but itself.
#[derive(Clone, Debug)]
struct ByAddress(Arc<Resource>);

impl PartialEq for ByAddress {
    fn eq(&self, other: &ByAddress) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ByAddress {}

impl std::hash::Hash for ByAddress {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl InitialPages {
    async fn get<F>(&self, key: PageKey, read: impl FnOnce() -> F) -> Result<Arc<EventPage>, Status>
    where
        F: Future<Output = Result<Arc<EventPage>, Status>>,
    {
        let cell = self.lock().cell(&key);
        let page = cell.get_or_try_init(read).await?.clone();
        self.lock().fill(&key, page.events.len());
        Ok(page)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn cell(&mut self, key: &PageKey) -> Arc<OnceCell<Arc<EventPage>>> {
        if let Some(kept) = self.pages.get(key) {
            return kept.page.clone();
        }
        self.order.push_back(key.clone());
        let cell = self.pages.entry(key.clone()).or_default().page.clone();
        self.shrink();
        cell
    }

    fn fill(&mut self, key: &PageKey, bytes: usize) {
        if let Some(kept) = self.pages.get_mut(key).filter(|kept| kept.bytes == 0) {
            kept.bytes = bytes;
            self.bytes += bytes;
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        while self.pages.len() > MAX_PAGES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some(kept) = self.pages.remove(&oldest) {
                self.bytes -= kept.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Scope;

    fn key(page: u64, resource: &Arc<Resource>) -> PageKey {
        PageKey {
            prefix: Bytes::from_static(b"/registry/things/"),
            unchanged_since: Revision(1),
            after: Some(Bytes::from(page.to_string())),
            encoding: "v1".into(),
            resource: ByAddress(resource.clone()),
        }
    }

    fn resource() -> Arc<Resource> {
        Arc::new(Resource::new("ex.io", "v1", "things", "Thing", Scope::Namespaced))
    }

    async fn read(bytes: usize) -> Result<Arc<EventPage>, Status> {
        Ok(Arc::new(EventPage { events: Bytes::from(vec![0; bytes]), next: None }))
    }

    #[tokio::test]
    async fn a_page_is_read_once_for_all_who_need_it_and_again_after_a_failure() {
        let (pages, resource) = (InitialPages::default(), resource());
        let failed = pages.get(key(1, &resource), || async { Err(Status::internal_error("no")) }).await;
        assert!(failed.is_err());
        let one = pages.get(key(1, &resource), || read(10)).await.unwrap();
        let other = pages.get(key(1, &resource), || async { panic!("it is kept") }).await.unwrap();
        assert!(Arc::ptr_eq(&one, &other));
        let redefined = super::tests::resource();
        let new = pages.get(key(1, &redefined), || read(20)).await.unwrap();
        assert_eq!(new.events.len(), 20, "another definition of the resource has pages of its own");
    }

    #[tokio::test]
    async fn kept_pages_are_bounded_in_bytes_and_number() {
        let (pages, resource) = (InitialPages::default(), resource());
        for page in 0..100 {
            pages.get(key(page, &resource), || read(1 << 20)).await.unwrap();
            assert!(pages.lock().bytes <= MAX_BYTES);
        }
        for page in 0..5000 {
            pages.get(key(page, &resource), || read(1)).await.unwrap();
            // Those that were given up before they were read count too.
            drop(pages.lock().cell(&key(page + 10_000, &resource)));
            let kept = pages.lock();
            assert!(kept.pages.len() <= MAX_PAGES && kept.order.len() == kept.pages.len());
        }
    }
}
