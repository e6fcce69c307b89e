//! Being told of changes.

use std::sync::Arc;

use apimachinery::Status;
use apistore::Revision;

use crate::api::Api;
use crate::endpoint::Endpoint;
use crate::options::ListOptions;
use crate::selection::Selection;
use crate::verbs::Listed;
use crate::watch::Subscription;

/// A watch that has begun.
#[derive(Debug)]
pub struct Watching {
    /// What is there already, and is sent first, if that was asked for.
    pub initial: Option<Listed>,
    /// Whether the client is told where what was there already ends.
    pub marks_initial_end: bool,
    /// What happens after.
    pub subscription: Subscription,
}

impl Api {
    /// Begins to watch what is selected. A Status that says that the revision is too old is sent as an event, any other
    /// as the answer.
    pub async fn watch(
        &self,
        endpoint: &Endpoint,
        selection: Selection,
        options: &ListOptions,
    ) -> Result<Watching, Status> {
        let resource_version = options.resource_version.unwrap_or(0);
        let sends_initial = match options.send_initial_events {
            Some(sends) => sends,
            // A watch from nowhere in particular begins with what is there.
            None => resource_version == 0,
        };

        let mut initial = None;
        let mut after = Revision(resource_version);
        if sends_initial {
            self.wait_for_revision(resource_version).await?;
            let listed = self.list(endpoint, &selection, &ListOptions::default()).await?;
            after = listed.revision;
            initial = Some(listed);
        } else if resource_version == 0 {
            after = self.storage().revision();
        }

        let subscription = self
            .hub()
            .subscribe(endpoint.resource.key.clone(), Arc::new(selection), after)
            .await
            .map_err(|error| endpoint.resource.store_failed(&error))?;
        let marks_initial_end = options.send_initial_events == Some(true) && options.allow_bookmarks;
        Ok(Watching { initial, marks_initial_end, subscription })
    }
}
