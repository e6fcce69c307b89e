//! Which fields of `kubeovn.io` have an effect here.
//!
//! A field that would change traffic, but is not supported yet, must not be ignored silently: it is reported
//! on the object that sets it, by [`unsupported_subnet`], [`unsupported_vpc`], [`unsupported_ip_pool`] and
//! [`unsupported_vip`].

use std::fmt;
use std::fmt::Write as _;

use serde_json::Value;

use super::{IpPoolSpec, SubnetSpec, VipSpec, VpcSpec};

/// What setting a field does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Portolan acts on it.
    Acts,
    /// It acts on Subnets whose pods leave the cluster by their nodes; elsewhere it would change traffic and does not yet, and is reported.
    ActsByNode,
    /// It is kept, and leaving it without effect changes no traffic.
    Accepted,
    /// It would change traffic, and does not yet: the object's `Supported` condition says so.
    ReportedUnsupported,
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Support::Acts => "yes",
            Support::ActsByNode => "in part; otherwise reported",
            Support::Accepted => "accepted, no effect",
            Support::ReportedUnsupported => "not yet; reported",
        })
    }
}

/// How pods of a Subnet leave the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Egress {
    /// By the node that they are on: the Subnet is of the primary network's VPC.
    ByNode,
    /// Not by Portolan's doing, or not by nodes.
    Otherwise,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct FieldSupport {
    /// `Subnet`, `Vpc`, `IPPool` or `Vip`.
    pub kind: &'static str,
    /// The field within `spec`; `[]` stands for every element of a list. A row covers all fields below it that
    /// have none of their own.
    pub path: &'static str,
    /// What setting it does.
    pub support: Support,
    /// A value that asks for nothing Portolan would not do anyway, and is not reported.
    pub neutral: Option<&'static str>,
    /// What to know about it.
    pub note: &'static str,
}

const fn subnet(path: &'static str, support: Support, note: &'static str) -> FieldSupport {
    FieldSupport { kind: "Subnet", path, support, neutral: None, note }
}

const fn vpc(path: &'static str, support: Support, note: &'static str) -> FieldSupport {
    FieldSupport { kind: "Vpc", path, support, neutral: None, note }
}

const fn ip_pool(path: &'static str, support: Support, note: &'static str) -> FieldSupport {
    FieldSupport { kind: "IPPool", path, support, neutral: None, note }
}

const fn vip(path: &'static str, support: Support, note: &'static str) -> FieldSupport {
    FieldSupport { kind: "Vip", path, support, neutral: None, note }
}

use Support::{Accepted, Acts, ActsByNode, ReportedUnsupported as Reported};

/// What is said of a field that acts on what pods send out of the cluster by their nodes, on any other Subnet.
const ELSEWHERE: &str =
    "has no effect here: it acts on Subnets of VPC ovn-cluster where Portolan is the primary network";

