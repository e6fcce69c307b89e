//! `NetworkAttachment`: a request for an interface on a node, and the answer.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cidr::AddressPair;
use crate::condition::Condition;
use crate::field_error::{FieldErrors, FieldPath, Reason};
use crate::mac::{Mac, parse_interface_mac};
use crate::names::check_object_name;

/// A request for an interface on a node, attached to a subnet.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "portolan.dev",
    version = "v1alpha1",
    kind = "NetworkAttachment",
    namespaced,
    status = "NetworkAttachmentStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    doc = "A request for a network interface on a node, attached to a subnet, and the answer to it.",
    shortname = "pna",
    category = "portolan",
    selectable = ".spec.node",
    selectable = ".spec.subnet",
    selectable = ".status.vni",
    selectable = ".status.address",
    selectable = ".status.hostIP",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Subnet", type_ = "string", json_path = ".spec.subnet"),
    printcolumn(name = "Address", type_ = "string", json_path = ".status.address"),
    printcolumn(name = "MAC", type_ = "string", json_path = ".status.mac", priority = "1"),
    printcolumn(name = "Interface", type_ = "string", json_path = ".status.interface"),
    printcolumn(name = "HostIP", type_ = "string", json_path = ".status.hostIP", priority = "1"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self == oldSelf", "message": "spec is immutable; make a new NetworkAttachment"}
]))]
pub struct NetworkAttachmentSpec {
    /// The node the interface is created on.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// The subnet the interface is attached to.
    #[schemars(length(min = 1, max = 253))]
    pub subnet: String,
    /// The address to have, or one of each family separated by a comma. Chosen if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 61), extend("x-kubernetes-validations" = [
        {"rule": "self.split(',').size() <= 2 && self.split(',').all(a, isIP(a))",
         "message": "address must be an IP address, or an IPv4 and an IPv6 one separated by a comma"}
    ]))]
    pub address: Option<String>,
    /// The MAC address to have. Follows from the address if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 17), regex(pattern = r"^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$"))]
    pub mac: Option<String>,
    /// Makes the interface a tap, which another process opens, such as a hypervisor: what comes out of the process is what the interface
    /// sends. Without it the interface is one of the node, for the node's own use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tap: Option<Tap>,
}

/// Who may open a tap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tap {
    /// The number of the user who may open it besides root. Only root if left out, unless `group` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4294967294_u32))]
    pub user: Option<i64>,
    /// The number of the group whose members may open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4294967294_u32))]
    pub group: Option<i64>,
}

/// Who may open a tap, as numbers that the kernel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapAccess {
    /// The user.
    pub user: Option<u32>,
    /// The group.
    pub group: Option<u32>,
}

/// The interface that was created. The controller writes the addresses, and the agent of the node the interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAttachmentStatus {
    /// `Addressed`: it has all of its addresses. `Ready`: the interface exists and OVN carries its traffic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Its address, or one of each family separated by a comma.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 61))]
    pub address: Option<String>,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 17))]
    pub mac: Option<String>,
    /// The virtual network of the VXLAN fabric it is in, if its subnet has one. Not written yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vni: Option<i64>,
    /// Its name in the node's network namespace; chosen by the node's agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15))]
    pub interface: Option<String>,
    /// The address other nodes send its traffic to.
    #[serde(default, rename = "hostIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45))]
    pub host_ip: Option<String>,
}

/// A network attachment that makes sense by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentConfig {
    /// The node.
    pub node: String,
    /// The subnet.
    pub subnet: String,
    /// Addresses asked for.
    pub address: Option<AddressPair>,
    /// MAC address asked for.
    pub mac: Option<Mac>,
    /// Who may open it, if it is to be a tap.
    pub tap: Option<TapAccess>,
}

impl NetworkAttachment {
    /// The request as values, or everything that is wrong with it.
    pub fn parse(&self) -> Result<AttachmentConfig, FieldErrors> {
        let errors = &mut FieldErrors::new();
        let root = FieldPath::SPEC;
        let spec = &self.spec;
        for (name, field) in [(&spec.node, "node"), (&spec.subnet, "subnet")] {
            if name.is_empty() {
                errors.add_bare(&root.field(field), Reason::Required, "is required");
            } else if let Err(problem) = check_object_name(name) {
                errors.add_problem(&root.field(field), name, &problem);
            }
        }
        let address = spec.address.as_deref().and_then(|text| {
            text.parse().map_err(|problem| errors.add_problem(&root.field("address"), text, &problem)).ok()
        });
        let mac = spec.mac.as_deref().and_then(|text| {
            parse_interface_mac(text)
                .map_err(|problem| errors.add_problem(&root.field("mac"), text, &problem))
                .ok()
        });
        let tap = spec.tap.map(|tap| tap.parse(&root.field("tap"), errors));
        let config =
            AttachmentConfig { node: spec.node.clone(), subnet: spec.subnet.clone(), address, mac, tap };
        std::mem::take(errors).into_result(config)
    }
}

impl Tap {
    fn parse(self, path: &FieldPath<'_>, errors: &mut FieldErrors) -> TapAccess {
        let mut number = |field: &str, number: Option<i64>| {
            let number = number?;
            // The largest one stands for nobody.
            let fits = u32::try_from(number).ok().filter(|fits| *fits != u32::MAX);
            if fits.is_none() {
                let problem = "is not the number of a user or group; give one from 0 to 4294967294";
                errors.add_bare(&path.field(field), Reason::Invalid, format!("{number} {problem}"));
            }
            fits
        };
        TapAccess { user: number("user", self.user), group: number("group", self.group) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        let spec = NetworkAttachmentSpec {
            node: "Node_1".into(),
            subnet: String::new(),
            address: Some("10.0.0.300".into()),
            mac: Some("01:00:00:00:00:00".into()),
            tap: Some(Tap { user: Some(-1), group: Some(4_294_967_295) }),
        };
        let errors = NetworkAttachment::new("a", spec).parse().unwrap_err();
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                r#"spec.node: "Node_1" cannot be the name of an object; names have up to 253 lower-case letters, digits, '-' and '.'"#,
                "spec.subnet: is required",
                r#"spec.address: "10.0.0.300" is not an IP address"#,
                r#"spec.mac: "01:00:00:00:00:00" cannot be an interface's address, as it is multicast or zero; clear the lowest bit of its first byte"#,
                "spec.tap.user: -1 is not the number of a user or group; give one from 0 to 4294967294",
                "spec.tap.group: 4294967295 is not the number of a user or group; give one from 0 to 4294967294",
            ]
        );
    }

    #[test]
    fn a_plain_request_parses() {
        let spec = NetworkAttachmentSpec {
            node: "node-1".into(),
            subnet: "blue".into(),
            address: Some("10.0.0.5,fd00::5".into()),
            mac: None,
            tap: Some(Tap { user: Some(107), group: None }),
        };
        let config = NetworkAttachment::new("a", spec).parse().unwrap();
        assert_eq!(config.address.unwrap().to_string(), "10.0.0.5,fd00::5");
        assert_eq!(config.tap, Some(TapAccess { user: Some(107), group: None }));
    }
}
