//! Replacing an object.

use apimachinery::{Status, meta};
use serde_json::Value;

use super::modify::{Existing, IfAbsent, Owner};
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::verbs::{Answer, Content, Modified, Submitted};

impl Api {
    /// Replaces an object by a client's body.
    pub async fn update(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        submitted: impl Into<Submitted>,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let mut object = endpoint.accept(submitted.into(), context, options)?;
        meta::adopt_namespace(&mut object, &endpoint.namespace)?;
        endpoint.check_name(&object)?;
        let creates = endpoint.resource.strategy.creates_on_update() && endpoint.subresource.is_empty();
        let if_absent = if creates { IfAbsent::Create } else { IfAbsent::Fail };
        let uid = meta::uid(&object).to_owned();
        let mut replace = |existing: Existing<'_>| {
            let mut object = object.clone();
            match existing {
                Existing::Object(old) => check_uid(endpoint, &uid, old)?,
                Existing::Nothing => {
                    check_uid(endpoint, &uid, &Value::Null)?;
                    // What is made has no version yet, whatever the client thought was there.
                    meta::set_resource_version(&mut object, "");
                }
            }
            Ok((object, Owner::Writer))
        };
        let modified = self.modify(endpoint, context, options, if_absent, &mut replace).await?;
        Ok(modified.into())
    }
}

impl From<Modified> for Answer {
    fn from(modified: Modified) -> Answer {
        let content = Content::Stored(modified.stored);
        if modified.created { Answer::created(content) } else { Answer::ok(content) }
    }
}

/// A body that names a uid means that very object, and no other that came to have its name.
pub(super) fn check_uid(endpoint: &Endpoint, uid: &str, old: &Value) -> Result<(), Status> {
    let existing = meta::uid(old);
    if uid.is_empty() || uid == existing {
        return Ok(());
    }
    let mut key = String::from_utf8_lossy(&endpoint.key(&endpoint.name)).into_owned();
    // Kubernetes stores its own kinds by their plurals alone.
    if let Some((_, rest)) = key.split_once(&format!("/{}/", endpoint.resource.plural))
        && !endpoint.resource.is_custom()
    {
        key = format!("/registry/{}/{rest}", endpoint.resource.plural);
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {uid}, UID in object meta: {existing}"
    );
    Err(endpoint.resource.conflict(&endpoint.name, &why))
}
