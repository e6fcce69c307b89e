//! Deleting many objects.

use apimachinery::{Reason, Status, meta};

use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::{DeleteOptions, ListOptions};
use crate::selection::Selection;
use crate::verbs::{Answer, Content};

impl Api {
    /// Deletes the objects that are selected, one after the other, and answers with what they were.
    pub async fn delete_collection(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        selection: &Selection,
        list_options: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Answer, Status> {
        let listed = self.list(endpoint, selection, list_options).await?;
        for stored in &listed.objects {
            let object = stored.to_value().map_err(Status::internal_error)?;
            let one = Endpoint {
                namespace: meta::namespace(&object).into(),
                name: meta::name(&object).into(),
                ..endpoint.clone()
            };
            match self.delete(&one, context, options).await {
                // Somebody else was faster.
                Err(status) if status.reason == Reason::NotFound => {}
                answer => drop(answer?),
            }
        }
        Ok(Answer::ok(Content::List(listed)))
    }
}
