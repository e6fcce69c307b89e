use std::collections::BTreeSet;

use kube_core::cel::Validator;

use super::*;

fn schema(name: &str) -> Value {
    let crds = crds();
    let crd = crds.iter().find(|crd| crd.metadata.name.as_deref() == Some(name)).unwrap();
    serde_json::to_value(crd).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// What the CEL rules say about creating `new`, or about changing `old` into it.
fn cel(crd: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    match Validator::new().validate(&schema(crd), new, old) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_iter().map(|error| error.message).collect(),
    }
}

#[allow(clippy::needless_pass_by_value)] // `subnet(json!({…}))` reads better
fn subnet(spec: Value) -> Value {
    json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "blue"}, "spec": spec})
}

const SUBNETS: &str = "subnets.portolan.dev";

/// Calls `visit` with the path of every schema below this one.
fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        walk(child, &format!("{path}.{name}"), visit);
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            walk(&schema[key], &format!("{path}[]"), visit);
        }
    }
}

#[test]
fn every_kind_has_a_definition() {
    let names: Vec<_> = crds().into_iter().map(|crd| crd.metadata.name.unwrap()).collect();
    assert_eq!(
        names,
        [
            "vpcs.portolan.dev",
            "subnets.portolan.dev",
            "networkattachments.portolan.dev",
            "iplocks.portolan.dev",
            "vpcs.kubeovn.io",
            "subnets.kubeovn.io",
            "ippools.kubeovn.io",
            "vips.kubeovn.io",
            "network-attachment-definitions.k8s.cni.cncf.io",
        ]
    );
}

#[test]
fn short_names_differ_between_the_groups() {
    let mut seen = BTreeSet::new();
    for crd in crds() {
        for name in crd.spec.names.short_names.unwrap() {
            assert!(seen.insert(name.clone()), "{name} is used twice");
        }
    }
}

#[test]
fn schemas_are_structural_and_without_what_the_api_server_warns_about() {
    for crd in crds() {
        let name = crd.metadata.name.unwrap();
        walk(&schema(&name), "", &mut |path, schema| {
            assert!(
                schema["type"].is_string() || schema["x-kubernetes-int-or-string"] == true,
                "{name}{path}"
            );
            if path != ".spec" {
                assert!(schema.get("default").is_none(), "{name}{path} has a default: {schema}");
            }
            for absent in ["nullable", "title", "oneOf", "anyOf", "allOf", "$ref"] {
                assert!(schema.get(absent).is_none(), "{name}{path} has {absent}: {schema}");
            }
            if let Some(format) = schema["format"].as_str() {
                assert!(
                    matches!(format, "int32" | "int64" | "double" | "date-time"),
                    "{name}{path}: {format}"
                );
            }
        });
    }
}

#[test]
fn everything_that_rules_may_look_at_is_bounded() {
    for name in ["vpcs.portolan.dev", SUBNETS, "networkattachments.portolan.dev", "iplocks.portolan.dev"] {
        walk(
            &schema(name)["properties"]["spec"],
            "spec",
            &mut |path, schema| match schema["type"].as_str() {
                Some("string") => {
                    assert!(schema["maxLength"].is_u64() || schema["enum"].is_array(), "{name} {path}");
                }
                Some("array") => assert!(schema["maxItems"].is_u64(), "{name} {path}"),
                Some("object") => assert!(schema.get("additionalProperties").is_none(), "{name} {path}"),
                _ => {}
            },
        );
    }
}

#[test]
fn locks_and_attachments_can_be_watched_by_node_and_subnet() {
    let fields = |index: usize| -> Vec<String> {
        let crd = crds().swap_remove(index);
        let version = crd.spec.versions.into_iter().next().unwrap();
        version.selectable_fields.unwrap().into_iter().map(|field| field.json_path).collect()
    };
    assert_eq!(fields(3), [".spec.domain", ".spec.subnet", ".spec.node", ".spec.target.node"]);
    assert_eq!(fields(2), [".spec.node", ".spec.subnet", ".status.vni", ".status.address", ".status.hostIP"]);
}

