//! Portolan as the primary network that serves Services itself: no kube-proxy runs. Both families of addresses.

use std::net::IpAddr;
use std::time::Duration;

use portolan_testbed::Result;
use portolan_testbed::kubernetes::{Kubernetes, KubernetesNode, Network, ServiceProxy, ipv6_of};

use crate::pods::{self, WEB, in_url};
use crate::primary::{ON_HOSTS, address, get, on_primary_of};

/// A Service whose only endpoint is on the second node, and whose clients outside stay on the node where they come in; and one without
/// endpoints.
const LOCAL_AND_NONE: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: local, labels: {app: local}}
spec:
  nodeName: node2
  terminationGracePeriodSeconds: 0
  containers: [{name: web, image: "agnhost:1", args: [netexec, --http-port=80]}]
---
apiVersion: v1
kind: Service
metadata: {name: local}
spec:
  type: NodePort
  externalTrafficPolicy: Local
  ipFamilyPolicy: RequireDualStack
  selector: {app: local}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: none}
spec: {type: NodePort, ipFamilyPolicy: RequireDualStack, selector: {app: nobody}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: host}
spec: {ipFamilyPolicy: RequireDualStack, clusterIP: 10.96.7.7, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: host-1, labels: {kubernetes.io/service-name: host}}
addressType: IPv4
ports: [{port: 8088, protocol: TCP}]
endpoints: [{addresses: [NODE2], nodeName: node2, conditions: {ready: true}}]
"#;

#[test]
fn services_are_reached_from_pods_nodes_and_outside_without_kube_proxy() {
    let cluster = Kubernetes::builder().nodes(2).network(Network::None).open_vswitch().dual_stack();
    let cluster = cluster.service_proxy(ServiceProxy::None);
    on_primary_of(cluster, Duration::from_secs(500), |cluster, _| {
        // It reaches the API server by the Service `kubernetes`, and pods reach it by its own.
        cluster.start_dns()?;
        let everywhere = "{type: NodePort, ipFamilyPolicy: RequireDualStack, selector:";
        cluster.apply(&WEB.replace("{selector:", everywhere))?;
        cluster.apply(ON_HOSTS)?;
        let [node1, node2] = [cluster.node("node1")?, cluster.node("node2")?];
        cluster.apply(&LOCAL_AND_NONE.replace("NODE2", &node2.address().to_string()))?;
        pods::client(cluster, "one", "node1")?;
        pods::client(cluster, "two", "node2")?;
        pods::rolled_out(cluster, "web")?;
        for pod in ["pod/host1", "pod/host2", "pod/local"] {
            pods::ready(cluster, pod)?;
        }
        // Open vSwitch in user space drops what it sends into a tunnel first, until it knows its neighbour there: TCP sends again, and curl asks
        // for a name only once.
        for (from, to) in [("one", "two"), ("two", "one")] {
            assert_eq!(get(cluster, from, &format!("{}/hostname", address(cluster, to)?))?, to);
        }
        for _ in 0..4 {
            for from in ["one", "two"] {
                assert!(get(cluster, from, "web/hostname")?.starts_with("web-"), "{from} by name");
            }
        }
        for service in cluster_ips(cluster, "web")? {
            for from in ["one", "two", "host1", "host2"] {
                let answer = get(cluster, from, &format!("{}/hostname", in_url(service)))?;
                assert!(answer.starts_with("web-"), "{from} by {service}: {answer}");
            }
        }
        let seen = get(cluster, "one", "10.96.7.7/clientip")?;
        let own = address(cluster, "one")?;
        assert!(seen.starts_with(&format!("{own}:")), "by an endpoint on the host network: {seen}");
        node_ports(cluster, node1, node2)?;
        policy_local(cluster, node1, node2)?;
        without_endpoints(cluster, node1)
    });
}

/// A node port leads to endpoints on any node, from everywhere.
fn node_ports(cluster: &Kubernetes, node1: &KubernetesNode, node2: &KubernetesNode) -> Result<()> {
    let port = node_port(cluster, "web")?;
    for node in [node1, node2].map(addresses).concat() {
        let at = format!("{}:{port}/hostname", in_url(node));
        for from in ["one", "two", "host1", "host2"] {
            let answer = get(cluster, from, &at)?;
            assert!(answer.starts_with("web-"), "{from} at {at}: {answer}");
        }
        let answer = from_outside(cluster, &at)?;
        assert!(answer.starts_with("web-"), "outside at {at}: {answer}");
    }
    Ok(())
}

/// Clients outside are seen as they are by endpoints on the node where they come in, and get nowhere on others.
fn policy_local(cluster: &Kubernetes, node1: &KubernetesNode, node2: &KubernetesNode) -> Result<()> {
    let (port, fence) = (node_port(cluster, "local")?, node_port(cluster, "web")?);
    let outside = [IpAddr::from(cluster.outside_address()), ipv6_of(cluster.outside_address()).into()];
    for ((near, far), outside) in addresses(node2).into_iter().zip(addresses(node1)).zip(outside) {
        let seen = from_outside(cluster, &format!("{}:{port}/clientip", in_url(near)))?;
        assert!(seen.starts_with(&format!("{}:", in_url(outside))), "{outside} is seen as {seen}");
        let dropped = from_outside(cluster, &format!("{}:{port}/hostname", in_url(far))).unwrap_err();
        assert!(dropped.to_string().contains("(28)"), "at {far}: {dropped}");
        assert!(from_outside(cluster, &format!("{}:{fence}/hostname", in_url(far)))?.starts_with("web-"));
        // Pods and the node itself get anywhere.
        for from in ["one", "host1"] {
            assert_eq!(get(cluster, from, &format!("{}:{port}/hostname", in_url(far)))?, "local", "{from}");
        }
    }
    Ok(())
}

/// Who asks is told at once.
fn without_endpoints(cluster: &Kubernetes, node: &KubernetesNode) -> Result<()> {
    let port = node_port(cluster, "none")?;
    for address in addresses(node) {
        let refused = from_outside(cluster, &format!("{}:{port}/", in_url(address))).unwrap_err();
        assert!(refused.to_string().contains("(7)"), "outside at {address}: {refused}");
    }
    for service in cluster_ips(cluster, "none")? {
        for from in ["one", "host2"] {
            let refused = get(cluster, from, &format!("{}/", in_url(service))).unwrap_err();
            assert!(refused.to_string().contains("(7)"), "{from} by {service}: {refused}");
        }
    }
    Ok(())
}

fn from_outside(cluster: &Kubernetes, at: &str) -> Result<String> {
    cluster.outside().command("curl").args(["-sSm3", &format!("http://{at}")]).read()
}

fn node_port(cluster: &Kubernetes, service: &str) -> Result<String> {
    cluster.kubectl(&["get", &format!("service/{service}"), "-o=jsonpath={.spec.ports[0].nodePort}"])
}

fn cluster_ips(cluster: &Kubernetes, service: &str) -> Result<Vec<IpAddr>> {
    let shown =
        cluster.kubectl(&["get", &format!("service/{service}"), "-o=jsonpath={.spec.clusterIPs[*]}"])?;
    Ok(shown.split(' ').map(|address| address.parse().unwrap()).collect())
}

fn addresses(node: &KubernetesNode) -> Vec<IpAddr> {
    vec![node.address().into(), ipv6_of(node.address()).into()]
}
