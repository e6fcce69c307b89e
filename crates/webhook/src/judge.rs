//! What is said about an object: first what can be said about it alone, then beside the World, and what that finds is confirmed by
//! live lists before it is said.

use std::fmt::Debug;
use std::time::Duration;

use kube::{Client, Resource};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, LockAddress, LockName, NetworkAttachment};
use portolan_api::{FieldError, FieldErrors, FieldPath, Provider, Reason, kubeovn, portolan};
use portolan_model::validate::{Findings, Validate, validate};
use portolan_model::{Settings, Subnet, World, doors};
use portolan_watch::Received;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::Worlds;
use crate::metrics::Verdict;
use crate::neighbours::{References, gather};
use crate::review::{GroupVersionKind, Request, Said};

/// How long the World may take to answer: the control loop is busy, or has not listed everything yet.
const WORLD: Duration = Duration::from_millis(500);
/// How long live lists may take. Both together are shorter than what the API server waits for by `deploy/webhook.yaml`.
const LIVE: Duration = Duration::from_millis(1500);
/// How many live lists are under way at once.
const LIVE_AT_ONCE: usize = 2;
/// The largest spec, as JSON, that is judged. Some checks compare everything in a list with everything else, the control loop waits
/// for those beside the World, and whoever asks need not keep to the bounds of the definitions. A Vpc of this size has almost a
/// thousand routes.
const LARGEST: usize = 64 * 1024;

/// A kind that is judged.
pub(crate) trait Judged:
    Validate + Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
    /// Whether there is more to say about it beside others.
    const BESIDE_OTHERS: bool = true;

    /// What its judgement needs besides all Vpcs and Subnets.
    fn references(&self) -> References;
}

/// Judges objects.
pub(crate) struct Judge<W> {
    client: Client,
    /// Of the cluster: they are known before there is a World.
    settings: Settings,
    worlds: W,
    /// The control loop makes room for one question at a time.
    asking: Semaphore,
    listing: Semaphore,
}

impl<W: Worlds> Judge<W> {
    pub(crate) fn new(client: Client, settings: Settings, worlds: W) -> Self {
        let (asking, listing) = (Semaphore::new(1), Semaphore::new(LIVE_AT_ONCE));
        Judge { client, settings, worlds, asking, listing }
    }

    /// What is said about the object of a request, and its kind's name.
    pub(crate) async fn judge(&self, request: &Request) -> (&'static str, Verdict, Said) {
        macro_rules! by_kind {
            ($($name:literal: $kind:ty),* $(,)?) => {
                $(if is::<$kind>(&request.kind) {
                    let (verdict, said) = self.judge_kind::<$kind>(request).await;
                    return ($name, verdict, said);
                })*
            };
        }
        by_kind! {
            "Vpc.portolan.dev": portolan::Vpc,
            "Subnet.portolan.dev": portolan::Subnet,
            "NetworkAttachment.portolan.dev": NetworkAttachment,
            "IPLock.portolan.dev": IPLock,
            "Vpc.kubeovn.io": kubeovn::Vpc,
            "Subnet.kubeovn.io": kubeovn::Subnet,
            "IPPool.kubeovn.io": kubeovn::IPPool,
            "Vip.kubeovn.io": kubeovn::Vip,
            "NetworkAttachmentDefinition.k8s.cni.cncf.io": NetworkAttachmentDefinition,
        }
        // Not ours to refuse.
        ("other", Verdict::Unknown, Said::default())
    }

    async fn judge_kind<K: Judged>(&self, request: &Request) -> (Verdict, Said) {
        if !request.is_write() || !request.changes_spec() {
            return (Verdict::Unchanged, Said::default());
        }
        let content = request.object.as_ref().unwrap_or(&Value::Null);
        if [Some(content), request.old_object.as_ref()].into_iter().flatten().any(is_too_large) {
            return (Verdict::Unconfirmed, Said::default());
        }
        let object: K = match decode(content) {
            Ok(object) => object,
            Err(errors) => {
                let said = Said { errors: errors.into_iter().collect(), warnings: Vec::new() };
                return (Verdict::Refused, said);
            }
        };
        let old: Option<K> = request.old_object.as_ref().and_then(|old| decode(old).ok());
        let pair = Pair { object, old };

        let alone = pair.beside(&World::new(self.settings));
        if !alone.errors.is_empty() {
            let warnings = alone.certain_warnings();
            return (Verdict::Refused, Said { errors: alone.errors, warnings });
        }
        if !K::BESIDE_OTHERS {
            return (Verdict::Allowed, Said { errors: Vec::new(), warnings: alone.certain_warnings() });
        }
        match self.beside_others(pair).await {
            Some(found) => {
                let verdict = if found.errors.is_empty() { Verdict::Allowed } else { Verdict::Refused };
                (verdict, Said { errors: found.errors, warnings: found.warnings })
            }
            None => (Verdict::Unconfirmed, Said { errors: Vec::new(), warnings: alone.certain_warnings() }),
        }
    }

