//! Kube-OVN's `Vip`: an address of a Subnet that is kept for no interface in particular.

use std::net::IpAddr;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, UnknownFields, filled};
use crate::cidr::{Family, parse_address};
use crate::field_error::{FieldErrors, FieldPath, Reason};
use crate::mac::{Mac, parse_interface_mac};
use crate::names::check_object_name;

/// An address of a Subnet.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "Vip",
    status = "VipStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    doc = "An address of a Subnet that is kept for no interface in particular, as clients of Kube-OVN write it.",
    plural = "vips",
    singular = "vip",
    shortname = "vip",
    printcolumn(name = "NS", type_ = "string", json_path = ".spec.namespace"),
    printcolumn(name = "V4IP", type_ = "string", json_path = ".status.v4ip"),
    printcolumn(name = "V6IP", type_ = "string", json_path = ".status.v6ip"),
    printcolumn(name = "Mac", type_ = "string", json_path = ".status.mac"),
    printcolumn(name = "Subnet", type_ = "string", json_path = ".spec.subnet"),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "Type", type_ = "string", json_path = ".status.type"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.subnet) && self.subnet != ''", "message": "name the Subnet of the address", "fieldPath": ".subnet"}
]))]
pub struct VipSpec {
    /// The namespace of the pods that `selector` selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// The Subnet whose address it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [
        {"rule": "self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
         "message": "subnet cannot be the name of an object; names have up to 253 lower-case letters, digits, '-' and '.'"}
    ]))]
    pub subnet: Option<String>,
    /// What it is for: empty, `switch_lb_vip` or `kube_host_vm_vip`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub type_: Option<String>,
    /// The IPv4 address to have; any by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = [
        {"rule": "self == '' || (isIP(self.trim()) && !self.contains(':'))", "message": "v4ip must be an IPv4 address such as 10.0.0.5"}
    ]))]
    pub v4ip: Option<String>,
    /// The IPv6 address to have; any by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = [
        {"rule": "self == '' || (isIP(self.trim()) && self.contains(':'))", "message": "v6ip must be an IPv6 address such as fd00::5"}
    ]))]
    pub v6ip: Option<String>,
    /// The MAC address to have; it follows from the address by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = [
        {"rule": "self == '' || self.matches('^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$|^[0-9a-fA-F]{2}(-[0-9a-fA-F]{2}){5}$')",
         "message": "macAddress must be six hexadecimal bytes, such as 02:00:00:00:00:01"},
        {"rule": "!self.matches('^[0-9a-fA-F][13579bdfBDF]') && !self.matches('^(00[:-]){5}00$')",
         "message": "macAddress cannot be multicast or zero; clear the lowest bit of its first byte"}
    ]))]
    pub mac_address: Option<String>,
    /// Selects pods that may use the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 256)))]
    pub selector: Option<Vec<String>>,
    /// Further Subnets where the address is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub attach_subnets: Option<Vec<String>>,
    /// Fields of other versions of Kube-OVN.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// Which addresses a Vip has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VipStatus {
    /// Its conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// True once it has its addresses.
    pub ready: bool,
    /// What it is for.
    #[serde(rename = "type")]
    pub type_: String,
    /// Its IPv4 address.
    pub v4ip: String,
    /// Its IPv6 address.
    pub v6ip: String,
    /// Its MAC address.
    pub mac: String,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A `Vip` as values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VipConfig {
    /// The Subnet.
    pub subnet: String,
    /// Addresses to have.
    pub addresses: Vec<IpAddr>,
    /// MAC address to have.
    pub mac: Option<Mac>,
}

impl Vip {
    /// The Vip as values, or everything that is wrong with it.
    pub fn parse(&self) -> Result<VipConfig, FieldErrors> {
        let errors = &mut FieldErrors::new();
        let root = FieldPath::SPEC;
        let spec = &self.spec;
        let mut config = VipConfig::default();
        match filled(spec.subnet.as_ref()) {
            None => {
                errors.add_bare(&root.field("subnet"), Reason::Required, "name the Subnet of the address");
            }
            Some(name) => {
                if let Err(problem) = check_object_name(name) {
                    errors.add_problem(&root.field("subnet"), name, &problem);
                }
                name.clone_into(&mut config.subnet);
            }
        }
        for (field, text, family) in [("v4ip", &spec.v4ip, Family::IPv4), ("v6ip", &spec.v6ip, Family::IPv6)]
        {
            let Some(text) = filled(text.as_ref()) else { continue };
            match parse_address(text) {
                Ok(address) if Family::of(address) == family => config.addresses.push(address),
                Ok(_) => {
                    errors.add(&root.field(field), text, Reason::Invalid, format!("is no {family} address"));
                }
                Err(problem) => errors.add_problem(&root.field(field), text, &problem),
            }
        }
        if let Some(text) = filled(spec.mac_address.as_ref()) {
            match parse_interface_mac(text) {
                Ok(mac) => config.mac = Some(mac),
                Err(problem) => errors.add_problem(&root.field("macAddress"), text, &problem),
            }
        }
        std::mem::take(errors).into_result(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(spec: serde_json::Value) -> Result<VipConfig, String> {
        Vip::new("vip", serde_json::from_value(spec).unwrap()).parse().map_err(|errors| errors.to_string())
    }

    #[test]
    fn what_go_clients_leave_empty_is_not_asked_for() {
        let config =
            parse(serde_json::json!({"subnet": "web", "v4ip": "", "v6ip": "fd00::9", "macAddress": ""}));
        let config = config.unwrap();
        assert_eq!((config.addresses, config.mac), (vec!["fd00::9".parse().unwrap()], None));
    }

    #[test]
    fn mistakes_are_named_with_their_fields() {
        assert_eq!(
            parse(serde_json::json!({"v4ip": "fd00::1", "v6ip": "x", "macAddress": "y"})).unwrap_err(),
            "spec.subnet: name the Subnet of the address; \
             spec.v4ip: \"fd00::1\" is no IPv4 address; \
             spec.v6ip: \"x\" is not an IP address; \
             spec.macAddress: \"y\" is not a MAC address; write six hexadecimal bytes, such as 02:00:00:00:00:01"
        );
    }
}
