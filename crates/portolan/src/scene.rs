//! Objects for tests, as an API server has them: written in YAML, with what a server or the controller adds.

mod services;

use portolan_api::portolan::{DecidedInterface, Holder, HolderKind, IPLock, IPLockSpec, LockAddress};
use portolan_api::{Domain, Family, Mac};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) use self::services::market;
use crate::cluster::{Lists, Snapshot};

/// When everything was made, and what time it is: a day and a bit later.
const MADE: &str = "2026-01-01T00:00:00Z";
pub(crate) const NOW: i64 = 1_767_225_600 + 100_000;

/// Objects that are being collected.
#[derive(Default)]
pub(crate) struct Scene {
    lists: Lists,
    locks: u64,
}

impl Scene {
    /// The objects of a YAML text. Subnets without a status were validated.
    pub(crate) fn of(yaml: &str) -> Self {
        let mut scene = Self::default();
        for document in yaml.split("\n---\n").filter(|document| !document.trim().is_empty()) {
            scene.add(serde_saphyr::from_str(document).unwrap());
        }
        for node in ["node1", "node2"] {
            scene.add(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}));
        }
        scene
    }

    pub(crate) fn add(&mut self, mut object: Value) {
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let name = text(&object["metadata"]["name"]);
        let metadata = &mut object["metadata"];
        // Two groups have objects of one kind and name.
        let twin = if version.starts_with("kubeovn.io") { "kubeovn-" } else { "" };
        metadata["uid"] = json!(format!("{twin}{kind}-{name}").to_lowercase().replace('.', "-"));
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = json!(MADE);
        }
        metadata["generation"] = json!(1);
        let namespaced = ["Pod", "NetworkAttachmentDefinition", "Service", "EndpointSlice"];
        if metadata["namespace"].is_null() && namespaced.contains(&kind.as_str()) {
            metadata["namespace"] = json!("default");
        }
        if ["Subnet", "Vpc"].contains(&kind.as_str()) {
            metadata["finalizers"] = json!([portolan_api::finalizer::IN_USE]);
        }
        if kind == "Subnet" && object["status"].is_null() {
            let condition = json!({"type": "Validated", "status": "True", "reason": "Valid", "message": "",
                "observedGeneration": 1, "lastTransitionTime": MADE});
            object["status"] = json!({"conditions": [condition]});
        }
        let lists = &mut self.lists;
        let group = version.split('/').next().unwrap_or_default();
        match (group, kind.as_str()) {
            ("portolan.dev", "Vpc") => push(&mut lists.vpcs, object),
            ("kubeovn.io", "Vpc") => push(&mut lists.kubeovn_vpcs, object),
            ("portolan.dev", "Subnet") => push(&mut lists.subnets, object),
            ("kubeovn.io", "Subnet") => push(&mut lists.kubeovn_subnets, object),
            (_, "NetworkAttachmentDefinition") => push(&mut lists.nads, object),
            (_, "Pod") => push(&mut lists.pods, object),
            (_, "Node") => push(&mut lists.nodes, object),
            (_, "Service") => push(&mut lists.services, object),
            (_, "EndpointSlice") => push(&mut lists.endpoint_slices, object),
            other => panic!("no such kind in a scene: {other:?}"),
        }
    }

    /// A network attachment definition called like a subnet.
    pub(crate) fn nad(&mut self, name: &str) {
        let config =
            json!({"cniVersion": "0.3.1", "type": "kube-ovn", "provider": format!("{name}.default.ovn")});
        self.add(json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name}, "spec": {"config": config.to_string()}}));
    }

    /// A pod that runs, with interfaces: what its networks annotation says, and an address for each.
    pub(crate) fn pod(&mut self, name: &str, node: &str, networks: &Value, addresses: &[(&str, &str)]) {
        self.add(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/networks": networks.to_string()}},
            "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Running"}}));
        let decided: Vec<_> = (1..=addresses.len())
            .map(|number| DecidedInterface {
                interface: format!("net{number}"),
                families: vec![family(addresses[number - 1].1)],
            })
            .collect();
        for (number, (subnet, address)) in addresses.iter().enumerate() {
            self.lock(name, node, &format!("net{}", number + 1), subnet, address, decided.clone());
        }
    }

    fn lock(
        &mut self,
        pod: &str,
        node: &str,
        interface: &str,
        subnet: &str,
        address: &str,
        interfaces: Vec<DecidedInterface>,
    ) {
        let vpc = self.vpc_of(subnet);
        let domain = vpc.map_or_else(|| Domain::Subnet(subnet.into()), |vpc| Domain::Vpc(vpc.into()));
        let address: std::net::IpAddr = address.parse().unwrap();
        let uid = format!("pod-{pod}");
        let holder = Holder {
            kind: HolderKind::Pod,
            namespace: Some("default".into()),
            name: pod.into(),
            uid: uid.clone(),
            interface: Some(interface.into()),
        };
        let spec = IPLockSpec {
            subnet: subnet.into(),
            mac: Some(Mac::derive(address, None).to_string()),
            iface_id: Some(format!("port:default/{pod}/{interface}/{uid}")),
            holder,
            node: Some(node.into()),
            interfaces,
            ..IPLockSpec::default()
        };
        let mut lock = IPLock::of(&domain, LockAddress::Ip(address), spec);
        self.locks += 1;
        lock.metadata.uid = Some(format!("lock-{}", self.locks));
        lock.metadata.resource_version = Some(self.locks.to_string());
        lock.metadata.generation = Some(1);
        lock.metadata.creation_timestamp = serde_json::from_value(json!(MADE)).unwrap();
        self.lists.locks.push(lock);
    }

    /// Portolan is the primary network: a node has a port.
    pub(crate) fn is_primary(&mut self) {
        self.lock("node1", "node1", "node", "node:node1", "10.16.0.2", Vec::new());
        if let Some(lock) = self.lists.locks.last_mut() {
            (lock.spec.holder.kind, lock.spec.holder.namespace) = (HolderKind::Node, None);
        }
    }

    fn vpc_of(&self, subnet: &str) -> Option<String> {
        use kube::ResourceExt as _;
        let theirs = self.lists.kubeovn_subnets.iter().find(|one| one.name_any() == subnet);
        let ours = || self.lists.subnets.iter().find(|one| one.name_any() == subnet);
        let vpc = match theirs {
            Some(found) => found.spec.vpc.clone(),
            None => ours().and_then(|found| found.spec.vpc.clone()),
        };
        vpc.filter(|vpc| !vpc.is_empty())
    }

    pub(crate) fn snapshot(self) -> Snapshot {
        Snapshot::of(self.lists)
    }
}

