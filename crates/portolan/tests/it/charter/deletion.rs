//! Deletion in every order: nothing is left of any network.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use portolan_api::kubeovn::{Subnet, Vpc};
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::IPLock;
use portolan_testbed::{Pod, Testbed};

use crate::charter::guests::{PATIENCE, in_a_cluster};

/// What a network is made of, each of which may be deleted at any time.
const KINDS: [Kind; 4] = [Kind::Vpc, Kind::Subnet, Kind::Nad, Kind::Pod];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Vpc,
    Subnet,
    Nad,
    Pod,
}

/// A network of its own for each order, with guests on two nodes that have talked.
struct Network {
    order: Vec<Kind>,
    name: String,
    pods: [Pod; 2],
}

#[test]
fn deletion_in_every_order_leaves_nothing() {
    in_a_cluster(Testbed::builder().nodes(2), &[], |cluster| {
        let orders = permutations(&KINDS);
        assert_eq!(orders.len(), 24);
        let objects: Vec<_> = (0..orders.len()).map(objects).collect();
        cluster.apply(&objects.join("---\n")).unwrap();
        for number in 0..orders.len() {
            for node in ["node1", "node2"] {
                let network = name(number);
                cluster.pod(&format!("{network}-{node}")).on(node).nad(&network).create().unwrap();
            }
        }
        let networks: Vec<_> = orders
            .into_iter()
            .enumerate()
            .map(|(number, order)| {
                let name = name(number);
                let pod = |node| cluster.running_pod("default", &format!("{name}-{node}")).unwrap();
                Network { order, pods: [pod("node1"), pod("node2")], name }
            })
            .collect();
        for network in &networks {
            cluster.ping(&network.pods[0], &network.pods[1]).succeeds();
        }
        for round in 0..KINDS.len() {
            for network in &networks {
                network.delete(cluster, network.order[round]);
            }
        }
        assert_nothing_left(cluster);
    });
}

impl Network {
    fn delete(&self, cluster: &Testbed, kind: Kind) {
        let (name, peer) = (self.name.as_str(), peer(&self.name));
        match kind {
            Kind::Vpc => {
                // Of two that peer either may go first.
                let mut vpcs = [name, &peer];
                if self.order[0] == Kind::Vpc {
                    vpcs.reverse();
                }
                vpcs.into_iter().for_each(|name| delete(cluster, Api::<Vpc>::all(cluster.client()), name));
            }
            Kind::Subnet => delete(cluster, Api::<Subnet>::all(cluster.client()), name),
            Kind::Nad => {
                let api = Api::<NetworkAttachmentDefinition>::namespaced(cluster.client(), "default");
                delete(cluster, api, name);
            }
            Kind::Pod => self.pods.iter().for_each(|pod| pod.delete().unwrap()),
        }
    }
}

fn delete<K>(cluster: &Testbed, api: Api<K>, name: &str)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let name = name.to_owned();
    cluster.wait(async move { api.delete(&name, &DeleteParams::default()).await.map(drop) }).unwrap();
}

/// No lock, no row in the northbound database, no port and no link on the nodes.
pub(crate) fn assert_nothing_left(cluster: &Testbed) {
    let (locks, northbound) = (Api::<IPLock>::all(cluster.client()), cluster.northbound());
    let left = cluster.wait(async move {
        let client = northbound.client();
        let empty = client
            .wait_for(|cache| cache.tables().iter().all(|table| table.iter().next().is_none()).then_some(()));
        let northbound = tokio::time::timeout(PATIENCE, empty).await.map_err(|_| {
            let cache = client.read();
            let rows: Vec<_> = cache.tables().iter().flat_map(|table| table.iter().cloned()).collect();
            format!("rows: {rows:#?}")
        });
        let locks = tokio::time::timeout(PATIENCE, no_locks(locks)).await.map_err(|_| "locks");
        (northbound, locks)
    });
    assert!(left.0.is_ok() && left.1.is_ok(), "{left:?}");
    // What was held by a finalizer is gone with what used it.
    let names = |objects: &str| cluster.kubectl().unwrap().args(["get", objects, "-o=name"]).read().unwrap();
    assert_eq!(names("subnets.kubeovn.io,vpcs.kubeovn.io"), "");
    for node in cluster.nodes() {
        let ports =
            node.vsctl(&["--bare", "--columns=name", "find", "Port", "external_ids:portolan/sandbox!=x"]);
        assert_eq!(ports.unwrap(), "", "ports of {}", node.name());
        let links = node.command("ip").args(["-o", "link"]).read().unwrap();
        assert!(!links.contains(": pt"), "links of {}: {links}", node.name());
    }
}

/// Waits until there are no locks: one watch shows what there is and, in order, everything that changes after.
async fn no_locks(locks: Api<IPLock>) {
    use futures::StreamExt as _;
    use kube::runtime::WatchStreamExt as _;
    use kube::runtime::watcher::{Config, Event, watcher};
    let mut events = std::pin::pin!(watcher(locks, Config::default()).default_backoff());
    let (mut names, mut listed) = (BTreeSet::new(), false);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                names.clear();
                listed = false;
            }
            Ok(Event::InitApply(lock) | Event::Apply(lock)) => drop(names.insert(lock.name_any())),
            Ok(Event::Delete(lock)) => drop(names.remove(&lock.name_any())),
            Ok(Event::InitDone) => listed = true,
            // The watch comes back by itself.
            Err(_) => {}
        }
        if listed && names.is_empty() {
            return;
        }
    }
}

fn name(number: usize) -> String {
    format!("order{number}")
}

/// The VPC that a network's VPC peers with.
fn peer(name: &str) -> String {
    format!("{name}-peer")
}

fn objects(number: usize) -> String {
    let (name, net) = (name(number), format!("10.{}.0", 100 + number));
    let peer = peer(&name);
    format!(
        r#"apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {{name: {name}}}
spec:
  vpcPeerings: [{{remoteVpc: {peer}, localConnectIP: 169.254.0.1/30}}]
  staticRoutes: [{{policy: policyDst, cidr: 10.99.0.0/16, nextHopIP: 169.254.0.2}}]
  policyRoutes: [{{priority: 7, match: ip4.dst == 10.98.0.0/16, action: drop}}]
---
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {{name: {peer}}}
spec: {{vpcPeerings: [{{remoteVpc: {name}, localConnectIP: 169.254.0.2/30}}]}}
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {{name: {name}}}
spec: {{protocol: IPv4, provider: {name}.default.ovn, vpc: {name}, cidrBlock: {net}.0/24, gateway: {net}.1, enableDHCP: true}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {{name: {name}, namespace: default}}
spec: {{config: '{{"cniVersion": "0.3.1", "type": "kube-ovn", "provider": "{name}.default.ovn"}}'}}
"#
    )
}

fn permutations(kinds: &[Kind]) -> Vec<Vec<Kind>> {
    if kinds.is_empty() {
        return vec![Vec::new()];
    }
    let first_of_each = kinds.iter().flat_map(|first| {
        let others: Vec<_> = kinds.iter().copied().filter(|kind| kind != first).collect();
        permutations(&others).into_iter().map(|rest| std::iter::once(*first).chain(rest).collect())
    });
    first_of_each.collect()
}
