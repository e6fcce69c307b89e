//! Kube-OVN's annotations on pods: what a pod asks of one of its interfaces, and what it is told it got.
//!
//! Keys are `<provider>.kubernetes.io/<what>`. A pod that uses one network twice tells its interfaces apart by
//! `<provider>.<interface>.kubernetes.io/<what>`, `<provider>.kubernetes.io/<what>.<interface>`, or, as Kube-OVN has it,
//! `<nad>.<namespace>.kubernetes.io/<what>.<interface>`.
//!
//! Kube-OVN writes what an interface got under the same keys by which users ask for it. Here a result must never be read as a request, be it that
//! the controller starts again, or that a pod is restored from a dump. So the keys of results are listed with their values in one more
//! annotation ([`RESULTS`]): what it lists is no wish, whatever else is one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::annotations::Annotations;
use crate::cidr::{AddressPair, Family, parse_address};
use crate::field_error::{FieldErrors, FieldPath, Problem, Reason};
use crate::mac::{Mac, parse_interface_mac};
use crate::names::{check_object_name, is_dns_subdomain};
use crate::networks_annotation::parse_requested_ip;
use crate::nfn_network::parse_route_list;
use crate::provider::Provider;
use crate::rate::Rates;
use crate::routes::GuestRoute;

/// Most addresses in an `ip_pool`.
const MAX_POOL: usize = 4096;

/// What a pod asks of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceRequest {
    /// `ip_address`: addresses to have. In order, several of one family allowed.
    pub addresses: Vec<IpAddr>,
    /// `mac_address`: MAC address to have.
    pub mac: Option<Mac>,
    /// `ip_pool`: addresses to choose from.
    pub pool: Option<IpPool>,
    /// `routes`: routes by this interface.
    pub routes: Vec<GuestRoute>,
    /// `default_route`: whether the pod's default route goes by this interface.
    pub default_route: Option<bool>,
    /// `logical_switch`: the subnet to be on.
    pub subnet: Option<String>,
}

/// Addresses to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpPool {
    /// These, in order of preference.
    Addresses(Vec<AddressPair>),
    /// Those of an `IPPool` object.
    Named(String),
}

/// What the pod's annotations ask of the interface on `provider`; of the one called `interface`, if the
/// network is used more than once.
pub fn parse_interface_request(
    annotations: &Annotations,
    provider: &Provider,
    interface: Option<&str>,
) -> Result<InterfaceRequest, FieldErrors> {
    let errors = &mut FieldErrors::new();
    let metadata = FieldPath::root("metadata");
    let root = metadata.field("annotations");
    let find = |what: &str| find(annotations, provider, interface, what);
    let mut request = InterfaceRequest::default();
    if let Some((key, text)) = find("ip_address") {
        request.addresses = addresses(text, &root.key(&key), errors);
    }
    if let Some((key, text)) = find("mac_address") {
        let parsed = parse_interface_mac(text);
        request.mac = parsed.map_err(|problem| errors.add_problem(&root.key(&key), text, &problem)).ok();
    }
    if let Some((key, text)) = find("ip_pool") {
        request.pool = pool(text, &root.key(&key), errors);
    }
    if let Some((key, text)) = find("routes") {
        let routes = parse_route_list(text, &root.key(&key), errors);
        request.routes = routes.into_iter().map(|route| route.route).collect();
    }
    if let Some((key, text)) = find("default_route") {
        request.default_route = match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                errors.add(&root.key(&key), text, Reason::Invalid, "is neither true nor false");
                None
            }
        };
    }
    if let Some((key, text)) = find("logical_switch") {
        if let Err(problem) = check_object_name(text) {
            errors.add_problem(&root.key(&key), text, &problem);
        }
        request.subnet = Some(text.to_owned());
    }
    std::mem::take(errors).into_result(request)
}

/// Annotation about what the pod receives by an interface, in Mbit/s.
pub const INGRESS_RATE: &str = "ingress_rate";
/// Annotation about what the pod sends by an interface, in Mbit/s.
pub const EGRESS_RATE: &str = "egress_rate";

