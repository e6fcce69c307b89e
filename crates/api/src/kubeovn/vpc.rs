//! Kube-OVN's `Vpc`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::ResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, UnknownFields, filled};
use crate::cidr::HostBits;
use crate::field_error::FieldErrors;
use crate::vpc_config::{PeeringFields, PolicyRouteFields, StaticRouteFields, VpcConfig, VpcFields};

/// A virtual router.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "Vpc",
    status = "VpcStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    doc = "A virtual router, as clients of Kube-OVN write it.",
    plural = "vpcs",
    singular = "vpc",
    shortname = "vpc",
    printcolumn(name = "EnableExternal", type_ = "boolean", json_path = ".status.enableExternal"),
    printcolumn(name = "EnableBfd", type_ = "boolean", json_path = ".status.enableBfd"),
    printcolumn(name = "Standby", type_ = "boolean", json_path = ".status.standby"),
    printcolumn(name = "Subnets", type_ = "string", json_path = ".status.subnets"),
    printcolumn(name = "ExtraExternalSubnets", type_ = "string", json_path = ".status.extraExternalSubnets"),
    printcolumn(name = "Namespaces", type_ = "string", json_path = ".spec.namespaces"),
    printcolumn(name = "DefaultSubnet", type_ = "string", json_path = ".status.defaultLogicalSwitch"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct VpcSpec {
    /// The subnet for pods of the VPC's namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub default_subnet: Option<String>,
    /// Namespaces whose pods use the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), inner(length(max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Routes by prefix. Several for one prefix share the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub static_routes: Option<Vec<StaticRoute>>,
    /// Routes by match. The highest priority that matches decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub policy_routes: Option<Vec<PolicyRoute>>,
    /// VPCs to be connected with. A peering is established once both sides name each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub vpc_peerings: Option<Vec<VpcPeering>>,
    /// Connects the VPC with the default external subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_external: Option<bool>,
    /// Further external subnets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), inner(length(max = 253)))]
    pub extra_external_subnets: Option<Vec<String>>,
    /// Watches external routers by BFD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_bfd: Option<bool>,
    /// The router port that BFD sessions end on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd_port: Option<BfdPort>,
    /// Announces routes to routing daemons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_routing: Option<DynamicRouting>,
    /// Fields of other versions of Kube-OVN.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A route of the VPC's router by prefix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticRoute {
    /// `policyDst` (the default) or `policySrc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub policy: Option<String>,
    /// The prefix, or a single address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [
        {"rule": "self == '' || isCIDR(self.trim()) || isIP(self.trim())", "message": "cidr must be a prefix or an address"}
    ]))]
    pub cidr: Option<String>,
    /// The router to send to.
    #[serde(default, rename = "nextHopIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [
        {"rule": "self == '' || isIP(self.trim())", "message": "nextHopIP must be an IP address"}
    ]))]
    pub next_hop_ip: Option<String>,
    /// `ecmp_symmetric_reply` sends replies the way the request came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ecmp_mode: Option<String>,
    /// The BFD session that watches the next hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub bfd_id: Option<String>,
    /// The route table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub route_table: Option<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A route of the VPC's router by match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "(has(self.nextHopIP) && self.nextHopIP != '') == (has(self.action) && self.action == 'reroute')",
     "message": "nextHopIP is required with action reroute, and has no meaning with another", "fieldPath": ".nextHopIP"}
]))]
pub struct PolicyRoute {
    /// 0 to 32767.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32767))]
    pub priority: Option<i64>,
    /// An OVN match expression.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub matches: Option<String>,
    /// `allow`, `drop` or `reroute`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub action: Option<String>,
    /// With `reroute`: the routers to send to, separated by commas.
    #[serde(default, rename = "nextHopIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub next_hop_ip: Option<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// One half of a connection between two VPCs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpcPeering {
    /// The other VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub remote_vpc: Option<String>,
    /// This VPC's address in the network between the two, such as `169.254.0.1/30`.
    #[serde(default, rename = "localConnectIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), extend("x-kubernetes-validations" = [
        {"rule": "self == '' || (self.contains(',') ? isCIDR(self.substring(0, self.indexOf(',')).trim()) && isCIDR(self.substring(self.indexOf(',') + 1).trim()) : isCIDR(self.trim()))",
         "message": "localConnectIP must be an address with a prefix length, or an IPv4 and an IPv6 one separated by a comma"}
    ]))]
    pub local_connect_ip: Option<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The router port that BFD sessions end on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BfdPort {
    /// Makes the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Where it may live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// Announcement of routes to routing daemons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicRouting {
    /// Announces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Which routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redistribute: Option<Vec<String>>,
    /// Only from where the port is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_only: Option<bool>,
    /// OVN makes the VRF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintain_vrf: Option<bool>,
    /// The VRF's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrf_name: Option<String>,
    /// The VRF's table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrf_id: Option<i64>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The status as Kube-OVN fills it: its clients expect every field to be there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct VpcStatus {
    /// Portolan sets `Ready`, `Peered` and `Supported`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// The router exists; subnets can be attached.
    pub standby: bool,
    /// It is the cluster's own VPC.
    pub default: bool,
    /// The VPC's default subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_logical_switch: Option<String>,
    /// The router's name in OVN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<String>,
    /// Load balancer of its TCP services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_load_balancer: Option<String>,
    /// Load balancer of its UDP services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_load_balancer: Option<String>,
    /// Load balancer of its SCTP services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sctp_load_balancer: Option<String>,
    /// Load balancer of its TCP services with affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_session_load_balancer: Option<String>,
    /// Load balancer of its UDP services with affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_session_load_balancer: Option<String>,
    /// Load balancer of its SCTP services with affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sctp_session_load_balancer: Option<String>,
    /// The subnets attached to the router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<String>>,
    /// The VPCs it is connected with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc_peerings: Option<Vec<String>>,
    /// It is connected with the default external subnet.
    pub enable_external: bool,
    /// It is connected with these external subnets too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_external_subnets: Option<Vec<String>>,
    /// It watches external routers by BFD.
    pub enable_bfd: bool,
    /// The port that BFD sessions end on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bfd_port: Option<BfdPortStatus>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The port that BFD sessions end on, as made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BfdPortStatus {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Where it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl Vpc {
    /// The VPC as values, or everything that is wrong with it.
    ///
    /// A set field without effect is no error; [`support::unsupported_vpc`](super::support::unsupported_vpc)
    /// reports it.
    pub fn parse(&self) -> Result<VpcConfig, FieldErrors> {
        let spec = &self.spec;
        VpcFields {
            name: &self.name_any(),
            host_bits: HostBits::Mask,
            static_routes: spec.static_routes.iter().flatten().map(StaticRoute::fields).collect(),
            policy_routes: spec.policy_routes.iter().flatten().map(PolicyRoute::fields).collect(),
            peerings: spec.vpc_peerings.iter().flatten().map(VpcPeering::fields).collect(),
            namespaces: spec.namespaces.as_deref().unwrap_or_default(),
            default_subnet: filled(spec.default_subnet.as_ref()),
        }
        .parse()
    }
}

impl StaticRoute {
    fn fields(&self) -> StaticRouteFields<'_> {
        StaticRouteFields {
            policy: filled(self.policy.as_ref()),
            cidr: filled(self.cidr.as_ref()).unwrap_or_default(),
            next_hop_ip: filled(self.next_hop_ip.as_ref()).unwrap_or_default(),
            ecmp_mode: filled(self.ecmp_mode.as_ref()),
        }
    }
}

impl PolicyRoute {
    fn fields(&self) -> PolicyRouteFields<'_> {
        PolicyRouteFields {
            // Go clients leave out what is zero.
            priority: self.priority.unwrap_or_default(),
            matches: filled(self.matches.as_ref()).unwrap_or_default(),
            action: filled(self.action.as_ref()).unwrap_or_default(),
            next_hop_ip: filled(self.next_hop_ip.as_ref()),
        }
    }
}

impl VpcPeering {
    fn fields(&self) -> PeeringFields<'_> {
        PeeringFields {
            remote_vpc: filled(self.remote_vpc.as_ref()).unwrap_or_default(),
            local_connect_ip: filled(self.local_connect_ip.as_ref()).unwrap_or_default(),
        }
    }
}
