//! Kube-OVN's `IPPool`: addresses of a Subnet that are kept for those who name the pool, or whose namespace does.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, UnknownFields, filled};
use crate::field_error::{FieldErrors, FieldPath, Problem, Reason};
use crate::ip_count::IpCount;
use crate::ip_range::IpRange;
use crate::names::check_object_name;

/// Addresses of a Subnet.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "IPPool",
    status = "IpPoolStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    doc = "Addresses of a Subnet that are kept for some pods, as clients of Kube-OVN write it.",
    plural = "ippools",
    singular = "ippool",
    shortname = "ippool",
    printcolumn(name = "Subnet", type_ = "string", json_path = ".spec.subnet"),
    printcolumn(name = "IPs", type_ = "string", json_path = ".spec.ips"),
    printcolumn(name = "V4Used", type_ = "number", json_path = ".status.v4UsingIPs"),
    printcolumn(name = "V4Available", type_ = "number", json_path = ".status.v4AvailableIPs"),
    printcolumn(name = "V6Used", type_ = "number", json_path = ".status.v6UsingIPs"),
    printcolumn(name = "V6Available", type_ = "number", json_path = ".status.v6AvailableIPs"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.subnet) && self.subnet != ''", "message": "name the Subnet of the addresses", "fieldPath": ".subnet"},
    {"rule": "has(self.ips) && self.ips.size() > 0", "message": "list addresses, ranges or prefixes of the Subnet", "fieldPath": ".ips"}
]))]
pub struct IpPoolSpec {
    /// The Subnet whose addresses they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [
        {"rule": "self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
         "message": "subnet cannot be the name of an object; names have up to 253 lower-case letters, digits, '-' and '.'"}
    ]))]
    pub subnet: Option<String>,
    /// Namespaces whose pods have their addresses in the Subnet from this pool, unless they ask for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), inner(length(max = 63)), extend("x-kubernetes-validations" = [
        {"rule": "self.all(n, n.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",
         "message": "namespaces must be names of namespaces: lower-case letters, digits and '-'"}
    ]))]
    pub namespaces: Option<Vec<String>>,
    /// Addresses, ranges (`10.0.0.5..10.0.0.9`) and prefixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), inner(length(max = 128)), extend("x-kubernetes-validations" = [
        {"rule": "self.all(e, e.contains('..') ? isIP(e.substring(0, e.indexOf('..')).trim()) && isIP(e.substring(e.indexOf('..') + 2).trim()) : (e.contains('/') ? isCIDR(e.trim()) : isIP(e.trim())))",
         "message": "ips must be addresses such as 10.0.0.5, ranges such as 10.0.0.5..10.0.0.9 and prefixes such as 10.0.0.8/29"},
        {"rule": "self.all(e, !e.contains('..') || e.substring(0, e.indexOf('..')).contains(':') == e.substring(e.indexOf('..') + 2).contains(':'))",
         "message": "a range in ips mixes IPv4 and IPv6; both ends must be of one family"}
    ]))]
    pub ips: Option<Vec<String>>,
    /// Makes an address set of OVN of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_address_set: Option<bool>,
    /// Fields of other versions of Kube-OVN.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// How much of a pool is taken. Long lists of ranges are cut.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IpPoolStatus {
    /// Its conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// IPv4 addresses that are still available.
    #[serde(rename = "v4AvailableIPs")]
    pub v4_available_ips: IpCount,
    /// Which ones.
    #[serde(rename = "v4AvailableIPRange")]
    pub v4_available_ip_range: String,
    /// IPv4 addresses taken.
    #[serde(rename = "v4UsingIPs")]
    pub v4_using_ips: IpCount,
    /// Which ones.
    #[serde(rename = "v4UsingIPRange")]
    pub v4_using_ip_range: String,
    /// IPv6 addresses that are still available.
    #[serde(rename = "v6AvailableIPs")]
    pub v6_available_ips: IpCount,
    /// Which ones.
    #[serde(rename = "v6AvailableIPRange")]
    pub v6_available_ip_range: String,
    /// IPv6 addresses taken.
    #[serde(rename = "v6UsingIPs")]
    pub v6_using_ips: IpCount,
    /// Which ones.
    #[serde(rename = "v6UsingIPRange")]
    pub v6_using_ip_range: String,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// An `IPPool` as values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpPoolConfig {
    /// The Subnet.
    pub subnet: String,
    /// Namespaces whose pods choose from it without naming it.
    pub namespaces: BTreeSet<String>,
    /// The addresses. Ranges may overlap.
    pub ranges: Vec<IpRange>,
}

