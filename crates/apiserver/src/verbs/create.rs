//! Making an object.

use apimachinery::{Reason, Status, meta};
use apistore::{Change, Expect, Outcome, Revision};
use serde_json::Value;

use super::metadata::{is_deleting, time};
use super::prepare::dedup_owners;
use crate::admission::{Attributes, Operation};
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;
use crate::storage::StoredObject;
use crate::verbs::{Answer, Content, Submitted};

// How often a generated name is tried that turns out to be taken.
const NAME_ATTEMPTS: usize = 8;

impl Api {
    /// Makes an object of a client's body.
    pub async fn create(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        submitted: impl Into<Submitted>,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let mut object = endpoint.accept(submitted.into(), context, options)?;
        meta::wipe_system_fields(&mut object);
        meta::adopt_namespace(&mut object, &endpoint.namespace)?;
        dedup_owners(&mut object, context);
        endpoint.own_fields(context, None, &mut object, options);
        let stored = self.create_accepted(endpoint, context, object, options).await?;
        Ok(Answer::created(Content::Stored(stored)))
    }

    /// Makes an object that has its defaults and its managed fields.
    pub(super) async fn create_accepted(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<StoredObject, Status> {
        let name = meta::name(&object).to_owned();
        let attributes =
            Attributes { operation: Operation::Create, endpoint, name: &name, context, old: None, options };
        self.admission().admit(self, attributes, &mut object).await?;

        let generates = meta::name(&object).is_empty() && !meta::generate_name_base(&object).is_empty();
        if !generates {
            return self.create_named(endpoint, context, object, options).await;
        }
        let mut attempt = 1;
        loop {
            let mut named = object.clone();
            let name = generated_name(meta::generate_name_base(&object));
            meta::set_name(&mut named, &name);
            match self.create_named(endpoint, context, named, options).await {
                Err(status) if status.reason == Reason::AlreadyExists && attempt < NAME_ATTEMPTS => {
                    attempt += 1;
                }
                Err(status) if status.reason == Reason::AlreadyExists => {
                    return Err(Status::generated_name_exists(&endpoint.resource.group_resource(), &name));
                }
                answer => return answer,
            }
        }
    }

    async fn create_named(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<StoredObject, Status> {
        let resource = &endpoint.resource;
        meta::fill_system_fields(&mut object, &uuid::Uuid::new_v4().to_string(), &time(context.now));
        endpoint.before_create(&mut object, context)?;
        let name = meta::name(&object).to_owned();
        let attributes =
            Attributes { operation: Operation::Create, endpoint, name: &name, context, old: None, options };
        self.admission().validate(self, attributes, Some(&object)).await?;
        if !matches!(meta::resource_version(&object), "" | "0") {
            return Err(Status::unexpected("resourceVersion should not be set on objects to be created"));
        }

        let key = endpoint.key(&name);
        let raw = endpoint.write(&object)?;
        if options.dry_run {
            let got = self.storage().get(&key).await.map_err(|error| resource.store_failed(&error))?;
            return match got.entry {
                None => decoded(raw, Revision(0)),
                Some(_) => Err(resource.already_exists(&name)),
            };
        }
        let change = Change { key, expect: Expect::Absent, value: Some(raw.clone()) };
        match self.storage().commit(change).await.map_err(|error| resource.store_failed(&error))? {
            Outcome::Done(revision) => decoded(raw, revision),
            Outcome::Mismatch(existing) => {
                let mut status = resource.already_exists(&name);
                let existing =
                    existing.and_then(|entry| StoredObject::from_entry(&entry).ok()?.to_value().ok());
                if existing.is_some_and(|existing| is_deleting(&existing)) {
                    status.message = format!("object is being deleted: {}", status.message);
                }
                Err(status)
            }
        }
    }
}

pub(super) fn decoded(raw: bytes::Bytes, revision: Revision) -> Result<StoredObject, Status> {
    StoredObject::decode(raw, revision).map_err(Status::internal_error)
}

const SUFFIX: usize = 5;
// No vowels, so that no words come out.
const SUFFIX_CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

fn generated_name(base: &str) -> String {
    let random = |_| char::from(SUFFIX_CHARACTERS[fastrand::usize(..SUFFIX_CHARACTERS.len())]);
    meta::generate_name(base, &(0..SUFFIX).map(random).collect::<String>())
}
