//! Portolan's own CRDs: kube-apiserver's rules take them, and each of their CEL rules tells good from bad.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use apischema::{CompiledSchema, Schema, StatusSubresource, default, prune, structural_errors};
use serde_json::{Value, json};

/// The schema of each CRD by the CRD's name.
fn schemas() -> BTreeMap<String, Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let mut schemas = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let crd: Value = serde_saphyr::from_str(&text).unwrap();
        let versions = crd["spec"]["versions"].as_array().unwrap();
        assert_eq!(versions.len(), 1);
        let status = if versions[0]["subresources"]["status"].is_object() {
            StatusSubresource::Enabled
        } else {
            StatusSubresource::Disabled
        };
        let schema = versions[0]["schema"]["openAPIV3Schema"].clone();
        let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
        let errors = structural_errors(&schema, "spec.validation.openAPIV3Schema", status);
        assert_eq!(errors, [], "{name}");
        schemas.insert(name, schema);
    }
    schemas
}

/// The messages of all rules in a schema.
fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for rule in fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
            {
                found.insert(rule["message"].as_str().unwrap().to_owned());
            }
            fields.values().for_each(|value| messages(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| messages(item, found)),
        _ => {}
    }
}

/// A CRD under test, with the messages that its rules gave.
struct Crd {
    schema: CompiledSchema,
    rules: BTreeSet<String>,
    given: BTreeSet<String>,
}

impl Crd {
    fn of(name: &str) -> Crd {
        let json = &schemas()[name];
        let mut rules = BTreeSet::new();
        messages(json, &mut rules);
        let schema = CompiledSchema::new(Arc::new(Schema::from_json(json).unwrap()));
        Crd { schema, rules, given: BTreeSet::new() }
    }

    fn object(&self, spec: &Value) -> Value {
        let mut object =
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "this"}, "spec": spec});
        assert_eq!(prune(&mut object, self.schema.schema()), [""; 0]);
        default(&mut object, self.schema.schema());
        object
    }

    #[track_caller]
    fn good(&self, spec: &Value, old: Option<&Value>) {
        let old = old.map(|old| self.object(old));
        assert_eq!(self.schema.validate(&self.object(spec), old.as_ref()), [], "{spec}");
    }

    /// The object breaks these rules and nothing else.
    #[track_caller]
    fn bad(&mut self, spec: &Value, old: Option<&Value>, expected: &[&str]) {
        let old = old.map(|old| self.object(old));
        let errors = self.schema.validate(&self.object(spec), old.as_ref());
        let details: BTreeSet<_> = errors.iter().map(|error| &*error.detail).collect();
        assert_eq!(details, expected.iter().copied().collect(), "{spec}");
        self.given.extend(expected.iter().map(|message| (*message).to_owned()));
    }

    #[track_caller]
    fn every_rule_was_broken_once(self) {
        assert_eq!(self.given, self.rules);
    }
}

/// A copy with one field changed, or taken away.
fn with(base: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = base.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = changed.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(name)
    } else {
        parent.insert(name.to_owned(), value)
    };
    changed
}