/// Every field of each kind's `spec`.
pub const SUPPORT: &[FieldSupport] = &[
    subnet("default", Acts, ""),
    subnet("vpc", Acts, "Immutable. Empty with a NAD provider: an isolated switch."),
    subnet("protocol", Acts, "Must agree with `cidrBlock`. `Mac` is refused."),
    subnet("namespaces", Acts, ""),
    subnet("cidrBlock", Acts, "Immutable. Host bits are masked in effect; the object is left as written."),
    subnet("gateway", Acts, "The first address by default."),
    subnet("excludeIps", Acts, ""),
    subnet("provider", Acts, "`ovn` or `<nad>.<namespace>.ovn`; others are refused."),
    FieldSupport {
        neutral: Some("distributed"),
        ..subnet("gatewayType", Reported, "`distributed`, which clients write by default, is not reported.")
    },
    subnet(
        "gatewayNode",
        Accepted,
        "Means something with `gatewayType: centralized` only, which is reported.",
    ),
    subnet("gatewayNodeSelectors", Accepted, "As `gatewayNode`."),
    subnet(
        "natOutgoing",
        ActsByNode,
        "Only for Subnets of VPC `ovn-cluster`, where Portolan is the primary network.",
    ),
    subnet("externalEgressGateway", Reported, ""),
    subnet(
        "policyRoutingPriority",
        Accepted,
        "Means something with `externalEgressGateway` only, which is reported.",
    ),
    subnet("policyRoutingTableID", Accepted, "As `policyRoutingPriority`."),
    subnet("mtu", Acts, "0 stands for the default."),
    subnet("private", Acts, ""),
    subnet("allowSubnets", Acts, ""),
    subnet("vlan", Reported, ""),
    subnet("vips", Reported, ""),
    subnet("logicalGateway", Reported, ""),
    subnet("disableGatewayCheck", Accepted, "Portolan does not probe gateways before a pod starts."),
    subnet("disableInterConnection", Accepted, "Clusters are not joined by OVN-IC here."),
    subnet("enableDHCP", Acts, ""),
    subnet("dhcpV4Options", Acts, "Checked; a wrong option is refused, where Kube-OVN drops it."),
    subnet("dhcpV6Options", Acts, "As `dhcpV4Options`."),
    subnet("enableIPv6RA", Acts, ""),
    subnet("ipv6RAConfigs", Acts, "As `dhcpV4Options`."),
    subnet("acls", Reported, ""),
    subnet("allowEWTraffic", Accepted, "Means something with `acls` only, which is reported."),
    subnet("natOutgoingPolicyRules", Reported, "`natOutgoing` is for all that leaves the cluster."),
    subnet(
        "u2oInterconnectionIP",
        Accepted,
        "Means something with `u2oInterconnection` only, which is reported.",
    ),
    subnet("u2oInterconnection", Reported, ""),
    subnet("u2oFeatures", Accepted, "As `u2oInterconnectionIP`."),
    subnet("enableLb", Reported, "Services are not served on the subnet yet."),
    subnet(
        "enableEcmp",
        Accepted,
        "Means something with `gatewayType: centralized` only, which is reported.",
    ),
    subnet("enableMulticastSnoop", Reported, ""),
    subnet("enableExternalLBAddress", Reported, ""),
    subnet("routeTable", Reported, ""),
    subnet("namespaceSelectors", Reported, "Name the namespaces in `namespaces`."),
    subnet("nodeNetwork", Reported, ""),
    vpc("defaultSubnet", Acts, ""),
    vpc("namespaces", Acts, ""),
    vpc("staticRoutes", Acts, ""),
    vpc("staticRoutes[].bfdId", Reported, "The route is used whether or not its next hop lives."),
    vpc("staticRoutes[].routeTable", Reported, "The route is put in the main table."),
    vpc("policyRoutes", Acts, "The match is parsed; nonsense is refused."),
    vpc("vpcPeerings", Acts, "Stands once both sides name each other."),
    vpc("enableExternal", Reported, ""),
    vpc("extraExternalSubnets", Reported, ""),
    vpc("enableBfd", Reported, ""),
    vpc("bfdPort", Accepted, "Means something when enabled only."),
    vpc("bfdPort.enabled", Reported, ""),
    vpc("dynamicRouting", Accepted, "Means something when enabled only."),
    vpc("dynamicRouting.enabled", Reported, ""),
    ip_pool("subnet", Acts, ""),
    ip_pool("namespaces", Acts, "Their pods choose from the pool unless they ask for other addresses."),
    ip_pool("ips", Acts, "Addresses, ranges and prefixes. Those in the Subnet's `excludeIps` are not given."),
    ip_pool("enableAddressSet", Reported, ""),
    vip("namespace", Accepted, "Means something with `selector` only, which is reported."),
    vip("subnet", Acts, ""),
    vip("type", Reported, "The address is kept all the same."),
    vip("v4ip", Acts, "Read once, when the address is taken."),
    vip("v6ip", Acts, "As `v4ip`."),
    vip("macAddress", Acts, "As `v4ip`."),
    vip("selector", Reported, ""),
    vip("attachSubnets", Reported, ""),
];

/// A field that is set and has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldReport {
    /// Where, as in `spec.staticRoutes[0].bfdId`.
    pub path: String,
    /// What to tell the user.
    pub message: String,
}

