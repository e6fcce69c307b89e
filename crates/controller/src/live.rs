//! Live reads: absence from a cache proves nothing.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use portolan_api::portolan::{Holder, HolderKind, IPLock, NetworkAttachment};
use portolan_api::{kubeovn, portolan};
use portolan_ipam::Confirm;
use portolan_model::{Unit, doors};
use portolan_watch as served;
use serde::de::DeserializeOwned;

use crate::engine::Confirmation;

/// What a live read found of who should be there.
enum Found {
    /// It is not there, or another one of its name is.
    Gone,
    /// It is there and will not run again.
    Finished,
    /// It is there.
    There(Option<Box<portolan_model::Pod>>),
    /// It is of a kind that is not read.
    Unknown,
}

/// Confirms that a lock may go.
pub(crate) async fn confirm(client: &Client, confirm: &Confirm) -> kube::Result<Confirmation> {
    let yes = |yes: bool| if yes { Confirmation::Yes } else { Confirmation::No };
    Ok(match confirm {
        Confirm::HolderGone(holder) => yes(matches!(find(client, holder).await?, Found::Gone)),
        Confirm::HolderFinished(holder) => {
            yes(matches!(find(client, holder).await?, Found::Gone | Found::Finished))
        }
        Confirm::OrdinalGone(holder) => yes(ordinal_is_gone(client, holder).await?),
        Confirm::NotAsked(holder) => match find(client, holder).await? {
            Found::Gone => Confirmation::Yes,
            Found::There(Some(pod)) => Confirmation::Holder(pod),
            Found::There(None) | Found::Finished | Found::Unknown => Confirmation::No,
        },
        Confirm::LocksThere(locks) => {
            for (name, uid) in locks {
                if !has_uid(client, &Api::<IPLock>::all(client.clone()), name, uid).await? {
                    return Ok(Confirmation::No);
                }
            }
            Confirmation::Yes
        }
    })
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
        Unit::Attachment(id) => !matches!(find(client, &id.holder()).await?, Found::Gone | Found::Finished),
    };
    Ok(!there)
}

async fn vpc_is_there(client: &Client, name: &str, uid: &str) -> kube::Result<bool> {
    Ok(has_uid(client, &Api::<portolan::Vpc>::all(client.clone()), name, uid).await?
        || has_uid(client, &Api::<kubeovn::Vpc>::all(client.clone()), name, uid).await?)
}

async fn find(client: &Client, holder: &Holder) -> kube::Result<Found> {
    let there = match holder.kind {
        HolderKind::Pod => {
            let pods = namespaced::<Pod>(client, holder);
            let pod = served::get(client, &pods, &holder.name).await?;
            return Ok(match pod.filter(|pod| pod.uid().as_ref() == Some(&holder.uid)) {
                None => Found::Gone,
                Some(pod) => {
                    let pod = doors::pod::pod(&pod);
                    if pod.finished { Found::Finished } else { Found::There(Some(Box::new(pod))) }
                }
            });
        }
        HolderKind::StatefulSet => match holder.name.rsplit_once('-') {
            Some((set, _)) => {
                has_uid(client, &namespaced::<StatefulSet>(client, holder), set, &holder.uid).await?
            }
            None => false,
        },
        HolderKind::NetworkAttachment => {
            has_uid(client, &namespaced::<NetworkAttachment>(client, holder), &holder.name, &holder.uid)
                .await?
        }
        HolderKind::Node => {
            has_uid(client, &Api::<Node>::all(client.clone()), &holder.name, &holder.uid).await?
        }
        // Virtual machines are not watched yet, so nothing is known of them.
        HolderKind::VirtualMachine => return Ok(Found::Unknown),
    };
    Ok(if there { Found::There(None) } else { Found::Gone })
}

async fn ordinal_is_gone(client: &Client, holder: &Holder) -> kube::Result<bool> {
    let Some((name, _)) = holder.name.rsplit_once('-') else { return Ok(true) };
    let set = served::get(client, &namespaced::<StatefulSet>(client, holder), name).await?;
    let set = set.filter(|set| set.uid().as_ref() == Some(&holder.uid));
    let in_range = set.is_some_and(|set| doors::pod::stateful_set(&set).has_ordinal(&holder.name));
    let pods = namespaced::<Pod>(client, holder);
    Ok(!in_range && served::get(client, &pods, &holder.name).await?.is_none())
}

fn namespaced<K>(client: &Client, holder: &Holder) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), holder.namespace.as_deref().unwrap_or_default())
}

/// Whether an object of this name is there with this UID.
async fn has_uid<K>(client: &Client, api: &Api<K>, name: &str, uid: &str) -> kube::Result<bool>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let object = served::get(client, api, name).await?;
    Ok(object.is_some_and(|object| object.uid().as_deref() == Some(uid)))
}
