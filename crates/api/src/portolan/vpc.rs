//! `Vpc`: a virtual router.

use kube_core::ResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cidr::HostBits;
use crate::condition::Condition;
use crate::field_error::FieldErrors;
use crate::vpc_config::{PeeringFields, PolicyRouteFields, StaticRouteFields, VpcConfig, VpcFields};

/// A virtual router: its subnets reach each other through it, and nothing else does.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "portolan.dev",
    version = "v1alpha1",
    kind = "Vpc",
    status = "VpcStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    doc = "A virtual router: its subnets reach each other through it, and nothing else does.",
    shortname = "pvpc",
    category = "portolan",
    printcolumn(name = "Subnets", type_ = "string", json_path = ".status.subnets"),
    printcolumn(name = "Peers", type_ = "string", json_path = ".status.vpcPeerings"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct VpcSpec {
    /// Namespaces whose pods are put on this VPC's default subnet unless they ask for another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,
    /// The subnet for pods of those namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub default_subnet: Option<String>,
    /// Routes by prefix. Several for one prefix share the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    pub static_routes: Vec<StaticRoute>,
    /// Routes by match. The highest priority that matches decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    pub policy_routes: Vec<PolicyRoute>,
    /// VPCs to be connected with. A peering is established once both sides name each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["remoteVpc"]))]
    pub vpc_peerings: Vec<VpcPeering>,
}

/// A route of the VPC's router by prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticRoute {
    /// `policyDst` (the default) compares the prefix with a packet's destination, `policySrc` with its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 9), extend("enum" = ["policyDst", "policySrc"]))]
    pub policy: Option<String>,
    /// The prefix, or a single address.
    #[schemars(length(min = 2, max = 43), extend("x-kubernetes-validations" = [
        {"rule": "isCIDR(self) || isIP(self)", "message": "cidr must be a prefix or an address"}
    ]))]
    pub cidr: String,
    /// The router to send to.
    #[serde(rename = "nextHopIP")]
    #[schemars(length(min = 2, max = 45), extend("x-kubernetes-validations" = [
        {"rule": "isIP(self)", "message": "nextHopIP must be an IP address"}
    ]))]
    pub next_hop_ip: String,
    /// `ecmp_symmetric_reply` sends replies the way the request came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), extend("enum" = ["ecmp_symmetric_reply"]))]
    pub ecmp_mode: Option<String>,
}

/// A route of the VPC's router by match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.nextHopIP) == (self.action == 'reroute')",
     "message": "nextHopIP is required with action reroute, and has no meaning with another", "fieldPath": ".nextHopIP"}
]))]
pub struct PolicyRoute {
    /// 0 to 32767.
    #[schemars(range(min = 0, max = 32767))]
    pub priority: i64,
    /// An OVN match expression, such as `ip4.dst == 10.1.0.0/16`.
    #[serde(rename = "match")]
    #[schemars(length(min = 1, max = 4096))]
    pub matches: String,
    /// `allow`, `drop` or `reroute`.
    #[schemars(length(max = 7), extend("enum" = ["allow", "drop", "reroute"]))]
    pub action: String,
    /// With `reroute`: the routers to send to, separated by commas.
    #[serde(default, rename = "nextHopIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 736))]
    pub next_hop_ip: Option<String>,
}

/// One half of a connection between two VPCs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpcPeering {
    /// The other VPC.
    #[schemars(length(min = 1, max = 253))]
    pub remote_vpc: String,
    /// This VPC's address in the network between the two, such as `169.254.0.1/30`, or one of each family
    /// separated by a comma.
    #[serde(rename = "localConnectIP")]
    #[schemars(length(min = 9, max = 62), extend("x-kubernetes-validations" = [
        {"rule": "self.split(',').size() <= 2 && self.split(',').all(c, isCIDR(c))",
         "message": "localConnectIP must be an address with a prefix length, or an IPv4 and an IPv6 one separated by a comma"}
    ]))]
    pub local_connect_ip: String,
}

/// What Portolan found and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpcStatus {
    /// `Ready`: the router is in effect. `Peered`: so are all of its peerings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The subnets attached to the router.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<String>,
    /// The VPCs it is connected with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vpc_peerings: Vec<String>,
}

impl Vpc {
    /// The VPC as values, or everything that is wrong with it.
    pub fn parse(&self) -> Result<VpcConfig, FieldErrors> {
        let spec = &self.spec;
        VpcFields {
            name: &self.name_any(),
            host_bits: HostBits::Refuse,
            static_routes: spec.static_routes.iter().map(StaticRoute::fields).collect(),
            policy_routes: spec.policy_routes.iter().map(PolicyRoute::fields).collect(),
            peerings: spec.vpc_peerings.iter().map(VpcPeering::fields).collect(),
            namespaces: &spec.namespaces,
            default_subnet: spec.default_subnet.as_deref(),
        }
        .parse()
    }
}

impl StaticRoute {
    fn fields(&self) -> StaticRouteFields<'_> {
        StaticRouteFields {
            policy: self.policy.as_deref(),
            cidr: &self.cidr,
            next_hop_ip: &self.next_hop_ip,
            ecmp_mode: self.ecmp_mode.as_deref(),
        }
    }
}

impl PolicyRoute {
    fn fields(&self) -> PolicyRouteFields<'_> {
        PolicyRouteFields {
            priority: self.priority,
            matches: &self.matches,
            action: &self.action,
            next_hop_ip: self.next_hop_ip.as_deref(),
        }
    }
}

impl VpcPeering {
    fn fields(&self) -> PeeringFields<'_> {
        PeeringFields { remote_vpc: &self.remote_vpc, local_connect_ip: &self.local_connect_ip }
    }
}
