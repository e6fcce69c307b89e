//! Which addresses guests have: gateways, excluded ones, those that are asked for.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_testbed::Testbed;

use crate::charter::guests::{assert_connected, assert_told, example, guests, in_a_cluster, link, mac};

pub(crate) const ADDRESSES: &str = example!("addresses");

#[test]
fn gateways_excluded_and_static_addresses_are_honoured() {
    in_a_cluster(Testbed::builder().nodes(2), &[ADDRESSES], |cluster| {
        addresses(cluster);
        refusals_are_told_and_waiters_served(cluster);
    });
}

pub(crate) fn addresses(cluster: &Testbed) {
    let [any1, any2, static1, static2] = guests(cluster, ["any1", "any2", "static1", "static2"]);
    let chosen: BTreeSet<_> = [&any1, &any2].map(|guest| guest.address().to_string()).into();
    assert_eq!(chosen, ["10.31.0.3", "10.31.0.4"].map(String::from).into());
    for (guest, address, wanted) in
        [(&static1, "10.31.0.1", "02:00:00:00:31:01"), (&static2, "10.31.0.2", "02:00:00:00:31:02")]
    {
        let shown = link(guest);
        assert_eq!((guest.address().to_string().as_str(), mac(guest).as_str()), (address, wanted));
        assert_eq!(shown["addr_info"][0]["local"], address, "{shown:#}");
        assert_eq!(shown["addr_info"][0]["prefixlen"], 29, "{shown:#}");
    }
    let gateway: IpAddr = "10.31.0.6".parse().unwrap();
    for guest in [&any1, &any2, &static1, &static2] {
        cluster.ping(guest, gateway).succeeds();
    }
    assert_connected(cluster, &static1, &any1);
    assert_connected(cluster, &static1, &static2);
}

fn refusals_are_told_and_waiters_served(cluster: &Testbed) {
    let full = "Subnet small has no IPv4 address left; waiting for one to become free";
    cluster.pod("late").on("node2").nad("small").create().unwrap();
    assert_told(cluster, "default", "late", "SubnetFull", &[full]);
    let ask = |name: &str, address: &str| {
        cluster.pod(name).on("node1").nad("small").with("ips", vec![address]).create().unwrap();
    };
    ask("usurper", "10.31.0.6");
    let gateway = "10.31.0.6 is the gateway of Subnet small; ask for another";
    assert_told(cluster, "default", "usurper", "AddressIsGateway", &[gateway]);
    ask("rival", "10.31.0.1");
    let taken =
        "10.31.0.1 in vpc/addresses is taken by Pod default/static1; waiting for it, or ask for another";
    assert_told(cluster, "default", "rival", "AddressTaken", &[taken]);
    ask("stranger", "10.32.0.1");
    let outside = "10.32.0.1 is not in Subnet small, which has 10.31.0.0/29; ask for another";
    assert_told(cluster, "default", "stranger", "AddressOutOfRange", &[outside]);

    let [any1, static1] = guests(cluster, ["any1", "static1"]);
    any1.delete().unwrap();
    let [late] = guests(cluster, ["late"]);
    assert_eq!(late.address(), any1.address(), "it was waiting for the first that becomes free");
    assert_connected(cluster, &late, &static1);
}
