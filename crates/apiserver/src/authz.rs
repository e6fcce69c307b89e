//! What a user may do.

pub mod rbac;

use std::fmt;

use futures::future::{BoxFuture, FutureExt};

pub use self::rbac::Rbac;
use crate::authn::UserInfo;

/// What is asked, in the terms of who may do it.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Who asks.
    pub user: &'a UserInfo,
    /// `get`, `list`… or for other paths the method in lower case.
    pub verb: &'a str,
    /// What of which resource; absent for other paths.
    pub resource: Option<ResourceAttributes<'a>>,
    /// The path.
    pub path: &'a str,
}

/// Which objects.
#[derive(Clone, Copy, Debug)]
pub struct ResourceAttributes<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// `v1`
    pub version: &'a str,
    /// The plural.
    pub resource: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for all, and for resources without.
    pub namespace: &'a str,
    /// Empty for a collection.
    pub name: &'a str,
}

/// Whether something may be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not; with a reason for people, which may be empty.
    Deny(String),
}

/// Says what a user may do.
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// Whether the user may do it.
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision>;
}

/// Allows everything.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        std::future::ready(Decision::Allow).boxed()
    }
}

impl Attributes<'_> {
    /// What a client is told that may not do it.
    pub fn forbidden_message(&self) -> String {
        // Nothing that looks like HTML is sent back.
        let clean = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let Attributes { user, verb, path, .. } = self;
        clean(&match &self.resource {
            None => format!("User {:?} cannot {verb} path {path:?}", user.name),
            Some(resource) => {
                let name = match resource.subresource {
                    "" => resource.resource.to_owned(),
                    subresource => format!("{}/{subresource}", resource.resource),
                };
                let place = match resource.namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                format!(
                    "User {:?} cannot {verb} resource {name:?} in API group {:?} {place}",
                    user.name, resource.group
                )
            }
        })
    }
}