impl fmt::Display for FieldReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// The fields of a Subnet that are set and have no effect, unknown ones included.
pub fn unsupported_subnet(spec: &SubnetSpec, egress: Egress) -> Vec<FieldReport> {
    unsupported("Subnet", spec, spec.unknown.keys(), egress)
}

/// What the author of a Subnet should know that does not say with which address its pods leave by their nodes.
pub fn nat_outgoing_unset(spec: &SubnetSpec, egress: Egress) -> Option<FieldReport> {
    let is_said = spec.nat_outgoing.is_some() || spec.default == Some(true);
    (egress == Egress::ByNode && !is_said).then(|| FieldReport {
        path: "spec.natOutgoing".to_owned(),
        message: "not set: pods leave the cluster with their own addresses, which outside needs routes to; set natOutgoing: true to have \
                  them leave with their node's address"
            .to_owned(),
    })
}

/// The fields of a Vpc that are set and have no effect, unknown ones included.
pub fn unsupported_vpc(spec: &VpcSpec) -> Vec<FieldReport> {
    unsupported("Vpc", spec, spec.unknown.keys(), Egress::Otherwise)
}

/// The fields of an IPPool that are set and have no effect, unknown ones included.
pub fn unsupported_ip_pool(spec: &IpPoolSpec) -> Vec<FieldReport> {
    unsupported("IPPool", spec, spec.unknown.keys(), Egress::Otherwise)
}

/// The fields of a Vip that are set and have no effect, unknown ones included.
pub fn unsupported_vip(spec: &VipSpec) -> Vec<FieldReport> {
    unsupported("Vip", spec, spec.unknown.keys(), Egress::Otherwise)
}

fn unsupported<'a>(
    kind: &str,
    spec: &impl serde::Serialize,
    unknown: impl Iterator<Item = &'a String>,
    egress: Egress,
) -> Vec<FieldReport> {
    // A spec serializes by construction; if it ever did not, nothing is set.
    let spec = serde_json::to_value(spec).unwrap_or_default();
    let mut reports = Vec::new();
    let is_reported = |support| match support {
        Reported => true,
        ActsByNode => egress == Egress::Otherwise,
        Acts | Accepted => false,
    };
    for row in SUPPORT.iter().filter(|row| row.kind == kind && is_reported(row.support)) {
        visit(&spec, row.path, "spec", &mut |path, value| {
            let neutral = row.neutral.is_some_and(|neutral| value.as_str() == Some(neutral));
            if is_set(value) && !neutral {
                let message = match (row.support, row.note) {
                    (ActsByNode, _) => ELSEWHERE.to_owned(),
                    (_, "") => "not supported yet; it has no effect".to_owned(),
                    // The notes are Markdown.
                    (_, note) => format!("not supported yet; it has no effect. {}", note.replace('`', "")),
                };
                reports.push(FieldReport { path, message });
            }
        });
    }
    for name in unknown.filter(|name| is_set(&spec[name.as_str()])) {
        let message = "is a field that Portolan does not know; it is kept and has no effect".to_owned();
        reports.push(FieldReport { path: format!("spec.{name}"), message });
    }
    reports
}

/// Calls `found` for every value at `path` below `value`.
fn visit(value: &Value, path: &str, at: &str, found: &mut impl FnMut(String, &Value)) {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let (name, each) = head.strip_suffix("[]").map_or((head, false), |name| (name, true));
    let Some(child) = value.get(name) else { return };
    let at = format!("{at}.{name}");
    let mut descend = |child: &Value, at: String| match rest {
        Some(rest) => visit(child, rest, &at, found),
        None => found(at, child),
    };
    if each {
        for (i, element) in child.as_array().into_iter().flatten().enumerate() {
            descend(element, format!("{at}[{i}]"));
        }
    } else {
        descend(child, at);
    }
}

/// True unless the value is Go's zero value, which clients write for what they leave alone.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(s) => !s.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(is_set),
    }
}