#[test]
fn every_kind_shows_its_age_and_those_that_get_ready_whether_they_are() {
    for crd in crds() {
        let name = crd.metadata.name.unwrap_or_default();
        // The definition is that of the network plumbing working group.
        if name == "network-attachment-definitions.k8s.cni.cncf.io" {
            continue;
        }
        let version = crd.spec.versions.into_iter().next().unwrap();
        let columns = version.additional_printer_columns.unwrap();
        assert!(columns.iter().any(|column| column.name == "Age"), "{name}");
        let is_ready = columns.iter().any(|column| column.name == "Ready");
        assert_eq!(is_ready, name != "iplocks.portolan.dev", "{name}");
    }
}

#[test]
fn unknown_fields_of_kube_ovn_are_kept() {
    for name in ["subnets.kubeovn.io", "vpcs.kubeovn.io", "ippools.kubeovn.io", "vips.kubeovn.io"] {
        for part in ["spec", "status"] {
            assert_eq!(
                schema(name)["properties"][part]["x-kubernetes-preserve-unknown-fields"],
                true,
                "{name} {part}"
            );
        }
    }
    let object = json!({
        "apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": "blue"},
        "spec": {"cidrBlock": "10.0.0.0/24", "private": false, "gatewayNode": "", "excludeIps": [], "newer": {"a": [1]},
                 "acls": [{"priority": 3, "newer": true}], "u2oFeatures": {}, "enableLb": true},
        "status": {"v4availableIPs": 253, "v4usingIPs": 1, "v6availableIPs": 0, "v6usingIPs": 0, "activateGateway": "",
                   "newer": 1, "conditions": [{"type": "Ready", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}]},
    });
    let subnet: kubeovn::Subnet = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(subnet).unwrap(), object);
    let object = json!({
        "apiVersion": "kubeovn.io/v1", "kind": "Vpc", "metadata": {"name": "blue"},
        "spec": {"staticRoutes": [{"cidr": "a", "bfdId": "", "newer": 1}], "bfdPort": {"enabled": false, "nodeSelector": {"matchLabels": {"a": "b"}}},
                 "newer": [], "policyRoutes": [], "vpcPeerings": [{"remoteVpc": "x", "newer": {}}]},
        "status": {"standby": true, "default": false, "router": "vpc:blue", "enableExternal": false, "enableBfd": false, "subnets": [], "newer": "y"},
    });
    let vpc: kubeovn::Vpc = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(vpc).unwrap(), object);
}

#[test]
fn a_vpc_needs_no_spec() {
    for name in ["vpcs.portolan.dev", "vpcs.kubeovn.io", "network-attachment-definitions.k8s.cni.cncf.io"] {
        assert_eq!(schema(name)["properties"]["spec"]["default"], json!({}), "{name}");
        assert!(schema(name).get("required").is_none(), "{name}");
    }
    // An API server refuses a default that a rule refuses.
    for name in [SUBNETS, "ippools.kubeovn.io", "vips.kubeovn.io"] {
        assert_eq!(schema(name)["required"], json!(["spec"]), "{name}");
        assert!(schema(name)["properties"]["spec"].get("default").is_none(), "{name}");
    }
}

#[test]
fn files_are_the_same_every_time() {
    let files = crd_yaml();
    assert_eq!(files, crd_yaml());
    assert_eq!(files.len(), 9);
    assert_eq!(files[0].0, "vpcs.portolan.dev.yaml");
    assert!(files[0].1.starts_with(
        "# Generated by `cargo xtask codegen`; do not edit.\napiVersion: apiextensions.k8s.io/v1\n"
    ));
}

#[test]
fn cel_keeps_addressing_as_it_was_made() {
    let plain = subnet(json!({"cidrBlock": "10.0.0.0/24"}));
    let in_vpc = subnet(json!({"cidrBlock": "10.0.0.0/24", "vpc": "a"}));
    let in_vni = subnet(json!({"cidrBlock": "10.0.0.0/24", "vni": 7}));
    let vpc_message = "vpc is immutable, and can be neither added nor removed; make a new Subnet";
    let vni_message = "vni is immutable, and can be neither added nor removed; make a new Subnet";
    assert_eq!(cel(SUBNETS, &in_vpc, Some(&in_vpc)), [""; 0]);
    assert_eq!(cel(SUBNETS, &in_vpc, Some(&plain)), [vpc_message]);
    assert_eq!(cel(SUBNETS, &plain, Some(&in_vpc)), [vpc_message]);
    assert_eq!(
        cel(SUBNETS, &subnet(json!({"cidrBlock": "10.0.0.0/24", "vpc": "b"})), Some(&in_vpc)),
        [vpc_message]
    );
    assert_eq!(cel(SUBNETS, &in_vni, Some(&plain)), [vni_message]);
    assert_eq!(cel(SUBNETS, &plain, Some(&in_vni)), [vni_message]);
    assert_eq!(
        cel(SUBNETS, &subnet(json!({"cidrBlock": "10.0.1.0/24"})), Some(&plain)),
        ["cidrBlock is immutable; make a new Subnet"]
    );
}

