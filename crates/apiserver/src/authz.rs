//! Authorization: what a user may do.

pub mod rbac;

use std::fmt;

use apimachinery::{Access, Accessed, Status};
use futures::future::{BoxFuture, FutureExt};

pub use self::rbac::Rbac;
use crate::authn::UserInfo;

/// The attributes of a request that authorization decides by.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The user.
    pub user: &'a UserInfo,
    /// `get`, `list`… or for other paths the method in lower case.
    pub verb: &'a str,
    /// The resource; absent for other paths.
    pub resource: Option<ResourceAttributes<'a>>,
    /// The path.
    pub path: &'a str,
}

/// The resource attributes of a request.
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

/// The decision of an authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allow,
    /// The request is denied, with a reason for people, which may be empty.
    Deny(String),
}

/// Decides whether requests are allowed.
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// Whether the request is allowed.
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision>;

    /// Why the request is allowed, for people; empty if there is nothing to say. Only access reviews show it.
    fn why_allowed<'a>(&'a self, _attributes: Attributes<'a>) -> BoxFuture<'a, String> {
        std::future::ready(String::new()).boxed()
    }
}

/// Authorizes a request, or fails with `Forbidden`.
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