/// An annotation by which users of Kube-OVN ask something of one of a pod's interfaces.
#[derive(Clone, Copy, Debug)]
pub struct PodAnnotation {
    /// What follows `<provider>.kubernetes.io/`.
    pub what: &'static str,
    /// What the pod is told, if it has no effect yet.
    pub unsupported: Option<&'static str>,
    /// What to know about it.
    pub note: &'static str,
}

const fn acts(what: &'static str, note: &'static str) -> PodAnnotation {
    PodAnnotation { what, unsupported: None, note }
}

const fn reported(what: &'static str) -> PodAnnotation {
    PodAnnotation { what, unsupported: Some("not supported yet; it has no effect"), note: "" }
}

/// Every annotation of Kube-OVN that asks something of an interface.
pub const POD_ANNOTATIONS: &[PodAnnotation] = &[
    acts("ip_address", ""),
    acts("mac_address", ""),
    acts("ip_pool", "Addresses, or the name of an IPPool."),
    acts("routes", ""),
    acts("default_route", ""),
    acts("logical_switch", "The Subnet. It must have the provider."),
    acts("ingress_rate", "Mbit/s that the pod receives. May change while it runs."),
    acts("egress_rate", "Mbit/s that the pod sends. May change while it runs."),
    PodAnnotation {
        what: "aaps",
        unsupported: Some("not supported yet; the Vip keeps its address, and the pod cannot send from it"),
        note: "The Vip keeps its address; the pod cannot send from it.",
    },
    reported("security_groups"),
    reported("port_security"),
    reported("vip"),
    reported("eip"),
    reported("snat"),
];

