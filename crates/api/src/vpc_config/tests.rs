//! The exact messages users get for VPCs of both groups.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{kubeovn, portolan};

fn native(spec: Value) -> Result<VpcConfig, Vec<String>> {
    let spec: portolan::VpcSpec = serde_json::from_value(spec).unwrap();
    portolan::Vpc::new("blue", spec)
        .parse()
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn kube_ovn(spec: Value) -> Result<VpcConfig, Vec<String>> {
    let spec: kubeovn::VpcSpec = serde_json::from_value(spec).unwrap();
    kubeovn::Vpc::new("blue", spec).parse().map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

#[test]
fn both_groups_read_a_full_vpc_alike() {
    let spec = json!({
        "namespaces": ["a"], "defaultSubnet": "blue-1",
        "staticRoutes": [
            {"policy": "policyDst", "cidr": "0.0.0.0/0", "nextHopIP": "10.0.0.1"},
            {"cidr": "0.0.0.0/0", "nextHopIP": "10.0.0.2", "ecmpMode": "ecmp_symmetric_reply"},
            {"policy": "policySrc", "cidr": "10.0.0.7", "nextHopIP": "10.0.0.3"},
        ],
        "policyRoutes": [
            {"priority": 0, "match": "ip4", "action": "allow"},
            {"priority": 10, "match": "ip4.src == 10.0.0.0/24", "action": "reroute", "nextHopIP": "10.0.0.1, 10.0.0.2"},
        ],
        "vpcPeerings": [{"remoteVpc": "green", "localConnectIP": "169.254.0.1/30"}],
    });
    let config = native(spec.clone()).unwrap();
    assert_eq!(kube_ovn(spec).unwrap(), config);
    assert_eq!(config.static_routes[2].prefix.to_string(), "10.0.0.7/32");
    assert_eq!(config.static_routes[2].policy, RoutePolicy::Source);
    assert!(config.static_routes[1].symmetric_reply);
    let PolicyAction::Reroute(hops) = &config.policy_routes[1].action else { panic!() };
    assert_eq!(hops.len(), 2);
    assert_eq!(config.peerings[0].local_connect.to_string(), "169.254.0.1/30");
}

#[test]
fn what_go_clients_write_is_read() {
    let config = kube_ovn(json!({
        "staticRoutes": [{"policy": "", "cidr": "10.1.2.3/16", "nextHopIP": "10.0.0.1", "ecmpMode": "", "bfdId": "", "routeTable": ""}],
        "policyRoutes": [{"match": "ip4", "action": "drop", "nextHopIP": ""}],
        "bfdPort": null,
    }))
    .unwrap();
    assert_eq!(config.static_routes[0].prefix.to_string(), "10.1.0.0/16");
    assert_eq!(config.policy_routes[0].priority, 0);
}

#[test]
fn static_routes() {
    assert_eq!(
        native(json!({"staticRoutes": [
            {"policy": "dst", "cidr": "10.0.0.0/8", "nextHopIP": "10.0.0.1"},
            {"cidr": "10.0.0.0/40", "nextHopIP": "here", "ecmpMode": "ecmp"},
            {"cidr": "10.0.0.0/8", "nextHopIP": "fd00::1"},
            {"cidr": "", "nextHopIP": ""},
            {"cidr": "10.0.0.1/8", "nextHopIP": "255.255.255.255"},
            {"cidr": "10.9.0.0/16", "nextHopIP": "10.0.0.1"},
            {"policy": "policyDst", "cidr": "10.9.0.0/16", "nextHopIP": "10.0.0.1"},
        ]}))
        .unwrap_err(),
        [
            r#"spec.staticRoutes[0].policy: "dst" is neither policyDst (by destination) nor policySrc (by source)"#,
            r#"spec.staticRoutes[1].ecmpMode: "ecmp" is not an ECMP mode; use ecmp_symmetric_reply, or leave the field out"#,
            r#"spec.staticRoutes[1].cidr: "10.0.0.0/40" is not a CIDR; write an address and a prefix length, such as 10.0.0.0/24"#,
            r#"spec.staticRoutes[1].nextHopIP: "here" is not an IP address"#,
            r#"spec.staticRoutes[2].nextHopIP: "fd00::1" is an IPv6 address, but the route is for 10.0.0.0/8, which is IPv4"#,
            r#"spec.staticRoutes[3].cidr: "" is not an IP address"#,
            "spec.staticRoutes[3].nextHopIP: is required; name the address of a router",
            r#"spec.staticRoutes[4].cidr: "10.0.0.1/8" has host bits set; the network is 10.0.0.0/8"#,
            r#"spec.staticRoutes[4].nextHopIP: "255.255.255.255" cannot be a next hop; name the address of a router"#,
            r#"spec.staticRoutes[6].cidr: "10.9.0.0/16" has a route by 10.0.0.1 already; remove one"#,
        ]
    );
}

#[test]
fn policy_routes() {
    let many: Vec<_> = (1..=17).map(|n| format!("10.0.0.{n}")).collect();
    assert_eq!(
        native(json!({"policyRoutes": [
            {"priority": 32768, "match": " ", "action": "allow"},
            {"priority": -1, "match": "ip4", "action": "jump"},
            {"priority": 1, "match": "ip4", "action": "reroute"},
            {"priority": 1, "match": "ip4", "action": "drop", "nextHopIP": "10.0.0.1"},
            {"priority": 1, "match": "ip4", "action": "reroute", "nextHopIP": "10.0.0.1,x,10.0.0.1"},
            {"priority": 1, "match": "ip4", "action": "reroute", "nextHopIP": "10.0.0.1,fd00::1"},
            {"priority": 1, "match": "ip4", "action": "reroute", "nextHopIP": many.join(",")},
            {"priority": 1, "match": "ip4", "action": ""},
            {"priority": 2, "match": "ip4", "action": "drop"},
            {"priority": 2, "match": "ip4", "action": "allow"},
        ]}))
        .unwrap_err(),
        [
            r#"spec.policyRoutes[0].priority: "32768" is not a priority; use 0 to 32767"#,
            "spec.policyRoutes[0].match: is required; write an OVN match such as ip4.dst == 10.1.0.0/16",
            r#"spec.policyRoutes[1].priority: "-1" is not a priority; use 0 to 32767"#,
            r#"spec.policyRoutes[1].action: "jump" is none of allow, drop and reroute"#,
            "spec.policyRoutes[2].nextHopIP: is required with action reroute; name the routers, separated by commas",
            r#"spec.policyRoutes[3].nextHopIP: "10.0.0.1" has no meaning with action drop; remove it, or use reroute"#,
            r#"spec.policyRoutes[4].nextHopIP: "x" is not an IP address"#,
            r#"spec.policyRoutes[4].nextHopIP: "10.0.0.1" is named twice; remove one"#,
            r#"spec.policyRoutes[5].nextHopIP: "10.0.0.1,fd00::1" mixes IPv4 and IPv6 next hops; write one policy route per family"#,
            "spec.policyRoutes[6].nextHopIP: has more than 16 next hops",
            "spec.policyRoutes[7].action: is required; use allow, drop or reroute",
            r#"spec.policyRoutes[9].match: "ip4" appears twice with priority 2; remove one"#,
        ]
    );
}

#[test]
fn peerings() {
    assert_eq!(
        native(json!({"vpcPeerings": [
            {"remoteVpc": "blue", "localConnectIP": "169.254.0.1/30"},
            {"remoteVpc": "green", "localConnectIP": "169.254.0.1"},
            {"remoteVpc": "red", "localConnectIP": "169.254.0.0/30"},
            {"remoteVpc": "grey", "localConnectIP": "169.254.0.1/32"},
            {"remoteVpc": "", "localConnectIP": ""},
            {"remoteVpc": "a/b", "localConnectIP": "169.254.0.1/30,fd00::/126"},
            {"remoteVpc": "white", "localConnectIP": "169.254.0.3/30"},
            {"remoteVpc": "black", "localConnectIP": "169.254.0.5/30"},
            {"remoteVpc": "black", "localConnectIP": "169.254.0.8/31"},
        ]}))
        .unwrap_err(),
        [
            r#"spec.vpcPeerings[0].remoteVpc: "blue" is this VPC itself; name the VPC to connect with"#,
            r#"spec.vpcPeerings[1].localConnectIP: "169.254.0.1" is not a CIDR; write an address and a prefix length, such as 10.0.0.0/24"#,
            r#"spec.vpcPeerings[2].localConnectIP: "169.254.0.0/30" is not a host of 169.254.0.0/30; add the host's bits, as in 169.254.0.1/30"#,
            r#"spec.vpcPeerings[3].localConnectIP: "169.254.0.1/32" leaves no address for the other side; use a /30, or a /126 of IPv6"#,
            "spec.vpcPeerings[4].remoteVpc: is required; name the VPC to connect with",
            "spec.vpcPeerings[4].localConnectIP: is required; give this side's address and prefix length, such as 169.254.0.1/30",
            r#"spec.vpcPeerings[5].remoteVpc: "a/b" cannot be the name of an object; names have up to 253 lower-case letters, digits, '-' and '.'"#,
            r#"spec.vpcPeerings[5].localConnectIP: "fd00::/126" is not a host of fd00::/126; add the host's bits, as in 169.254.0.1/30"#,
            r#"spec.vpcPeerings[6].localConnectIP: "169.254.0.3/30" is not a host of 169.254.0.0/30; add the host's bits, as in 169.254.0.1/30"#,
            r#"spec.vpcPeerings[8].remoteVpc: "black" is peered with already; remove one"#,
        ]
    );
}

#[test]
fn names() {
    assert_eq!(
        native(json!({"namespaces": ["A"], "defaultSubnet": "a/b"})).unwrap_err(),
        [
            r#"spec.namespaces[0]: "A" cannot be the name of a namespace; names have up to 63 lower-case letters, digits and '-'"#,
            r#"spec.defaultSubnet: "a/b" cannot be the name of an object; names have up to 253 lower-case letters, digits, '-' and '.'"#,
        ]
    );
}

proptest! {
    #[test]
    fn any_vpc_is_answered(priority: i64, a in "\\PC{0,30}", b in "[0-9.:/,a-f]{0,40}", action in "allow|drop|reroute|\\PC{0,9}") {
        let spec = portolan::VpcSpec {
            static_routes: vec![portolan::StaticRoute { policy: Some(a.clone()), cidr: b.clone(), next_hop_ip: a.clone(), ecmp_mode: Some(a.clone()) }],
            policy_routes: vec![portolan::PolicyRoute { priority, matches: a.clone(), action, next_hop_ip: Some(b.clone()) }],
            vpc_peerings: vec![portolan::VpcPeering { remote_vpc: a.clone(), local_connect_ip: b }],
            namespaces: vec![a.clone()],
            default_subnet: Some(a),
        };
        let _ = portolan::Vpc::new("blue", spec).parse();
    }
}