/// The rates that the pod's annotations ask for, for the interface on `provider` that is called `interface`. What is no rate limits
/// nothing.
///
/// They are no part of an [`InterfaceRequest`]: unlike everything there, they may change while the pod runs.
pub fn parse_rates(annotations: &Annotations, provider: &Provider, interface: &str) -> Rates {
    let rate = |what| find(annotations, provider, Some(interface), what)?.1.parse().ok();
    Rates { ingress: rate(INGRESS_RATE), egress: rate(EGRESS_RATE) }
}

/// Last part of the annotation that lists which others are results, with their values.
pub const RESULTS: &str = "portolan_results";

/// What one interface got.
#[derive(Clone, Debug)]
pub struct InterfaceResult<'a> {
    /// Its addresses.
    pub addresses: &'a [IpAddr],
    /// Its MAC address.
    pub mac: Mac,
    /// The prefixes of its subnet.
    pub cidr: String,
    /// The gateways of its subnet.
    pub gateway: String,
    /// Its subnet.
    pub subnet: &'a str,
    /// Its subnet's VPC.
    pub vpc: Option<&'a str>,
}

/// The annotations that tell a pod what the interface on `provider` got; the one called `interface`, if the network is used more
/// than once. What the pod asks for is left as it is.
pub fn result_annotations(
    result: &InterfaceResult<'_>,
    provider: &Provider,
    interface: Option<&str>,
    asked: &Annotations,
) -> BTreeMap<String, String> {
    let interface = interface.map(|interface| format!(".{interface}")).unwrap_or_default();
    let prefix = format!("{provider}{interface}.kubernetes.io");
    let mut annotations = BTreeMap::new();
    // The names of some interfaces and long-named networks cannot be part of a key.
    if !is_dns_subdomain(&prefix) {
        return annotations;
    }
    let addresses: Vec<_> = result.addresses.iter().map(ToString::to_string).collect();
    let mut results = BTreeMap::new();
    for (what, value) in [
        ("ip_address", addresses.join(",")),
        ("mac_address", result.mac.to_string()),
        ("logical_switch", result.subnet.to_owned()),
    ] {
        let key = format!("{prefix}/{what}");
        if !asked.contains_key(&key) {
            annotations.insert(key, value.clone());
            results.insert(what, value);
        }
    }
    if !results.is_empty() {
        // Texts always serialize.
        let results = serde_json::to_string(&results).unwrap_or_default();
        annotations.insert(format!("{prefix}/{RESULTS}"), results);
    }
    annotations.insert(format!("{prefix}/allocated"), "true".to_owned());
    annotations.insert(format!("{prefix}/cidr"), result.cidr.clone());
    annotations.insert(format!("{prefix}/gateway"), result.gateway.clone());
    if let Some(vpc) = result.vpc {
        annotations.insert(format!("{prefix}/logical_router"), vpc.to_owned());
    }
    annotations
}

/// True if an annotation is a result, and so asks for nothing.
pub fn is_result(annotations: &BTreeMap<String, String>, key: &str, value: &str) -> bool {
    let Some((prefix, what)) = key.rsplit_once('/') else { return false };
    let Some(results) = annotations.get(&format!("{prefix}/{RESULTS}")) else { return false };
    let results = serde_json::from_str::<BTreeMap<String, String>>(results);
    results.is_ok_and(|results| results.get(what).is_some_and(|result| result == value))
}

/// The key of an annotation about the interface on `provider`.
pub fn annotation_key(provider: &Provider, what: &str) -> String {
    format!("{provider}.kubernetes.io/{what}")
}

/// Whether an annotation with this key is one that is read for the interface on `provider` that is called `interface`, whatever it says.
pub fn is_about(key: &str, provider: &Provider, interface: &str) -> bool {
    let Some((_, what)) = key.split_once(".kubernetes.io/") else { return true };
    let (what, names) = what.split_once('.').map_or((what, None), |(what, name)| (what, Some(name)));
    names.is_none_or(|name| name == interface)
        && keys(provider, Some(interface), what).iter().any(|read| read == key)
}

