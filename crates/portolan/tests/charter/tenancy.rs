//! Tenants: nobody gets at another's network, and nobody speaks in another's name.

use std::net::IpAddr;

use portolan_lab::cluster::{Cluster, Pod};

use crate::guests::{INTERFACE, PATIENCE, assert_connected, assert_told, guests, in_a_cluster, mac};

/// Alice has a network with guests. Mallory has a namespace, and a definition that claims to be Alice's.
const OBJECTS: &str = include_str!("tenancy.yaml");

#[test]
fn a_network_is_its_tenants_own() {
    in_a_cluster(Cluster::builder().nodes(2), &[OBJECTS], |cluster| {
        others_are_refused(cluster);
        guests_speak_in_their_own_name(cluster);
    });
}

fn others_are_refused(cluster: &Cluster) {
    // The definition itself says what is wrong with it.
    let provider = r#"spec.config.provider: "net.alice.ovn" is not this definition's own provider; write claim.mallory.ovn"#;
    assert_told(cluster, "mallory", "claim", "InvalidDefinition", &[provider]);

    let may_not = "asks for Subnet alice-net, which namespace mallory may not use; whoever owns the Subnet can add mallory to its spec.namespaces";
    for node in ["node1", "node2"] {
        let pod = |what: &str| cluster.pod(&format!("{what}-{node}")).namespace("mallory").on(node);
        pod("names").nad("alice/net").create().unwrap();
        assert_told(cluster, "mallory", &format!("names-{node}"), "InvalidRequest", &[may_not]);
        pod("claims").nad("claim").create().unwrap();
        let wrong = "asks for network attachment definition mallory/claim, which is wrong";
        assert_told(cluster, "mallory", &format!("claims-{node}"), "InvalidRequest", &[wrong, provider]);
        // Her own network, and another's subnet on it.
        let switch = "mine.mallory.ovn.kubernetes.io/logical_switch";
        pod("switches").nad("mine").annotation(switch, "alice-net").create().unwrap();
        let other = r#""alice-net" is a subnet that does not have the provider mine.mallory.ovn"#;
        assert_told(cluster, "mallory", &format!("switches-{node}"), "InvalidRequest", &[other]);
    }
    // It was only that: as soon as Alice lets her in, the same pods run.
    let let_in = r#"{"spec": {"namespaces": ["mallory"]}}"#;
    let patch = ["patch", "subnets.kubeovn.io", "alice-net", "--type=merge", "--patch", let_in];
    cluster.kubectl().unwrap().args(patch).read().unwrap();
    let [alice, node1, node2] = guests(cluster, ["alice/vm1", "mallory/names-node1", "mallory/names-node2"]);
    assert_connected(cluster, &alice, &node1);
    assert_connected(cluster, &alice, &node2);
}

fn guests_speak_in_their_own_name(cluster: &Cluster) {
    let [liar, near, far] = guests(cluster, ["alice/vm1", "alice/vm2", "alice/vm3"]);
    for (victim, witness) in [(&near, &far), (&far, &near)] {
        cluster.ping(&liar, victim).succeeds();
        spoof_an_address(cluster, &liar, victim, witness);
        spoof_a_mac_address(cluster, &liar, victim, witness);
        steal_an_address(cluster, &liar, victim, witness);
        // Nothing else was wrong with it.
        assert_connected(cluster, &liar, victim);
    }
}

/// An address that nobody has. The victim would answer: it knows where to.
fn spoof_an_address(cluster: &Cluster, liar: &Pod, victim: &Pod, witness: &Pod) {
    let spoofed: IpAddr = "10.71.0.250".parse().unwrap();
    liar.netns().ip(&format!("address add {spoofed}/24 dev {INTERFACE}")).unwrap();
    let known = format!("{spoofed} lladdr {} dev {INTERFACE}", mac(liar));
    victim.netns().ip(&format!("neighbour replace {known}")).unwrap();
    let from = |source: &str| {
        let to = victim.address().to_string();
        liar.command("ping").args(["-c3", "-i0.2", "-W1", "-I", source, &to]).read()
    };
    assert!(from(&spoofed.to_string()).is_err(), "a packet from {spoofed} got through");
    from(&liar.address().to_string()).expect("what is in its own name gets through, to the same one");
    cluster.ping(victim, witness).succeeds();
    victim.netns().ip(&format!("neighbour delete {known}")).unwrap();
    liar.netns().ip(&format!("address delete {spoofed}/24 dev {INTERFACE}")).unwrap();
}

fn spoof_a_mac_address(cluster: &Cluster, liar: &Pod, victim: &Pod, witness: &Pod) {
    let own = mac(liar);
    let set = |mac: &str| {
        // Taking a link down takes its routes away; nothing here needs them.
        liar.netns().ip(&format!("link set {INTERFACE} address {mac}")).unwrap();
    };
    set("02:00:00:00:00:bd");
    let known = format!("{} lladdr 02:00:00:00:00:bd dev {INTERFACE}", liar.address());
    victim.netns().ip(&format!("neighbour replace {known}")).unwrap();
    cluster.ping(liar, victim).fails();
    cluster.tcp(liar, victim).fails();
    cluster.ping(victim, witness).succeeds();
    set(&own);
    victim.netns().ip(&format!("neighbour delete {known}")).unwrap();
    cluster.ping(liar, victim).patience(PATIENCE).succeeds();
}

/// Another's address, announced as one's own: whoever talks to it goes on talking to the right one.
fn steal_an_address(cluster: &Cluster, liar: &Pod, victim: &Pod, witness: &Pod) {
    let stolen = victim.address();
    liar.netns().ip(&format!("address add {stolen}/32 dev {INTERFACE}")).unwrap();
    witness.netns().ip(&format!("neighbour flush dev {INTERFACE}")).unwrap();
    let ask = ["-c3", "-i0.2", "-W1", "-I", &stolen.to_string(), &witness.address().to_string()];
    assert!(liar.command("ping").args(ask).read().is_err(), "it speaks as {stolen}");
    // Who listens is the victim: a thief would have no one listening.
    cluster.tcp(witness, victim).succeeds();
    let neighbours = witness.command("ip").args(["neighbour", "show", &stolen.to_string()]).read().unwrap();
    assert!(neighbours.contains(&mac(victim)), "{neighbours}");
    liar.netns().ip(&format!("address delete {stolen}/32 dev {INTERFACE}")).unwrap();
}