#[test]
fn cel_refuses_what_it_can_see() {
    for good in [
        json!({"cidrBlock": "10.0.0.0/24", "gateway": "10.0.0.254", "protocol": "IPv4", "mtu": 600}),
        json!({"cidrBlock": "10.0.0.0/24,fd00::/64", "gateway": "10.0.0.1,fd00::1", "protocol": "Dual"}),
        json!({"cidrBlock": "fd00::/64", "protocol": "IPv6", "mtu": 1280, "vpc": "a"}),
    ] {
        assert_eq!(cel(SUBNETS, &subnet(good.clone()), None), [""; 0], "{good}");
    }
    for bad in [
        json!({"cidrBlock": "10.0.0.0/33"}),
        json!({"cidrBlock": "10.0.0.1/24"}),
        json!({"cidrBlock": "10.0.0.0/24,fd00::/64,fd01::/64"}),
        json!({"cidrBlock": "10.0.0.0/24", "gateway": "10.0.1.1"}),
        json!({"cidrBlock": "10.0.0.0/24", "gateway": "x"}),
        json!({"cidrBlock": "10.0.0.0/24", "protocol": "Dual"}),
        json!({"cidrBlock": "fd00::/64", "mtu": 1279}),
        json!({"cidrBlock": "10.0.0.0/24", "vpc": "a", "vni": 7}),
    ] {
        assert_eq!(cel(SUBNETS, &subnet(bad.clone()), None).len(), 1, "{bad}");
    }
}

#[test]
fn cel_and_rust_agree_on_subnets() {
    // Whatever the API server admits by these rules, the controller understands too, for the fields they cover.
    for (cidr, gateway) in [
        ("10.0.0.0/24", "10.0.0.9"),
        ("10.0.0.0/24,fd00::/64", "10.0.0.9,fd00::9"),
        ("10.0.0.0/8", "11.0.0.1"),
    ] {
        let spec = json!({"cidrBlock": cidr, "gateway": gateway});
        let rust = serde_json::from_value::<portolan::SubnetSpec>(spec.clone()).unwrap().parse();
        assert_eq!(cel(SUBNETS, &subnet(spec), None).is_empty(), rust.is_ok(), "{cidr} {gateway}");
    }
}

#[test]
fn cel_on_vpcs() {
    let vpc = |spec| json!({"metadata": {"name": "blue"}, "spec": spec});
    let check = |spec| cel("vpcs.portolan.dev", &vpc(spec), None);
    assert_eq!(check(json!({})), [""; 0]);
    assert_eq!(
        check(json!({"vpcPeerings": [{"remoteVpc": "blue", "localConnectIP": "169.254.0.1/30"}]})),
        ["a VPC cannot be peered with itself"]
    );
    assert_eq!(
        check(json!({"vpcPeerings": [{"remoteVpc": "green", "localConnectIP": "169.254.0.1"}]})).len(),
        1
    );
    assert_eq!(check(json!({"staticRoutes": [{"cidr": "x", "nextHopIP": "y"}]})).len(), 2);
    assert_eq!(check(json!({"staticRoutes": [{"cidr": "10.0.0.1", "nextHopIP": "10.0.0.1"}]})), [""; 0]);
    assert_eq!(
        check(
            json!({"policyRoutes": [{"priority": 1, "match": "ip4", "action": "drop", "nextHopIP": "10.0.0.1"}]})
        ),
        ["nextHopIP is required with action reroute, and has no meaning with another"]
    );
}

