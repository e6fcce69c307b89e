//! `Subnet`: a virtual switch with its prefix.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cidr::HostBits;
use crate::condition::Condition;
use crate::field_error::{FieldErrors, FieldPath, Reason};
use crate::ip_count::IpCount;
use crate::routes::Route;
use crate::subnet_config::{DEFAULT_VPC, SubnetConfig, SubnetFields};

/// A virtual switch: guests on it share a prefix and reach each other directly.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "portolan.dev",
    version = "v1alpha1",
    kind = "Subnet",
    status = "SubnetStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    doc = "A virtual switch: guests on it share a prefix and reach each other directly.",
    shortname = "psubnet",
    category = "portolan",
    selectable = ".spec.vpc",
    selectable = ".spec.vni",
    selectable = ".spec.provider",
    printcolumn(name = "VPC", type_ = "string", json_path = ".spec.vpc"),
    printcolumn(name = "VNI", type_ = "integer", json_path = ".spec.vni", priority = "1"),
    printcolumn(name = "CIDR", type_ = "string", json_path = ".spec.cidrBlock"),
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(
        name = "Validated",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Validated\")].status"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "V4Used", type_ = "number", json_path = ".status.v4usingIPs", priority = "1"),
    printcolumn(name = "V4Free", type_ = "number", json_path = ".status.v4availableIPs", priority = "1"),
    printcolumn(name = "V6Used", type_ = "number", json_path = ".status.v6usingIPs", priority = "1"),
    printcolumn(name = "V6Free", type_ = "number", json_path = ".status.v6availableIPs", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.vpc) == has(oldSelf.vpc) && (!has(self.vpc) || self.vpc == oldSelf.vpc)",
     "message": "vpc is immutable, and can be neither added nor removed; make a new Subnet", "fieldPath": ".vpc"},
    {"rule": "has(self.vni) == has(oldSelf.vni) && (!has(self.vni) || self.vni == oldSelf.vni)",
     "message": "vni is immutable, and can be neither added nor removed; make a new Subnet", "fieldPath": ".vni"},
    {"rule": "!(has(self.vpc) && has(self.vni))",
     "message": "a subnet is in a VPC or in a VNI, not both", "fieldPath": ".vni"},
    {"rule": "!has(self.gateway) || self.gateway.split(',').all(g, isIP(g) && self.cidrBlock.split(',').exists(c, isCIDR(c) && cidr(c).containsIP(g)))",
     "message": "gateway must be an address inside cidrBlock, or one inside each of its blocks separated by a comma", "fieldPath": ".gateway"},
    {"rule": "!has(self.protocol) || self.protocol == (self.cidrBlock.contains(',') ? 'Dual' : (self.cidrBlock.contains(':') ? 'IPv6' : 'IPv4'))",
     "message": "protocol does not fit cidrBlock; leave it out", "fieldPath": ".protocol"},
    {"rule": "!has(self.mtu) || !self.cidrBlock.contains(':') || self.mtu >= 1280",
     "message": "mtu must be at least 1280, as IPv6 needs", "fieldPath": ".mtu"},
    {"rule": "!has(self.natOutgoing) || !self.natOutgoing || (has(self.vpc) && self.vpc == 'ovn-cluster')",
     "message": "natOutgoing is for Subnets of VPC ovn-cluster only; leave it out", "fieldPath": ".natOutgoing"}
]))]
pub struct SubnetSpec {
    /// The prefix, or an IPv4 and an IPv6 one separated by a comma. Immutable.
    #[schemars(length(min = 9, max = 62), extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "cidrBlock is immutable; make a new Subnet"},
        {"rule": "self.split(',').size() <= 2 && self.split(',').all(c, isCIDR(c) && cidr(c).masked() == cidr(c))",
         "message": "cidrBlock must be a prefix such as 10.0.0.0/24, or an IPv4 and an IPv6 one separated by a comma, without host bits"}
    ]))]
    pub cidr_block: String,
    /// The VPC whose router the switch is attached to. Without one, and without a VNI, the switch is isolated. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub vpc: Option<String>,
    /// The virtual network of the VXLAN fabric, in place of a VPC. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Option<i64>,
    /// The router's address, or one of each family separated by a comma. The first address of the prefix by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 61))]
    pub gateway: Option<String>,
    /// Addresses (`10.0.0.5`) and ranges (`10.0.0.5..10.0.0.9`) given only to who asks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 2, max = 92)), extend("x-kubernetes-validations" = [
        {"rule": "self.all(e, e.contains('..') ? isIP(e.substring(0, e.indexOf('..')).trim()) && isIP(e.substring(e.indexOf('..') + 2).trim()) : isIP(e.trim()))",
         "message": "excludeIps must be addresses such as 10.0.0.5 and ranges such as 10.0.0.5..10.0.0.9"}
    ]))]
    pub exclude_ips: Vec<String>,
    /// `ovn` for the cluster's own pod network, `<nad>.<namespace>.ovn` for a network attachment definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 321), regex(pattern = r"^([-a-z0-9.]+\.[-a-z0-9]+\.)?ovn$"))]
    pub provider: Option<String>,
    /// `IPv4`, `IPv6` or `Dual`. Follows from `cidrBlock`; if given, it must agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4), extend("enum" = ["IPv4", "IPv6", "Dual"]))]
    pub protocol: Option<String>,
    /// MTU of the guests' interfaces. What the tunnel leaves by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65535))]
    pub mtu: Option<i64>,
    /// Answers DHCP for guests.
    #[serde(default, rename = "enableDHCP", skip_serializing_if = "std::ops::Not::not")]
    pub enable_dhcp: bool,
    /// DHCPv4 options of OVN, as `key=value,key=value`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub dhcp_v4_options: String,
    /// DHCPv6 options of OVN, as `key=value,key=value`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub dhcp_v6_options: String,
    /// Sends IPv6 router advertisements.
    #[serde(default, rename = "enableIPv6RA", skip_serializing_if = "std::ops::Not::not")]
    pub enable_ipv6_ra: bool,
    /// Router-advertisement settings of OVN, as `key=value,key=value`.
    #[serde(default, rename = "ipv6RAConfigs", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub ipv6_ra_configs: String,
    /// Routes handed to guests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub routes: Vec<Route>,
    /// Refuses traffic from other subnets, except those in `allowSubnets`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Prefixes that a private subnet lets in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(min = 4, max = 62)), extend("x-kubernetes-validations" = [
        {"rule": "self.all(s, s.contains(',') || isCIDR(s.trim()))",
         "message": "allowSubnets must be prefixes such as 10.0.0.0/24"}
    ]))]
    pub allow_subnets: Vec<String>,
    /// Gives what leaves the cluster the address of the pod's node. True by default. With false pods leave with their own addresses, and what is
    /// outside needs routes to them. Only in VPC `ovn-cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat_outgoing: Option<bool>,
    /// Namespaces whose pods are put on this subnet unless they ask for another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,
    /// Further namespaces that may use this subnet; `*` stands for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub allowed_namespaces: Vec<String>,
    /// The subnet for pods that no other is chosen for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}

