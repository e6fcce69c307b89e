//! What a user may do.

pub mod rbac;

use std::fmt;

use apimachinery::{Access, Accessed, Status};
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

    /// Why the user may do it, for people; empty if there is nothing to say. Only reviews ask.
    fn why_allowed<'a>(&'a self, _attributes: Attributes<'a>) -> BoxFuture<'a, String> {
        std::future::ready(String::new()).boxed()
    }
}

/// Asks, and refuses what may not be done.
///
/// # Errors
/// A Status for the client.
pub async fn check(authorizer: &dyn Authorizer, attributes: Attributes<'_>) -> Result<(), Status> {
    let Decision::Deny(reason) = authorizer.authorize(attributes).await else { return Ok(()) };
    let Attributes { user, verb, resource, path } = attributes;
    let of = match resource {
        None => Accessed::Path(path),
        Some(ResourceAttributes { group, resource, subresource, namespace, name, .. }) => {
            Accessed::Resource { group, resource, subresource, namespace, name }
        }
    };
    Err(Status::access_denied(&Access { user: &user.name, verb, of }, &reason))
}

/// Allows everything.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        std::future::ready(Decision::Allow).boxed()
    }
}
