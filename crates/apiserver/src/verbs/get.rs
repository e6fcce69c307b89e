//! Reading one object.

use apimachinery::Status;

use crate::api::Api;
use crate::endpoint::Endpoint;
use crate::options::parse_resource_version;
use crate::verbs::{Answer, Content};

impl Api {
    /// One object. `resource_version` is the oldest state that the client will have; empty for the newest.
    pub async fn get(&self, endpoint: &Endpoint, resource_version: &str) -> Result<Answer, Status> {
        let revision = parse_resource_version(resource_version);
        if let Some(revision) = revision.map_err(|error| Status::unexpected(error.to_string()))? {
            self.wait_for_revision(revision).await?;
        }
        Ok(Answer::ok(Content::Stored(self.read(endpoint).await?)))
    }
}
