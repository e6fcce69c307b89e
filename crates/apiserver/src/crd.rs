//! CustomResourceDefinitions: kinds that come and go while the server runs.
//!
//! A definition is an object like others, of the resource that [`resource`] returns. [`Definitions`] follows those of the store:
//! it gives them their names, puts the resources that they define into the registry, and when a definition is deleted deletes
//! its objects first.
//!
//! ```text
//! store ──► Definitions ──► names ──► custom_resource ──► Registry
//!                │                                          ▲
//!                └─ status: NamesAccepted, Established      └ every request looks here
//! ```

mod cleanup;
mod condition;
mod controller;
mod custom_resource;
mod definition;
mod json_schema;
mod names;
mod strategy;
mod validation;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apimachinery::Status;
use apistore::{Revision, StoreError};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::Value;

pub(crate) use custom_resource::age;

use self::definition::{Definition, Names, Spec};
use crate::admission::{Admission, Attributes, Operation};
use crate::api::Api;
use crate::reflector::Progress;
use crate::registry::{Resource, Scope, Subresource};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

/// The resource of definitions.
pub fn resource() -> Resource {
    Resource::new(GROUP, "v1", PLURAL, "CustomResourceDefinition", Scope::Cluster)
        .short_names(&["crd", "crds"])
        .categories(&["api-extensions"])
        .strategy(strategy::DefinitionStrategy)
        .version(|version| {
            let version = version.subresource(Subresource::status());
            match apischema::core::schema(GROUP, "v1", "CustomResourceDefinition") {
                Some(schema) => version.schema(schema),
                None => version,
            }
        })
}

/// The definitions of a server, and what they define.
///
/// It is one of the server's admission plug-ins: nothing is made of a kind whose definition is being deleted.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    shared: Arc<Mutex<Shared>>,
    progress: Progress,
}

#[derive(Debug, Default)]
struct Shared {
    /// What is in the registry, by the name of its definition.
    served: HashMap<String, Served>,
    /// The groups and plurals of definitions that are being deleted.
    terminating: HashSet<(String, String)>,
    /// The names of definitions whose objects are gone and that are about to go themselves.
    finishing: HashSet<String>,
}

/// What a resource in the registry was made of.
#[derive(Debug, PartialEq)]
struct Served {
    spec: Spec,
    names: Names,
}

impl Definitions {
    /// Reads all definitions, and puts what they define into the registry. When it is done, all that was served when the store
    /// was last used is served.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn load(&self, api: &Api) -> Result<(), StoreError> {
        controller::load(self, api).await
    }

    /// Follows the definitions of the store until it is closed.
    pub async fn run(self, api: Api) {
        controller::run(&self, &api).await;
    }

    /// Whether the definitions of the store are followed.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Waits until a definition that was written by this change is acted on: if it is established, requests are answered by it. It
    /// must be a change of a definition, and [`Definitions::run`] must run.
    pub async fn wait_for(&self, revision: Revision) {
        self.progress.wait_for(revision).await;
    }

    /// Puts what a definition defines into the registry, or takes it out, so that it is as the definition says.
    fn serve(&self, api: &Api, definition: &Definition) {
        let name = &definition.metadata.name;
        let accepted = definition.is(condition::NAMES_ACCEPTED) || definition.is(condition::ESTABLISHED);
        // One whose objects are gone is as good as gone itself.
        let is_over = definition.is_deleting() && !definition.awaits_cleanup();
        if !accepted || is_over {
            return self.withdraw(api, name);
        }
        let Definition { spec, status, .. } = definition;
        let served = Served { spec: spec.clone(), names: status.accepted_names.clone() };
        let key = (spec.group.clone(), spec.names.plural.clone());
        let mut shared = self.lock();
        if !definition.is_deleting() {
            shared.finishing.remove(name);
        } else if shared.finishing.contains(name) {
            return;
        }
        if definition.is(condition::TERMINATING) {
            shared.terminating.insert(key);
        } else {
            shared.terminating.remove(&key);
        }
        if shared.served.get(name) == Some(&served) {
            return;
        }
        // A kind that the server has anyway is not replaced.
        let snapshot = api.registry().snapshot();
        if !shared.served.contains_key(name) && snapshot.resource(&spec.group, &spec.names.plural).is_some() {
            tracing::warn!(
                definition = name,
                "the server has a resource of that name, which is not replaced"
            );
            return;
        }
        match custom_resource::resource(definition) {
            Ok(resource) => {
                api.registry().insert(resource);
                shared.served.insert(name.clone(), served);
            }
            // It was checked when it was written; only another version of the server could have taken it.
            Err(error) => tracing::error!(definition = name, error, "the definition cannot be served"),
        }
    }

    /// Takes what a definition defines out of the registry.
    fn withdraw(&self, api: &Api, name: &str) {
        let mut shared = self.lock();
        if let Some(Served { spec, .. }) = shared.served.remove(name) {
            api.registry().remove(&spec.group, &spec.names.plural);
            shared.terminating.remove(&(spec.group, spec.names.plural));
        }
    }

    /// Takes what a definition defines out of the registry for good: whoever sees that the definition is gone is not served by it.
    fn finish(&self, api: &Api, name: &str) {
        self.lock().finishing.insert(name.to_owned());
        self.withdraw(api, name);
    }

    /// The definition is gone, or stays after all.
    fn finished(&self, name: &str) {
        self.lock().finishing.remove(name);
    }

    fn served_names(&self) -> Vec<String> {
        self.lock().served.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admission for Definitions {
    fn name(&self) -> &'static str {
        "CustomResourceDefinitions"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn admit<'a>(
        &'a self,
        _api: &'a Api,
        attributes: Attributes<'a>,
        _object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let resource = &attributes.endpoint.resource;
        let terminating = &self.lock().terminating;
        // Seldom is any definition being deleted.
        let refused = !terminating.is_empty()
            && terminating.contains(&(resource.group.clone(), resource.plural.clone()));
        let answer = if refused {
            let why = "create not allowed while custom resource definition is terminating";
            Err(resource.forbidden(attributes.name, why))
        } else {
            Ok(())
        };
        ready(answer).boxed()
    }
}
