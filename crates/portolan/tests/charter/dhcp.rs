//! Guests with no address of their own ask for it, by real clients, and get what is locked for them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use portolan_lab::cluster::{Cluster, Pod};
use serde_json::Value;

use crate::guests::{INTERFACE, assert_connected, example, guests, in_a_cluster, link, mac};

pub(crate) const DHCP: &str = example!("dhcp");

/// Does with an answer what a guest does, and prints it.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/charter/lease.sh");

#[test]
fn guests_that_ask_get_exactly_what_is_locked_for_them() {
    in_a_cluster(Cluster::builder().nodes(2), &[DHCP], dhcp);
}

pub(crate) fn dhcp(cluster: &Cluster) {
    let [fixed] = guests(cluster, ["fixed-vm"]);
    let fixed6 = fixed.addresses()[1];
    // One shares its node with the guest that it then talks to, one does not.
    for guest in guests(cluster, ["lease-vm1", "lease-vm2"]) {
        let locked = guest.addresses().to_vec();
        assert_eq!(locked.len(), 2, "one of each family");
        forget_everything(&guest);
        cluster.ping(&guest, fixed.address()).fails();
        dhcp_v4(&guest, locked[0]);
        assert_connected(cluster, &guest, &fixed);

        router_advertisement(&guest);
        dhcp_v6(&guest, locked[1]);
        cluster.ping(&guest, fixed6).succeeds();
        cluster.ping(&fixed, locked[1]).succeeds();
    }
}

/// A guest as a virtual machine begins: with a link, and nothing on it.
fn forget_everything(guest: &Pod) {
    guest.netns().ip(&format!("address flush dev {INTERFACE}\nlink set {INTERFACE} down")).unwrap();
    // As guests' kernels do that are no routers: listen to routers, and ask for one when the link comes up.
    guest.netns().sysctl(&format!("net/ipv6/conf/{INTERFACE}/accept_ra"), "1").unwrap();
    guest.netns().sysctl(&format!("net/ipv6/conf/{INTERFACE}/accept_dad"), "0").unwrap();
    guest.netns().ip(&format!("link set {INTERFACE} mtu 1400\nlink set {INTERFACE} up")).unwrap();
    assert!(addresses(guest).iter().all(|address| address.starts_with("fe80:")), "{:?}", addresses(guest));
}

fn dhcp_v4(guest: &Pod, locked: IpAddr) {
    let told = environment(
        &guest
            .command("udhcpc")
            .args(["-i", INTERFACE, "-f", "-q", "-n", "-t5", "-T2", "-s", SCRIPT])
            .args(["-O", "mtu", "-O", "staticroutes"])
            .read()
            .unwrap(),
    );
    for (key, value) in [
        ("ip", locked.to_string().as_str()),
        ("mask", "24"),
        ("subnet", "255.255.255.0"),
        ("router", "10.51.0.1"),
        ("serverid", "10.51.0.1"),
        ("mtu", "1342"),
        ("dns", "10.51.0.53 10.51.0.54"),
        ("domain", "example.org"),
        ("lease", "7200"),
        ("staticroutes", "10.77.0.0/16 10.51.0.77 0.0.0.0/0 10.51.0.1"),
    ] {
        assert_eq!(told.get(key).map(String::as_str), Some(value), "{key} of {told:#?}");
    }
    assert_eq!(link(guest)["mtu"], 1342);
}

/// Prefix, router and MTU come by router advertisement, which also says to ask for the address by DHCPv6.
fn router_advertisement(guest: &Pod) {
    let monitor = format!("ip -6 monitor route | grep -m1 'default via fe80::.* dev {INTERFACE} proto ra'");
    let ask = "ip -6 route show default proto ra | grep -m1 'proto ra'";
    let wait = format!("timeout 30 sh -c \"{ask} || {monitor}\"");
    guest.command("sh").args(["-c", &wait]).read().unwrap();
    let routes = guest.command("ip").args(["-6", "route"]).read().unwrap();
    assert!(routes.contains("mtu 1342"), "{routes}");
    assert!(
        !addresses(guest).iter().any(|address| address.starts_with("fd00:")),
        "no guest makes an address of its own, which port security would not let pass: {:?}",
        addresses(guest)
    );
}

fn dhcp_v6(guest: &Pod, locked: IpAddr) {
    let state = tempfile::tempdir().unwrap();
    let file = |name: &str| state.path().join(name);
    let said = guest
        .command("dhclient")
        .args(["-6", "-1", "-d", "-sf", SCRIPT])
        .arg("-lf")
        .arg(file("leases"))
        .arg("-pf")
        .arg(file("pid"))
        .arg(INTERFACE)
        .read()
        .unwrap();
    let told = environment(&said);
    for (key, value) in [
        ("new_ip6_address", locked.to_string().as_str()),
        ("new_dhcp6_name_servers", "fd00:51::53"),
    ] {
        assert_eq!(told.get(key).map(String::as_str), Some(value), "{key} of {told:#?}");
    }
    assert!(addresses(guest).contains(&locked.to_string()), "{:?}", addresses(guest));
    assert!(!mac(guest).is_empty());
}

/// What `env` printed.
fn environment(printed: &str) -> BTreeMap<String, String> {
    let pairs = printed.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn addresses(guest: &Pod) -> Vec<String> {
    let shown = link(guest);
    let all = shown["addr_info"].as_array().into_iter().flatten();
    all.filter_map(|address| address["local"].as_str().map(str::to_owned)).collect()
}
