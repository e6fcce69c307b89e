//! The fields of a status beside its conditions: how many addresses are taken, and what clients of Kube-OVN read.
//!
//! They are values of JSON here, because both groups have the same fields under the same names, and clients of Kube-OVN expect
//! these and no others.

use std::collections::BTreeMap;

use portolan_api::condition::ConditionStatus;
use portolan_api::{Family, kubeovn, portolan};
use portolan_model::lock::Claim;
use portolan_model::subnet::DEFAULT_VPC;
use portolan_model::{Subnet, VpcPair};
use portolan_plan::northbound::southbound::{dhcp_options_row, router_name};
use serde_json::{Map, Value, json};

use super::conditions::{Facts, SUBNETS};
use super::readiness::is_subnet;
use super::{Engine, Kind};

/// Fields of a status, each with its value; `null` stands for a field that is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFields(BTreeMap<&'static str, Value>);

impl StatusFields {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    /// All of them, if the others lack one or have it with another value; none otherwise.
    ///
    /// A count of zero reads like one that is not there, and clients expect every field: so they are written together.
    #[must_use]
    pub fn unless_said_by(self, others: &StatusFields) -> StatusFields {
        let said = self.0.iter().all(|(field, value)| others.0.get(field).unwrap_or(&Value::Null) == value);
        if said { StatusFields::default() } else { self }
    }

    /// These, and newer ones in their place.
    #[must_use]
    pub fn updated_by(mut self, newer: StatusFields) -> StatusFields {
        self.0.extend(newer.0);
        self
    }

    /// As a merge patch has them.
    pub fn into_json(self) -> Map<String, Value> {
        self.0.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
    }

    fn set(&mut self, field: &'static str, value: impl serde::Serialize) {
        self.0.insert(field, json!(value));
    }

    /// An empty list stands for a field that is not there: `kubectl wait` on its first element waits then, and fails otherwise.
    fn set_list<T: serde::Serialize>(&mut self, field: &'static str, list: &[T]) {
        self.set(field, (!list.is_empty()).then_some(list));
    }

    /// An empty text stands for a field that is not there.
    fn set_text(&mut self, field: &'static str, text: Option<String>) {
        self.set(field, text.filter(|text| !text.is_empty()));
    }
}

/// How both groups tell which addresses are taken.
macro_rules! usage {
    ($status:ident) => {{
        let mut fields = StatusFields::default();
        fields.set("v4usingIPs", $status.v4_using_ips);
        fields.set("v4availableIPs", $status.v4_available_ips);
        fields.set("v6usingIPs", $status.v6_using_ips);
        fields.set("v6availableIPs", $status.v6_available_ips);
        fields.set_text("v4usingIPrange", $status.v4_using_ip_range.clone());
        fields.set_text("v4availableIPrange", $status.v4_available_ip_range.clone());
        fields.set_text("v6usingIPrange", $status.v6_using_ip_range.clone());
        fields.set_text("v6availableIPrange", $status.v6_available_ip_range.clone());
        fields
    }};
}

impl From<&portolan::SubnetStatus> for StatusFields {
    fn from(status: &portolan::SubnetStatus) -> Self {
        usage!(status)
    }
}

impl From<&kubeovn::SubnetStatus> for StatusFields {
    fn from(status: &kubeovn::SubnetStatus) -> Self {
        let mut fields = usage!(status);
        fields.set_text("dhcpV4OptionsUUID", status.dhcp_v4_options_uuid.clone());
        fields.set_text("dhcpV6OptionsUUID", status.dhcp_v6_options_uuid.clone());
        fields
    }
}

/// Clients of Kube-OVN find every text of pools and Vips, also an empty one.
impl From<&kubeovn::IpPoolStatus> for StatusFields {
    fn from(status: &kubeovn::IpPoolStatus) -> Self {
        let mut fields = StatusFields::default();
        fields.set("v4AvailableIPs", status.v4_available_ips);
        fields.set("v4AvailableIPRange", &status.v4_available_ip_range);
        fields.set("v4UsingIPs", status.v4_using_ips);
        fields.set("v4UsingIPRange", &status.v4_using_ip_range);
        fields.set("v6AvailableIPs", status.v6_available_ips);
        fields.set("v6AvailableIPRange", &status.v6_available_ip_range);
        fields.set("v6UsingIPs", status.v6_using_ips);
        fields.set("v6UsingIPRange", &status.v6_using_ip_range);
        fields
    }
}

impl From<&kubeovn::VipStatus> for StatusFields {
    fn from(status: &kubeovn::VipStatus) -> Self {
        let mut fields = StatusFields::default();
        fields.set("ready", status.ready);
        fields.set("type", &status.type_);
        fields.set("v4ip", &status.v4ip);
        fields.set("v6ip", &status.v6ip);
        fields.set("mac", &status.mac);
        fields
    }
}

/// Those of the controller's own: the others are the agent's.
impl From<&portolan::NetworkAttachmentStatus> for StatusFields {
    fn from(status: &portolan::NetworkAttachmentStatus) -> Self {
        let mut fields = StatusFields::default();
        fields.set_text("address", status.address.clone());
        fields.set_text("mac", status.mac.clone());
        fields
    }
}