impl IPPool {
    /// The pool as values, or everything that is wrong with it.
    pub fn parse(&self) -> Result<IpPoolConfig, FieldErrors> {
        let errors = &mut FieldErrors::new();
        let spec = FieldPath::SPEC;
        let mut config = IpPoolConfig::default();
        match filled(self.spec.subnet.as_ref()) {
            None => {
                errors.add_bare(&spec.field("subnet"), Reason::Required, "name the Subnet of the addresses");
            }
            Some(name) => {
                if let Err(problem) = check_object_name(name) {
                    errors.add_problem(&spec.field("subnet"), name, &problem);
                }
                name.clone_into(&mut config.subnet);
            }
        }
        let namespaces = spec.field("namespaces");
        for (i, name) in self.spec.namespaces.iter().flatten().enumerate() {
            if let Err(problem) = check_object_name(name) {
                errors.add_problem(&namespaces.index(i), name, &problem);
            }
            config.namespaces.insert(name.clone());
        }
        let ips = spec.field("ips");
        for (i, text) in self.spec.ips.iter().flatten().enumerate() {
            match parse_range(text.trim()) {
                Ok(range) => config.ranges.push(range),
                Err(problem) => errors.add_problem(&ips.index(i), text, &problem),
            }
        }
        if self.spec.ips.as_ref().is_none_or(Vec::is_empty) {
            errors.add_bare(&ips, Reason::Required, "list addresses, ranges or prefixes of the Subnet");
        }
        std::mem::take(errors).into_result(config)
    }
}

/// An address, a range or a prefix.
fn parse_range(text: &str) -> Result<IpRange, Problem> {
    let wrong = || {
        Problem::invalid(
            "is neither an address, a range nor a prefix; write 10.0.0.5, 10.0.0.5..10.0.0.9 or 10.0.0.8/29",
        )
    };
    if !text.contains('/') {
        // A range that is backwards or mixes families says so itself.
        return match text.parse::<IpRange>() {
            Err(_) if !text.contains("..") => Err(wrong()),
            parsed => parsed,
        };
    }
    let net: IpNet = text.parse().map_err(|_| wrong())?;
    let mapped = matches!(net, IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some());
    let (first, last): (IpAddr, IpAddr) = (net.network(), net.broadcast());
    if mapped { Err(wrong()) } else { IpRange::new(first, last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(spec: serde_json::Value) -> Result<IpPoolConfig, String> {
        IPPool::new("pool", serde_json::from_value(spec).unwrap())
            .parse()
            .map_err(|errors| errors.to_string())
    }

    #[test]
    fn addresses_ranges_and_prefixes() {
        let config = parse(serde_json::json!({
            "subnet": "web", "namespaces": ["default"],
            "ips": ["10.0.0.5", "10.0.0.7..10.0.0.9", "10.0.0.16/30", "fd00::10/126"],
        }))
        .unwrap();
        let texts: Vec<_> = config.ranges.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.5", "10.0.0.7..10.0.0.9", "10.0.0.16..10.0.0.19", "fd00::10..fd00::13"]);
        assert_eq!((config.subnet.as_str(), config.namespaces.contains("default")), ("web", true));
    }

    #[test]
    fn mistakes_are_named_with_their_fields() {
        assert_eq!(
            parse(
                serde_json::json!({"ips": ["10.0.0.9..10.0.0.5", "x", "10.0.0.0/99"], "namespaces": ["A B"]})
            )
            .unwrap_err(),
            "spec.subnet: name the Subnet of the addresses; \
             spec.namespaces[0]: \"A B\" cannot be the name of an object; names have up to 253 lower-case letters, digits, '-' and '.'; \
             spec.ips[0]: \"10.0.0.9..10.0.0.5\" is backwards; write it as 10.0.0.5..10.0.0.9; \
             spec.ips[1]: \"x\" is neither an address, a range nor a prefix; write 10.0.0.5, 10.0.0.5..10.0.0.9 or 10.0.0.8/29; \
             spec.ips[2]: \"10.0.0.0/99\" is neither an address, a range nor a prefix; write 10.0.0.5, 10.0.0.5..10.0.0.9 or 10.0.0.8/29"
        );
        assert_eq!(
            parse(serde_json::json!({"subnet": "web"})).unwrap_err(),
            "spec.ips: list addresses, ranges or prefixes of the Subnet"
        );
    }
}
