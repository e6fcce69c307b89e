//! The annotation by which a pod asks for further networks: `k8s.v1.cni.cncf.io/networks`, in both of its forms.
//!
//! ```text
//! blue, other-ns/green@net7
//! [{"name": "blue", "ips": ["10.0.0.5"]}, {"name": "green", "namespace": "other-ns", "interface": "net7"}]
//! ```

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::cidr::{Family, parse_address};
use crate::field_error::{FieldError, FieldErrors, FieldPath, Problem, Reason};
use crate::json_reader::{JsonReader, parse_json, type_name};
use crate::mac::{Mac, parse_interface_mac};
use crate::names::{check_interface, check_namespace, check_object_name};

/// Networks for a pod beside its first.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// The network of a pod's first interface, in place of the cluster's.
pub const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";

/// Most networks one pod can ask for.
pub const MAX_NETWORKS: usize = 64;
/// Most addresses one interface can ask for.
pub const MAX_IPS: usize = 32;

/// Keys of the standard. Those that no field of [`NetworkSelection`] holds are kept in `other`.
const KNOWN: &[&str] = &["name", "namespace", "interface", "ips", "mac", "default-route"];
const KEPT: &[&str] = &["cni-args", "infiniband-guid", "portMappings", "bandwidth", "ipam-claim-reference"];

/// One network that a pod asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkSelection {
    /// The namespace of the network attachment definition.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What the interface is to be called.
    pub interface: Option<String>,
    /// Addresses it is to have. Several of one family are allowed.
    pub ips: Vec<RequestedIp>,
    /// MAC address it is to have.
    pub mac: Option<Mac>,
    /// Routers for the default route; at most one of each family.
    pub default_route: Vec<IpAddr>,
    /// Keys of the standard that are for other plugins, and unknown ones, as they were.
    pub other: Map<String, Value>,
}

/// An address that is asked for, perhaps with the length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestedIp {
    /// The address.
    pub address: IpAddr,
    /// The length, if one was written.
    pub prefix_len: Option<u8>,
}

/// What a pod asks for, and what it wrote that has no effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkSelections {
    /// The networks, in order.
    pub networks: Vec<NetworkSelection>,
    /// Unknown keys: kept, without effect, and worth an Event.
    pub warnings: Vec<FieldError>,
}

/// Parses the value of an annotation such as [`NETWORKS`]. `namespace` is where unqualified names live.
pub fn parse_networks(
    annotation: &str,
    text: &str,
    namespace: &str,
) -> Result<NetworkSelections, FieldErrors> {
    let errors = &mut FieldErrors::new();
    let metadata = FieldPath::root("metadata");
    let annotations = metadata.field("annotations");
    let path = annotations.key(annotation);
    let mut selections = NetworkSelections::default();
    if text.trim_start().starts_with(['[', '{', '"']) {
        parse_json_form(text, namespace, &path, &mut selections, errors);
    } else {
        parse_comma_form(text, namespace, &path, &mut selections, errors);
    }
    check_together(&selections.networks, &path, errors);
    std::mem::take(errors).into_result(selections)
}

/// Parses [`DEFAULT_NETWORK`]: exactly one network.
pub fn parse_default_network(text: &str, namespace: &str) -> Result<NetworkSelection, FieldErrors> {
    let mut networks = parse_networks(DEFAULT_NETWORK, text, namespace)?.networks;
    match (networks.pop(), networks.is_empty()) {
        (Some(network), true) => Ok(network),
        _ => {
            let mut errors = FieldErrors::new();
            let metadata = FieldPath::root("metadata");
            let annotations = metadata.field("annotations");
            errors.add(
                &annotations.key(DEFAULT_NETWORK),
                text,
                Reason::Invalid,
                "does not name one network; a pod has one first interface",
            );
            Err(errors)
        }
    }
}

fn parse_comma_form(
    text: &str,
    namespace: &str,
    path: &FieldPath<'_>,
    selections: &mut NetworkSelections,
    errors: &mut FieldErrors,
) {
    if text.trim().is_empty() {
        return;
    }
    for (i, item) in text.split(',').enumerate() {
        if i == MAX_NETWORKS {
            errors.add_bare(path, Reason::TooLong, format!("names more than {MAX_NETWORKS} networks"));
            return;
        }
        match parse_reference(item.trim(), namespace) {
            Ok(selection) => selections.networks.push(selection),
            Err(problem) => errors.add_problem(&path.index(i), item, &problem),
        }
    }
}

