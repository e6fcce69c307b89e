//! Reading many objects, at once or page by page.

use std::time::Duration;

use apimachinery::Status;
use apistore::{Page, Range, Revision, StoreError};
use bytes::Bytes;

use crate::api::Api;
use crate::endpoint::Endpoint;
use crate::options::{ListOptions, VersionMatch};
use crate::selection::Selection;
use crate::storage::{Continuation, Key, StoredObject};

/// A list, or one page of it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The objects, by namespace and name.
    pub objects: Vec<StoredObject>,
    /// The revision that the list shows.
    pub revision: Revision,
    /// Where the next page starts; empty if there is none.
    pub continuation: String,
    /// How many more there are; absent if nobody knows.
    pub remaining: Option<usize>,
}

// How long a client waits for a revision that has not happened, as in Kubernetes.
const REVISION_WAIT: Duration = Duration::from_secs(3);

// How many entries are read at once when a selector leaves out some of them.
const FILTERED_PAGE: usize = 500;

impl Api {
    /// The objects that are selected.
    pub async fn list(
        &self,
        endpoint: &Endpoint,
        selection: &Selection,
        options: &ListOptions,
    ) -> Result<Listed, Status> {
        let prefix = endpoint.resource.key.prefix(selection.namespace());
        let mut range = Range { prefix: prefix.clone(), after: None, limit: 0, at: None };
        if options.continuation.is_empty() {
            if let Some(revision) = options.resource_version.filter(|revision| *revision > 0) {
                let exact = match options.resource_version_match {
                    Some(version_match) => version_match == VersionMatch::Exact,
                    // Without a word on it, a limit asks for that very revision, so that pages fit together.
                    None => options.limit > 0,
                };
                if exact {
                    range.at = Some(Revision(revision));
                }
                self.wait_for_revision(revision).await?;
            }
        } else {
            if options.resource_version.is_some_and(|revision| revision > 0) {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let continuation = Continuation::decode(&options.continuation, &prefix)
                .map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))?;
            range.at = continuation.revision;
            range.after = Some(continuation.after);
        }
        self.select(endpoint, selection, range, options).await
    }

    /// Waits for a revision that a client has seen elsewhere, or thinks it has.
    pub(crate) async fn wait_for_revision(&self, revision: u64) -> Result<(), Status> {
        if self.storage().revision().0 >= revision {
            return Ok(());
        }
        match tokio::time::timeout(REVISION_WAIT, self.hub().reached(Revision(revision))).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Status::too_large_resource_version(revision, self.storage().revision().0)),
        }
    }

    async fn select(
        &self,
        endpoint: &Endpoint,
        selection: &Selection,
        mut range: Range,
        options: &ListOptions,
    ) -> Result<Listed, Status> {
        if let Some(name) = one_object(endpoint, selection)
            && range.at.is_none()
            && range.after.is_none()
        {
            return self.select_one(endpoint, selection, name).await;
        }
        let prefix = range.prefix.clone();
        // Who takes any version gets all at once: that is what Kubernetes has in memory.
        let takes_any = options.resource_version == Some(0) && options.continuation.is_empty();
        let limit = if takes_any { 0 } else { options.limit };
        let filtered = !selection.is_everything();
        range.limit = match (limit, filtered) {
            (0, _) => 0,
            (limit, false) => limit,
            (limit, true) => limit.max(FILTERED_PAGE),
        };

        let mut objects = Vec::new();
        loop {
            let page = self.page(endpoint, range.clone(), options).await?;
            let Page { entries, revision, remaining } = page;
            range.at = Some(revision);
            let last = entries.last().map(|entry| entry.key.clone());
            let mut left = entries.len();
            for entry in &entries {
                left -= 1;
                let stored = StoredObject::from_entry(entry).map_err(Status::internal_error)?;
                if filtered && !matches(endpoint, selection, &entry.key, &stored)? {
                    continue;
                }
                objects.push(stored);
                if limit > 0 && objects.len() == limit {
                    let more = left + remaining;
                    let continuation = Continuation { revision: Some(revision), after: entry.key.clone() };
                    return Ok(Listed {
                        objects,
                        revision,
                        continuation: if more > 0 { continuation.encode(&prefix) } else { String::new() },
                        remaining: (more > 0 && !filtered).then_some(more),
                    });
                }
            }
            if remaining == 0 || last.is_none() {
                return Ok(Listed { objects, revision, continuation: String::new(), remaining: None });
            }
            range.after = last;
        }
    }

    /// A list of at most one object, whose key is known.
    async fn select_one(
        &self,
        endpoint: &Endpoint,
        selection: &Selection,
        name: &str,
    ) -> Result<Listed, Status> {
        let key = endpoint.resource.key.object(selection.namespace(), name);
        let got = self.storage().get(&key).await.map_err(|error| endpoint.resource.store_failed(&error))?;
        let mut objects = Vec::new();
        if let Some(entry) = got.entry {
            let stored = StoredObject::from_entry(&entry).map_err(Status::internal_error)?;
            if matches(endpoint, selection, &entry.key, &stored)? {
                objects.push(stored);
            }
        }
        Ok(Listed { objects, revision: got.revision, continuation: String::new(), remaining: None })
    }

    async fn page(&self, endpoint: &Endpoint, range: Range, options: &ListOptions) -> Result<Page, Status> {
        let (prefix, after) = (range.prefix.clone(), range.after.clone());
        match self.storage().list(range).await {
            Ok(page) => Ok(page),
            Err(StoreError::Compacted { .. } | StoreError::Unknown { .. })
                if !options.continuation.is_empty() =>
            {
                Err(expired_continuation(&prefix, after.unwrap_or_default()))
            }
            Err(StoreError::Compacted { .. }) => {
                Err(Status::expired("The resourceVersion for the provided list is too old."))
            }
            Err(error) => Err(endpoint.resource.store_failed(&error)),
        }
    }
}

/// The name of the one object that can be selected, if it is certain where it is.
pub(super) fn one_object<'a>(endpoint: &Endpoint, selection: &'a Selection) -> Option<&'a str> {
    let known = !endpoint.resource.is_namespaced() || !selection.namespace().is_empty();
    selection.name().filter(|_| known)
}

pub(super) fn matches(
    endpoint: &Endpoint,
    selection: &Selection,
    key: &Bytes,
    stored: &StoredObject,
) -> Result<bool, Status> {
    let Some(key) = Key::parse(key) else { return Ok(false) };
    if !selection.matches_key(key.namespace, key.name) {
        return Ok(false);
    }
    if !selection.needs_object() {
        return Ok(true);
    }
    Ok(selection.matches_object(&endpoint.read(stored)?))
}

/// The state that the list shows is gone; the token in the answer goes on with what is there now.
fn expired_continuation(prefix: &Bytes, after: Bytes) -> Status {
    Status::expired_continue(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
         deleted between the time the first chunk was returned and now may show up in the list.",
        Continuation { revision: None, after }.encode(prefix),
    )
}