impl From<&portolan::VpcStatus> for StatusFields {
    fn from(status: &portolan::VpcStatus) -> Self {
        let mut fields = StatusFields::default();
        fields.set_list("subnets", &status.subnets);
        fields.set_list("vpcPeerings", &status.vpc_peerings);
        fields
    }
}

impl From<&kubeovn::VpcStatus> for StatusFields {
    fn from(status: &kubeovn::VpcStatus) -> Self {
        let mut fields = StatusFields::default();
        fields.set("subnets", status.subnets.clone().unwrap_or_default());
        fields.set("vpcPeerings", status.vpc_peerings.clone().unwrap_or_default());
        fields.set("standby", status.standby);
        fields.set("default", status.default);
        fields.set_text("router", status.router.clone());
        fields.set_text("defaultLogicalSwitch", status.default_logical_switch.clone());
        fields
    }
}

impl Engine {
    /// The fields that an object should have, as far as anything is to be said about them.
    pub(super) fn desired_fields(
        &self,
        kind: Kind,
        name: &str,
        facts: &Facts,
        ready: Option<ConditionStatus>,
    ) -> StatusFields {
        let fields = match kind {
            Kind::IPPool => self.pool_usage(name).map(|usage| StatusFields::from(&usage)),
            Kind::Vip => self.vip_status(name, facts).map(|status| StatusFields::from(&status)),
            Kind::NetworkAttachment => {
                self.network_attachment_status(name, facts).map(|status| StatusFields::from(&status))
            }
            kind if is_subnet(kind) => {
                let subnet = self.world.known_subnet(name).filter(|subnet| subnet.uid == facts.uid);
                subnet.map(|subnet| self.fields_of_subnet(kind, subnet))
            }
            _ => self.fields_of_vpc(kind, name, facts, ready),
        };
        fields.unwrap_or_default()
    }

    fn fields_of_subnet(&self, kind: Kind, subnet: &Subnet) -> StatusFields {
        let usage = self.ipam.usage(subnet);
        let [v4, v6] = [Family::IPv4, Family::IPv6].map(|family| self.ipam.ranges(subnet, family));
        let mut fields = StatusFields::default();
        fields.set("v4usingIPs", usage.v4_using);
        fields.set("v4availableIPs", usage.v4_available);
        fields.set("v6usingIPs", usage.v6_using);
        fields.set("v6availableIPs", usage.v6_available);
        fields.set_text("v4usingIPrange", Some(v4.using));
        fields.set_text("v4availableIPrange", Some(v4.available));
        fields.set_text("v6usingIPrange", Some(v6.using));
        fields.set_text("v6availableIPrange", Some(v6.available));
        if kind == Kind::KubeOvnSubnet {
            let row = |family| {
                let has = subnet.config.dhcp.is_some() && subnet.config.cidr.has(family);
                has.then(|| dhcp_options_row(&subnet.name, &subnet.uid, family).to_string())
            };
            fields.set_text("dhcpV4OptionsUUID", row(Family::IPv4));
            fields.set_text("dhcpV6OptionsUUID", row(Family::IPv6));
        }
        fields
    }

    fn fields_of_vpc(
        &self,
        kind: Kind,
        name: &str,
        facts: &Facts,
        ready: Option<ConditionStatus>,
    ) -> Option<StatusFields> {
        let vpc = self.world.vpc(name).filter(|vpc| vpc.uid == facts.uid)?;
        let mut fields = StatusFields::default();
        let subnets: Vec<&str> = self.world.subnets_of_vpc(name).map(|subnet| subnet.name.as_str()).collect();
        let stands = |remote: &&str| {
            VpcPair::new(name, remote).is_some_and(|pair| self.world.peering(&pair).is_some())
        };
        let remotes = vpc.config.peerings.iter().map(|peering| peering.remote_vpc.as_str());
        let mut remotes: Vec<&str> = remotes.filter(stands).collect();
        remotes.sort_unstable();
        if kind == Kind::Vpc {
            fields.set_list("subnets", &subnets);
            fields.set_list("vpcPeerings", &remotes);
        } else {
            fields.set("subnets", subnets);
            fields.set("vpcPeerings", remotes);
            fields.set("default", name == DEFAULT_VPC);
            fields.set_text("router", Some(router_name(name)));
            fields.set_text("defaultLogicalSwitch", vpc.config.default_subnet.clone());
            // Clients wait for it before they use the router. It is not taken back: the router stays.
            let was = facts.fields.get("standby") == Some(&Value::Bool(true));
            let is = ready == Some(ConditionStatus::True);
            fields.set("standby", was || is);
        }
        Some(fields)
    }

    /// An address was taken or became free.
    pub(super) fn usage_changed(&mut self, claim: Option<&Claim>) {
        if let Some(subnet) = claim.and_then(|claim| claim.subnet.as_deref()) {
            self.conditions.defer(&SUBNETS, subnet);
        }
    }
}
