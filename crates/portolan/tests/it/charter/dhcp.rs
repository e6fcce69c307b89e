//! Guests with no address of their own ask for it, by real clients, and get what is locked for them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv6Addr};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use portolan_testbed::{Pod, Testbed};

use crate::charter::guests::{
    INTERFACE, PATIENCE, assert_connected, example, guests, in_a_cluster, link, mac,
};

pub(crate) const DHCP: &str = example!("dhcp");

/// Does with an answer what a guest does, and prints it.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/harvester/lease.sh");
/// What it prints last.
const END: &str = "the end";

#[test]
fn guests_that_ask_get_exactly_what_is_locked_for_them() {
    in_a_cluster(Testbed::builder().nodes(2), &[DHCP], dhcp);
}

pub(crate) fn dhcp(cluster: &Testbed) {
    let [fixed] = guests(cluster, ["fixed-vm1"]);
    let fixed6 = fixed.addresses()[1];
    // One shares its node with the guest that it then talks to, one does not.
    for guest in guests(cluster, ["lease-vm1", "lease-vm2"]) {
        let locked = guest.addresses().to_vec();
        assert_eq!(locked.len(), 2, "one of each family");
        forget_everything(&guest);
        router_advertisement(&guest);
        dhcp_v6(&guest, locked[1]);
        cluster.ping(&guest, fixed.address()).has_no_route();
        dhcp_v4(&guest, locked[0]);
        assert_connected(cluster, &guest, &fixed);
        cluster.ping(&guest, fixed6).succeeds();
        cluster.ping(&fixed, locked[1]).succeeds();
    }
}

/// A guest as a virtual machine begins: with a link, and nothing on it but what its kernel puts there.
fn forget_everything(guest: &Pod) {
    guest.netns().sysctl(&format!("net/ipv6/conf/{INTERFACE}/accept_ra"), "1").unwrap();
    // The address that its kernel would make, without the second in which the kernel would look for others who have it.
    let link_local = link_local(&mac(guest));
    let lines = format!(
        "address flush dev {INTERFACE}\nlink set {INTERFACE} mtu 1400\naddress add {link_local}/64 dev {INTERFACE} nodad"
    );
    guest.netns().ip(&lines).unwrap();
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
    // The kernel takes the answer in as well.
    let said = guest.command("rdisc6").args(["-1", "-r10", INTERFACE]).read().unwrap();
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        "Stateful address conf. : Yes",
        "Prefix : fd00:51::/64",
        "Autonomous address conf.: No",
        "MTU : 1342",
    ] {
        assert!(words.contains(told), "no {told:?} in {said}");
    }
    let routes = guest.command("ip").args(["-6", "route"]).read().unwrap();
    for route in [format!("fd00:51::/64 dev {INTERFACE}"), "default via fe80::858:aff:fe33:1".into()] {
        assert!(routes.contains(&route), "no {route} in {routes}");
    }
    let mtu = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/mtu");
    assert_eq!(guest.command("cat").arg(mtu).read().unwrap(), "1342");
    assert!(
        !addresses(guest).iter().any(|address| address.starts_with("fd00:")),
        "no guest makes an address of its own, which port security would not let pass: {:?}",
        addresses(guest)
    );
}

fn dhcp_v6(guest: &Pod, locked: IpAddr) {
    let state = tempfile::tempdir().unwrap();
    let client = guest.command("dhclient").args(["-6", "-1", "-d", "-sf", SCRIPT, "-lf"]);
    let client = client.arg(state.path().join("leases")).arg("--no-pid").arg(INTERFACE);
    // It stays, to renew its lease: until it has said what it was told.
    let mut client = client.spawn_with(Stdio::null(), Stdio::piped(), Stdio::null()).unwrap();
    let lines = BufReader::new(client.stdout.take().unwrap()).lines().map(Result::unwrap);
    let (sender, answer) = mpsc::channel();
    let reader = thread::spawn(move || sender.send(lines.take_while(|line| line != END).collect::<Vec<_>>()));
    let said = answer.recv_timeout(PATIENCE);
    client.kill().unwrap();
    client.wait().unwrap();
    drop(reader.join());
    let said = said.expect("DHCPv6 is answered");
    let told = environment(&said.join("\n"));
    for (key, value) in
        [("new_ip6_address", locked.to_string().as_str()), ("new_dhcp6_name_servers", "fd00:51::53")]
    {
        assert_eq!(told.get(key).map(String::as_str), Some(value), "{key} of {told:#?}");
    }
    assert!(addresses(guest).contains(&locked.to_string()), "{:?}", addresses(guest));
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

/// The address of a link that follows from its MAC address.
fn link_local(mac: &str) -> Ipv6Addr {
    let octets: Vec<u8> = mac.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    let [a, b, c, d, e, f] = octets.try_into().unwrap();
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}
