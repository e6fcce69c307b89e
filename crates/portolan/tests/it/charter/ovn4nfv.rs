//! The forms of OVN4NFV's annotation, by the manifest in `examples/ovn4nfv`: addresses, routes and traffic of each interface.

use portolan_testbed::{Pod, Testbed};
use serde_json::{Value, json};

use crate::charter::guests::{assert_told, guests, in_a_cluster};

const FORMS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ovn4nfv/forms.yaml"));

fn addresses(guest: &Pod, interface: &str) -> Vec<String> {
    let shown =
        guest.command("ip").args(["-j", "address", "show", "dev", interface, "scope", "global"]).read();
    let shown: Value = serde_json::from_str(&shown.unwrap()).unwrap();
    // What the filter leaves out is there as empty objects.
    let all = shown.as_array().unwrap().iter().filter_map(|link| link["addr_info"].as_array()).flatten();
    let global = all.filter(|one| one["local"].is_string());
    global.map(|one| format!("{}/{}", one["local"].as_str().unwrap(), one["prefixlen"])).collect()
}

/// The router and the interface of a route.
fn route(guest: &Pod, destination: &str) -> Option<(String, String)> {
    let family = if destination.contains(':') { "-6" } else { "-4" };
    let shown = guest.command("ip").args([family, "-j", "route", "show", "to", "exact", destination]).read();
    let shown: Value = serde_json::from_str(&shown.unwrap()).unwrap();
    let first = shown.as_array()?.first()?;
    Some((first["gateway"].as_str()?.to_owned(), first["dev"].as_str()?.to_owned()))
}

fn ping(guest: &Pod, by: &str, to: &str) {
    let ping = guest.command("ping").args(["-c1", "-w20", "-i0.1", "-I", by, to]);
    ping.read().unwrap_or_else(|error| panic!("{} by {by}: {error}", guest.name()));
}

#[test]
fn every_form_of_the_annotation_gives_interfaces_that_carry_traffic() {
    in_a_cluster(Testbed::builder().nodes(2), &[FORMS], |cluster| {
        let [unnamed, fixed, gateway, router, routes, multus] =
            guests(cluster, ["unnamed", "fixed", "gateway", "router", "routes", "multus"]);

        assert_eq!(addresses(&fixed, "net0"), ["10.41.0.5/24", "fd41::5/64"]);
        assert_eq!(addresses(&fixed, "net1"), ["10.42.0.5/24"]);
        let link = fixed.command("ip").args(["link", "show", "dev", "net0"]).read().unwrap();
        assert!(link.contains("02:00:00:00:41:05"), "{link}");
        for (guest, interface, families) in [
            (&unnamed, "net1", 2),
            (&unnamed, "net2", 1),
            (&gateway, "net1", 2),
            (&gateway, "net2", 1),
            (&router, "net1", 2),
            (&routes, "net1", 2),
            (&routes, "net2", 1),
            (&multus, "net9", 1),
        ] {
            assert_eq!(addresses(guest, interface).len(), families, "{} {interface}", guest.name());
            // Two are on blue, which has both families; one is on red.
            let peers: &[&str] = if families == 2 { &["10.41.0.5", "fd41::5"] } else { &["10.42.0.5"] };
            for peer in peers {
                ping(guest, interface, peer);
            }
        }

        let way = |router: &str, interface: &str| Some((router.to_owned(), interface.to_owned()));
        assert_eq!(route(&gateway, "0.0.0.0/0"), way("10.41.0.1", "net1"));
        assert_eq!(route(&gateway, "::/0"), way("fd41::1", "net1"));
        assert_eq!(route(&router, "0.0.0.0/0"), way("10.41.0.254", "net1"));
        assert_eq!(route(&routes, "10.99.0.0/16"), way("10.41.0.253", "net1"));
        assert_eq!(route(&routes, "10.98.0.0/16"), way("10.42.0.253", "net2"));
        assert_eq!(route(&routes, "10.97.0.0/16"), way("10.42.0.252", "net2"));
        for guest in [&unnamed, &fixed, &routes, &multus] {
            assert_eq!(route(guest, "0.0.0.0/0"), None, "{}", guest.name());
        }

        // What a pod got is told in OVN4NFV's own words.
        let annotation = r"jsonpath={.metadata.annotations.k8s\.plugin\.opnfv\.org/ovnInterfaces}";
        let kubectl = |arguments: &[&str]| cluster.kubectl().unwrap().args(arguments).read().unwrap();
        kubectl(&["wait", "pod", "fixed", "--timeout=60s", &format!("--for={annotation}")]);
        let told: Value = serde_json::from_str(&kubectl(&["get", "pod", "fixed", "-o", annotation])).unwrap();
        assert_eq!(
            told[0],
            json!({ "ip_address": ["10.41.0.5/24", "fd41::5/64"], "mac_address": "02:00:00:00:41:05",
                "gateway_ip": ["10.41.0.1", "fd41::1"], "defaultGateway": "false", "interface": "net0" })
        );
        assert_eq!(told[1]["interface"], "net1");

        // What cannot be is told, by the field.
        let at = "metadata.annotations[k8s.plugin.opnfv.org/nfn-network]";
        let of = |interface: &str| format!(r#"{{"type": "ovn4nfv", "interface": [{interface}]}}"#);
        for (name, request, said) in [
            ("garbled", "{".to_owned(), at.to_owned()),
            ("untyped", r#"{"interface": [{"name": "red"}]}"#.to_owned(), format!("{at}.type")),
            (
                "length",
                of(r#"{"name": "red", "ipAddress": "10.42.0.9/16"}"#),
                format!(
                    "{at}.interface[0].ipAddress: \"10.42.0.9/16\" has another prefix length than Subnet red; write /24"
                ),
            ),
            (
                "route",
                of(r#"{"name": "red", "routes": [{"dst": "10.0.0.0/33"}]}"#),
                format!("{at}.interface[0].routes[0].dst"),
            ),
        ] {
            let pod = cluster.pod(name).on("node1").annotation("k8s.plugin.opnfv.org/nfn-network", &request);
            pod.create().unwrap();
            assert_told(cluster, "default", name, "InvalidRequest", &[&said]);
        }
    });
}
