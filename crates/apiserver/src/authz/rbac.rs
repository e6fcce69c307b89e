//! RBAC: users may do what the roles that are bound to them allow.
//!
//! [`Rbac::start`] reads the roles and bindings of the store once, and follows them from there. A decision reads memory only.

mod policy;
mod rule;

use std::sync::{Arc, PoisonError, RwLock};

use apistore::{Range, Revision, StoreError};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};

pub use self::policy::{Kind, Policy};
pub use self::rule::{Rule, Wish, uncovered};
use super::{Attributes, Authorizer, Decision, ResourceAttributes};
use crate::storage::{Key, Storage, StorageWatch, StoredObject};

/// The group that may do everything, whatever roles say.
pub const SUPERUSERS: &str = "system:masters";

const PREFIX: &[u8] = b"/registry/rbac.authorization.k8s.io/";

/// Says what users may do, by roles and bindings.
#[derive(Clone, Debug, Default)]
pub struct Rbac {
    policy: Arc<RwLock<Policy>>,
}

/// What goes on following the store; it must run for changes to be seen.
#[must_use = "changes of roles are not seen unless this runs"]
pub struct Following {
    policy: Arc<RwLock<Policy>>,
    storage: Storage,
    events: StorageWatch,
}

impl Rbac {
    /// Reads all roles and bindings. What is returned beside it must run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start(storage: &Storage) -> Result<(Rbac, Following), StoreError> {
        let rbac = Rbac::default();
        let events = list(storage, &rbac.policy).await?;
        let following = Following { policy: Arc::clone(&rbac.policy), storage: storage.clone(), events };
        Ok((rbac, following))
    }

    /// Looks at the roles and bindings.
    pub fn read<T>(&self, look: impl FnOnce(&Policy) -> T) -> T {
        look(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Following {
    /// Follows the store until it is closed.
    pub async fn run(mut self) {
        loop {
            match self.events.next().await {
                Ok(events) => {
                    let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
                    for event in &events {
                        let previous = event.previous.as_ref().map(|(value, _)| value);
                        tell(&mut policy, &event.key, event.value.as_ref(), previous);
                    }
                }
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::warn!(%error, "roles are read anew");
                    match list(&self.storage, &self.policy).await {
                        Ok(events) => self.events = events,
                        Err(error) => {
                            tracing::error!(%error, "roles are no longer followed");
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// Reads everything, puts it in place of what was known, and returns what tells of changes since.
async fn list(storage: &Storage, policy: &RwLock<Policy>) -> Result<StorageWatch, StoreError> {
    let page = storage.list(Range { prefix: Bytes::from_static(PREFIX), ..Range::default() }).await?;
    let mut all = Policy::default();
    for entry in &page.entries {
        tell(&mut all, &entry.key, Some(&entry.value), None);
    }
    *policy.write().unwrap_or_else(PoisonError::into_inner) = all;
    storage.watch(Bytes::from_static(PREFIX), page.revision).await
}

fn tell(policy: &mut Policy, key: &Bytes, value: Option<&Bytes>, previous: Option<&Bytes>) {
    let kind = match Key::parse(key).map(|key| key.resource) {
        Some("rbac.authorization.k8s.io/roles" | "rbac.authorization.k8s.io/clusterroles") => Kind::Role,
        Some("rbac.authorization.k8s.io/rolebindings" | "rbac.authorization.k8s.io/clusterrolebindings") => {
            Kind::Binding
        }
        _ => return,
    };
    let parsed =
        |raw: &Bytes| StoredObject::decode(raw.clone(), Revision(0)).and_then(|stored| stored.to_value());
    match (value, previous) {
        (Some(value), _) => {
            if let Ok(object) = parsed(value) {
                policy.apply(kind, &object);
            }
        }
        (None, Some(previous)) => {
            if let Ok(object) = parsed(previous) {
                policy.delete(kind, &object);
            }
        }
        (None, None) => {}
    }
}

impl Authorizer for Rbac {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let user = attributes.user;
        if is_superuser(&attributes) {
            return std::future::ready(Decision::Allow).boxed();
        }
        let (namespace, wish) = wish(&attributes);
        let decision = self.read(|policy| {
            if policy.allows(&user.name, &user.groups, namespace, &wish) {
                return Decision::Allow;
            }
            Decision::Deny(policy.complaint(&user.name, &user.groups, namespace))
        });
        std::future::ready(decision).boxed()
    }

    fn why_allowed<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, String> {
        let user = attributes.user;
        if is_superuser(&attributes) {
            return std::future::ready(String::new()).boxed();
        }
        let (namespace, wish) = wish(&attributes);
        let why = self.read(|policy| policy.why(&user.name, &user.groups, namespace, &wish));
        std::future::ready(why.unwrap_or_default()).boxed()
    }
}

fn is_superuser(attributes: &Attributes<'_>) -> bool {
    attributes.user.groups.iter().any(|group| group == SUPERUSERS)
}

/// What is wished, and in which namespace.
fn wish<'a>(attributes: &Attributes<'a>) -> (&'a str, Wish<'a>) {
    let verb = attributes.verb;
    match attributes.resource {
        Some(of) => {
            let ResourceAttributes { group, resource, subresource, name, .. } = of;
            (of.namespace, Wish::Resource { verb, group, resource, subresource, name })
        }
        None => ("", Wish::Path { verb, path: attributes.path }),
    }
}
