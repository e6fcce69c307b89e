//! What users of Harvester rely on, on pods in containers beside the bridge plugin: by the manifests in `examples/harvester`, through
//! kubectl alone. `tests/it/charter` goes through the same list in the lab at more length, and while everything is killed.

use portolan_testbed::Result;
use portolan_testbed::kubernetes::Kubernetes;

use crate::secondary::{Guest, all_at_once, with_image};

macro_rules! example {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/harvester/", $name))
    };
}

/// What a guest's DHCP client calls with what it was told.
const LEASE: &str = example!("lease.sh");
/// What fits with an MTU of 1442, besides the headers of IPv4 and ICMP; and with the 1342 of the example of DHCP.
const FULL_SIZE: &str = "1414";
const FULL_SIZE_OF_LEASES: &str = "1314";

/// All examples of the list, with containers that wait.
pub(crate) fn manifests() -> Vec<String> {
    let examples = [
        example!("layer2.yaml"),
        example!("layer3.yaml"),
        example!("isolation.yaml"),
        example!("peering.yaml"),
        example!("same-cidr.yaml"),
        example!("addresses.yaml"),
    ];
    let leases = with_image(example!("dhcp.yaml"));
    // A virtual machine is free to change its own links.
    let of_own = r#"image: "agnhost:1", securityContext: {capabilities: {add: [NET_ADMIN]}}"#;
    let leases = leases.replace(r#"image: "agnhost:1""#, of_own);
    examples.map(with_image).into_iter().chain([leases]).collect()
}

/// The list, once all guests run.
pub(crate) fn check(cluster: &Kubernetes) -> Result<()> {
    all_at_once(cluster, &[layer2, layer3, isolation, peering, same_cidr, addresses, dhcp])
}

/// Guests of one Subnet, on one node and on two.
fn layer2(cluster: &Kubernetes) -> Result<()> {
    connected(cluster, ["switch-vm1", "switch-vm2", "switch-vm3"])
}

/// One VPC, two Subnets: by the default route that an interface took, and by a route of its own.
fn layer3(cluster: &Kubernetes) -> Result<()> {
    connected(cluster, ["vm1", "vm2", "vm3"])?;
    // The primary network serves all of them: it is what Kubernetes knows of.
    let primary = cluster.kubectl(&["get", "pod", "vm2", "-o=jsonpath={.status.podIP}"])?;
    assert!(primary.starts_with("10.244."), "{primary}");
    guest(cluster, "vm3").run(&["ping", "-c1", "-w10", "-I", "eth0", &primary]).map(drop)
}

/// Two VPCs that peer, with static routes both ways.
fn peering(cluster: &Kubernetes) -> Result<()> {
    connected(cluster, ["peer-vm1", "peer-vm2", "peer-vm3"])
}

/// Subnets without a VPC, and Subnets of different VPCs.
fn isolation(cluster: &Kubernetes) -> Result<()> {
    for [ours, theirs] in [["green", "amber"], ["north", "south"]] {
        let guests =
            [format!("{ours}-vm1"), format!("{ours}-vm2"), format!("{theirs}-vm1"), format!("{theirs}-vm2")];
        let [a, b, c, d] = guests.each_ref().map(|name| guest(cluster, name));
        let [at_a, at_b, at_c, at_d] = [a.address()?, b.address()?, c.address()?, d.address()?];
        // Each reaches its neighbour, before and after, and nobody of the others, on its node or elsewhere.
        for (from, neighbour, others) in [(&a, &at_b, [&at_c, &at_d]), (&c, &at_d, [&at_a, &at_b])] {
            from.reaches(neighbour)?;
            from.does_not_reach(others)?;
            from.reaches(neighbour)?;
        }
    }
    Ok(())
}

/// Two VPCs with one prefix: every address but three is there twice.
fn same_cidr(cluster: &Kubernetes) -> Result<()> {
    let of = |namespace, name| Guest { cluster, namespace, name };
    let own1 = of("tenant1", "own1").address()?;
    let own2 = [of("tenant2", "own1").address()?, of("tenant2", "own2").address()?];
    for (tenant, own, others) in
        [("tenant1", &[own1.clone()][..], &own2[..]), ("tenant2", &own2[..], &[own1.clone()][..])]
    {
        let vm1 = of(tenant, "vm1");
        for address in ["10.0.1.12", "10.0.1.13"].into_iter().chain(own.iter().map(String::as_str)) {
            vm1.reaches(address)?;
        }
        vm1.does_not_reach(others)?;
        vm1.reaches("10.0.1.12")?;
    }
    Ok(())
}

/// A gateway that is not the first address, excluded addresses, and guests that ask for an address and a MAC address.
fn addresses(cluster: &Kubernetes) -> Result<()> {
    let [any1, any2, static1, static2] =
        ["any1", "any2", "static1", "static2"].map(|name| guest(cluster, name));
    let mut chosen = [any1.address()?, any2.address()?];
    chosen.sort();
    assert_eq!(chosen, ["10.31.0.3", "10.31.0.4"]);
    for (guest, address, mac) in
        [(&static1, "10.31.0.1", "02:00:00:00:31:01"), (&static2, "10.31.0.2", "02:00:00:00:31:02")]
    {
        assert_eq!(guest.address()?, address);
        let link = guest.run(&["ip", "-o", "link", "show", "net1"])?;
        assert!(link.contains(mac), "{link}");
    }
    for from in [&any1, &any2, &static1, &static2] {
        from.reaches("10.31.0.6")?;
    }
    static1.reaches("10.31.0.2")?;
    static2.reaches(&chosen[0])
}

/// Guests that ask for their addresses, by a real client: no server is needed.
fn dhcp(cluster: &Kubernetes) -> Result<()> {
    let other = guest(cluster, "fixed-vm1").address()?;
    for name in ["lease-vm1", "lease-vm2"] {
        let guest = guest(cluster, name);
        let locked = guest.address()?;
        let script = cluster.kubectl_command()?.args(["exec", "-i", name, "--"]);
        script.args(["sh", "-c", "cat >/lease.sh && chmod +x /lease.sh"]).stdin(LEASE).read()?;
        guest.run(&["ip", "address", "flush", "dev", "net1"])?;
        assert_eq!(guest.address()?, "");
        let client = ["udhcpc", "-i", "net1", "-f", "-q", "-n", "-t5", "-T2", "-s", "/lease.sh"];
        let told = guest.run(&[&client[..], &["-O", "mtu", "-O", "staticroutes"]].concat())?;
        for line in [
            &format!("ip={locked}"),
            "router=10.51.0.1",
            "mtu=1342",
            "dns=10.51.0.53 10.51.0.54",
            "staticroutes=10.77.0.0/16 10.51.0.77 0.0.0.0/0 10.51.0.1",
        ] {
            assert!(told.lines().any(|one| one == line), "{name}: no {line} in {told}");
        }
        assert_eq!(guest.address()?, locked);
        guest.reaches_in_full_size(&other, FULL_SIZE_OF_LEASES)?;
    }
    Ok(())
}

/// The first two are on one node, the third on another. What they send to each other fills their MTU.
fn connected(cluster: &Kubernetes, names: [&str; 3]) -> Result<()> {
    let [a, b, c] = names.map(|name| guest(cluster, name));
    let nodes = names.map(|name| cluster.kubectl(&["get", "pod", name, "-o=jsonpath={.spec.nodeName}"]));
    let [node_of_a, node_of_b, node_of_c] = nodes;
    let node = node_of_a?;
    assert!(node == node_of_b? && node != node_of_c?);
    let [at_a, at_b, at_c] = [a.address()?, b.address()?, c.address()?];
    for (from, to) in [(&a, [&at_b, &at_c]), (&b, [&at_a, &at_c]), (&c, [&at_a, &at_b])] {
        for address in to {
            from.reaches_in_full_size(address, FULL_SIZE)?;
        }
    }
    Ok(())
}

fn guest<'a>(cluster: &'a Kubernetes, name: &'a str) -> Guest<'a> {
    Guest { cluster, namespace: "default", name }
}
