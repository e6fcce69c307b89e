//! The others that an object is judged beside, as the API server's store has them now.

use std::collections::BTreeSet;
use std::fmt::Debug;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, Resource};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{HolderKind, IPLock};
use portolan_api::{kubeovn, portolan};
use portolan_model::{FirstInterface, Settings, Source, World};
use portolan_watch::{Listed, Unreadable, get, list};
use serde::de::DeserializeOwned;

/// What is read besides all Vpcs and Subnets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    /// Name and UID of the Subnet that is judged, if it is one.
    pub(crate) subnet: Option<(String, String)>,
    /// Whether all IPPools are: they may overlap.
    pub(crate) ip_pools: bool,
    /// Network attachment definitions by namespace and name.
    pub(crate) nads: BTreeSet<(String, String)>,
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) locks: BTreeSet<String>,
}

impl References {
    pub(crate) fn extend(&mut self, other: References) {
        self.ip_pools |= other.ip_pools;
        self.nads.extend(other.nads);
        self.nodes.extend(other.nodes);
        self.locks.extend(other.locks);
    }

    /// Whether a lock is one of a Subnet that was deleted and is made again: it goes by itself.
    fn is_left_over(&self, lock: &IPLock) -> bool {
        let holder = &lock.spec.holder;
        let same_name = |(name, uid): &(String, String)| *name == holder.name && *uid != holder.uid;
        holder.kind == HolderKind::Subnet && self.subnet.as_ref().is_some_and(same_name)
    }
}

/// A World of all Vpcs and Subnets, and of what is referred to.
///
/// # Errors
/// When something cannot be read. That it does not exist is no error.
pub(crate) async fn gather(
    client: &Client,
    settings: Settings,
    references: &References,
) -> kube::Result<World> {
    let mut world = World::new(settings);
    let (vpcs, of_kube_ovn, subnets, subnets_of_kube_ovn) = tokio::try_join!(
        list::<portolan::Vpc>(client),
        list::<kubeovn::Vpc>(client),
        list::<portolan::Subnet>(client),
        list::<kubeovn::Subnet>(client),
    )?;
    // Their prefixes are subnets too.
    if settings.first_interface == FirstInterface::Portolan && references.subnet.is_some() {
        take(&mut world, &list::<Node>(client).await?);
    }
    take(&mut world, &vpcs);
    take(&mut world, &of_kube_ovn);
    take(&mut world, &subnets);
    take(&mut world, &subnets_of_kube_ovn);
    if references.ip_pools {
        take(&mut world, &list::<kubeovn::IPPool>(client).await?);
    }
    for (namespace, name) in &references.nads {
        let api = Api::<NetworkAttachmentDefinition>::namespaced(client.clone(), namespace);
        read(client, &api, name, &mut world).await?;
    }
    for name in &references.nodes {
        read(client, &Api::<Node>::all(client.clone()), name, &mut world).await?;
    }
    for name in &references.locks {
        let lock = get(client, &Api::<IPLock>::all(client.clone()), name).await?;
        if let Some(lock) = lock.filter(|lock| !references.is_left_over(lock)) {
            let _ = world.apply(&lock);
        }
    }
    Ok(world)
}

fn take<K: Source>(world: &mut World, listed: &Listed<K>) {
    let unreadable = listed.unreadable.iter().map(in_model);
    let _ = world.reset_with(&listed.objects, unreadable);
}

fn in_model<K>(object: &Unreadable<K>) -> portolan_model::Unreadable<'_> {
    let Unreadable { object, content, field, problem } = object;
    portolan_model::Unreadable { metadata: &object.metadata, content, field, problem }
}

async fn read<K>(client: &Client, api: &Api<K>, name: &str, world: &mut World) -> kube::Result<()>
where
    K: Source + Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    // The API server has no object of such a name, and a path with it would be another one.
    if name.is_empty() || name.contains('/') {
        return Ok(());
    }
    if let Some(object) = get(client, api, name).await? {
        let _ = world.apply(&object);
    }
    Ok(())
}