#[test]
fn ip_locks() {
    let mut crd = Crd::of("iplocks.portolan.dev");
    let pod = json!({
        "domain": "vpc/blue", "address": "10.0.0.5", "subnet": "s", "mac": "0a:58:0a:00:00:05", "hostIP": "192.168.0.1",
        "ifaceId": "port", "node": "n1", "holder": {"kind": "Pod", "name": "p", "namespace": "d", "uid": "u"},
        "interfaces": [{"interface": "eth0", "families": ["IPv4"]}],
    });
    crd.good(&pod, None);
    crd.good(&pod, Some(&pod));
    crd.good(&with(&pod, "/address", json!("0a:58:0a:00:00:05")), None);
    crd.good(&with(&pod, "/address", json!("fd00::1")), None);
    let canonical = "address must be an IP address or a MAC address in canonical form";
    crd.bad(&with(&pod, "/address", json!("10.0.0")), None, &[canonical]);
    crd.bad(&with(&pod, "/address", json!("FD00::1")), None, &[canonical]);
    crd.bad(&with(&pod, "/hostIP", json!("node")), None, &["hostIP must be an IP address"]);
    let set = with(&pod, "/holder/kind", json!("StatefulSet"));
    crd.good(&with(&set, "/node", json!("n2")), Some(&set));
    crd.good(&with(&set, "/interfaces", json!([])), Some(&set));
    let frozen = "a lock is immutable; only user, target, node, hostIP and interfaces of a StatefulSet's or a \
                  VirtualMachine's change, with the current pod";
    crd.bad(&with(&pod, "/node", json!("n2")), Some(&pod), &[frozen]);
    for (field, value, message) in [
        ("/address", json!("10.0.0.6"), "address is immutable"),
        ("/domain", json!("vpc/red"), "domain is immutable"),
        ("/subnet", json!("t"), "subnet is immutable"),
        ("/holder/name", json!("q"), "holder is immutable"),
        ("/mac", json!("0a:58:0a:00:00:06"), "mac is immutable"),
        ("/mac", Value::Null, "mac is immutable"),
        ("/ifaceId", json!("other"), "ifaceId is immutable"),
    ] {
        crd.bad(&with(&set, field, value), Some(&set), &[message]);
    }
    let pod = |name: &str| json!({"node": "n2", "pod": name, "uid": format!("uid-of-{name}")});
    let machine = with(&set, "/holder/kind", json!("VirtualMachine"));
    crd.good(&with(&machine, "/target", pod("next")), Some(&machine));
    crd.bad(
        &with(&set, "/target", pod("next")),
        Some(&set),
        &["only the lock of a VirtualMachine has a target"],
    );
    let used = with(&machine, "/user", json!({"pod": "now", "uid": "uid-of-now"}));
    crd.bad(&with(&used, "/target", pod("now")), Some(&used), &["target must be another pod than user"]);
    crd.every_rule_was_broken_once();
}

#[test]
fn network_attachments() {
    let mut crd = Crd::of("networkattachments.portolan.dev");
    let base = json!({"node": "n", "subnet": "s", "address": "10.0.0.1,fd00::1"});
    crd.good(&base, None);
    crd.good(&base, Some(&base));
    let message = "address must be an IP address, or an IPv4 and an IPv6 one separated by a comma";
    crd.bad(&with(&base, "/address", json!("10.0.0.1,x")), None, &[message]);
    crd.bad(&with(&base, "/address", json!("10.0.0.1,10.0.0.2,::1")), None, &[message]);
    let immutable = "spec is immutable; make a new NetworkAttachment";
    crd.bad(&with(&base, "/node", json!("m")), Some(&base), &[immutable]);
    crd.every_rule_was_broken_once();
}

#[test]
fn subnets_of_kube_ovn() {
    let mut crd = Crd::of("subnets.kubeovn.io");
    let base = json!({"cidrBlock": "10.0.0.0/24", "vpc": "v"});
    crd.good(&base, None);
    crd.good(&with(&base, "/gateway", json!("10.0.0.1")), Some(&base));
    let cidr = "cidrBlock is immutable; make a new Subnet";
    crd.bad(&with(&base, "/cidrBlock", json!("10.0.1.0/24")), Some(&base), &[cidr]);
    crd.bad(&with(&base, "/cidrBlock", Value::Null), Some(&base), &[cidr]);
    let vpc = "vpc is immutable, and can be neither added nor removed; make a new Subnet";
    crd.bad(&with(&base, "/vpc", Value::Null), Some(&base), &[vpc]);
    crd.good(&with(&base, "/provider", json!("a.default.ovn")), Some(&base));
    let isolated = json!({"cidrBlock": "10.0.0.0/24", "provider": "a.default.ovn"});
    let provider = "provider decides the address domain of a Subnet that names no vpc, and is immutable there; \
                    make a new Subnet";
    crd.bad(&with(&isolated, "/provider", json!("b.default.ovn")), Some(&isolated), &[provider]);

    let block =
        "cidrBlock must be a prefix such as 10.0.0.0/24, or an IPv4 and an IPv6 one separated by a comma";
    let gateway =
        "gateway must be an address inside cidrBlock, or one inside each of its blocks separated by a comma";
    let protocol = "protocol does not fit cidrBlock; leave it out";
    let mtu = "mtu must be at least 576, or 1280 as IPv6 needs; 0 stands for the default";
    let ranges = "excludeIps must be addresses such as 10.0.0.5 and ranges such as 10.0.0.5..10.0.0.9";
    let allowed = "allowSubnets must be prefixes such as 10.0.0.0/24";
    let network = "provider must be ovn, or <nad>.<namespace>.ovn for a network attachment definition";
    for (field, good, bad, message) in [
        ("/cidrBlock", json!("10.0.0.5/24, fd00::/64"), json!("10.300.0.0/24"), block),
        ("/gateway", json!("10.0.0.9"), json!("10.0.1.1"), gateway),
        ("/protocol", json!("IPv4"), json!("IPv6"), protocol),
        ("/mtu", json!(0), json!(575), mtu),
        ("/excludeIps", json!(["10.0.0.5", "10.0.0.6 .. 10.0.0.9"]), json!(["10.0.0.1...10.0.0.2"]), ranges),
        ("/allowSubnets", json!(["10.1.0.0/16", "10.2.0.0/16,fd00::/64"]), json!(["10.1.0.0"]), allowed),
        ("/provider", json!("a.b.default.ovn"), json!("macvlan.default"), network),
    ] {
        crd.good(&with(&base, field, good), None);
        crd.bad(&with(&base, field, bad.clone()), None, &[message]);
        // What is stored already, by a laxer definition, can still be changed elsewhere.
        if field != "/gateway" && field != "/protocol" && field != "/mtu" {
            let stored = with(&base, field, bad);
            crd.good(&with(&stored, "/private", json!(true)), Some(&stored));
        }
    }
    // What clients of Kube-OVN write for what they leave out.
    crd.good(
        &json!({"cidrBlock": "10.0.0.0/24", "gateway": "", "protocol": "", "provider": "", "excludeIps": []}),
        None,
    );
    crd.every_rule_was_broken_once();
}

