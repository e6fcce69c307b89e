//! Live reads: absence from a cache proves nothing.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use portolan_api::portolan::{IPLock, NetworkAttachment};
use portolan_api::{kubeovn, portolan};
use portolan_model::holder::{self, Read, Users};
use portolan_model::{Source, Unit, World};
use portolan_watch as served;
use serde::de::DeserializeOwned;

use crate::engine::Confirmation;

/// Reads objects live: a World that has those that exist, and no others.
pub(crate) async fn read(client: &Client, reads: &[Read]) -> kube::Result<Confirmation> {
    let mut found = World::default();
    for read in reads {
        let found = &mut found;
        match read {
            Read::Pod { namespace, name } => {
                get::<Pod>(client, &in_namespace(client, namespace), name, found).await?
            }
            Read::StatefulSet { namespace, name } => {
                get::<StatefulSet>(client, &in_namespace(client, namespace), name, found).await?;
            }
            Read::NetworkAttachment { namespace, name } => {
                get::<NetworkAttachment>(client, &in_namespace(client, namespace), name, found).await?;
            }
            Read::Node { name } => get::<Node>(client, &Api::all(client.clone()), name, found).await?,
            Read::Subnet { name } => {
                get::<portolan::Subnet>(client, &Api::all(client.clone()), name, found).await?;
                get::<kubeovn::Subnet>(client, &Api::all(client.clone()), name, found).await?;
            }
            Read::Lock { name } => get::<IPLock>(client, &Api::all(client.clone()), name, found).await?,
            // Virtual machines are not watched yet, so nothing is known of them.
            Read::VirtualMachine { .. } => return Ok(Confirmation::Failed),
        }
    }
    Ok(Confirmation::Found(Box::new(found)))
}

async fn get<K>(client: &Client, api: &Api<K>, name: &str, found: &mut World) -> kube::Result<()>
where
    K: Resource<DynamicType = ()> + Source + Clone + DeserializeOwned + std::fmt::Debug,
{
    if let Some(object) = served::get(client, api, name).await? {
        // Nothing is planned from this World.
        drop(found.apply(&object));
    }
    Ok(())
}

/// Whether the owner of a unit, with this UID, is gone.
pub(crate) async fn owner_is_gone(client: &Client, unit: &Unit, owner: &str) -> kube::Result<bool> {
    let there = match unit {
        Unit::Vpc(name) => vpc_is_there(client, name, owner).await?,
        Unit::Peering(pair) => vpc_is_there(client, pair.first(), owner).await?,
        Unit::Subnet(name) => {
            has_uid(client, &Api::<portolan::Subnet>::all(client.clone()), name, owner).await?
                || has_uid(client, &Api::<kubeovn::Subnet>::all(client.clone()), name, owner).await?
        }
        Unit::Attachment(id) => match read(client, &holder::reads(id, &Users::default())).await? {
            Confirmation::Found(found) => holder::released(&found, id, &Users::default()).is_none(),
            Confirmation::Failed => true,
        },
    };
    Ok(!there)
}

async fn vpc_is_there(client: &Client, name: &str, uid: &str) -> kube::Result<bool> {
    Ok(has_uid(client, &Api::<portolan::Vpc>::all(client.clone()), name, uid).await?
        || has_uid(client, &Api::<kubeovn::Vpc>::all(client.clone()), name, uid).await?)
}

fn in_namespace<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), namespace)
}

/// Whether an object of this name is there with this UID.
async fn has_uid<K>(client: &Client, api: &Api<K>, name: &str, uid: &str) -> kube::Result<bool>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let object = served::get(client, api, name).await?;
    Ok(object.is_some_and(|object| object.uid().as_deref() == Some(uid)))
}
