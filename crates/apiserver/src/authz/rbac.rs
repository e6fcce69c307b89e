//! RBAC: users may do what the roles that are bound to them allow.
//!
//! The roles and bindings are an [`Informer`]'s cache: a decision reads memory only.

mod policy;
mod rule;

use apistore::{Revision, StoreError};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};

pub use self::policy::{Kind, Policy};
pub use self::rule::{Rule, RuleRequest, uncovered};
use super::{Attributes, Authorizer, Decision, ResourceAttributes};
use crate::reflector::{Cache, Informer, InformerTask, Progress};
use crate::storage::{Key, Storage, StoredObject};

/// The group that may do everything, whatever roles say.
pub const SUPERUSERS: &str = "system:masters";

const PREFIX: &[u8] = b"/registry/rbac.authorization.k8s.io/";

/// Says what users may do, by roles and bindings.
#[derive(Clone, Debug, Default)]
pub struct Rbac {
    policy: Informer<Policy>,
}

impl Rbac {
    /// Reads all roles and bindings. Changes of them are seen as long as the task runs.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start(storage: &Storage) -> Result<(Rbac, InformerTask<Policy>), StoreError> {
        let (policy, task) = Informer::start(storage, PREFIX).await?;
        Ok((Rbac { policy }, task))
    }

    /// Reads the roles and bindings.
    pub fn read<T>(&self, read: impl FnOnce(&Policy) -> T) -> T {
        self.policy.read(read)
    }

    /// Whether changes of roles and bindings are seen.
    pub fn progress(&self) -> &Progress {
        self.policy.progress()
    }

    /// Waits until the role or binding that was written by this change counts.
    pub async fn wait_for(&self, revision: Revision) {
        self.policy.wait_for(revision).await;
    }
}

impl Cache for Policy {
    fn observe(&mut self, key: &Bytes, value: Option<&Bytes>, previous: Option<&Bytes>) {
        let kind = match Key::parse(key).map(|key| key.resource) {
            Some("rbac.authorization.k8s.io/roles" | "rbac.authorization.k8s.io/clusterroles") => Kind::Role,
            Some(
                "rbac.authorization.k8s.io/rolebindings" | "rbac.authorization.k8s.io/clusterrolebindings",
            ) => Kind::Binding,
            _ => return,
        };
        let parsed =
            |raw: &Bytes| StoredObject::decode(raw.clone(), Revision(0)).and_then(|stored| stored.to_value());
        match (value, previous) {
            (Some(value), _) => {
                if let Ok(object) = parsed(value) {
                    self.apply(kind, &object);
                }
            }
            (None, Some(previous)) => {
                if let Ok(object) = parsed(previous) {
                    self.delete(kind, &object);
                }
            }
            (None, None) => {}
        }
    }
}

impl Authorizer for Rbac {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let user = attributes.user;
        if is_superuser(&attributes) {
            return std::future::ready(Decision::Allow).boxed();
        }
        let (namespace, request) = request(&attributes);
        let decision = self.read(|policy| {
            if policy.allows(&user.name, &user.groups, namespace, &request) {
                return Decision::Allow;
            }
            Decision::Deny(policy.errors(&user.name, &user.groups, namespace))
        });
        std::future::ready(decision).boxed()
    }

    fn why_allowed<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, String> {
        let user = attributes.user;
        if is_superuser(&attributes) {
            return std::future::ready(String::new()).boxed();
        }
        let (namespace, request) = request(&attributes);
        let reason = self.read(|policy| policy.reason(&user.name, &user.groups, namespace, &request));
        std::future::ready(reason.unwrap_or_default()).boxed()
    }
}

fn is_superuser(attributes: &Attributes<'_>) -> bool {
    attributes.user.groups.iter().any(|group| group == SUPERUSERS)
}

/// The namespace of a request, and the request as rules see it.
fn request<'a>(attributes: &Attributes<'a>) -> (&'a str, RuleRequest<'a>) {
    let verb = attributes.verb;
    match attributes.resource {
        Some(of) => {
            let ResourceAttributes { group, resource, subresource, name, .. } = of;
            (of.namespace, RuleRequest::Resource { verb, group, resource, subresource, name })
        }
        None => ("", RuleRequest::NonResource { verb, path: attributes.path }),
    }
}
