//! Admission webhooks: servers that have a say in writes.
//!
//! The configurations are an [`Informer`]'s cache. Mutating webhooks are called one after the other, and again if they are to be
//! reinvoked after changes by others; validating webhooks are called all at once.
//!
//! ```text
//! admit:    mutating hooks, in order ─► patched object ─► again, those that want it
//! validate: validating hooks, all at once ─► the first denial in order
//! ```

mod call;
mod client;
mod configuration;
mod configurations;
mod failure;
mod hook;
mod matching;
mod review;
mod rules;
mod service;

use std::sync::Arc;

use apimachinery::Status;
use apistore::{Revision, StoreError};
use futures::future::{BoxFuture, FutureExt as _, join_all, ready};
use serde_json::Value;

pub use configuration::resources;
pub use configurations::Configurations;
pub use service::{ServicePort, ServiceResolver, StoredServices};

use self::call::Caller;
use self::client::Client;
use self::hook::{Hook, Reinvocation};
use self::matching::{Subject, matching};
use self::review::Purpose;
use super::{Admission, Attributes, Operation};
use crate::api::Api;
use crate::reflector::{Informer, InformerTask};
use crate::storage::Storage;

/// Asks webhooks about writes. It comes last among the plug-ins that change objects.
#[derive(Clone, Debug)]
pub struct Webhooks {
    configurations: Informer<Configurations>,
    client: Client,
    resolver: Arc<dyn ServiceResolver>,
}

impl Webhooks {
    /// Reads all configurations. Changes of them are seen as long as the task runs.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start(
        storage: &Storage,
        resolver: impl ServiceResolver + 'static,
    ) -> Result<(Webhooks, InformerTask<Configurations>), StoreError> {
        let (configurations, task) = Informer::start(storage, configurations::PREFIX).await?;
        let (client, resolver) = (Client::default(), Arc::new(resolver));
        Ok((Webhooks { configurations, client, resolver }, task))
    }

    /// Waits until the webhooks of the configuration that was written by this change are called. The task must run.
    pub async fn wait_for(&self, revision: Revision) {
        self.configurations.wait_for(revision).await;
    }

    fn hooks(&self, purpose: Purpose) -> Arc<[Hook]> {
        self.configurations.read(|configurations| configurations.hooks(purpose))
    }

    /// Asks those who may change the object, one after the other; then again those that want to know what changed since.
    async fn mutate(
        &self,
        api: &Api,
        attributes: Attributes<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<(), Status> {
        let hooks = self.hooks(Purpose::Mutating);
        if hooks.is_empty() || is_exempt(attributes) {
            return Ok(());
        }
        let caller =
            Caller { api, client: &self.client, resolver: &*self.resolver, purpose: Purpose::Mutating };
        // Those that were asked and want to be asked again, and those of them that others changed something since.
        let (mut asked, mut again) = (Vec::new(), Vec::new());
        let mut changed_at_all = false;
        for (index, hook) in hooks.iter().enumerate() {
            let called = call_mutating(&caller, hook, attributes, object.as_deref_mut()).await?;
            let Called::Yes { changed } = called else { continue };
            if changed {
                again.append(&mut asked);
                changed_at_all = true;
            }
            if hook.reinvocation == Reinvocation::IfNeeded {
                asked.push(index);
            }
        }
        if !changed_at_all {
            return Ok(());
        }
        for hook in again.into_iter().map(|index| &hooks[index]) {
            call_mutating(&caller, hook, attributes, object.as_deref_mut()).await?;
        }
        Ok(())
    }

    /// Asks all who may deny, at once.
    async fn check(
        &self,
        api: &Api,
        attributes: Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), Status> {
        let hooks = self.hooks(Purpose::Validating);
        if hooks.is_empty() || is_exempt(attributes) {
            return Ok(());
        }
        let caller =
            Caller { api, client: &self.client, resolver: &*self.resolver, purpose: Purpose::Validating };
        let subject = Subject { attributes, object };
        let mut calls = Vec::new();
        for hook in hooks.iter() {
            if let Some(version) = matching(api, hook, subject).await? {
                calls.push(caller.ask(hook, version, subject));
            }
        }
        for (answer, warnings) in join_all(calls).await {
            warnings.into_iter().for_each(|warning| attributes.context.warn(warning));
            answer?;
        }
        Ok(())
    }
}

/// Whether a webhook was asked.
enum Called {
    No,
    Yes { changed: bool },
}

async fn call_mutating(
    caller: &Caller<'_>,
    hook: &Hook,
    attributes: Attributes<'_>,
    object: Option<&mut Value>,
) -> Result<Called, Status> {
    let subject = Subject { attributes, object: object.as_deref() };
    let Some(version) = matching(caller.api, hook, subject).await? else { return Ok(Called::No) };
    let (answer, warnings) = caller.ask(hook, version, subject).await;
    warnings.into_iter().for_each(|warning| attributes.context.warn(warning));
    let Some(patch) = answer? else { return Ok(Called::Yes { changed: false }) };
    let Some(object) = object else {
        let name = &hook.name;
        return Err(Status::internal_error(format!(
            "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
        )));
    };
    let changed = patch.apply(attributes.endpoint, version, object)?;
    Ok(Called::Yes { changed })
}

/// A configuration that webhooks could refuse could not be mended.
fn is_exempt(attributes: Attributes<'_>) -> bool {
    let resource = &attributes.endpoint.resource;
    resource.group == "admissionregistration.k8s.io"
        && matches!(
            resource.kind.as_str(),
            "ValidatingWebhookConfiguration"
                | "MutatingWebhookConfiguration"
                | "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding"
                | "MutatingAdmissionPolicy"
                | "MutatingAdmissionPolicyBinding"
        )
}

impl Admission for Webhooks {
    fn name(&self) -> &'static str {
        "Webhooks"
    }

    fn handles(&self, _operation: Operation) -> bool {
        true
    }

    fn admit<'a>(
        &'a self,
        api: &'a Api,
        attributes: Attributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        if self.hooks(Purpose::Mutating).is_empty() {
            return ready(Ok(())).boxed();
        }
        self.mutate(api, attributes, Some(object)).boxed()
    }

    fn validate<'a>(
        &'a self,
        api: &'a Api,
        attributes: Attributes<'a>,
        object: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        async move {
            // There is nothing to change about a deletion, but those who could are asked about it nevertheless.
            if attributes.operation == Operation::Delete {
                self.mutate(api, attributes, None).await?;
            }
            self.check(api, attributes, object).await
        }
        .boxed()
    }
}
