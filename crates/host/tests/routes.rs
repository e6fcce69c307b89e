//! Routes beside those of another CNI plugin, in a namespace that has its interface already.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::fs::File;
use std::os::fd::AsFd;

use portolan_host::{Link, Route, Rtnetlink};
use portolan_testbed::{Lab, Namespace};

/// A pod with another plugin's `eth0`, which has the default routes, and a further interface `net1`.
struct Pod {
    netns: Namespace,
    routes: Rtnetlink,
    net1: Link,
}

fn pod(lab: &Lab) -> Pod {
    let netns = lab.namespace("pod").unwrap();
    for (link, host) in [("eth0", "h0"), ("net1", "h1")] {
        netns.veth(link, lab.home(), host).unwrap();
    }
    netns
        .ip("address add 10.244.1.7/24 dev eth0\naddress add fd44::7/64 dev eth0 nodad\n\
             address add 172.20.0.7/16 dev net1\naddress add fd20::7/64 dev net1 nodad\n\
             route add default via 10.244.1.1\nroute add default via fd44::1")
        .unwrap();
    let file = File::open(netns.path()).unwrap();
    let mut routes = Rtnetlink::open_in(file.as_fd()).unwrap();
    let net1 = routes.link("net1").unwrap().unwrap();
    Pod { netns, routes, net1 }
}

impl Pod {
    fn set(&mut self, destination: &str, gateway: &str) -> portolan_host::Result<()> {
        let route =
            Route { destination: destination.parse().unwrap(), gateway: Some(gateway.parse().unwrap()) };
        self.routes.set_route(&self.net1, route)
    }

    /// The link by which the kernel sends to an address.
    fn way_to(&self, address: &str) -> String {
        let answer = self.netns.command("ip").args(["route", "get", address]).read().unwrap();
        let mut words = answer.split_whitespace().skip_while(|word| *word != "dev");
        words.nth(1).unwrap().to_owned()
    }
}

#[test]
fn a_default_route_takes_the_place_of_another_plugins() {
    portolan_testbed::test(async |lab| {
        let mut pod = pod(&lab);
        assert_eq!([pod.way_to("192.0.2.1"), pod.way_to("2001:db8::1")], ["eth0", "eth0"]);
        for _ in 0..2 {
            pod.set("0.0.0.0/0", "172.20.0.1").unwrap();
            pod.set("::/0", "fd20::1").unwrap();
        }
        assert_eq!([pod.way_to("192.0.2.1"), pod.way_to("2001:db8::1")], ["net1", "net1"]);
        assert_eq!([pod.way_to("10.244.1.9"), pod.way_to("fd44::9")], ["eth0", "eth0"]);
        // Without its link the first plugin's is in effect again.
        pod.netns.ip("link delete net1").unwrap();
        assert_eq!([pod.way_to("192.0.2.1"), pod.way_to("2001:db8::1")], ["eth0", "eth0"]);
    });
}

#[test]
fn networks_that_the_first_interface_keeps_do_not_follow_the_default_route() {
    portolan_testbed::test(async |lab| {
        let mut pod = pod(&lab);
        let kept = ["10.244.0.0/16", "10.96.0.0/12", "198.51.100.7/32", "fd96::/64"];
        let kept: Vec<_> = kept.iter().map(|network| network.parse().unwrap()).collect();
        for _ in 0..2 {
            pod.routes.keep_networks(&pod.net1.clone(), &kept).unwrap();
            pod.set("0.0.0.0/0", "172.20.0.1").unwrap();
            pod.set("::/0", "fd20::1").unwrap();
        }
        for address in ["10.244.9.9", "10.96.0.10", "198.51.100.7", "fd96::1"] {
            assert_eq!(pod.way_to(address), "eth0", "{address}");
        }
        for address in ["192.0.2.1", "198.51.100.8", "2001:db8::1"] {
            assert_eq!(pod.way_to(address), "net1", "{address}");
        }
    });
}

#[test]
fn a_route_to_the_network_of_another_link_is_refused() {
    portolan_testbed::test(async |lab| {
        let mut pod = pod(&lab);
        let error = pod.set("10.244.1.0/24", "172.20.0.1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot add route 10.244.1.0/24 via 172.20.0.1 on net1: 10.244.1.0/24 is directly on another link of the \
             namespace; choose another destination"
        );
        // Another plugin's route to a network elsewhere is no obstacle.
        pod.netns.ip("route add 10.9.0.0/16 via 10.244.1.1").unwrap();
        pod.set("10.9.0.0/16", "172.20.0.1").unwrap();
        assert_eq!(pod.way_to("10.9.0.1"), "net1");
    });
}

#[test]
fn addresses_and_routes_of_a_link_are_listed_and_no_others() {
    portolan_testbed::test(async |lab| {
        let mut pod = pod(&lab);
        pod.set("172.30.0.0/16", "172.20.0.1").unwrap();
        pod.set("::/0", "fd20::1").unwrap();
        let text =
            |found: Vec<String>| found.into_iter().filter(|one| !one.starts_with("fe80")).collect::<Vec<_>>();
        let addresses = pod.routes.addresses(&pod.net1).unwrap();
        let mut addresses = text(addresses.iter().map(ToString::to_string).collect());
        addresses.sort();
        assert_eq!(addresses, ["172.20.0.7/16", "fd20::7/64"]);
        let routes = pod.routes.routes(&pod.net1).unwrap();
        let mut routes = text(routes.iter().map(ToString::to_string).collect());
        routes.sort();
        assert_eq!(
            routes,
            ["172.20.0.0/16", "172.30.0.0/16 via 172.20.0.1", "::/0 via fd20::1", "fd20::/64"]
        );
    });
}
