//! Portolan as the primary network of a cluster with both families of addresses. kube-proxy serves Services.

use std::net::{IpAddr, TcpListener};
use std::time::Duration;

use portolan_testbed::Result;
use portolan_testbed::kubernetes::{Kubernetes, Network, ipv6_of};

use crate::pods::{self, WEB, in_url};
use crate::primary::{ON_HOSTS, get, on_primary_of};

#[test]
fn pods_nodes_services_and_the_outside_reach_each_other_by_both_families() {
    let cluster = Kubernetes::builder().nodes(2).network(Network::None).open_vswitch().dual_stack();
    on_primary_of(cluster, Duration::from_secs(400), |cluster, _| {
        cluster.apply(&WEB.replace("{selector:", "{ipFamilyPolicy: RequireDualStack, selector:"))?;
        pods::client(cluster, "one", "node1")?;
        pods::client(cluster, "two", "node2")?;
        pods::rolled_out(cluster, "web")?;
        let [node1, node2] = [cluster.node("node1")?, cluster.node("node2")?];
        for (pod, name) in [(addresses(cluster, "one")?, "one"), (addresses(cluster, "two")?, "two")] {
            assert!(pod[0].is_ipv4() && pod[1].is_ipv6(), "{pod:?}");
            for address in pod.map(in_url) {
                for from in ["one", "two"] {
                    assert_eq!(get(cluster, from, &format!("{address}/hostname"))?, name, "{from}");
                }
                for node in [node1, node2] {
                    let url = format!("http://{address}/hostname");
                    assert_eq!(node.command("curl")?.args(["-sSm5", &url]).read()?, name, "{}", node.name());
                }
            }
        }
        let services = cluster.kubectl(&["get", "service/web", "-o=jsonpath={.spec.clusterIPs[*]}"])?;
        let services: Vec<IpAddr> = services.split(' ').map(|address| address.parse().unwrap()).collect();
        assert_eq!(services.len(), 2, "{services:?}");
        for service in services {
            for from in ["one", "two"] {
                let answer = get(cluster, from, &format!("{}/hostname", in_url(service)))?;
                assert!(answer.starts_with("web-"), "{from} by {service}: {answer}");
            }
        }
        // What leaves the cluster comes from the pod's node, of either family.
        for (pod, node) in [("one", node1), ("two", node2)] {
            let outside = cluster.outside_address();
            assert_eq!(seen(cluster, pod, outside.into())?, IpAddr::from(node.address()), "{pod}");
            let own = ipv6_of(node.address());
            assert_eq!(seen(cluster, pod, ipv6_of(outside).into())?, IpAddr::from(own), "{pod}");
        }
        ports_of_nodes_are_served(cluster)
    });
}

/// A port of a node leads to the pod behind it from everywhere.
fn ports_of_nodes_are_served(cluster: &Kubernetes) -> Result<()> {
    cluster.apply(ON_HOSTS)?;
    for pod in ["pod/host1", "pod/host2", "pod/port"] {
        pods::ready(cluster, pod)?;
    }
    let (node, outside) = (cluster.node("node1")?.address(), cluster.outside_address());
    for (node, outside) in
        [(IpAddr::from(node), IpAddr::from(outside)), (ipv6_of(node).into(), ipv6_of(outside).into())]
    {
        let asked = |what: &str| format!("{}:8089/{what}", in_url(node));
        let from_outside = |what: &str| {
            let url = format!("http://{}", asked(what));
            cluster.outside().command("curl").args(["-sSm5", &url]).read()
        };
        assert_eq!(from_outside("hostname")?, "port");
        // The pod sees who it is.
        let seen = from_outside("clientip")?;
        assert!(seen.starts_with(&format!("{}:", in_url(outside))), "{outside}: {seen}");
        // Of other nodes those addresses are known by which their tunnels lead to them.
        let other_node = if node.is_ipv4() { &["host2"][..] } else { &[] };
        for from in ["one", "two", "host1"].iter().chain(other_node) {
            assert_eq!(get(cluster, from, &asked("hostname"))?, "port", "{from} to {node}");
        }
    }
    Ok(())
}

/// The addresses of a pod, as the cluster shows them.
fn addresses(cluster: &Kubernetes, pod: &str) -> Result<[IpAddr; 2]> {
    let shown = cluster.kubectl(&["get", "pod", pod, "-o=jsonpath={.status.podIPs[*].ip}"])?;
    let addresses: Vec<IpAddr> = shown.split(' ').map(|address| address.parse().unwrap()).collect();
    Ok(addresses.try_into().unwrap_or_else(|found| panic!("{pod}: {found:?}")))
}

/// The address that a pod has for a server outside the cluster.
fn seen(cluster: &Kubernetes, pod: &str, outside: IpAddr) -> Result<IpAddr> {
    let listener = cluster.outside().run(move || TcpListener::bind((outside, 0))).unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || listener.accept().unwrap().1.ip());
    pods::exec(cluster, pod, &["/agnhost", "connect", &at, "--timeout=5s"])?;
    Ok(server.join().unwrap())
}
