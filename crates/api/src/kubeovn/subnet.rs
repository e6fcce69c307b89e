//! Kube-OVN's `Subnet`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, UnknownFields, filled};
use crate::cidr::HostBits;
use crate::field_error::FieldErrors;
use crate::ip_count::IpCount;
use crate::subnet_config::{DEFAULT_VPC, SubnetConfig, SubnetFields};

/// A virtual switch.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "Subnet",
    status = "SubnetStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    doc = "A virtual switch, as clients of Kube-OVN write it.",
    plural = "subnets",
    singular = "subnet",
    shortname = "subnet",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "Vpc", type_ = "string", json_path = ".spec.vpc"),
    printcolumn(name = "Vlan", type_ = "string", json_path = ".spec.vlan"),
    printcolumn(name = "Protocol", type_ = "string", json_path = ".spec.protocol"),
    printcolumn(name = "CIDR", type_ = "string", json_path = ".spec.cidrBlock"),
    printcolumn(name = "Private", type_ = "boolean", json_path = ".spec.private"),
    printcolumn(name = "NAT", type_ = "boolean", json_path = ".spec.natOutgoing"),
    printcolumn(name = "Default", type_ = "boolean", json_path = ".spec.default"),
    printcolumn(name = "GatewayType", type_ = "string", json_path = ".spec.gatewayType"),
    printcolumn(name = "V4Used", type_ = "number", json_path = ".status.v4usingIPs"),
    printcolumn(name = "V4Available", type_ = "number", json_path = ".status.v4availableIPs"),
    printcolumn(name = "V6Used", type_ = "number", json_path = ".status.v6usingIPs"),
    printcolumn(name = "V6Available", type_ = "number", json_path = ".status.v6availableIPs"),
    printcolumn(name = "ExcludeIPs", type_ = "string", json_path = ".spec.excludeIps"),
    printcolumn(name = "U2OInterconnectionIP", type_ = "string", json_path = ".status.u2oInterconnectionIP"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "(has(self.cidrBlock) ? self.cidrBlock : '') == (has(oldSelf.cidrBlock) ? oldSelf.cidrBlock : '')",
     "message": "cidrBlock is immutable; make a new Subnet", "fieldPath": ".cidrBlock"},
    {"rule": "(has(self.vpc) && self.vpc != '') || (has(self.provider) && self.provider != 'ovn' ? self.provider : '') == (has(oldSelf.provider) && oldSelf.provider != 'ovn' ? oldSelf.provider : '')",
     "message": "provider decides the address domain of a Subnet that names no vpc, and is immutable there; make a new Subnet", "fieldPath": ".provider"},
    {"rule": "(has(self.vpc) ? self.vpc : '') == (has(oldSelf.vpc) ? oldSelf.vpc : '')",
     "message": "vpc is immutable, and can be neither added nor removed; make a new Subnet", "fieldPath": ".vpc"},
    {"rule": "!has(self.gateway) || self.gateway == '' || !has(self.cidrBlock) || self.gateway.split(',').all(g, isIP(g.trim()) && self.cidrBlock.split(',').exists(c, isCIDR(c.trim()) && cidr(c.trim()).containsIP(g.trim())))",
     "message": "gateway must be an address inside cidrBlock, or one inside each of its blocks separated by a comma", "fieldPath": ".gateway"},
    {"rule": "!has(self.protocol) || self.protocol == '' || !has(self.cidrBlock) || self.protocol == (self.cidrBlock.contains(',') ? 'Dual' : (self.cidrBlock.contains(':') ? 'IPv6' : 'IPv4'))",
     "message": "protocol does not fit cidrBlock; leave it out", "fieldPath": ".protocol"},
    {"rule": "!has(self.mtu) || self.mtu == 0 || self.mtu >= (has(self.cidrBlock) && self.cidrBlock.contains(':') ? 1280 : 576)",
     "message": "mtu must be at least 576, or 1280 as IPv6 needs; 0 stands for the default", "fieldPath": ".mtu"}
]))]
pub struct SubnetSpec {
    /// The subnet for pods that no other is chosen for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// The VPC whose router the switch is attached to. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub vpc: Option<String>,
    /// `IPv4`, `IPv6` or `Dual`; must agree with `cidrBlock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub protocol: Option<String>,
    /// Namespaces whose pods are put on this subnet unless they ask for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), inner(length(max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// The prefix, or an IPv4 and an IPv6 one separated by a comma. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), extend("x-kubernetes-validations" = [
        {"rule": "self == '' || (self.split(',').size() <= 2 && self.split(',').all(c, isCIDR(c.trim())))",
         "message": "cidrBlock must be a prefix such as 10.0.0.0/24, or an IPv4 and an IPv6 one separated by a comma"}
    ]))]
    pub cidr_block: Option<String>,
    /// The router's address, or one of each family separated by a comma. The first address by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub gateway: Option<String>,
    /// Addresses and ranges (`10.0.0.5..10.0.0.9`) given only to who asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), inner(length(max = 128)), extend("x-kubernetes-validations" = [
        {"rule": "self.all(e, e.contains('..') ? isIP(e.substring(0, e.indexOf('..')).trim()) && isIP(e.substring(e.indexOf('..') + 2).trim()) : isIP(e.trim()))",
         "message": "excludeIps must be addresses such as 10.0.0.5 and ranges such as 10.0.0.5..10.0.0.9"}
    ]))]
    pub exclude_ips: Option<Vec<String>>,
    /// `ovn`, or `<nad>.<namespace>.ovn` for a network attachment definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 330), extend("x-kubernetes-validations" = [
        {"rule": "self == '' || self.matches('^([-a-z0-9.]+[.][-a-z0-9]+[.])?ovn$')",
         "message": "provider must be ovn, or <nad>.<namespace>.ovn for a network attachment definition"}
    ]))]
    pub provider: Option<String>,
    /// `distributed` or `centralized`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub gateway_type: Option<String>,
    /// Nodes of a centralized gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub gateway_node: Option<String>,
    /// Selects nodes of a centralized gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub gateway_node_selectors: Option<Vec<LabelSelector>>,
    /// Gives what leaves the cluster the address of the pod's node. True by default for a Subnet with `default`, false for others. Only in VPC
    /// `ovn-cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat_outgoing: Option<bool>,
    /// Sends what leaves the cluster to this gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub external_egress_gateway: Option<String>,
    /// Priority of the policy routing for `externalEgressGateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_i64))]
    pub policy_routing_priority: Option<i64>,
    /// Table of the policy routing for `externalEgressGateway`.
    #[serde(default, rename = "policyRoutingTableID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_i64))]
    pub policy_routing_table_id: Option<i64>,
    /// MTU of the guests' interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub mtu: Option<i64>,
    /// Refuses traffic from other subnets, except those in `allowSubnets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<bool>,
    /// Prefixes that a private subnet lets in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), inner(length(max = 128)), extend("x-kubernetes-validations" = [
        {"rule": "self.all(s, s.contains(',') || isCIDR(s.trim()))",
         "message": "allowSubnets must be prefixes such as 10.0.0.0/24"}
    ]))]
    pub allow_subnets: Option<Vec<String>>,
    /// The Vlan of an underlay subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub vlan: Option<String>,
    /// Virtual addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), inner(length(max = 128)))]
    pub vips: Option<Vec<String>>,
    /// Routes an underlay subnet by OVN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_gateway: Option<bool>,
    /// Does not probe the gateway before a pod starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_gateway_check: Option<bool>,
    /// Keeps the subnet out of the interconnection of clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_inter_connection: Option<bool>,
    /// Answers DHCP for guests.
    #[serde(default, rename = "enableDHCP", skip_serializing_if = "Option::is_none")]
    pub enable_dhcp: Option<bool>,
    /// DHCPv4 options of OVN, as `key=value,key=value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub dhcp_v4_options: Option<String>,
    /// DHCPv6 options of OVN, as `key=value,key=value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub dhcp_v6_options: Option<String>,
    /// Sends IPv6 router advertisements.
    #[serde(default, rename = "enableIPv6RA", skip_serializing_if = "Option::is_none")]
    pub enable_ipv6_ra: Option<bool>,
    /// Router-advertisement settings of OVN, as `key=value,key=value`.
    #[serde(default, rename = "ipv6RAConfigs", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub ipv6_ra_configs: Option<String>,
    /// Access rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub acls: Option<Vec<Acl>>,
    /// Lets guests of the subnet reach each other whatever `acls` say.
    #[serde(default, rename = "allowEWTraffic", skip_serializing_if = "Option::is_none")]
    pub allow_ew_traffic: Option<bool>,
    /// Which traffic `natOutgoing` is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub nat_outgoing_policy_rules: Option<Vec<NatOutgoingPolicyRule>>,
    /// Address of the connection of an underlay subnet with the overlay.
    #[serde(default, rename = "u2oInterconnectionIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub u2o_interconnection_ip: Option<String>,
    /// Connects an underlay subnet with the overlay.
    #[serde(default, rename = "u2oInterconnection", skip_serializing_if = "Option::is_none")]
    pub u2o_interconnection: Option<bool>,
    /// Settings of that connection.
    #[serde(default, rename = "u2oFeatures", skip_serializing_if = "Option::is_none")]
    pub u2o_features: Option<U2oFeatures>,
    /// Serves Services to guests of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_lb: Option<bool>,
    /// Shares the load over the nodes of a centralized gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_ecmp: Option<bool>,
    /// Snoops multicast membership.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_multicast_snoop: Option<bool>,
    /// Serves external load-balancer addresses.
    #[serde(default, rename = "enableExternalLBAddress", skip_serializing_if = "Option::is_none")]
    pub enable_external_lb_address: Option<bool>,
    /// The route table of the VPC that the subnet uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub route_table: Option<String>,
    /// Selects namespaces as `namespaces` names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub namespace_selectors: Option<Vec<LabelSelector>>,
    /// The node network that carries the subnet's tunnels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node_network: Option<String>,
    /// Fields of other versions of Kube-OVN.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// An access rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acl {
    /// `from-lport` or `to-lport`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The highest that matches decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// An OVN match expression.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// What happens to a packet that matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// Settings of the connection of an underlay subnet with the overlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct U2oFeatures {
    /// Only prefixes of the overlay use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay_only_routing: Option<bool>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// One rule of which traffic is hidden behind the node's address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NatOutgoingPolicyRule {
    /// The traffic.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<NatOutgoingPolicyMatch>,
    /// `nat` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// Traffic by its ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NatOutgoingPolicyMatch {
    /// Sources, separated by commas.
    #[serde(default, rename = "srcIPs", skip_serializing_if = "Option::is_none")]
    pub src_ips: Option<String>,
    /// Destinations, separated by commas.
    #[serde(default, rename = "dstIPs", skip_serializing_if = "Option::is_none")]
    pub dst_ips: Option<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A NAT rule in effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NatOutgoingPolicyRuleStatus {
    /// Its identity.
    #[serde(default, rename = "ruleID", skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<String>,
    /// The traffic.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<NatOutgoingPolicyMatch>,
    /// `nat` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The status as Kube-OVN fills it: its clients expect every field to be there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SubnetStatus {
    /// `Ready`, `Validated` and `Error`; and `Supported`, which is Portolan's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// IPv4 addresses that are still available.
    #[serde(rename = "v4availableIPs")]
    pub v4_available_ips: IpCount,
    /// Which ones.
    #[serde(rename = "v4availableIPrange", skip_serializing_if = "Option::is_none")]
    pub v4_available_ip_range: Option<String>,
    /// IPv4 addresses taken.
    #[serde(rename = "v4usingIPs")]
    pub v4_using_ips: IpCount,
    /// Which ones.
    #[serde(rename = "v4usingIPrange", skip_serializing_if = "Option::is_none")]
    pub v4_using_ip_range: Option<String>,
    /// IPv6 addresses that are still available.
    #[serde(rename = "v6availableIPs")]
    pub v6_available_ips: IpCount,
    /// Which ones.
    #[serde(rename = "v6availableIPrange", skip_serializing_if = "Option::is_none")]
    pub v6_available_ip_range: Option<String>,
    /// IPv6 addresses taken.
    #[serde(rename = "v6usingIPs")]
    pub v6_using_ips: IpCount,
    /// Which ones.
    #[serde(rename = "v6usingIPrange", skip_serializing_if = "Option::is_none")]
    pub v6_using_ip_range: Option<String>,
    /// The node that is the centralized gateway now.
    #[serde(rename = "activateGateway", skip_serializing_if = "Option::is_none")]
    pub activate_gateway: Option<String>,
    /// The row of the DHCPv4 options in OVN.
    #[serde(rename = "dhcpV4OptionsUUID", skip_serializing_if = "Option::is_none")]
    pub dhcp_v4_options_uuid: Option<String>,
    /// The row of the DHCPv6 options in OVN.
    #[serde(rename = "dhcpV6OptionsUUID", skip_serializing_if = "Option::is_none")]
    pub dhcp_v6_options_uuid: Option<String>,
    /// Address of the connection with the overlay.
    #[serde(rename = "u2oInterconnectionIP", skip_serializing_if = "Option::is_none")]
    pub u2o_interconnection_ip: Option<String>,
    /// MAC address of that connection.
    #[serde(rename = "u2oInterconnectionMAC", skip_serializing_if = "Option::is_none")]
    pub u2o_interconnection_mac: Option<String>,
    /// VPC of that connection.
    #[serde(rename = "u2oInterconnectionVPC", skip_serializing_if = "Option::is_none")]
    pub u2o_interconnection_vpc: Option<String>,
    /// NAT rules in effect.
    #[serde(rename = "natOutgoingPolicyRules", skip_serializing_if = "Option::is_none")]
    pub nat_outgoing_policy_rules: Option<Vec<NatOutgoingPolicyRuleStatus>>,
    /// Address of the multicast querier.
    #[serde(rename = "mcastQuerierIP", skip_serializing_if = "Option::is_none")]
    pub mcast_querier_ip: Option<String>,
    /// MAC address of the multicast querier.
    #[serde(rename = "mcastQuerierMAC", skip_serializing_if = "Option::is_none")]
    pub mcast_querier_mac: Option<String>,
    /// The tunnel key of the switch in OVN.
    #[serde(rename = "tunnelKey", skip_serializing_if = "Option::is_none")]
    pub tunnel_key: Option<i64>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl Subnet {
    /// The subnet as values, or everything that is wrong with it.
    ///
    /// A set field without effect is no error; [`support::unsupported_subnet`](super::support::unsupported_subnet)
    /// reports it.
    pub fn parse(&self) -> Result<SubnetConfig, FieldErrors> {
        self.spec.parse()
    }
}

impl SubnetSpec {
    /// The VPC that it is in, also where it names none: one for the cluster's own pods is in `ovn-cluster` then, as Kube-OVN's clients expect. One
    /// that serves a network attachment definition and names none is an isolated switch.
    pub fn vpc(&self) -> Option<&str> {
        let is_of_pods = || filled(self.provider.as_ref()).is_none_or(|provider| provider == "ovn");
        filled(self.vpc.as_ref()).or_else(|| is_of_pods().then_some(DEFAULT_VPC))
    }

    /// The subnet as values, or everything that is wrong with it.
    pub fn parse(&self) -> Result<SubnetConfig, FieldErrors> {
        SubnetFields {
            host_bits: HostBits::Mask,
            vpc: filled(self.vpc.as_ref()),
            vni: None,
            cidr_block: filled(self.cidr_block.as_ref()).unwrap_or_default(),
            gateway: filled(self.gateway.as_ref()),
            exclude_ips: self.exclude_ips.as_deref().unwrap_or_default(),
            provider: filled(self.provider.as_ref()),
            protocol: filled(self.protocol.as_ref()),
            mtu: self.mtu.filter(|mtu| *mtu != 0),
            enable_dhcp: self.enable_dhcp.unwrap_or_default(),
            dhcp_v4_options: filled(self.dhcp_v4_options.as_ref()).unwrap_or_default(),
            dhcp_v6_options: filled(self.dhcp_v6_options.as_ref()).unwrap_or_default(),
            enable_ipv6_ra: self.enable_ipv6_ra.unwrap_or_default(),
            ipv6_ra_configs: filled(self.ipv6_ra_configs.as_ref()).unwrap_or_default(),
            routes: &[],
            private: self.private.unwrap_or_default(),
            allow_subnets: self.allow_subnets.as_deref().unwrap_or_default(),
            // Kube-OVN makes its default Subnet with it, and has it off everywhere else.
            nat_outgoing: self.nat_outgoing.or(self.default).unwrap_or_default(),
            namespaces: self.namespaces.as_deref().unwrap_or_default(),
            allowed_namespaces: &[],
            default: self.default.unwrap_or_default(),
        }
        .parse()
    }
}