#[test]
fn subnets() {
    let mut crd = Crd::of("subnets.portolan.dev");
    let base = json!({
        "cidrBlock": "10.0.0.0/24,fd00::/64", "vpc": "v", "gateway": "10.0.0.1,fd00::1", "protocol": "Dual", "mtu": 1400,
    });
    crd.good(&base, None);
    crd.good(&base, Some(&base));
    let block = "cidrBlock must be a prefix such as 10.0.0.0/24, or an IPv4 and an IPv6 one separated by a comma, without \
                 host bits";
    let bare = json!({"cidrBlock": "10.0.0.0/24"});
    crd.good(&bare, None);
    crd.bad(&with(&bare, "/cidrBlock", json!("10.0.0.1/24")), None, &[block]);
    crd.bad(&with(&bare, "/cidrBlock", json!("10.0.0.128")), None, &[block]);
    let immutable = "cidrBlock is immutable; make a new Subnet";
    crd.bad(&with(&bare, "/cidrBlock", json!("10.1.0.0/24")), Some(&bare), &[immutable]);
    let gateway =
        "gateway must be an address inside cidrBlock, or one inside each of its blocks separated by a comma";
    crd.bad(&with(&bare, "/gateway", json!("10.0.1.1")), None, &[gateway]);
    crd.bad(&with(&bare, "/gateway", json!("nowhere")), None, &[gateway]);
    crd.bad(
        &with(&bare, "/protocol", json!("IPv6")),
        None,
        &["protocol does not fit cidrBlock; leave it out"],
    );
    crd.bad(&with(&base, "/mtu", json!(1279)), None, &["mtu must be at least 1280, as IPv6 needs"]);
    crd.bad(&with(&base, "/vni", json!(5)), None, &["a subnet is in a VPC or in a VNI, not both"]);
    let vpc = "vpc is immutable, and can be neither added nor removed; make a new Subnet";
    crd.bad(&with(&bare, "/vpc", json!("v")), Some(&bare), &[vpc]);
    let vni = "vni is immutable, and can be neither added nor removed; make a new Subnet";
    crd.bad(&with(&bare, "/vni", json!(5)), Some(&bare), &[vni]);
    let ranges = "excludeIps must be addresses such as 10.0.0.5 and ranges such as 10.0.0.5..10.0.0.9";
    crd.good(&with(&bare, "/excludeIps", json!(["10.0.0.5", "10.0.0.6..10.0.0.9"])), None);
    crd.bad(&with(&bare, "/excludeIps", json!(["10.0.0.5-10.0.0.9"])), None, &[ranges]);
    let allowed = "allowSubnets must be prefixes such as 10.0.0.0/24";
    crd.bad(&with(&bare, "/allowSubnets", json!(["here"])), None, &[allowed]);
    let nat = "natOutgoing is for Subnets of VPC ovn-cluster only; leave it out";
    crd.good(&with(&with(&bare, "/vpc", json!("ovn-cluster")), "/natOutgoing", json!(true)), None);
    crd.good(&with(&base, "/natOutgoing", json!(false)), None);
    crd.bad(&with(&base, "/natOutgoing", json!(true)), None, &[nat]);
    crd.bad(&with(&bare, "/natOutgoing", json!(true)), None, &[nat]);
    crd.every_rule_was_broken_once();
}

