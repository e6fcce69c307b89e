//! Tenants: nobody gets at another's network, and nobody speaks in another's name.

use std::net::{IpAddr, UdpSocket};

use portolan_testbed::{Pod, Testbed};

use crate::charter::guests::{
    INTERFACE, Neighbour, PATIENCE, assert_connected, assert_told, guests, in_a_cluster, mac,
};

/// Alice has a network with guests. Mallory has a namespace, and a definition that claims to be Alice's.
const OBJECTS: &str = include_str!("tenancy.yaml");

#[test]
fn a_network_is_its_tenants_own() {
    in_a_cluster(Testbed::builder().nodes(2), &[OBJECTS], |cluster| {
        others_are_refused(cluster);
        guests_speak_in_their_own_name(cluster);
    });
}

fn others_are_refused(cluster: &Testbed) {
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

fn guests_speak_in_their_own_name(cluster: &Testbed) {
    let [liar, near, far] = guests(cluster, ["alice/vm1", "alice/vm2", "alice/vm3"]);
    for (victim, witness) in [(&near, &far), (&far, &near)] {
        cluster.ping(&liar, victim).succeeds();
        // It needs no answer to know where the victim is.
        let neighbour = Neighbour::of(&liar, victim);
        let (own, own_mac) = (liar.address(), mac(&liar));
        let nobodys: IpAddr = "10.71.0.250".parse().unwrap();
        let theirs = witness.address();
        let set_mac = |mac: &str| liar.netns().ip(&format!("link set {INTERFACE} address {mac}")).unwrap();
        let lies = [
            ("an address that nobody has", arrives(&liar, victim, nobodys, || ())),
            ("another's address", arrives(&liar, victim, theirs, || ())),
            ("another MAC address", {
                set_mac("02:00:00:00:00:bd");
                arrives(&liar, victim, own, || set_mac(&own_mac))
            }),
            ("another's MAC address", {
                set_mac(&mac(witness));
                arrives(&liar, victim, own, || set_mac(&own_mac))
            }),
        ];
        let believed: Vec<_> = lies.iter().filter(|(_, arrives)| *arrives).map(|(lie, _)| *lie).collect();
        assert!(believed.is_empty(), "{} on {} hears from {believed:?}", victim.name(), victim.node());
        // Whoever talks to the one whose address was used talks to the right one: nobody else listens.
        cluster.tcp(victim, witness).succeeds();
        drop(neighbour);
        assert_connected(cluster, &liar, victim);
    }
}

/// Whether what a guest says in the name of `source` arrives. What it says in its own name, once it has come to its senses, does: on
/// the same way and so not before what went ahead of it.
fn arrives(liar: &Pod, victim: &Pod, source: IpAddr, repent: impl FnOnce()) -> bool {
    let (own, to) = (liar.address(), victim.address());
    let ear = victim.netns().run(move || UdpSocket::bind((to, 0))).unwrap();
    ear.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = ear.local_addr().unwrap();
    if source != own {
        liar.netns().ip(&format!("address add {source}/32 dev {INTERFACE}")).unwrap();
    }
    let say = |from: IpAddr, what: &'static [u8]| {
        let say = move || UdpSocket::bind((from, 0))?.send_to(what, to);
        liar.netns().run(say).unwrap();
    };
    for _ in 0..3 {
        say(source, b"a lie");
    }
    repent();
    if source != own {
        liar.netns().ip(&format!("address delete {source}/32 dev {INTERFACE}")).unwrap();
    }
    say(own, b"the truth");
    let mut heard = [0; 16];
    let length = ear.recv(&mut heard).expect("what it says in its own name arrives");
    &heard[..length] != b"the truth"
}