/// The keys of an annotation, the one that tells most first.
fn keys(provider: &Provider, interface: Option<&str>, what: &str) -> Vec<String> {
    let mut keys = Vec::with_capacity(4);
    if let Some(interface) = interface {
        keys.push(format!("{provider}.{interface}.kubernetes.io/{what}"));
        if let Provider::Nad { namespace, name } = provider {
            keys.push(format!("{name}.{namespace}.kubernetes.io/{what}.{interface}"));
            keys.push(format!("{provider}.kubernetes.io/{what}.{interface}"));
        }
    }
    keys.push(annotation_key(provider, what));
    keys
}

/// The annotation, by the key that tells most: the one with the interface's name wins. Empty counts as absent.
fn find<'a>(
    annotations: &'a Annotations,
    provider: &Provider,
    interface: Option<&str>,
    what: &str,
) -> Option<(String, &'a str)> {
    keys(provider, interface, what).into_iter().find_map(|key| {
        let text = annotations.get(&key).map(str::trim).filter(|text| !text.is_empty())?;
        Some((key, text))
    })
}

fn addresses(text: &str, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for part in text.split(',').map(str::trim) {
        match parse_requested_ip(part) {
            Err(problem) => errors.add_problem(path, part, &problem),
            Ok(ip) if addresses.contains(&ip.address) => {
                errors.add(path, part, Reason::Duplicate, "is listed twice; remove one");
            }
            Ok(ip) => addresses.push(ip.address),
        }
    }
    addresses
}