#[test]
fn vpcs() {
    let mut crd = Crd::of("vpcs.portolan.dev");
    let base = json!({
        "policyRoutes": [{"action": "reroute", "match": "ip4", "nextHopIP": "10.0.0.1", "priority": 1}],
        "staticRoutes": [{"cidr": "10.0.0.0/8", "nextHopIP": "10.0.0.1"}, {"cidr": "::1", "nextHopIP": "::2"}],
        "vpcPeerings": [{"localConnectIP": "169.254.0.1/30,fd00::1/64", "remoteVpc": "other"}],
    });
    crd.good(&base, None);
    crd.good(&json!({}), None);
    crd.good(&json!({}), Some(&base));
    let hop = "nextHopIP is required with action reroute, and has no meaning with another";
    crd.bad(&with(&base, "/policyRoutes/0/action", json!("drop")), None, &[hop]);
    crd.bad(&with(&base, "/policyRoutes/0/nextHopIP", Value::Null), None, &[hop]);
    crd.bad(
        &with(&base, "/staticRoutes/0/cidr", json!("ten")),
        None,
        &["cidr must be a prefix or an address"],
    );
    crd.bad(
        &with(&base, "/staticRoutes/0/nextHopIP", json!("10.0.0.0/8")),
        None,
        &["nextHopIP must be an IP address"],
    );
    let local = "localConnectIP must be an address with a prefix length, or an IPv4 and an IPv6 one separated by a comma";
    crd.bad(&with(&base, "/vpcPeerings/0/localConnectIP", json!("169.254.0.1")), None, &[local]);
    let itself = "a VPC cannot be peered with itself";
    crd.bad(&with(&base, "/vpcPeerings/0/remoteVpc", json!("this")), None, &[itself]);
    crd.every_rule_was_broken_once();
}

#[test]
fn vpcs_of_kube_ovn() {
    let mut crd = Crd::of("vpcs.kubeovn.io");
    let base = json!({
        "policyRoutes": [{"action": "reroute", "match": "ip4", "nextHopIP": "10.0.0.1", "priority": 1}],
        "staticRoutes": [{"cidr": "10.0.0.0/8", "nextHopIP": "10.0.0.1"}, {"cidr": "::1", "nextHopIP": "::2"}],
        "vpcPeerings": [{"localConnectIP": "169.254.0.1/30,fd00::1/64", "remoteVpc": "other"}, {}],
    });
    crd.good(&base, None);
    crd.good(&json!({}), Some(&base));
    crd.good(&json!({"policyRoutes": [{"action": "drop", "nextHopIP": ""}]}), None);
    let hop = "nextHopIP is required with action reroute, and has no meaning with another";
    crd.bad(&with(&base, "/policyRoutes/0/action", json!("drop")), None, &[hop]);
    let cidr = "cidr must be a prefix or an address";
    crd.bad(&with(&base, "/staticRoutes/0/cidr", json!("ten")), None, &[cidr]);
    let next = "nextHopIP must be an IP address";
    crd.bad(&with(&base, "/staticRoutes/0/nextHopIP", json!("10.0.0.0/8")), None, &[next]);
    let local = "localConnectIP must be an address with a prefix length, or an IPv4 and an IPv6 one separated by a comma";
    crd.bad(&with(&base, "/vpcPeerings/0/localConnectIP", json!("169.254.0.1")), None, &[local]);
    let itself = "a VPC cannot be peered with itself";
    crd.bad(&with(&base, "/vpcPeerings/0/remoteVpc", json!("this")), None, &[itself]);
    crd.every_rule_was_broken_once();
}

#[test]
fn a_crd_without_rules_takes_what_its_schema_takes() {
    let crd = Crd::of("network-attachment-definitions.k8s.cni.cncf.io");
    crd.good(&json!({"config": "{}", "other": {"kept": true}}), None);
    Crd::of("vpcs.kubeovn.io").good(&json!({}), None);
}
