//! Which kinds there are besides the built-in ones: what CustomResourceDefinitions and APIServices say.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Debug;

use kube::core::{ClusterResourceScope, ObjectMeta};
use kube::{Resource, ResourceExt};
use serde::Deserialize;
use tokio::sync::watch;

use crate::existence::Kind;
use crate::{Change, Unreadable};

/// A CustomResourceDefinition, without the schemas: its name says which kind it defines.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Definition {
    metadata: ObjectMeta,
}

/// An APIService. One without a service is served by the API server itself, as built-in kinds and custom resources are.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ApiService {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ApiServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ApiServiceSpec {
    #[serde(default)]
    group: String,
    service: Option<ServiceReference>,
}

#[derive(Clone, Debug, Deserialize)]
struct ServiceReference {}

impl ApiService {
    /// Whether another server than the API server answers for its group.
    pub(crate) fn is_delegated(&self) -> bool {
        self.spec.service.is_some()
    }
}

macro_rules! resource {
    ($type:ty, $group:literal, $kind:literal, $plural:literal) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = ClusterResourceScope;
            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> Cow<'_, str> {
                "v1".into()
            }
            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(Definition, "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
resource!(ApiService, "apiregistration.k8s.io", "APIService", "apiservices");

/// What the watches of definitions and services have shown. None: not listed yet.
#[derive(Debug, Default)]
struct Known {
    /// Whether the watches run at all.
    is_followed: bool,
    /// Names of CustomResourceDefinitions.
    defined: Option<BTreeSet<String>>,
    /// Names of delegated APIServices, with their groups.
    delegated: Option<BTreeSet<(String, String)>>,
}

/// The kinds that are known to exist, as far as the watches tell. Clones show the same.
#[derive(Clone, Debug)]
pub(crate) struct Definitions(watch::Sender<Known>);

impl Definitions {
    pub(crate) fn new() -> Self {
        Definitions(watch::Sender::new(Known { is_followed: true, ..Known::default() }))
    }

    /// Nothing is watched, so nothing is ever known to be absent.
    pub(crate) fn not_followed() -> Self {
        Definitions(watch::Sender::new(Known::default()))
    }

    /// Whether a kind that comes into being will be noticed.
    pub(crate) fn are_followed(&self) -> bool {
        self.0.borrow().is_followed
    }

    /// True if both watches have listed and neither has anything that would serve this kind. A reason to ask, not an answer.
    pub(crate) fn lack(&self, kind: &Kind) -> bool {
        let known = self.0.borrow();
        let (Some(defined), Some(delegated)) = (&known.defined, &known.delegated) else { return false };
        !defined.contains(&kind.to_string()) && !delegated.iter().any(|(_, group)| *group == kind.group)
    }

    /// Changes whenever a definition or an APIService does. What is there now counts as seen.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.0.subscribe())
    }

    pub(crate) fn take_definition(&self, change: Change<Definition>) {
        self.0.send_modify(|known| {
            let defined = known.defined.get_or_insert_default();
            // What cannot be decoded defines its kind all the same.
            match change {
                Change::Applied(definition) => drop(defined.insert(definition.name_any())),
                Change::Unreadable(definition) => drop(defined.insert(definition.object.name_any())),
                Change::Deleted(definition) => drop(defined.remove(&definition.name_any())),
                Change::Listed(all) => {
                    let unreadable = all.unreadable.iter().map(|definition| definition.object.name_any());
                    *defined = all.objects.iter().map(ResourceExt::name_any).chain(unreadable).collect();
                }
            }
        });
    }

    pub(crate) fn take_service(&self, change: Change<ApiService>) {
        let row = |service: &ApiService| (service.name_any(), service.spec.group.clone());
        // Who serves the group of one that cannot be decoded is not known. It is named by version and group.
        let unreadable_row = |service: &Unreadable<ApiService>| {
            let name = service.object.name_any();
            let group = name.split_once('.').map(|(_, group)| group.to_owned()).unwrap_or_default();
            (name, group)
        };
        self.0.send_modify(|known| {
            let delegated = known.delegated.get_or_insert_default();
            match change {
                Change::Applied(service) => {
                    delegated.retain(|(name, _)| *name != service.name_any());
                    if service.is_delegated() {
                        delegated.insert(row(&service));
                    }
                }
                Change::Unreadable(service) => {
                    delegated.retain(|(name, _)| *name != service.object.name_any());
                    delegated.insert(unreadable_row(&service));
                }
                Change::Deleted(service) => delegated.retain(|(name, _)| *name != service.name_any()),
                Change::Listed(all) => {
                    let readable = all.objects.iter().filter(|service| service.is_delegated()).map(row);
                    *delegated = readable.chain(all.unreadable.iter().map(unreadable_row)).collect();
                }
            }
        });
    }
}

/// Changes of definitions after a point in time.
#[derive(Debug)]
pub(crate) struct Changes(watch::Receiver<Known>);

impl Changes {
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
