//! Live reads: absence from a cache proves nothing.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt};
use portolan_api::portolan::{Holder, HolderKind, IPLock, NetworkAttachment};
use portolan_api::{kubeovn, portolan};
use portolan_ipam::Confirm;
use portolan_model::{Unit, UnitState, VpcPair, World, doors};
use portolan_plan::Absence;
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

/// Whether nothing asks for a unit any more, of which the database has rows with these owners.
pub(crate) async fn unit_absence(
    client: &Client,
    unit: &Unit,
    owners: &BTreeSet<String>,
) -> kube::Result<Absence> {
    let is_there = match unit {
        Unit::Vpc(name) => Vpcs::read(client, &[name]).await?.has_any(owners),
        Unit::Peering(pair) => {
            return Ok(Vpcs::read(client, &[pair.first(), pair.second()]).await?.peering_absence(pair));
        }
        Unit::Subnet(name) => {
            let (native, kubeovn) = both::<portolan::Subnet, kubeovn::Subnet>(client, name).await?;
            let uids = [native.and_then(|subnet| subnet.uid()), kubeovn.and_then(|subnet| subnet.uid())];
            uids.iter().flatten().any(|uid| owners.contains(uid))
        }
        Unit::Attachment(id) => !matches!(find(client, &id.holder()).await?, Found::Gone | Found::Finished),
    };
    Ok(if is_there { Absence::Refuted } else { Absence::Confirmed })
}

/// The VPCs of some names, as a live read found them.
#[derive(Debug, Default)]
pub(crate) struct Vpcs {
    pub(crate) native: Vec<portolan::Vpc>,
    pub(crate) kubeovn: Vec<kubeovn::Vpc>,
}

impl Vpcs {
    async fn read(client: &Client, names: &[&str]) -> kube::Result<Self> {
        let mut vpcs = Vpcs::default();
        for name in names {
            let (native, kubeovn) = both::<portolan::Vpc, kubeovn::Vpc>(client, name).await?;
            vpcs.native.extend(native);
            vpcs.kubeovn.extend(kubeovn);
        }
        Ok(vpcs)
    }

    /// Whether one of them has one of these UIDs.
    fn has_any(&self, uids: &BTreeSet<String>) -> bool {
        let native = self.native.iter().filter_map(ResourceExt::uid);
        native.chain(self.kubeovn.iter().filter_map(ResourceExt::uid)).any(|uid| uids.contains(&uid))
    }

    /// Whether these VPCs, which are all that have the names of the pair, ask for no peering. A peering has no object of
    /// its own: it is there as long as both VPCs ask for it, and stays while one of them cannot be understood.
    pub(crate) fn peering_absence(&self, pair: &VpcPair) -> Absence {
        let mut world = World::default();
        self.native.iter().for_each(|vpc| drop(world.apply(vpc)));
        self.kubeovn.iter().for_each(|vpc| drop(world.apply(vpc)));
        match world.state(&Unit::Peering(pair.clone())) {
            UnitState::Absent => Absence::Confirmed,
            UnitState::Held | UnitState::Live => Absence::Refuted,
        }
    }
}

/// The objects of both groups with this name.
async fn both<A, B>(client: &Client, name: &str) -> kube::Result<(Option<A>, Option<B>)>
where
    A: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
    B: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let native = served::get(client, &Api::<A>::all(client.clone()), name).await?;
    Ok((native, served::get(client, &Api::<B>::all(client.clone()), name).await?))
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
