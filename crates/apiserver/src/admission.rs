//! Admission control: plug-ins that change or refuse writes, besides the kind's own [`Strategy`](crate::registry::Strategy).
//!
//! Plug-ins are called in order: first each may change the object, then, when it is complete and valid, each may refuse it.

mod namespace_lifecycle;
pub mod webhook;

use std::fmt;
use std::sync::Arc;

use apimachinery::Status;
use futures::future::{BoxFuture, FutureExt};
use serde_json::Value;

pub use namespace_lifecycle::NamespaceLifecycle;

use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::WriteOptions;

/// The operation that a plug-in is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is updated.
    Update,
    /// An object is deleted.
    Delete,
    /// A client connects to an object.
    Connect,
}

impl Operation {
    /// As it is written in an AdmissionReview.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// The request that plug-ins are called for.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The operation.
    pub operation: Operation,
    /// The resource and object. For a create, the name may not be known yet.
    pub endpoint: &'a Endpoint,
    /// The object's name; empty if it is not known yet.
    pub name: &'a str,
    /// The user, and the warnings of the answer.
    pub context: &'a Context,
    /// The stored object; absent for a create.
    pub old: Option<&'a Value>,
    /// The options of the request.
    pub options: &'a WriteOptions,
}

/// An admission plug-in.
pub trait Admission: Send + Sync + fmt::Debug {
    /// The plug-in's name.
    fn name(&self) -> &'static str;

    /// Whether it is to be called for an operation.
    fn handles(&self, operation: Operation) -> bool;

    /// Mutating admission: may change the object, or refuse the request. Called before the object is validated.
    fn admit<'a>(
        &'a self,
        _api: &'a Api,
        _attributes: Attributes<'a>,
        _object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        std::future::ready(Ok(())).boxed()
    }

    /// Validating admission: may refuse the request. Called after the object is validated; a deletion has no object, only
    /// [`Attributes::old`].
    fn validate<'a>(
        &'a self,
        _api: &'a Api,
        _attributes: Attributes<'a>,
        _object: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        std::future::ready(Ok(())).boxed()
    }
}

/// The plug-ins, in order.
#[derive(Clone, Debug, Default)]
pub struct AdmissionChain {
    plugins: Vec<Arc<dyn Admission>>,
}

impl AdmissionChain {
    /// A chain of these.
    pub fn new(plugins: Vec<Arc<dyn Admission>>) -> AdmissionChain {
        AdmissionChain { plugins }
    }

    /// Calls the mutating part of all plug-ins.
    pub async fn admit(
        &self,
        api: &Api,
        attributes: Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Status> {
        for plugin in self.plugins.iter().filter(|plugin| plugin.handles(attributes.operation)) {
            plugin.admit(api, attributes, object).await?;
        }
        Ok(())
    }

    /// Calls the validating part of all plug-ins.
    pub async fn validate(
        &self,
        api: &Api,
        attributes: Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), Status> {
        for plugin in self.plugins.iter().filter(|plugin| plugin.handles(attributes.operation)) {
            plugin.validate(api, attributes, object).await?;
        }
        Ok(())
    }
}