/// Parses `namespace/name@interface`, where both ends may be missing.
fn parse_reference(text: &str, namespace: &str) -> Result<NetworkSelection, Problem> {
    let (rest, interface) = match text.split_once('@') {
        Some((rest, interface)) => (rest.trim(), Some(interface.trim())),
        None => (text, None),
    };
    let (namespace, name) = match rest.split_once('/') {
        Some((namespace, name)) => (namespace.trim(), name.trim()),
        None => (namespace, rest),
    };
    if name.is_empty() {
        return Err(Problem::invalid(
            "names no network; write name, namespace/name or namespace/name@interface",
        ));
    }
    if name.contains(['/', '@']) || interface.is_some_and(|i| i.contains(['/', '@'])) {
        return Err(Problem::invalid("has too many '/' or '@'; write namespace/name@interface"));
    }
    check_namespace(namespace)?;
    check_object_name(name)?;
    if let Some(interface) = interface {
        check_interface(interface)?;
    }
    Ok(NetworkSelection {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        interface: interface.map(str::to_owned),
        ..NetworkSelection::default()
    })
}

fn parse_json_form(
    text: &str,
    namespace: &str,
    path: &FieldPath<'_>,
    selections: &mut NetworkSelections,
    errors: &mut FieldErrors,
) {
    let items = match parse_json(text, path, errors) {
        None => return,
        Some(Value::Array(items)) => items,
        Some(other) => {
            let message = format!("is {}; write a list of networks […]", type_name(&other));
            errors.add_bare(path, Reason::Invalid, message);
            return;
        }
    };
    if items.len() > MAX_NETWORKS {
        errors.add_bare(path, Reason::TooLong, format!("names more than {MAX_NETWORKS} networks"));
        return;
    }
    let mut warnings = FieldErrors::new();
    for (i, item) in items.iter().enumerate() {
        let at = path.index(i);
        if let Some(selection) = parse_element(item, namespace, &at, &mut warnings, errors) {
            selections.networks.push(selection);
        }
    }
    selections.warnings.extend(warnings);
}

fn parse_element(
    item: &Value,
    namespace: &str,
    path: &FieldPath<'_>,
    warnings: &mut FieldErrors,
    errors: &mut FieldErrors,
) -> Option<NetworkSelection> {
    let json = JsonReader::new(item, path, errors)?;
    let checked =
        |check: fn(&str) -> Result<(), Problem>| move |text: &str| check(text).map(|()| text.to_owned());
    let name = json.parsed("name", errors, checked(check_object_name));
    if json.value("name").is_none_or(|name| name == "") {
        errors.add_bare(
            &path.field("name"),
            Reason::Required,
            "is required; name a network attachment definition",
        );
    }
    let ips = json.texts("ips", errors, parse_requested_ip);
    if ips.len() > MAX_IPS {
        errors.add_bare(&path.field("ips"), Reason::TooLong, format!("has more than {MAX_IPS} addresses"));
    }
    for (i, ip) in ips.iter().enumerate() {
        if ips[..i].iter().any(|other| other.address == ip.address) {
            errors.add(
                &path.field("ips"),
                ip.address.to_string(),
                Reason::Duplicate,
                "is listed twice; remove one",
            );
        }
    }
    let mut other = Map::new();
    for (key, value) in json.others(KNOWN) {
        if !KEPT.contains(&key.as_str()) {
            warnings.add(path, key, Reason::NotSupported, unknown_key(key));
        }
        other.insert(key.clone(), value.clone());
    }
    Some(NetworkSelection {
        namespace: json
            .parsed("namespace", errors, checked(check_namespace))
            .unwrap_or_else(|| namespace.to_owned()),
        interface: json.parsed("interface", errors, checked(check_interface)),
        mac: json.parsed("mac", errors, parse_interface_mac),
        default_route: json.texts("default-route", errors, parse_address),
        name: name?,
        ips,
        other,
    })
}