/// `a,b,c` of one family, `v4,v6;v4,v6` of both, or the name of an `IPPool`.
fn pool(text: &str, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<IpPool> {
    let is_list = text.contains([',', ';']) || parse_address(text).is_ok();
    if !is_list {
        return match check_object_name(text) {
            Ok(()) => Some(IpPool::Named(text.to_owned())),
            Err(_) => {
                let message = "is neither a list of addresses nor the name of an IPPool";
                errors.add(path, text, Reason::Invalid, message);
                None
            }
        };
    }
    let separator = if text.contains(';') || is_pair(text) { ';' } else { ',' };
    let mut pairs: Vec<AddressPair> = Vec::new();
    for part in text.split(separator).map(str::trim).filter(|part| !part.is_empty()) {
        let parsed: Result<AddressPair, Problem> = part.parse();
        match parsed {
            Err(problem) => errors.add_problem(path, part, &problem),
            Ok(_) if pairs.len() == MAX_POOL => {
                errors.add_bare(path, Reason::TooLong, format!("has more than {MAX_POOL} addresses"));
                return None;
            }
            Ok(pair) => pairs.push(pair),
        }
    }
    Some(IpPool::Addresses(pairs))
}

/// True for exactly one address of each family.
fn is_pair(text: &str) -> bool {
    let families: Vec<_> = text.split(',').take(3).map(|part| parse_address(part).map(Family::of)).collect();
    matches!(families.as_slice(), [Ok(first), Ok(second)] if first != second)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rate::Rate;

    fn request(
        annotations: &[(&str, &str)],
        provider: &str,
        interface: Option<&str>,
    ) -> Result<InterfaceRequest, String> {
        let annotations =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        parse_interface_request(&annotations, &provider.parse().unwrap(), interface)
            .map_err(|errors| errors.to_string())
    }

    #[test]
    fn first_interface() {
        let got = request(
            &[
                ("ovn.kubernetes.io/ip_address", "10.16.0.15,fd00::15"),
                ("ovn.kubernetes.io/mac_address", "00:00:00:53:6B:B6"),
                ("ovn.kubernetes.io/logical_switch", "ovn-default"),
                ("ovn.kubernetes.io/default_route", "true"),
                (
                    "ovn.kubernetes.io/routes",
                    r#"[{"dst":"192.168.0.0/16","gw":"10.16.0.254"},{"gw":"10.16.0.254"}]"#,
                ),
                ("other.default.ovn.kubernetes.io/ip_address", "nonsense of another interface"),
            ],
            "ovn",
            None,
        )
        .unwrap();
        assert_eq!(got.addresses.len(), 2);
        assert_eq!(got.mac.unwrap().to_string(), "00:00:00:53:6b:b6");
        assert_eq!(got.subnet.as_deref(), Some("ovn-default"));
        assert_eq!(got.default_route, Some(true));
        assert_eq!(got.routes[1].destination.to_string(), "0.0.0.0/0");
    }

    #[test]
    fn the_key_with_the_interface_wins() {
        let annotations = [
            ("blue.default.ovn.kubernetes.io/ip_address", "10.0.0.1"),
            ("blue.default.kubernetes.io/ip_address.net1", "10.0.0.2"),
            ("blue.default.ovn.net2.kubernetes.io/ip_address", "10.0.0.3"),
        ];
        for (interface, address) in [
            (None, "10.0.0.1"),
            (Some("net1"), "10.0.0.2"),
            (Some("net2"), "10.0.0.3"),
            (Some("net3"), "10.0.0.1"),
        ] {
            let got = request(&annotations, "blue.default.ovn", interface).unwrap();
            assert_eq!(got.addresses, [address.parse::<IpAddr>().unwrap()], "{interface:?}");
        }
    }

    #[test]
    fn rates_are_those_of_the_interface() {
        let annotations: Annotations = [
            ("blue.default.ovn.kubernetes.io/ingress_rate", "10"),
            ("blue.default.ovn.kubernetes.io/egress_rate", "no rate"),
            ("blue.default.ovn.net2.kubernetes.io/egress_rate", "30"),
            ("blue.default.ovn.kubernetes.io/ingress_rate.net3", "50"),
            ("ovn.kubernetes.io/ingress_rate", " 40 "),
        ]
        .into_iter()
        .collect();
        let rates = |provider: &str, interface| {
            let rates = parse_rates(&annotations, &provider.parse().unwrap(), interface);
            [rates.ingress, rates.egress].map(|rate| rate.map_or(0, Rate::kilobits))
        };
        assert_eq!(rates("blue.default.ovn", "net1"), [10_000, 0]);
        assert_eq!(rates("blue.default.ovn", "net2"), [10_000, 30_000]);
        assert_eq!(rates("blue.default.ovn", "net3"), [50_000, 0]);
        assert_eq!(rates("ovn", "eth0"), [40_000, 0]);
        assert_eq!(rates("red.default.ovn", "net1"), [0, 0]);
    }

    #[test]
    fn what_is_read_is_about_the_interface_and_nothing_else_is() {
        for (key, expected) in [
            ("blue.default.ovn.kubernetes.io/ingress_rate", true),
            ("blue.default.ovn.kubernetes.io/ingress_rate.net1", true),
            ("blue.default.ovn.net1.kubernetes.io/ingress_rate", true),
            ("blue.default.kubernetes.io/ingress_rate.net1", true),
            ("blue.default.ovn.kubernetes.io/ingress_rate.net2", false),
            ("blue.default.ovn.net2.kubernetes.io/ingress_rate", false),
            ("blue.default.kubernetes.io/ingress_rate", false),
            ("blue.default.kubernetes.io/ingress_rate.net2", false),
            ("ovn.kubernetes.io/ingress_rate", false),
        ] {
            let provider = "blue.default.ovn".parse().unwrap();
            assert_eq!(is_about(key, &provider, "net1"), expected, "{key}");
            let annotations = [(key, "10")].into_iter().collect();
            let is_read = parse_rates(&annotations, &provider, "net1").ingress.is_some();
            assert_eq!(is_read, expected, "{key}");
        }
    }

    #[test]
    fn pools() {
        let pool =
            |text| request(&[("ovn.kubernetes.io/ip_pool", text)], "ovn", None).map(|r| r.pool.unwrap());
        let texts = |pool| match pool {
            IpPool::Addresses(pairs) => pairs.iter().map(ToString::to_string).collect::<Vec<_>>(),
            IpPool::Named(name) => vec![name],
        };
        assert_eq!(texts(pool("10.0.0.1, 10.0.0.2,10.0.0.3").unwrap()), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        assert_eq!(
            texts(pool("10.0.0.1,fd00::1;10.0.0.2,fd00::2").unwrap()),
            ["10.0.0.1,fd00::1", "10.0.0.2,fd00::2"]
        );
        assert_eq!(texts(pool("10.0.0.1,fd00::1").unwrap()), ["10.0.0.1,fd00::1"]);
        assert_eq!(pool("pool-1").unwrap(), IpPool::Named("pool-1".into()));
        assert_eq!(
            pool("Pool 1").unwrap_err(),
            r#"metadata.annotations[ovn.kubernetes.io/ip_pool]: "Pool 1" is neither a list of addresses nor the name of an IPPool"#
        );
        assert_eq!(
            pool("10.0.0.1,10.0.0.300").unwrap_err(),
            r#"metadata.annotations[ovn.kubernetes.io/ip_pool]: "10.0.0.300" is not an IP address"#
        );
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            request(
                &[
                    ("ovn.kubernetes.io/ip_address", "10.0.0.1,10.0.0.1,x"),
                    ("ovn.kubernetes.io/mac_address", "x"),
                    ("ovn.kubernetes.io/default_route", "yes"),
                    ("ovn.kubernetes.io/routes", "{}"),
                    ("ovn.kubernetes.io/logical_switch", "a/b"),
                ],
                "ovn",
                None
            )
            .unwrap_err(),
            "metadata.annotations[ovn.kubernetes.io/ip_address]: \"10.0.0.1\" is listed twice; remove one; \
             metadata.annotations[ovn.kubernetes.io/ip_address]: \"x\" is not an IP address; \
             metadata.annotations[ovn.kubernetes.io/mac_address]: \"x\" is not a MAC address; write six hexadecimal bytes, such as 02:00:00:00:00:01; \
             metadata.annotations[ovn.kubernetes.io/routes]: is an object; write a list of routes […]; \
             metadata.annotations[ovn.kubernetes.io/default_route]: \"yes\" is neither true nor false; \
             metadata.annotations[ovn.kubernetes.io/logical_switch]: \"a/b\" cannot be the name of an object; names have up to 253 lower-case letters, digits, '-' and '.'"
        );
    }

    #[test]
    fn results_are_no_wishes_and_wishes_are_no_results() {
        let provider: Provider = "blue.default.ovn".parse().unwrap();
        let addresses = ["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        let result = InterfaceResult {
            addresses: &addresses,
            mac: parse_interface_mac("0a:58:0a:00:00:05").unwrap(),
            cidr: "10.0.0.0/24,fd00::/64".to_owned(),
            gateway: "10.0.0.1,fd00::1".to_owned(),
            subnet: "web",
            vpc: Some("blue"),
        };
        let mac = "blue.default.ovn.kubernetes.io/mac_address".to_owned();
        let asked = [(mac.as_str(), "0a:58:0a:00:00:05")].into_iter().collect();
        let mut annotations = BTreeMap::from([(mac, "0a:58:0a:00:00:05".to_owned())]);
        annotations.extend(result_annotations(&result, &provider, None, &asked));
        assert_eq!(annotations["blue.default.ovn.kubernetes.io/ip_address"], "10.0.0.5,fd00::5");
        assert_eq!(annotations["blue.default.ovn.kubernetes.io/logical_router"], "blue");
        let is_wish = |key: &String, value: &String| !is_result(&annotations, key, value);
        let wishes: Vec<_> = annotations.iter().filter(|(key, value)| is_wish(key, value)).collect();
        let asks = |what: &str| wishes.iter().any(|(key, _)| key.ends_with(what));
        assert!(asks("/mac_address") && !asks("/ip_address") && !asks("/logical_switch"), "{wishes:?}");
        // Whoever edits a result means it.
        let key = "blue.default.ovn.kubernetes.io/ip_address";
        assert!(!is_result(&annotations, key, "10.0.0.6"));
        // One that cannot be part of a key does not spoil the others.
        assert!(result_annotations(&result, &provider, Some("Net_1"), &asked).is_empty());
        let of_second = result_annotations(&result, &provider, Some("net2"), &asked);
        assert!(of_second.contains_key("blue.default.ovn.net2.kubernetes.io/ip_address"), "{of_second:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "[0-9a-f.:,;/ ]{0,40}|\\PC*") {
            for what in ["ip_address", "mac_address", "ip_pool", "routes", "default_route", "logical_switch"] {
                let _ = request(&[(&format!("ovn.kubernetes.io/{what}"), &text)], "ovn", Some("net1"));
            }
        }
    }
}