fn family(address: &str) -> Family {
    Family::of(address.parse().unwrap())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn push<T: DeserializeOwned>(list: &mut Vec<T>, object: Value) {
    list.push(serde_json::from_value(object).unwrap());
}

/// Two VPCs that are connected, switches in them, one that is alone, and one that is wrong; pods on all of them.
pub(crate) fn harbour() -> Scene {
    let mut scene = Scene::of(HARBOUR);
    for nad in ["web", "db", "far", "apart", "lost"] {
        scene.nad(nad);
    }
    let by = |nad: &str, router: &str| json!([{"name": nad, "default-route": [router]}]);
    scene.pod("a", "node1", &by("web", "10.0.0.1"), &[("web", "10.0.0.5")]);
    scene.pod("a2", "node1", &by("web", "10.0.0.1"), &[("web", "10.0.0.6")]);
    scene.pod("b", "node2", &by("web", "10.0.0.1"), &[("web", "10.0.0.7")]);
    scene.pod("c", "node2", &by("db", "10.0.1.1"), &[("db", "10.0.1.9")]);
    scene.pod("d", "node1", &by("far", "10.9.0.1"), &[("far", "10.9.0.4")]);
    scene.pod("e", "node1", &by("apart", "10.2.0.1"), &[("apart", "10.2.0.3")]);
    scene.pod("twin", "node2", &by("lost", "10.0.0.1"), &[("lost", "10.0.0.5")]);
    scene.pod("mute", "node1", &json!([{"name": "web"}]), &[("web", "10.0.0.8")]);
    scene.pod(
        "two",
        "node1",
        &json!([{"name": "db", "default-route": ["10.0.1.1"]}, {"name": "far"}]),
        &[("db", "10.0.1.20"), ("far", "10.9.0.20")],
    );
    scene.pod("waits", "node1", &json!([{"name": "missing"}]), &[]);
    scene
}

const HARBOUR: &str = r#"
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: blue}
spec:
  staticRoutes:
  - {cidr: 10.9.0.0/24, nextHopIP: 169.254.0.2, policy: policyDst}
  - {cidr: 10.8.0.0/24, nextHopIP: 192.168.7.7, policy: policyDst}
  policyRoutes:
  - {priority: 200, match: 'ip4.src == 10.0.0.6 && tcp.dst == 443', action: allow}
  - {priority: 100, match: 'ip4.src == 10.0.0.0/24 && tcp && tcp.dst == {23, 443}', action: drop}
  - {priority: 50, match: 'udp.dst == 53 && ip4.src == $clients', action: drop}
  vpcPeerings:
  - {remoteVpc: green, localConnectIP: 169.254.0.1/30}
  - {remoteVpc: red, localConnectIP: 169.254.1.1/30}
---
apiVersion: portolan.dev/v1alpha1
kind: Vpc
metadata: {name: green}
spec:
  staticRoutes: [{cidr: 10.0.0.0/24, nextHopIP: 169.254.0.1}]
  vpcPeerings: [{remoteVpc: blue, localConnectIP: 169.254.0.2/30}]
---
apiVersion: portolan.dev/v1alpha1
kind: Vpc
metadata: {name: wrong}
spec:
  policyRoutes: [{priority: 1, match: 'ip4.scr == 1', action: drop}]
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: web}
spec: {vpc: blue, cidrBlock: 10.0.0.0/24, gateway: 10.0.0.1, provider: web.default.ovn, protocol: IPv4, excludeIps: [10.0.0.200..10.0.0.209]}
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: db}
spec: {vpc: blue, cidrBlock: 10.0.1.0/24, gateway: 10.0.1.1, provider: db.default.ovn, protocol: IPv4}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: far}
spec: {vpc: green, cidrBlock: 10.9.0.0/24, provider: far.default.ovn, private: true, allowSubnets: [10.0.0.0/25]}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: apart}
spec: {cidrBlock: "10.2.0.0/24,fd00:2::/64", provider: apart.default.ovn}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: lost}
spec: {vpc: nowhere, cidrBlock: 10.0.0.0/24, provider: lost.default.ovn}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: clash}
spec: {vpc: blue, cidrBlock: 10.0.0.0/16}
status:
  conditions:
  - {type: Validated, status: "False", reason: Invalid, message: overlaps Subnet web, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: web}
spec: {cidrBlock: 10.7.0.0/24}
status: {conditions: []}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: new}
spec: {cidrBlock: 10.6.0.0/24}
status: {conditions: []}
"#;