#[test]
fn cel_lets_only_sticky_locks_move() {
    let lock = |kind: &str, node: &str, mac: Option<&str>| {
        let mut lock = json!({"metadata": {"name": "x"}, "spec": {
            "domain": "vpc/blue", "address": "10.0.0.7", "subnet": "blue-1", "node": node,
            "holder": {"kind": kind, "namespace": "a", "name": "b", "uid": "c"},
        }});
        if let Some(mac) = mac {
            lock["spec"]["mac"] = mac.into();
        }
        lock
    };
    let check = |new: &Value, old: &Value| cel("iplocks.portolan.dev", new, Some(old));
    assert_eq!(check(&lock("VirtualMachine", "n2", None), &lock("VirtualMachine", "n1", None)), [""; 0]);
    assert_eq!(
        check(&lock("Pod", "n2", None), &lock("Pod", "n1", None)),
        [
            "a lock is immutable; only user, target, node, hostIP and interfaces of a StatefulSet's or a VirtualMachine's change, with the current pod"
        ]
    );
    assert_eq!(
        check(&lock("VirtualMachine", "n1", Some("0a:58:0a:00:00:07")), &lock("VirtualMachine", "n1", None)),
        ["mac is immutable"]
    );
    let mut moved = lock("VirtualMachine", "n1", None);
    moved["spec"]["holder"]["uid"] = "d".into();
    assert_eq!(check(&moved, &lock("VirtualMachine", "n1", None)), ["holder is immutable"]);
    // What was decided follows the pod: a template may name other networks than it did.
    let mut decided = lock("StatefulSet", "n1", None);
    decided["spec"]["interfaces"] = json!([{"interface": "net1", "families": ["IPv4"]}]);
    assert_eq!(check(&decided, &lock("StatefulSet", "n1", None)), [""; 0]);
    let target = |kind: &str, uid: &str| {
        let mut lock = lock(kind, "n1", None);
        lock["spec"]["user"] = json!({"pod": "vm-1", "uid": "u1"});
        lock["spec"]["target"] = json!({"node": "n2", "pod": "vm-2", "uid": uid});
        cel("iplocks.portolan.dev", &lock, None)
    };
    assert_eq!(target("VirtualMachine", "u2"), [""; 0]);
    assert_eq!(target("VirtualMachine", "u1"), ["target must be another pod than user"]);
    assert_eq!(target("StatefulSet", "u2"), ["only the lock of a VirtualMachine has a target"]);
    for (address, good) in
        [("10.0.0.7", true), ("0a:58:0a:00:00:07", true), ("fd00::1", true), ("FD00::1", false), ("x", false)]
    {
        let mut lock = lock("Pod", "n1", None);
        lock["spec"]["address"] = address.into();
        assert_eq!(cel("iplocks.portolan.dev", &lock, None).is_empty(), good, "{address}");
    }
}

#[test]
fn cel_on_kube_ovn_subnets_treats_empty_as_absent() {
    let subnet = |spec| json!({"metadata": {"name": "blue"}, "spec": spec});
    let check = |new, old| cel("subnets.kubeovn.io", &subnet(new), Some(&subnet(old)));
    assert_eq!(
        check(json!({"cidrBlock": "10.0.0.0/24", "vpc": ""}), json!({"cidrBlock": "10.0.0.0/24"})),
        [""; 0]
    );
    assert_eq!(
        check(json!({"cidrBlock": "10.0.0.0/24", "vpc": "a"}), json!({"cidrBlock": "10.0.0.0/24"})).len(),
        1
    );
    assert_eq!(
        check(json!({}), json!({"cidrBlock": "10.0.0.0/24"})),
        ["cidrBlock is immutable; make a new Subnet"]
    );
    let with =
        |provider: &str, vpc: &str| json!({"cidrBlock": "10.0.0.0/24", "provider": provider, "vpc": vpc});
    let moved = "provider decides the address domain of a Subnet that names no vpc, and is immutable there; make a new Subnet";
    assert_eq!(check(with("a.default.ovn", ""), with("ovn", "")), [moved]);
    assert_eq!(check(with("ovn", ""), with("", "")), [""; 0], "both mean the cluster's own pods");
    assert_eq!(
        check(with("a.default.ovn", "blue"), with("b.default.ovn", "blue")),
        [""; 0],
        "the VPC is the domain"
    );
}

