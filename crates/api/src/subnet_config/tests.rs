//! The exact messages users get for subnets of both groups.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{kubeovn, portolan};

fn native(spec: Value) -> Result<SubnetConfig, Vec<String>> {
    let spec: portolan::SubnetSpec = serde_json::from_value(spec).unwrap();
    portolan::Subnet::new("blue", spec)
        .parse()
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn kube_ovn(spec: Value) -> Result<SubnetConfig, Vec<String>> {
    let spec: kubeovn::SubnetSpec = serde_json::from_value(spec).unwrap();
    kubeovn::Subnet::new("blue", spec)
        .parse()
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn errors(spec: Value) -> Vec<String> {
    native(spec).unwrap_err()
}

#[test]
fn harvester_subnet() {
    let config = kube_ovn(json!({
        "protocol": "IPv4", "provider": "vswitch1.default.ovn", "vpc": "commonvpc",
        "cidrBlock": "172.20.0.0/16", "gateway": "172.20.0.1", "gatewayNode": "", "natOutgoing": false,
    }))
    .unwrap();
    assert_eq!(config.vpc.as_deref(), Some("commonvpc"));
    assert_eq!(config.provider, Some(Provider::nad("default", "vswitch1")));
    assert_eq!(config.gateway.to_string(), "172.20.0.1");
    assert_eq!(config.dhcp, None);
}

#[test]
fn what_is_left_out_follows_from_the_prefix() {
    let config = native(json!({"cidrBlock": "10.0.0.0/24,fd00::/64"})).unwrap();
    assert_eq!(config.gateway.to_string(), "10.0.0.1,fd00::1");
    assert_eq!((config.vpc, config.vni, config.mtu), (None, None, None));
    assert_eq!(config.allowed_namespaces, AllowedNamespaces::Own);
}

#[test]
fn both_groups_read_a_full_subnet_alike() {
    let spec = json!({
        "cidrBlock": "10.0.0.0/24,fd00::/64", "gateway": "10.0.0.254,fd00::ff", "vpc": "blue", "protocol": "Dual",
        "excludeIps": ["10.0.0.254", "10.0.0.10..10.0.0.20", "fd00::1..fd00::9"], "provider": "ovn", "mtu": 1400,
        "enableDHCP": true, "dhcpV4Options": "lease_time=60", "dhcpV6Options": "dns_server=fd00::53",
        "enableIPv6RA": true, "ipv6RAConfigs": "send_periodic=true", "private": true,
        "allowSubnets": ["10.1.0.0/16"], "namespaces": ["a", "b"], "default": true,
    });
    let config = native(spec.clone()).unwrap();
    assert_eq!(kube_ovn(spec).unwrap(), config);
    assert_eq!(config.dhcp.unwrap().v4["lease_time"], "60");
    assert_eq!(config.ipv6_ra.unwrap()["send_periodic"], "true");
    assert_eq!(config.exclude.len(), 3);
}

#[test]
fn go_zero_values_are_absent() {
    let config = kube_ovn(json!({
        "cidrBlock": "10.0.0.0/24", "vpc": "", "gateway": "", "provider": "", "protocol": "", "mtu": 0,
        "excludeIps": null, "dhcpV4Options": "",
    }))
    .unwrap();
    assert_eq!((config.vpc, config.provider, config.mtu), (None, None, None));
}

#[test]
fn cidr_block() {
    assert_eq!(
        errors(json!({"cidrBlock": ""})),
        ["spec.cidrBlock: is required; give a prefix such as 10.0.0.0/24"]
    );
    assert_eq!(
        kube_ovn(json!({})).unwrap_err(),
        ["spec.cidrBlock: is required; give a prefix such as 10.0.0.0/24"]
    );
    assert_eq!(
        errors(json!({"cidrBlock": "10.0.0.0/33"})),
        [
            r#"spec.cidrBlock: "10.0.0.0/33" is not a CIDR; write an address and a prefix length, such as 10.0.0.0/24"#
        ]
    );
    assert_eq!(
        errors(json!({"cidrBlock": "fd00::/64,10.0.0.0/24"})),
        [
            r#"spec.cidrBlock: "fd00::/64,10.0.0.0/24" has the IPv6 block first; write it as "10.0.0.0/24,fd00::/64""#
        ]
    );
    assert_eq!(
        errors(json!({"cidrBlock": "10.0.0.5/24"})),
        [r#"spec.cidrBlock: "10.0.0.5/24" has host bits set; the network is 10.0.0.0/24"#]
    );
    assert_eq!(kube_ovn(json!({"cidrBlock": "10.0.0.5/24"})).unwrap().cidr.to_string(), "10.0.0.0/24");
    assert_eq!(
        errors(json!({"cidrBlock": "10.0.0.0/31,fd00::/127"})),
        [
            r#"spec.cidrBlock: "10.0.0.0/31" is too small for a gateway and a guest; use at most /30"#,
            r#"spec.cidrBlock: "fd00::/127" is too small for a gateway and a guest; use at most /126"#,
        ]
    );
    for (cidr, special, what) in [
        ("127.1.0.0/16", "127.0.0.0/8", "loopback"),
        ("0.0.0.0/0", "0.0.0.0/8", "\"this network\""),
        ("239.0.0.0/8", "224.0.0.0/4", "multicast"),
        ("169.254.7.0/24", "169.254.0.0/16", "link-local"),
        ("fe80::/64", "fe80::/10", "link-local"),
        ("ff02::/16", "ff00::/8", "multicast"),
    ] {
        assert_eq!(
            errors(json!({"cidrBlock": cidr})),
            [format!("spec.cidrBlock: {cidr:?} overlaps {special}, which is {what}; choose another prefix")]
        );
    }
}

#[test]
fn gateway() {
    let gateway = |gateway: &str| errors(json!({"cidrBlock": "10.0.0.0/24", "gateway": gateway}));
    assert_eq!(
        gateway("10.0.1.1"),
        [r#"spec.gateway: "10.0.1.1" is outside 10.0.0.0/24; choose an address inside it"#]
    );
    assert_eq!(
        gateway("10.0.0.0"),
        [r#"spec.gateway: "10.0.0.0" is the network address of 10.0.0.0/24; use 10.0.0.1"#]
    );
    assert_eq!(
        gateway("10.0.0.255"),
        [r#"spec.gateway: "10.0.0.255" is the broadcast address of 10.0.0.0/24; use 10.0.0.1"#]
    );
    assert_eq!(gateway("router"), [r#"spec.gateway: "router" is not an IP address"#]);
    assert_eq!(
        gateway("10.0.0.1,fd00::1"),
        [r#"spec.gateway: "fd00::1" is an IPv6 address, but cidrBlock has no IPv6 block"#]
    );
    assert_eq!(
        errors(json!({"cidrBlock": "10.0.0.0/24,fd00::/64", "gateway": "10.0.0.1"})),
        [
            r#"spec.gateway: "10.0.0.1" has no IPv6 gateway for fd00::/64; add fd00::1, or leave the field out"#
        ]
    );
}

#[test]
fn exclude_ips() {
    assert_eq!(
        errors(json!({"cidrBlock": "10.0.0.0/24", "excludeIps": [
            "10.0.0.9..10.0.0.5", "10.0.1.1", "10.0.0.250..10.0.1.5", "10.0.0.1..fd00::1", "fd00::1", "10.0.0.x"
        ]})),
        [
            r#"spec.excludeIps[0]: "10.0.0.9..10.0.0.5" is backwards; write it as 10.0.0.5..10.0.0.9"#,
            r#"spec.excludeIps[1]: "10.0.1.1" is not inside cidrBlock 10.0.0.0/24; remove it or correct it"#,
            r#"spec.excludeIps[2]: "10.0.0.250..10.0.1.5" is not inside cidrBlock 10.0.0.0/24; remove it or correct it"#,
            r#"spec.excludeIps[3]: "10.0.0.1..fd00::1" mixes IPv4 and IPv6; both ends must be of one family"#,
            r#"spec.excludeIps[4]: "fd00::1" is not inside cidrBlock 10.0.0.0/24; remove it or correct it"#,
            r#"spec.excludeIps[5]: "10.0.0.x" is neither an address nor a range; write 10.0.0.5 or 10.0.0.5..10.0.0.9"#,
        ]
    );
}

#[test]
fn protocol() {
    let protocol = |protocol: &str| errors(json!({"cidrBlock": "10.0.0.0/24", "protocol": protocol}));
    assert_eq!(
        protocol("Dual"),
        [r#"spec.protocol: "Dual" does not fit cidrBlock 10.0.0.0/24; use IPv4, or leave the field out"#]
    );
    assert_eq!(protocol("ipv4"), [r#"spec.protocol: "ipv4" is none of IPv4, IPv6 and Dual"#]);
    assert_eq!(
        protocol("Mac"),
        [r#"spec.protocol: "Mac" is not supported; give the subnet a cidrBlock and use IPv4, IPv6 or Dual"#]
    );
}

#[test]
fn numbers() {
    assert_eq!(
        errors(json!({"cidrBlock": "10.0.0.0/24", "mtu": 575, "vni": 16777216})),
        [
            r#"spec.vni: "16777216" is not a VXLAN network identifier; use 1 to 16777215"#,
            r#"spec.mtu: "575" is not a possible MTU; use 576 to 65535"#,
        ]
    );
    assert_eq!(
        errors(json!({"cidrBlock": "fd00::/64", "mtu": 1279})),
        [r#"spec.mtu: "1279" is not a possible MTU; use 1280 to 65535, as IPv6 needs"#]
    );
    assert_eq!(
        kube_ovn(json!({"cidrBlock": "10.0.0.0/24", "mtu": -1})).unwrap_err(),
        [r#"spec.mtu: "-1" is not a possible MTU; use 576 to 65535"#]
    );
}

#[test]
fn names_and_places() {
    assert_eq!(
        errors(json!({
            "cidrBlock": "10.0.0.0/24", "vpc": "a/b", "vni": 7, "provider": "macvlan.default",
            "namespaces": ["a", "B", "a"], "allowedNamespaces": ["ok", "not ok"],
        })),
        [
            r#"spec.vpc: "a/b" cannot be the name of an object; names have up to 253 lower-case letters, digits, '-' and '.'"#,
            r#"spec.vpc: "a/b" is set together with vni; a subnet is in a VPC or in a VNI, not both"#,
            r#"spec.provider: "macvlan.default" is not a provider of Portolan; write "ovn", or "<nad>.<namespace>.ovn" for a network attachment definition"#,
            r#"spec.namespaces[1]: "B" cannot be the name of a namespace; names have up to 63 lower-case letters, digits and '-'"#,
            r#"spec.namespaces[2]: "a" is listed twice; remove one"#,
            r#"spec.allowedNamespaces[1]: "not ok" cannot be the name of a namespace; names have up to 63 lower-case letters, digits and '-'"#,
        ]
    );
    let all = native(json!({"cidrBlock": "10.0.0.0/24", "allowedNamespaces": ["*"]})).unwrap();
    assert_eq!(all.allowed_namespaces, AllowedNamespaces::All);
}

#[test]
fn options_routes_and_allowed_prefixes() {
    assert_eq!(
        errors(json!({
            "cidrBlock": "10.0.0.0/24", "dhcpV4Options": "lease_time", "ipv6RAConfigs": "address_mode=magic",
            "routes": [{"dst": "10.9.0.0/16", "gw": "10.1.0.1"}, {"dst": "0.0.0.0/0"}, {"dst": "0.0.0.0/0"}],
            "allowSubnets": ["10.1.0.0/16,10.2.0.0", "10.3.0.1/16"],
        })),
        [
            r#"spec.dhcpV4Options: "lease_time" has no value; write key=value, separated by commas"#,
            r#"spec.ipv6RAConfigs[address_mode]: "magic" is none of slaac, dhcpv6_stateful, dhcpv6_stateless"#,
            r#"spec.routes[0].gw: "10.1.0.1" is not inside cidrBlock 10.0.0.0/24, so no guest can reach it"#,
            r#"spec.routes[2].dst: "0.0.0.0/0" has a route already; remove one"#,
            r#"spec.allowSubnets[0]: "10.2.0.0" is not a CIDR; write an address and a prefix length, such as 10.0.0.0/24"#,
            r#"spec.allowSubnets[1]: "10.3.0.1/16" has host bits set; the network is 10.3.0.0/16"#,
        ]
    );
}

#[test]
fn all_errors_are_collected() {
    let spec = json!({"cidrBlock": "x", "gateway": "y", "excludeIps": ["z"], "mtu": 1, "protocol": "p", "provider": "q"});
    assert_eq!(errors(spec).len(), 6);
}

proptest! {
    #[test]
    fn any_subnet_is_answered(
        cidr in "[0-9]{1,3}\\.0\\.0\\.0/[0-9]{1,2}(,f[def]00::/[0-9]{1,3})?|\\PC{0,40}",
        gateway in prop::option::of("[0-9]{1,3}\\.0\\.0\\.[0-9]{1,3}(,fd00::[0-9a-f]{1,4})?|\\PC{0,20}"),
        exclude in prop::collection::vec("[0-9.:]{1,20}(\\.\\.[0-9.:]{1,20})?|\\PC{0,20}", 0..4),
        mtu: Option<i64>,
        vni: Option<i64>,
        text in "\\PC{0,40}",
    ) {
        let spec = portolan::SubnetSpec {
            cidr_block: cidr, gateway, exclude_ips: exclude, mtu, vni,
            vpc: Some(text.clone()), provider: Some(text.clone()), protocol: Some(text.clone()),
            dhcp_v4_options: text.clone(), dhcp_v6_options: text.clone(), ipv6_ra_configs: text.clone(),
            routes: vec![crate::routes::Route { dst: text.clone(), gw: Some(text.clone()) }],
            allow_subnets: vec![text.clone()], namespaces: vec![text.clone()], allowed_namespaces: vec![text],
            ..portolan::SubnetSpec::default()
        };
        if let Ok(config) = spec.parse() {
            prop_assert!(config.gateway.addresses().all(|gateway| config.cidr.contains(gateway)));
            prop_assert!(config.gateway.families().eq(config.cidr.families()));
        }
    }
}