/// The table as Markdown, for the documentation.
pub fn kubeovn_support_markdown() -> String {
    let mut text = String::from(
        "# Fields of kubeovn.io/v1\n\n\
         Generated from `crates/api/src/kubeovn/support.rs`; do not edit.\n\n\
         Every field is accepted and kept. A field marked *reported* would change traffic and does not yet: an\n\
         object that sets it has the condition `Supported=False`, which names the field. Fields that no row names,\n\
         of other versions of Kube-OVN, are kept and reported too.\n",
    );
    for kind in ["Subnet", "Vpc", "IPPool", "Vip"] {
        let _ = write!(text, "\n## {kind}\n\n| field of `spec` | acts | note |\n|---|---|---|\n");
        for row in SUPPORT.iter().filter(|row| row.kind == kind) {
            let _ = writeln!(text, "| `{}` | {} | {} |", row.path, row.support, row.note);
        }
    }
    text.push_str(
        "\n## Annotations of pods\n\n\
         Keys are `<provider>.kubernetes.io/<annotation>`, such as `net1.default.ovn.kubernetes.io/ip_address`. An annotation\n\
         marked *reported*, and one for a network on which the pod has no interface, has no effect: the pod gets an Event\n\
         `NoEffect`, which names it.\n\n\
         | annotation | acts | note |\n|---|---|---|\n",
    );
    for annotation in POD_ANNOTATIONS {
        let support = if annotation.unsupported.is_some() { Reported } else { Acts };
        let _ = writeln!(text, "| `{}` | {support} | {} |", annotation.what, annotation.note);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube_core::CustomResourceExt;
    use serde_json::json;

    use super::super::{IPPool, Subnet, Vip, Vpc};
    use super::*;

    /// Every field below `spec`, down to what has no fields of its own. Selectors are Kubernetes', not ours.
    fn schema_paths(crd: &impl serde::Serialize) -> BTreeSet<String> {
        fn walk(schema: &Value, at: &str, paths: &mut BTreeSet<String>) {
            if schema["properties"]["matchExpressions"].is_object() {
                return;
            }
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let list = field["items"].is_object();
                let path = format!("{at}{name}");
                let below = if list { &field["items"] } else { field };
                walk(below, &format!("{path}{}.", if list { "[]" } else { "" }), paths);
                paths.insert(path);
            }
        }
        let crd = serde_json::to_value(crd).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut paths = BTreeSet::new();
        walk(schema, "", &mut paths);
        paths
    }

    #[test]
    fn the_table_covers_every_field_of_the_schema() {
        for (kind, least, paths) in [
            ("Subnet", 11, schema_paths(&Subnet::crd())),
            ("Vpc", 11, schema_paths(&Vpc::crd())),
            ("IPPool", 4, schema_paths(&IPPool::crd())),
            ("Vip", 8, schema_paths(&Vip::crd())),
        ] {
            assert!(paths.len() >= least, "{paths:?}");
            let rows: Vec<_> = SUPPORT.iter().filter(|row| row.kind == kind).map(|row| row.path).collect();
            for path in &paths {
                let covers = |row: &&str| {
                    path.strip_prefix(*row)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                };
                assert!(rows.iter().any(covers), "{kind} {path} has no row");
            }
            for row in &rows {
                assert!(paths.contains(*row), "{kind} has no field {row}");
            }
            assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len(), "a row appears twice");
        }
    }

    fn subnet_reports(spec: Value, egress: Egress) -> Vec<String> {
        let reports = unsupported_subnet(&serde_json::from_value(spec).unwrap(), egress);
        reports.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_kube_ovn_clients_write_by_default_is_not_reported() {
        let spec = json!({
            "cidrBlock": "10.0.0.0/24", "default": false, "gatewayType": "distributed", "gatewayNode": "",
            "natOutgoing": false, "private": false, "enableLb": false, "u2oFeatures": {"overlayOnlyRouting": false},
            "acls": [], "vlan": "", "mtu": 0,
        });
        assert_eq!(subnet_reports(spec, Egress::Otherwise), [""; 0]);
    }

    #[test]
    fn what_would_change_traffic_is_reported() {
        let spec = json!({
            "cidrBlock": "10.0.0.0/24", "gatewayType": "centralized", "natOutgoing": true,
            "acls": [{"priority": 1}], "brandNew": {"on": true}, "alsoNew": false,
        });
        assert_eq!(
            subnet_reports(spec, Egress::Otherwise),
            [
                "spec.gatewayType: not supported yet; it has no effect. distributed, which clients write by default, is not reported.",
                "spec.natOutgoing: has no effect here: it acts on Subnets of VPC ovn-cluster where Portolan is the primary network",
                "spec.acls: not supported yet; it has no effect",
                "spec.brandNew: is a field that Portolan does not know; it is kept and has no effect",
            ]
        );
    }

    #[test]
    fn what_acts_where_pods_leave_by_their_nodes_is_not_reported_there() {
        let spec = json!({
            "cidrBlock": "10.0.0.0/24", "natOutgoing": true, "natOutgoingPolicyRules": [{"action": "nat"}],
        });
        assert_eq!(
            subnet_reports(spec, Egress::ByNode),
            [
                "spec.natOutgoingPolicyRules: not supported yet; it has no effect. natOutgoing is for all that leaves the cluster."
            ]
        );
    }

    #[test]
    fn fields_in_lists_are_reported_by_element() {
        let spec = json!({
            "staticRoutes": [
                {"cidr": "0.0.0.0/0", "nextHopIP": "10.0.0.1", "ecmpMode": "", "bfdId": "", "routeTable": ""},
                {"cidr": "0.0.0.0/0", "nextHopIP": "10.0.0.2", "bfdId": "b"},
            ],
            "bfdPort": {"enabled": false, "ip": "10.0.0.9"},
            "dynamicRouting": {"enabled": true},
        });
        let reports = unsupported_vpc(&serde_json::from_value(spec).unwrap());
        let texts: Vec<_> = reports.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.staticRoutes[1].bfdId: not supported yet; it has no effect. The route is used whether or not its next hop lives.",
                "spec.dynamicRouting.enabled: not supported yet; it has no effect",
            ]
        );
    }

    #[test]
    fn the_documentation_has_a_row_per_field() {
        let text = kubeovn_support_markdown();
        assert_eq!(
            text.lines().filter(|line| line.starts_with("| `")).count(),
            SUPPORT.len() + POD_ANNOTATIONS.len()
        );
        assert!(text.contains(
            "| `natOutgoing` | in part; otherwise reported | Only for Subnets of VPC `ovn-cluster`"
        ));
        assert!(text.contains("| `security_groups` | not yet; reported |  |"));
    }
}