#[test]
fn cel_on_kube_ovn_refuses_what_it_can_see_and_nothing_that_the_controller_understands() {
    let subnet = |spec: &Value| {
        let rust = serde_json::from_value::<kubeovn::SubnetSpec>(spec.clone()).unwrap().parse();
        let object = json!({"metadata": {"name": "blue"}, "spec": spec});
        (cel("subnets.kubeovn.io", &object, None), rust.err().map(|errors| errors.to_string()))
    };
    for good in [
        json!({"cidrBlock": "10.0.0.5/24, fd00::5/64", "gateway": "10.0.0.1, fd00::1", "protocol": "Dual", "mtu": 1280}),
        json!({"cidrBlock": "10.0.0.0/24", "gateway": "", "protocol": "", "provider": "", "mtu": 0, "excludeIps": []}),
        json!({"cidrBlock": "10.0.0.0/24", "excludeIps": ["10.0.0.5", "10.0.0.6..10.0.0.9", " 10.0.0.10 .. 10.0.0.11"]}),
        json!({"cidrBlock": "10.0.0.0/24", "provider": "a.b.default.ovn", "mtu": 576,
               "allowSubnets": ["10.1.0.0/16", " 10.2.0.1/16", "10.3.0.0/16,fd03::/64"]}),
        json!({"cidrBlock": "10.0.0.0/24", "provider": "ovn"}),
    ] {
        assert_eq!(subnet(&good), (vec![], None), "{good}");
    }
    for bad in [
        json!({"cidrBlock": "10.300.0.0/24"}),
        json!({"cidrBlock": "10.0.0.0"}),
        json!({"cidrBlock": "10.0.0.0/24,fd00::/64,fd01::/64"}),
        json!({"cidrBlock": "10.0.0.0/24", "gateway": "10.0.1.1"}),
        json!({"cidrBlock": "10.0.0.0/24", "gateway": "x"}),
        json!({"cidrBlock": "10.0.0.0/24", "protocol": "Dual"}),
        json!({"cidrBlock": "10.0.0.0/24", "protocol": "Mac"}),
        json!({"cidrBlock": "fd00::/64", "mtu": 1279}),
        json!({"cidrBlock": "10.0.0.0/24", "mtu": 575}),
        json!({"cidrBlock": "10.0.0.0/24", "provider": "macvlan.default"}),
        json!({"cidrBlock": "10.0.0.0/24", "allowSubnets": ["10.1.0.0"]}),
        json!({"cidrBlock": "10.0.0.0/24", "excludeIps": ["10.0.0.5-10.0.0.6"]}),
        json!({"cidrBlock": "10.0.0.0/24", "excludeIps": ["10.0.0.1...10.0.0.2"]}),
        json!({"cidrBlock": "10.0.0.0/24", "excludeIps": ["10.0.0.0/30"]}),
        json!({"cidrBlock": "10.0.0.0/24", "excludeIps": [""]}),
    ] {
        let (cel, rust) = subnet(&bad);
        assert!(cel.len() == 1 && rust.is_some(), "{bad}: {cel:?} {rust:?}");
    }
}

#[test]
fn cel_on_kube_ovn_vpcs() {
    let vpc = |spec: &Value| {
        let object = json!({"metadata": {"name": "blue"}, "spec": spec});
        let parsed: kubeovn::Vpc = serde_json::from_value(object.clone()).unwrap();
        (cel("vpcs.kubeovn.io", &object, None), parsed.parse().err().map(|errors| errors.to_string()))
    };
    for good in [
        json!({}),
        json!({"vpcPeerings": [{"remoteVpc": "green", "localConnectIP": "169.254.0.1/30"}],
               "staticRoutes": [{"policy": "", "cidr": "10.9.0.0/16", "nextHopIP": "169.254.0.2"}, {"cidr": "10.0.0.1", "nextHopIP": "10.0.0.2"}],
               "policyRoutes": [{"match": "ip4", "action": "drop", "nextHopIP": ""}, {"match": "ip6", "action": "reroute", "nextHopIP": "fd00::1"}]}),
    ] {
        assert_eq!(vpc(&good), (vec![], None), "{good}");
    }
    for bad in [
        json!({"vpcPeerings": [{"remoteVpc": "blue", "localConnectIP": "169.254.0.1/30"}]}),
        json!({"vpcPeerings": [{"remoteVpc": "green", "localConnectIP": "169.254.0.1"}]}),
        json!({"staticRoutes": [{"cidr": "x", "nextHopIP": "10.0.0.1"}]}),
        json!({"staticRoutes": [{"cidr": "10.0.0.0/8", "nextHopIP": "10.0.0.0/8"}]}),
        json!({"policyRoutes": [{"match": "ip4", "action": "drop", "nextHopIP": "10.0.0.1"}]}),
        json!({"policyRoutes": [{"match": "ip4", "action": "reroute"}]}),
    ] {
        let (cel, rust) = vpc(&bad);
        assert!(cel.len() == 1 && rust.is_some(), "{bad}: {cel:?} {rust:?}");
    }
}