    /// None if it cannot be known, or not in time.
    async fn beside_others<K: Judged>(&self, pair: Pair<K>) -> Option<Found> {
        let asked = {
            let pair = pair.clone();
            async move {
                let _turn = self.asking.acquire().await.ok()?;
                self.worlds.read(move |world| pair.beside(world)).await
            }
        };
        let found = timeout(WORLD, asked).await.ok()??;
        if found.errors.is_empty() && found.warnings.iter().all(is_certain) {
            return Some(found);
        }
        // What a watch has shown, and what it has not, may have changed a moment ago.
        let references = pair.references();
        let gathered = async {
            let _turn = self.listing.acquire().await.ok()?;
            match gather(&self.client, self.settings, &references).await {
                Ok(world) => Some(world),
                Err(error) => {
                    tracing::warn!(%error, "cannot confirm what is wrong with an object; it is allowed");
                    None
                }
            }
        };
        Some(pair.beside(&timeout(LIVE, gathered).await.ok()??))
    }
}

fn is<K: Resource<DynamicType = ()>>(asked: &GroupVersionKind) -> bool {
    asked.group == K::group(&()) && asked.version == K::version(&()) && asked.kind == K::kind(&())
}

fn is_too_large(content: &Value) -> bool {
    content["spec"].to_string().len() > LARGEST
}

/// Whether a warning holds whatever the other objects are.
fn is_certain(warning: &FieldError) -> bool {
    warning.reason == Reason::NotSupported
}

fn decode<K: Judged>(content: &Value) -> Result<K, FieldErrors> {
    match serde_json::from_value::<Received<K>>(content.clone()) {
        Ok(Received::Readable(object)) => Ok(object),
        Ok(Received::Unreadable(unreadable)) => {
            let (field, problem) = (&unreadable.field, &unreadable.problem);
            let (metadata, content) = (&unreadable.object.metadata, &unreadable.content);
            Err(portolan_model::Unreadable { metadata, content, field, problem }.errors())
        }
        Err(error) => {
            let mut errors = FieldErrors::new();
            errors.add_bare(&FieldPath::root("object"), Reason::Invalid, format!("cannot be read: {error}"));
            Err(errors)
        }
    }
}

/// An object, and what it was.
#[derive(Clone, Debug)]
struct Pair<K> {
    object: K,
    old: Option<K>,
}

/// What there is to say about an object beside some World.
#[derive(Debug, Default)]
struct Found {
    /// What is wrong, and was not before.
    errors: Vec<FieldError>,
    /// What its author may not have meant, and what was wrong before.
    warnings: Vec<FieldError>,
}

impl Found {
    fn certain_warnings(&self) -> Vec<FieldError> {
        self.warnings.iter().filter(|warning| is_certain(warning)).cloned().collect()
    }
}

impl<K: Judged> Pair<K> {
    fn beside(&self, world: &World) -> Found {
        let Findings { errors, mut warnings } = validate(&self.object, world);
        let before = self.old.as_ref().map(|old| validate(old, world).errors).unwrap_or_default();
        // Whoever repairs one thing need not repair all at once.
        let (known, errors): (Vec<_>, Vec<_>) = errors.into_iter().partition(|error| before.contains(error));
        warnings.extend(known);
        Found { errors, warnings }
    }

    fn references(&self) -> References {
        let mut references = self.object.references();
        if let Some(old) = &self.old {
            references.extend(old.references());
        }
        references
    }
}

impl Judged for portolan::Subnet {
    fn references(&self) -> References {
        doors::portolan::subnet(self).map(|subnet| of_subnet(&subnet)).unwrap_or_default()
    }
}

impl Judged for kubeovn::Subnet {
    fn references(&self) -> References {
        doors::kubeovn::subnet(self).map(|subnet| of_subnet(&subnet)).unwrap_or_default()
    }
}

fn of_subnet(subnet: &Subnet) -> References {
    let lock = |address| LockName::new(&subnet.domain, LockAddress::Ip(address)).to_string();
    let mut references = References {
        subnet: Some((subnet.name.clone(), subnet.uid.clone())),
        locks: subnet.config.gateway.addresses().map(lock).collect(),
        ..References::default()
    };
    if let Some(Provider::Nad { namespace, name }) = &subnet.config.provider {
        references.nads.insert((namespace.clone(), name.clone()));
    }
    references
}

impl Judged for NetworkAttachment {
    fn references(&self) -> References {
        References { nodes: [self.spec.node.clone()].into(), ..References::default() }
    }
}

impl Judged for kubeovn::IPPool {
    fn references(&self) -> References {
        References { ip_pools: true, ..References::default() }
    }
}

impl Judged for kubeovn::Vip {
    fn references(&self) -> References {
        References::default()
    }
}

impl Judged for portolan::Vpc {
    fn references(&self) -> References {
        References::default()
    }
}

impl Judged for kubeovn::Vpc {
    fn references(&self) -> References {
        References::default()
    }
}

/// A definition comes before its Subnet as a rule: that there is none yet is no mistake of its author.
impl Judged for NetworkAttachmentDefinition {
    const BESIDE_OTHERS: bool = false;

    fn references(&self) -> References {
        References::default()
    }
}

impl Judged for IPLock {
    const BESIDE_OTHERS: bool = false;

    fn references(&self) -> References {
        References::default()
    }
}