/// What Portolan found and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetStatus {
    /// `Validated`: no other subnet of its domain overlaps it. `Ready`: it is in effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// IPv4 addresses that are still available.
    #[serde(default, rename = "v4availableIPs")]
    pub v4_available_ips: IpCount,
    /// Which ones; a long list is cut and ends in `...`.
    #[serde(default, rename = "v4availableIPrange", skip_serializing_if = "Option::is_none")]
    pub v4_available_ip_range: Option<String>,
    /// IPv4 addresses taken.
    #[serde(default, rename = "v4usingIPs")]
    pub v4_using_ips: IpCount,
    /// Which ones; a long list is cut and ends in `...`.
    #[serde(default, rename = "v4usingIPrange", skip_serializing_if = "Option::is_none")]
    pub v4_using_ip_range: Option<String>,
    /// IPv6 addresses that are still available.
    #[serde(default, rename = "v6availableIPs")]
    pub v6_available_ips: IpCount,
    /// Which ones; a long list is cut and ends in `...`.
    #[serde(default, rename = "v6availableIPrange", skip_serializing_if = "Option::is_none")]
    pub v6_available_ip_range: Option<String>,
    /// IPv6 addresses taken.
    #[serde(default, rename = "v6usingIPs")]
    pub v6_using_ips: IpCount,
    /// Which ones; a long list is cut and ends in `...`.
    #[serde(default, rename = "v6usingIPrange", skip_serializing_if = "Option::is_none")]
    pub v6_using_ip_range: Option<String>,
}

impl Subnet {
    /// The subnet as values, or everything that is wrong with it.
    pub fn parse(&self) -> Result<SubnetConfig, FieldErrors> {
        self.spec.parse()
    }
}

impl SubnetSpec {
    /// The subnet as values, or everything that is wrong with it.
    pub fn parse(&self) -> Result<SubnetConfig, FieldErrors> {
        let mut errors = FieldErrors::new();
        if self.nat_outgoing == Some(true) && self.vpc.as_deref() != Some(DEFAULT_VPC) {
            let message = format!("is for Subnets of VPC {DEFAULT_VPC} only; leave it out");
            errors.add(&FieldPath::SPEC.field("natOutgoing"), "true", Reason::Invalid, message);
        }
        let config = SubnetFields {
            host_bits: HostBits::Refuse,
            vpc: self.vpc.as_deref(),
            vni: self.vni,
            cidr_block: &self.cidr_block,
            gateway: self.gateway.as_deref(),
            exclude_ips: &self.exclude_ips,
            provider: self.provider.as_deref(),
            protocol: self.protocol.as_deref(),
            mtu: self.mtu,
            enable_dhcp: self.enable_dhcp,
            dhcp_v4_options: &self.dhcp_v4_options,
            dhcp_v6_options: &self.dhcp_v6_options,
            enable_ipv6_ra: self.enable_ipv6_ra,
            ipv6_ra_configs: &self.ipv6_ra_configs,
            routes: &self.routes,
            private: self.private,
            allow_subnets: &self.allow_subnets,
            nat_outgoing: self.nat_outgoing.unwrap_or(true),
            namespaces: &self.namespaces,
            allowed_namespaces: &self.allowed_namespaces,
            default: self.default,
        }
        .parse();
        match config {
            Ok(config) => errors.into_result(config),
            Err(mut all) => {
                all.extend(errors);
                Err(all)
            }
        }
    }
}