#[test]
fn cel_on_kube_ovn_pools_refuses_what_it_can_see_and_nothing_that_the_controller_understands() {
    let pool = |spec: &Value| {
        let object = json!({"metadata": {"name": "gold"}, "spec": spec});
        let parsed: kubeovn::IPPool = serde_json::from_value(object.clone()).unwrap();
        (cel("ippools.kubeovn.io", &object, None), parsed.parse().err().map(|errors| errors.to_string()))
    };
    for good in [
        json!({"subnet": "web", "ips": ["10.0.0.5", " 10.0.0.7 .. 10.0.0.9", "10.0.0.17/30", "fd00::10/126", "fd00::1..fd00::2"]}),
        json!({"subnet": "web.a-1", "ips": ["10.0.0.5"], "namespaces": ["default", "a-1"], "enableAddressSet": false}),
        json!({"subnet": "web", "ips": ["10.0.0.5"], "namespaces": []}),
    ] {
        assert_eq!(pool(&good), (vec![], None), "{good}");
    }
    let ips = |ips: &[&str]| json!({"subnet": "web", "ips": ips});
    for bad in [
        json!({"ips": ["10.0.0.5"]}),
        json!({"subnet": "", "ips": ["10.0.0.5"]}),
        json!({"subnet": "Web", "ips": ["10.0.0.5"]}),
        json!({"subnet": "-web", "ips": ["10.0.0.5"]}),
        json!({"subnet": "web"}),
        json!({"subnet": "web", "ips": []}),
        json!({"subnet": "web", "ips": ["10.0.0.5"], "namespaces": ["a b"]}),
        ips(&[""]),
        ips(&["10.0.0.5", "10.300.0.1"]),
        ips(&["10.0.0.0/33"]),
        ips(&["10.0.0.5-10.0.0.6"]),
        ips(&["10.0.0.1...10.0.0.2"]),
        ips(&["10.0.0.1..10.0.0.2/24"]),
        ips(&["10.0.0.1..fd00::1"]),
    ] {
        let (cel, rust) = pool(&bad);
        assert!(cel.len() == 1 && rust.is_some(), "{bad}: {cel:?} {rust:?}");
    }
}

#[test]
fn cel_on_kube_ovn_vips_refuses_what_it_can_see_and_nothing_that_the_controller_understands() {
    let vip = |spec: &Value| {
        let object = json!({"metadata": {"name": "front"}, "spec": spec});
        let parsed: kubeovn::Vip = serde_json::from_value(object.clone()).unwrap();
        (cel("vips.kubeovn.io", &object, None), parsed.parse().err().map(|errors| errors.to_string()))
    };
    for good in [
        json!({"subnet": "web"}),
        json!({"subnet": "web", "v4ip": "", "v6ip": "", "macAddress": ""}),
        json!({"subnet": "web", "v4ip": "10.0.0.9", "v6ip": "FD00::9", "macAddress": "02-00-00-00-00-0F"}),
        json!({"subnet": "web", "v4ip": " 10.0.0.9", "macAddress": "0A:58:0a:00:00:09"}),
    ] {
        assert_eq!(vip(&good), (vec![], None), "{good}");
    }
    let with = |field: &str, text: &str| json!({"subnet": "web", field: text});
    for bad in [
        json!({}),
        json!({"subnet": ""}),
        json!({"subnet": "a/b"}),
        with("v4ip", "10.0.0"),
        with("v4ip", "fd00::9"),
        with("v6ip", "10.0.0.9"),
        with("v6ip", "::ffff:10.0.0.9"),
        with("macAddress", "02:00:00:00:00"),
        with("macAddress", "02:00:00-00:00:01"),
        with("macAddress", "01:00:5e:00:00:01"),
        with("macAddress", "ff-ff-ff-ff-ff-ff"),
        with("macAddress", "00:00:00:00:00:00"),
    ] {
        let (cel, rust) = vip(&bad);
        assert!(cel.len() == 1 && rust.is_some(), "{bad}: {cel:?} {rust:?}");
    }
}