fn unknown_key(key: &str) -> String {
    let known: Vec<_> = KNOWN.iter().chain(KEPT).copied().collect();
    let alike = |name: &&&str| name.eq_ignore_ascii_case(key) || name.trim_end_matches('s') == key;
    match known.iter().find(alike) {
        Some(meant) => {
            format!("is not a key of a network selection and has no effect; did you mean {meant:?}?")
        }
        None => format!(
            "is not a key of a network selection and has no effect; the keys are {}",
            known.join(", ")
        ),
    }
}

/// Parses an address, with or without the length of its network.
pub(crate) fn parse_requested_ip(text: &str) -> Result<RequestedIp, Problem> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address = parse_address(address)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix_len = match length.map(str::parse::<u8>) {
        None => None,
        Some(Ok(length)) if length <= most => Some(length),
        Some(_) => {
            return Err(Problem::invalid(format!("has a prefix length that is no number from 0 to {most}")));
        }
    };
    Ok(RequestedIp { address, prefix_len })
}

/// What only the whole list shows.
fn check_together(networks: &[NetworkSelection], path: &FieldPath<'_>, errors: &mut FieldErrors) {
    for (i, network) in networks.iter().enumerate() {
        let at = path.index(i);
        let Some(interface) = &network.interface else { continue };
        if networks[..i].iter().any(|other| other.interface.as_ref() == Some(interface)) {
            let message = "is the interface of another network of this pod already; choose another name";
            errors.add(&at.field("interface"), interface, Reason::Duplicate, message);
        }
    }
    for family in [Family::IPv4, Family::IPv6] {
        let routers = networks.iter().enumerate().flat_map(|(i, network)| {
            network.default_route.iter().filter(|r| Family::of(**r) == family).map(move |router| (i, router))
        });
        for (i, router) in routers.skip(1) {
            let at = path.index(i);
            let message =
                format!("is a second {family} default route of this pod; a pod has one of each family");
            errors.add(&at.field("default-route"), router.to_string(), Reason::Duplicate, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<NetworkSelections, Vec<String>> {
        parse_networks(NETWORKS, text, "default")
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    fn references(text: &str) -> Vec<String> {
        let networks = parse(text).unwrap().networks;
        let text = |n: &NetworkSelection| {
            format!("{}/{}@{}", n.namespace, n.name, n.interface.as_deref().unwrap_or_default())
        };
        networks.iter().map(text).collect()
    }

    #[test]
    fn comma_form() {
        assert_eq!(
            references("blue, other/green@net7 ,blue"),
            ["default/blue@", "other/green@net7", "default/blue@"]
        );
        assert_eq!(references(" "), [""; 0]);
    }

    #[test]
    fn json_form() {
        let selections = parse(
            r#"[{"name": "blue", "ips": ["10.0.0.5", "fd00::5/64"], "mac": "02:00:00:00:00:0A", "interface": "net7",
                 "default-route": ["10.0.0.1"], "cni-args": {"a": [1]}},
                {"name": "blue", "namespace": "other", "cni-args": null}]"#,
        )
        .unwrap();
        let [first, second] = selections.networks.as_slice() else { panic!("{selections:?}") };
        assert_eq!(first.ips[1], RequestedIp { address: "fd00::5".parse().unwrap(), prefix_len: Some(64) });
        assert_eq!(first.mac.unwrap().to_string(), "02:00:00:00:00:0a");
        assert_eq!(first.default_route, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(first.other["cni-args"], serde_json::json!({"a": [1]}));
        assert_eq!((second.namespace.as_str(), second.interface.as_ref()), ("other", None));
        assert_eq!(selections.warnings, []);
    }

    #[test]
    fn errors_name_the_exact_place() {
        assert_eq!(
            parse(r#"[{"name": "a"}, {"name": "b", "ips": ["10.0.0.300"]}]"#).unwrap_err(),
            [
                r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][1].ips[0]: "10.0.0.300" is not an IP address"#
            ]
        );
        assert_eq!(
            parse(r#"[{"name": "a", "ips": "10.0.0.3", "mac": 7, "interface": "a/b"}, 3, {"ips": [4]}]"#)
                .unwrap_err(),
            [
                "metadata.annotations[k8s.v1.cni.cncf.io/networks][0].ips: is a text; write a list […]",
                r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][0].interface: "a/b" cannot be the name of an interface; use 1 to 15 letters, digits, '-', '_' and '.'"#,
                "metadata.annotations[k8s.v1.cni.cncf.io/networks][0].mac: is a number; write a text in quotes",
                "metadata.annotations[k8s.v1.cni.cncf.io/networks][1]: is a number; write an object {…}",
                "metadata.annotations[k8s.v1.cni.cncf.io/networks][2].name: is required; name a network attachment definition",
                "metadata.annotations[k8s.v1.cni.cncf.io/networks][2].ips[0]: is a number; write a text in quotes",
            ]
        );
        assert_eq!(
            parse("a/b/c").unwrap_err(),
            [
                r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][0]: "a/b/c" has too many '/' or '@'; write namespace/name@interface"#
            ]
        );
        assert_eq!(
            parse("a,,b").unwrap_err(),
            [
                r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][1]: "" names no network; write name, namespace/name or namespace/name@interface"#
            ]
        );
        assert_eq!(
            parse(r#"{"name": "a"}"#).unwrap_err(),
            ["metadata.annotations[k8s.v1.cni.cncf.io/networks]: is an object; write a list of networks […]"]
        );
        assert_eq!(
            parse(r#"[{"name": "a",}]"#).unwrap_err(),
            [
                r#"metadata.annotations[k8s.v1.cni.cncf.io/networks]: "[{\"name\": \"a\",}]" is not valid JSON: trailing comma at line 1 column 15"#
            ]
        );
    }

    #[test]
    fn what_the_whole_list_shows() {
        assert_eq!(
            parse("a@net1,b@net1").unwrap_err(),
            [
                r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][1].interface: "net1" is the interface of another network of this pod already; choose another name"#
            ]
        );
        assert_eq!(
            parse(r#"[{"name": "a", "default-route": ["10.0.0.1", "fd00::1"]}, {"name": "b", "default-route": ["10.1.0.1"]}]"#)
                .unwrap_err(),
            [r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][1].default-route: "10.1.0.1" is a second IPv4 default route of this pod; a pod has one of each family"#]
        );
        assert_eq!(
            parse(r#"[{"name": "a", "ips": ["10.0.0.1", "10.0.0.1/24"]}]"#).unwrap_err(),
            [
                r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][0].ips: "10.0.0.1" is listed twice; remove one"#
            ]
        );
    }

    #[test]
    fn unknown_keys_are_kept_and_worth_a_warning() {
        let selections =
            parse(r#"[{"name": "a", "ip": "10.0.0.1", "colour": "blue", "bandwidth": {}}]"#).unwrap();
        let warnings: Vec<_> = selections.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            [
                r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][0]: "colour" is not a key of a network selection and has no effect; the keys are name, namespace, interface, ips, mac, default-route, cni-args, infiniband-guid, portMappings, bandwidth, ipam-claim-reference"#,
                r#"metadata.annotations[k8s.v1.cni.cncf.io/networks][0]: "ip" is not a key of a network selection and has no effect; did you mean "ips"?"#,
            ]
        );
        assert_eq!(selections.networks[0].other.len(), 3);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let many = vec!["a"; MAX_NETWORKS + 1].join(",");
        assert_eq!(
            parse(&many).unwrap_err(),
            ["metadata.annotations[k8s.v1.cni.cncf.io/networks]: names more than 64 networks"]
        );
        let elements = vec![r#"{"name":"a"}"#; MAX_NETWORKS + 1].join(",");
        assert!(parse(&format!("[{elements}]")).is_err());
        let ips: Vec<_> = (0..MAX_IPS + 1).map(|n| format!("\"10.0.0.{n}\"")).collect();
        assert!(parse(&format!(r#"[{{"name":"a","ips":[{}]}}]"#, ips.join(","))).is_err());
        assert!(parse(&"[".repeat(300_000)).is_err());
        assert!(parse(&"a".repeat(300_000)).is_err());
    }

    #[test]
    fn default_network_is_one() {
        assert_eq!(parse_default_network("kube-system/mgmt", "default").unwrap().name, "mgmt");
        assert!(parse_default_network("a,b", "default").is_err());
        assert!(parse_default_network("", "default").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "([a-z/@, ]{0,30})|(\\[\\{\"(name|ips|mac|interface)\":(\"[a-z0-9./:]{0,12}\"|[0-9]|\\[\"?[0-9.]{0,9}\"?\\])\\}\\])|\\PC*") {
            let _ = parse_networks(NETWORKS, &text, "default");
            let _ = parse_default_network(&text, "default");
        }
    }
}
