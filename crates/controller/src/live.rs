//! Live reads: absence from a cache proves nothing.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{HolderKind, IPLock, NetworkAttachment};
use portolan_api::{kubeovn, kubevirt, portolan};
use portolan_model::holder::{self, Read, Users};
use portolan_model::node_subnet::node_of_subnet;
use portolan_model::subnet::DEFAULT_VPC;
use portolan_model::{
    AttachmentId, FirstInterface, Group, Settings, Source, Unit, UnitState, VpcPair, World, doors,
};
use portolan_plan::{Absence, ServiceProxy};
use portolan_watch::{self as served, Unreadable};
use serde::de::DeserializeOwned;

use crate::engine::Confirmation;

/// Reads objects live: a World that has those that exist, and no others.
pub(crate) async fn read(
    client: &Client,
    reads: &[Read],
    first_interface: FirstInterface,
) -> kube::Result<Confirmation> {
    // Of the primary network it has nothing by itself; but what that had may be given up.
    let first_interface = match first_interface {
        FirstInterface::NoLonger => FirstInterface::NoLonger,
        FirstInterface::Portolan | FirstInterface::Other => FirstInterface::Other,
    };
    let mut found = World::new(Settings { first_interface });
    for read in reads {
        let found = &mut found;
        match read {
            Read::Pod { namespace, name } => {
                get::<Pod>(client, &in_namespace(client, namespace), name, found).await?;
            }
            Read::StatefulSet { namespace, name } => {
                get::<StatefulSet>(client, &in_namespace(client, namespace), name, found).await?;
            }
            Read::NetworkAttachment { namespace, name } => {
                get::<NetworkAttachment>(client, &in_namespace(client, namespace), name, found).await?;
            }
            Read::Nad { namespace, name } => {
                get::<NetworkAttachmentDefinition>(client, &in_namespace(client, namespace), name, found)
                    .await?;
            }
            Read::Node { name } => get::<Node>(client, &Api::all(client.clone()), name, found).await?,
            Read::Vpc { group: Group::Portolan, name } => {
                get::<portolan::Vpc>(client, &Api::all(client.clone()), name, found).await?;
            }
            Read::Vpc { group: Group::KubeOvn, name } => {
                get::<kubeovn::Vpc>(client, &Api::all(client.clone()), name, found).await?;
            }
            Read::SubnetOf { group: Group::Portolan, name } => {
                get::<portolan::Subnet>(client, &Api::all(client.clone()), name, found).await?;
            }
            Read::SubnetOf { group: Group::KubeOvn, name } => {
                get::<kubeovn::Subnet>(client, &Api::all(client.clone()), name, found).await?;
            }
            // They come with their Nodes.
            Read::Vpc { group: Group::Core, .. } | Read::SubnetOf { group: Group::Core, .. } => {}
            Read::Subnet { name } => {
                get::<portolan::Subnet>(client, &Api::all(client.clone()), name, found).await?;
                get::<kubeovn::Subnet>(client, &Api::all(client.clone()), name, found).await?;
            }
            Read::IpPool { name } => {
                get::<kubeovn::IPPool>(client, &Api::all(client.clone()), name, found).await?;
            }
            Read::Vip { name } => {
                get::<kubeovn::Vip>(client, &Api::all(client.clone()), name, found).await?;
            }
            Read::Lock { name } => get::<IPLock>(client, &Api::all(client.clone()), name, found).await?,
            Read::Service { namespace, name } => {
                get::<Service>(client, &in_namespace(client, namespace), name, found).await?;
            }
            Read::EndpointSlice { namespace, name } => {
                get::<EndpointSlice>(client, &in_namespace(client, namespace), name, found).await?;
            }
            Read::VirtualMachine { namespace, name } => {
                get::<kubevirt::VirtualMachine>(client, &in_namespace(client, namespace), name, found)
                    .await?;
            }
            Read::VirtualMachineInstance { namespace, name } => {
                let api = in_namespace(client, namespace);
                get::<kubevirt::VirtualMachineInstance>(client, &api, name, found).await?;
            }
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

/// Whether nothing asks for a unit any more, of which the database has rows with these owners, for these pods.
pub(crate) async fn unit_absence(
    client: &Client,
    unit: &Unit,
    owners: &BTreeSet<String>,
    pods: &BTreeSet<String>,
    first_interface: FirstInterface,
    services: ServiceProxy,
) -> kube::Result<Absence> {
    if first_interface == FirstInterface::NoLonger && is_of_primary_network(unit, owners) {
        return Ok(Absence::Confirmed);
    }
    // Where another serves Services, what Portolan had for them is in the way. That it is not the primary network is no word of that.
    if first_interface == FirstInterface::Portolan
        && services == ServiceProxy::Other
        && matches!(unit, Unit::Service { .. } | Unit::Chassis(_))
    {
        return Ok(Absence::Confirmed);
    }
    let is_there = match unit {
        // That of the primary network needs no object. That this controller was started without `--primary` is no word that it may go.
        Unit::Vpc(name) if name == DEFAULT_VPC && owners.contains(DEFAULT_VPC) => true,
        Unit::Vpc(name) => Vpcs::read(client, &[name]).await?.has_any(owners),
        Unit::Peering(pair) => {
            return Ok(Vpcs::read(client, &[pair.first(), pair.second()]).await?.peering_absence(pair));
        }
        Unit::Node(name) | Unit::Chassis(name) => has_node(client, name, owners).await?,
        Unit::Service { namespace, name } => has_service(client, namespace, name, owners).await?,
        Unit::Subnet(name) => match node_of_subnet(name) {
            Some(node) => has_node(client, node, owners).await?,
            None => {
                let (native, kubeovn) = both::<portolan::Subnet, kubeovn::Subnet>(client, name).await?;
                let uids = [native.and_then(|subnet| subnet.uid()), kubeovn.and_then(|subnet| subnet.uid())];
                uids.iter().flatten().any(|uid| owners.contains(uid))
            }
        },
        Unit::Attachment(id) => {
            match read(client, &holder::reads(id, &Users::default()), first_interface).await? {
                Confirmation::Found(found) => {
                    holder::released(&found, id, &Users::default()).is_none()
                        || any_runs(client, id, pods).await?
                }
                Confirmation::Failed => true,
            }
        }
    };
    Ok(if is_there { Absence::Refuted } else { Absence::Confirmed })
}

/// Whether there is a unit only for a primary network: of the router, that of no object.
fn is_of_primary_network(unit: &Unit, owners: &BTreeSet<String>) -> bool {
    match unit {
        Unit::Vpc(name) => name == DEFAULT_VPC && owners.iter().all(|owner| owner == DEFAULT_VPC),
        Unit::Node(_) | Unit::Chassis(_) | Unit::Service { .. } => true,
        Unit::Subnet(name) => node_of_subnet(name).is_some(),
        Unit::Attachment(id) => id.kind() == HolderKind::Node,
        Unit::Peering(_) => false,
    }
}

/// Whether there is a Node of this name with one of these UIDs.
async fn has_node(client: &Client, name: &str, uids: &BTreeSet<String>) -> kube::Result<bool> {
    let node = served::get(client, &Api::<Node>::all(client.clone()), name).await?;
    Ok(node.and_then(|node| node.uid()).is_some_and(|uid| uids.contains(&uid)))
}

/// Whether there is a Service of this name with one of these UIDs that Portolan is to serve.
async fn has_service(
    client: &Client,
    namespace: &str,
    name: &str,
    uids: &BTreeSet<String>,
) -> kube::Result<bool> {
    let service = served::get(client, &in_namespace::<Service>(client, namespace), name).await?;
    let served = service.filter(|service| doors::service::service(service).is_some());
    Ok(served.and_then(|service| service.uid()).is_some_and(|uid| uids.contains(&uid)))
}

/// Whether one of these pods runs, for a holder that outlives its pods. The name of a virtual machine's pod is not known, and no
/// lock is there to tell it: the pods of its namespace are listed. An ordinal's pod is read with its set.
async fn any_runs(client: &Client, id: &AttachmentId, pods: &BTreeSet<String>) -> kube::Result<bool> {
    let (HolderKind::VirtualMachine, Some(namespace)) = (id.kind(), id.namespace()) else { return Ok(false) };
    if pods.is_empty() {
        return Ok(false);
    }
    let api = in_namespace::<Pod>(client, namespace);
    let mut parameters = ListParams::default().limit(500);
    loop {
        let (page, more) = served::list_page(&api, &parameters).await?;
        let is_one = |uid: Option<&String>| uid.is_some_and(|uid| pods.contains(uid));
        let runs = |pod: &Pod| is_one(pod.metadata.uid.as_ref()) && !doors::pod::pod(pod).finished;
        let unreadable = |pod: &Unreadable<Pod>| is_one(pod.object.metadata.uid.as_ref());
        if page.objects.iter().any(runs) || page.unreadable.iter().any(unreadable) {
            return Ok(true);
        }
        match more.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(false),
        }
    }
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

fn in_namespace<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), namespace)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use portolan_watch::fake::FakeApi;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_a_machine_had_is_not_absent_while_its_pod_runs() {
        let api = FakeApi::default();
        api.define::<kubevirt::VirtualMachine>();
        api.define::<kubevirt::VirtualMachineInstance>();
        let unit: Unit = "attachment/vm/default/web/net1/uid-of-machine".parse().unwrap();
        let Unit::Attachment(id) = &unit else { panic!("{unit} is no attachment") };
        assert_eq!(id.kind(), HolderKind::VirtualMachine);
        let put = |phase: &str| {
            let pod = json!({
                "metadata": {"name": "virt-launcher-web-x", "namespace": "default", "uid": "uid-of-pod"},
                "spec": {"containers": []}, "status": {"phase": phase},
            });
            api.put(&serde_json::from_value::<Pod>(pod).unwrap());
        };
        let absence = async |pods: &[&str]| {
            let pods = pods.iter().map(ToString::to_string).collect();
            let owners = BTreeSet::from(["uid-of-machine".to_owned()]);
            unit_absence(&api.client(), &unit, &owners, &pods, FirstInterface::Other, ServiceProxy::Other)
                .await
                .unwrap()
        };
        put("Running");
        assert_eq!(absence(&["uid-of-pod"]).await, Absence::Refuted);
        assert_eq!(absence(&["another"]).await, Absence::Confirmed);
        put("Succeeded");
        assert_eq!(absence(&["uid-of-pod"]).await, Absence::Confirmed);
    }

    #[tokio::test]
    async fn what_a_primary_network_had_is_given_up_only_where_that_is_said() {
        let api = FakeApi::default();
        let node = json!({"metadata": {"name": "n1", "uid": "uid-n1"}});
        api.put(&serde_json::from_value::<Node>(node).unwrap());
        for (unit, owner) in [
            ("vpc/ovn-cluster", "ovn-cluster"),
            ("node/n1", "uid-n1"),
            ("subnet/node:n1", "uid-n1"),
            ("attachment/node/n1/node/uid-n1", "uid-n1"),
        ] {
            let absence = async |first_interface| {
                let (unit, owners) = (unit.parse().unwrap(), BTreeSet::from([owner.to_owned()]));
                unit_absence(
                    &api.client(),
                    &unit,
                    &owners,
                    &BTreeSet::new(),
                    first_interface,
                    ServiceProxy::Portolan,
                )
                .await
                .unwrap()
            };
            assert_eq!(absence(FirstInterface::Portolan).await, Absence::Refuted, "{unit}");
            assert_eq!(absence(FirstInterface::Other).await, Absence::Refuted, "{unit}");
            assert_eq!(absence(FirstInterface::NoLonger).await, Absence::Confirmed, "{unit}");
        }
        // The addresses of the node's port are given back with that.
        let unit: Unit = "attachment/node/n1/node/uid-n1".parse().unwrap();
        let Unit::Attachment(id) = &unit else { panic!("{unit} is no attachment") };
        for (first_interface, is_released) in
            [(FirstInterface::Other, false), (FirstInterface::NoLonger, true)]
        {
            let reads = holder::reads(id, &Users::default());
            let Confirmation::Found(found) = read(&api.client(), &reads, first_interface).await.unwrap()
            else {
                panic!("it was read")
            };
            assert_eq!(holder::released(&found, id, &Users::default()).is_some(), is_released);
        }
    }
}
