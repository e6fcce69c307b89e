//! A cache of a part of the store, which others read.

use std::sync::{Arc, PoisonError, RwLock};

use apistore::{Revision, StoreError};
use bytes::Bytes;

use super::{Observed, Progress, Reflector};
use crate::storage::Storage;

/// What is built from the entries of the store.
pub trait Cache: Default + Send + Sync + 'static {
    /// Takes in what is now at a key: a value, or nothing if it was deleted. `previous` is what was there before, where that is
    /// known; it always is for a deletion.
    fn observe(&mut self, key: &Bytes, value: Option<&Bytes>, previous: Option<&Bytes>);
}

/// A cache that follows the store as long as its [`InformerTask`] runs. Clones share the cache.
#[derive(Debug)]
pub struct Informer<C> {
    cache: Arc<RwLock<C>>,
    progress: Progress,
}

/// What keeps an [`Informer`] up to date: a task of the server.
#[derive(Debug)]
#[must_use = "changes are not seen unless this runs"]
pub struct InformerTask<C> {
    informer: Informer<C>,
    reflector: Reflector,
}

impl<C: Cache> Informer<C> {
    /// Reads the entries with a prefix. Changes are seen once the task runs.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start(
        storage: &Storage,
        prefix: &'static [u8],
    ) -> Result<(Informer<C>, InformerTask<C>), StoreError> {
        let informer = Informer::default();
        let reflector =
            Reflector::new(storage.clone(), Bytes::from_static(prefix), informer.progress.clone());
        let mut task = InformerTask { informer: informer.clone(), reflector };
        let mut listed = C::default();
        while !task.take(&mut listed).await? {}
        Ok((informer, task))
    }

    /// Reads the cache.
    pub fn read<T>(&self, read: impl FnOnce(&C) -> T) -> T {
        read(&self.cache.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far the cache has come.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Waits until the cache has the change of this revision, which must be one of an entry that it has.
    pub async fn wait_for(&self, revision: Revision) {
        self.progress.wait_for(revision).await;
    }
}

impl<C: Cache> InformerTask<C> {
    /// How far the cache has come.
    pub fn progress(&self) -> &Progress {
        &self.informer.progress
    }

    /// Keeps the cache up to date until the store is closed.
    pub async fn run(mut self) {
        let mut listed = C::default();
        while let Some(observed) = self.reflector.next().await {
            self.apply(observed, &mut listed);
        }
    }

    /// Takes in what is seen next, without another attempt if that fails. Says whether the list is complete.
    async fn take(&mut self, listed: &mut C) -> Result<bool, StoreError> {
        let observed = self.reflector.advance().await?;
        let is_synced = matches!(observed, Observed::Synced(_));
        self.apply(observed, listed);
        if is_synced {
            self.reflector.acknowledge();
        }
        Ok(is_synced)
    }

    /// A list is gathered beside the cache, and replaces it as a whole: nobody reads half of it.
    fn apply(&mut self, observed: Observed, listed: &mut C) {
        match observed {
            Observed::Restarted => *listed = C::default(),
            Observed::Listed(entries) => {
                entries.iter().for_each(|entry| listed.observe(&entry.key, Some(&entry.value), None));
            }
            Observed::Synced(_) => *self.cache() = std::mem::take(listed),
            Observed::Changed(events) => {
                let mut cache = self.cache();
                for event in &events {
                    let previous = event.previous.as_ref().map(|(value, _)| value);
                    cache.observe(&event.key, event.value.as_ref(), previous);
                }
            }
        }
    }

    fn cache(&self) -> std::sync::RwLockWriteGuard<'_, C> {
        self.informer.cache.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Default> Default for Informer<C> {
    /// One that follows nothing.
    fn default() -> Self {
        Informer { cache: Arc::default(), progress: Progress::default() }
    }
}

impl<C> Clone for Informer<C> {
    fn clone(&self) -> Self {
        Informer { cache: Arc::clone(&self.cache), progress: self.progress.clone() }
    }
}
