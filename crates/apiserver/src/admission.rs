//! What has a say in every write, besides the kind itself.
//!
//! Plug-ins are asked in order: first all may change the object, then, when it is complete and valid, all may refuse it.

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

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// It is connected to.
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

/// A write that plug-ins are asked about.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// What is done.
    pub operation: Operation,
    /// To what. For a create, the name may not be known yet.
    pub endpoint: &'a Endpoint,
    /// The object's name; empty if it is not known yet.
    pub name: &'a str,
    /// By whom.
    pub context: &'a Context,
    /// What was there; absent for a create.
    pub old: Option<&'a Value>,
    /// How.
    pub options: &'a WriteOptions,
}

/// Something that has a say in writes.
pub trait Admission: Send + Sync + fmt::Debug {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Whether it wants to be asked.
    fn handles(&self, operation: Operation) -> bool;

    /// May change the object, or refuse it.
    fn admit<'a>(
        &'a self,
        _api: &'a Api,
        _attributes: Attributes<'a>,
        _object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        std::future::ready(Ok(())).boxed()
    }

    /// May refuse the object. A deletion has none, only the old one.
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

    /// Lets all change the object.
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

    /// Lets all refuse the object.
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
