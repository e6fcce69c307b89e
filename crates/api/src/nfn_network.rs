//! The annotations of OVN4NFV: how a pod asks for interfaces, and how it is told what it got.
//!
//! ```text
//! k8s.plugin.opnfv.org/nfn-network:   {"type": "ovn4nfv", "interface": [{"name": "green", "interface": "net1"}]}
//! ovnNetworkRoutes:                   [{"dst": "10.9.0.0/16", "gw": "10.0.0.1", "dev": "net1"}]
//! k8s.plugin.opnfv.org/ovnInterfaces: [{"ip_address": ["10.0.0.5"], "mac_address": "…", "interface": "net1", …}]
//! ```
//!
//! The original reads a malformed request as none at all, and the pod silently lacks its interfaces. Here it
//! is an error.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cidr::{AddressPair, parse_address};
use crate::field_error::{FieldError, FieldErrors, FieldPath, Problem, Reason};
use crate::json_reader::{JsonReader, parse_json, type_name};
use crate::mac::{Mac, parse_interface_mac};
use crate::names::{check_interface, check_object_name};
use crate::networks_annotation::MAX_NETWORKS;
use crate::routes::{GuestRoute, parse_route};

/// What a pod asks for.
pub const NFN_NETWORK: &str = "k8s.plugin.opnfv.org/nfn-network";
/// Further routes that a pod asks for.
pub const NFN_ROUTES: &str = "ovnNetworkRoutes";
/// What a pod got.
pub const NFN_INTERFACES: &str = "k8s.plugin.opnfv.org/ovnInterfaces";

/// Most routes one pod can ask for.
const MAX_ROUTES: usize = 256;

/// Keys of an interface, in lower case: the original compares without case.
const KNOWN: &[&str] = &[
    "name",
    "interface",
    "nettype",
    "defaultgateway",
    "isdefaultroute",
    "ipaddress",
    "macaddress",
    "gwipaddress",
    "routes",
];

/// One interface that a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfnInterface {
    /// The network.
    pub network: String,
    /// What the interface is to be called.
    pub interface: Option<String>,
    /// The pod's default route goes by this interface.
    pub default_gateway: bool,
    /// Addresses it is to have.
    pub address: Option<AddressPair>,
    /// The same as they were written with a prefix length, which must be that of the network.
    pub prefixes: Vec<IpNet>,
    /// MAC address it is to have.
    pub mac: Option<Mac>,
    /// Routers of the network; without them the subnet's gateway.
    pub gateway: Option<AddressPair>,
    /// Routes by this interface.
    pub routes: Vec<GuestRoute>,
}

/// What a pod asks for, and what it wrote that has no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NfnRequest {
    /// The interfaces, in order.
    pub interfaces: Vec<NfnInterface>,
    /// Keys without effect.
    pub warnings: Vec<FieldError>,
}

/// A route by a named interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfnRoute {
    /// Where to and by which router.
    pub route: GuestRoute,
    /// The interface; without one, the one whose network the router is in.
    pub interface: Option<String>,
}

/// Parses [`NFN_NETWORK`].
pub fn parse_nfn_network(text: &str) -> Result<NfnRequest, FieldErrors> {
    let errors = &mut FieldErrors::new();
    let metadata = FieldPath::root("metadata");
    let annotations = metadata.field("annotations");
    let path = annotations.key(NFN_NETWORK);
    let request = parse_request(text, &path, errors).unwrap_or_default();
    std::mem::take(errors).into_result(request)
}

fn parse_request(text: &str, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<NfnRequest> {
    let value = parse_json(text, path, errors)?;
    let json = JsonReader::new(&value, path, errors)?;
    match json.text("type", errors) {
        Some("ovn4nfv") => {}
        Some(other) => errors.add(
            &path.field("type"),
            other,
            Reason::NotSupported,
            "is not a type of network; write ovn4nfv",
        ),
        None if json.value("type").is_none_or(|kind| kind == "") => {
            errors.add_bare(&path.field("type"), Reason::Required, "is required; write ovn4nfv");
        }
        None => {}
    }
    let items = json.list("interface", errors);
    let list = path.field("interface");
    if items.len() > MAX_NETWORKS {
        errors.add_bare(&list, Reason::TooLong, format!("names more than {MAX_NETWORKS} networks"));
        return None;
    }
    let mut warnings = FieldErrors::new();
    let mut interfaces: Vec<NfnInterface> = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let at = list.index(i);
        let Some(interface) = parse_interface(item, &at, &mut warnings, errors) else { continue };
        if let Some(name) = &interface.interface
            && interfaces.iter().any(|other| other.interface.as_ref() == Some(name))
        {
            let message = "is the interface of another network of this pod already; choose another name";
            errors.add(&at.field("interface"), name, Reason::Duplicate, message);
        }
        if interface.default_gateway && interfaces.iter().any(|other| other.default_gateway) {
            let message = "is set for another interface already; a pod has one default route";
            errors.add(&at.field("defaultGateway"), "true", Reason::Duplicate, message);
        }
        interfaces.push(interface);
    }
    Some(NfnRequest { interfaces, warnings: warnings.into_iter().collect() })
}

fn parse_interface(
    item: &Value,
    path: &FieldPath<'_>,
    warnings: &mut FieldErrors,
    errors: &mut FieldErrors,
) -> Option<NfnInterface> {
    let Value::Object(object) = item else {
        errors.add_bare(path, Reason::Invalid, format!("is {}; write an object {{…}}", type_name(item)));
        return None;
    };
    let mut lower = Map::new();
    for (key, value) in object {
        let name = key.to_ascii_lowercase();
        if !KNOWN.contains(&name.as_str()) {
            let message = "is not a key of an interface and has no effect; the keys are name, interface, defaultGateway, ipAddress, macAddress, gwipaddress, routes";
            warnings.add(path, key, Reason::NotSupported, message);
        } else if lower.insert(name, value.clone()).is_some() {
            errors.add(path, key, Reason::Duplicate, "is given twice, in different case; remove one");
        }
    }
    let lower = Value::Object(lower);
    let json = JsonReader::new(&lower, path, errors)?;
    let checked =
        |check: fn(&str) -> Result<(), Problem>| move |text: &str| check(text).map(|()| text.to_owned());
    let network = json.parsed("name", errors, checked(check_object_name));
    if json.value("name").is_none_or(|name| name == "") {
        errors.add_bare(&path.field("name"), Reason::Required, "is required; name a network");
    }
    let default_gateway = flag(&json, "defaultgateway", "defaultGateway", path, errors)
        | flag(&json, "isdefaultroute", "isDefaultRoute", path, errors);
    let (address, prefixes) = json.parsed("ipaddress", errors, parse_addresses).unzip();
    let list = path.field("routes");
    let routes = read_routes(json.list("routes", errors), &list, errors);
    Some(NfnInterface {
        interface: json.parsed("interface", errors, checked(check_interface)),
        default_gateway,
        address,
        prefixes: prefixes.unwrap_or_default(),
        routes: routes.into_iter().map(|route| route.route).collect(),
        mac: json.parsed("macaddress", errors, parse_interface_mac),
        gateway: json.parsed("gwipaddress", errors, str::parse),
        network: network?,
    })
}

/// One address, or `v4,v6`, each with or without the length of its network's prefix.
fn parse_addresses(text: &str) -> Result<(AddressPair, Vec<IpNet>), Problem> {
    let mut prefixes = Vec::new();
    let mut addresses = Vec::new();
    for part in text.split(',') {
        match part.trim().parse::<IpNet>() {
            Ok(net) => {
                addresses.push(net.addr().to_string());
                prefixes.push(net);
            }
            Err(_) => addresses.push(part.to_owned()),
        }
    }
    Ok((addresses.join(",").parse()?, prefixes))
}

/// A boolean, or one of the texts that the original wants in its place.
fn flag(
    json: &JsonReader<'_>,
    key: &str,
    shown: &str,
    path: &FieldPath<'_>,
    errors: &mut FieldErrors,
) -> bool {
    match json.value(key) {
        None => false,
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) if text == "true" => true,
        Some(Value::String(text)) if text == "false" || text.is_empty() => false,
        Some(other) => {
            errors.add(
                &path.field(shown),
                other.to_string(),
                Reason::Invalid,
                "is neither \"true\" nor \"false\"",
            );
            false
        }
    }
}

/// Parses [`NFN_ROUTES`].
pub fn parse_nfn_routes(text: &str) -> Result<Vec<NfnRoute>, FieldErrors> {
    let errors = &mut FieldErrors::new();
    let metadata = FieldPath::root("metadata");
    let annotations = metadata.field("annotations");
    let path = annotations.key(NFN_ROUTES);
    let routes = parse_route_list(text, &path, errors);
    std::mem::take(errors).into_result(routes)
}

/// Parses a JSON list of `{dst, gw, dev}`; a route without `dst` is the default route of its gateway's family.
pub(crate) fn parse_route_list(text: &str, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Vec<NfnRoute> {
    match parse_json(text, path, errors) {
        None => Vec::new(),
        Some(Value::Array(items)) => read_routes(&items, path, errors),
        Some(other) => {
            let message = format!("is {}; write a list of routes […]", type_name(&other));
            errors.add_bare(path, Reason::Invalid, message);
            Vec::new()
        }
    }
}

fn read_routes(items: &[Value], path: &FieldPath<'_>, errors: &mut FieldErrors) -> Vec<NfnRoute> {
    if items.len() > MAX_ROUTES {
        errors.add_bare(path, Reason::TooLong, format!("has more than {MAX_ROUTES} routes"));
        return Vec::new();
    }
    let mut routes = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let at = path.index(i);
        let Some(json) = JsonReader::new(item, &at, errors) else { continue };
        let gw = json.text("gw", errors);
        let dst = match (json.text("dst", errors), gw.map(parse_address)) {
            (Some(dst), _) => dst,
            (None, Some(Ok(IpAddr::V6(_)))) => "::/0",
            (None, Some(_)) => "0.0.0.0/0",
            (None, None) => {
                errors.add_bare(&at, Reason::Required, "has neither dst nor gw; give at least one");
                continue;
            }
        };
        let checked = |text: &str| check_interface(text).map(|()| text.to_owned());
        let interface = json.parsed("dev", errors, checked);
        if let Some(route) = parse_route(dst, gw, &at, errors) {
            routes.push(NfnRoute { route, interface });
        }
    }
    routes
}

/// One interface that a pod got, as [`NFN_INTERFACES`] lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfnResult {
    /// Its addresses.
    pub ip_address: Vec<String>,
    /// Its MAC address.
    pub mac_address: String,
    /// The routers of its network.
    pub gateway_ip: Vec<String>,
    /// `true` or `false`, as a text.
    #[serde(rename = "defaultGateway")]
    pub default_gateway: String,
    /// Its name in the pod; `*` for the first.
    pub interface: String,
}

/// The value of [`NFN_INTERFACES`].
pub fn nfn_interfaces(results: &[NfnResult]) -> String {
    serde_json::to_string(results).unwrap_or_default() // such plain structs always serialize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn errors(text: &str) -> Vec<String> {
        parse_nfn_network(text).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn documented_request() {
        let request = parse_nfn_network(
            r#"{"type": "ovn4nfv", "interface": [
                {"name": "green", "interface": "net0", "defaultGateway": "false"},
                {"name": "blue", "interface": "net1", "defaultGateway": "true", "ipAddress": "172.16.44.3",
                 "macAddress": "02:00:00:00:00:03", "gwipaddress": "172.16.44.1"}]}"#,
        )
        .unwrap();
        let [first, second] = request.interfaces.as_slice() else { panic!("{request:?}") };
        assert_eq!((first.network.as_str(), first.default_gateway, first.address), ("green", false, None));
        assert!(second.default_gateway);
        assert_eq!(second.address.unwrap().to_string(), "172.16.44.3");
        assert_eq!(second.gateway.unwrap().to_string(), "172.16.44.1");
        assert_eq!(request.warnings, []);
    }

    #[test]
    fn keys_in_any_case_and_real_booleans() {
        let request =
            parse_nfn_network(r#"{"type":"ovn4nfv","interface":[{"Name":"a","IPaddress":"10.0.0.3","isDefaultRoute":true,"netType":"virtual","x":1}]}"#)
                .unwrap();
        assert!(request.interfaces[0].default_gateway && request.interfaces[0].address.is_some());
        assert_eq!(
            request.warnings[0].to_string(),
            r#"metadata.annotations[k8s.plugin.opnfv.org/nfn-network].interface[0]: "x" is not a key of an interface and has no effect; the keys are name, interface, defaultGateway, ipAddress, macAddress, gwipaddress, routes"#
        );
    }

    #[test]
    fn older_forms_with_a_prefix_length_and_routes_of_an_interface() {
        let request = parse_nfn_network(
            r#"{"type":"ovn4nfv","interface":[{"name":"a","ipAddress":"10.1.5.1/24,fd00::1",
                "routes":[{"dst":"10.9.0.0/16","gw":"10.1.5.254"},{"gw":"10.1.5.253"}]}]}"#,
        )
        .unwrap();
        let one = &request.interfaces[0];
        assert_eq!(one.address.unwrap().to_string(), "10.1.5.1,fd00::1");
        assert_eq!(one.prefixes, ["10.1.5.1/24".parse().unwrap()]);
        let routes: Vec<_> = one.routes.iter().map(|route| route.destination.to_string()).collect();
        assert_eq!((routes, &request.warnings), (vec!["10.9.0.0/16".into(), "0.0.0.0/0".into()], &vec![]));
        let wrong = r#"{"type":"ovn4nfv","interface":[{"name":"a","ipAddress":"10.1.5.1/33","routes":[{"dst":"x"}]}]}"#;
        let said = errors(wrong);
        assert!(said[0].contains("interface[0].ipaddress"), "{said:?}");
        assert!(said[1].contains("interface[0].routes[0].dst"), "{said:?}");
    }

    #[test]
    fn mistakes_are_named() {
        const AT: &str = "metadata.annotations[k8s.plugin.opnfv.org/nfn-network]";
        assert_eq!(
            errors(
                r#"{"type":"flannel","interface":[{"name":"a","ipaddress":"10.0.0.300","defaultGateway":"yes"},{"interface":"net0"},7]}"#
            ),
            [
                format!(r#"{AT}.type: "flannel" is not a type of network; write ovn4nfv"#),
                format!(r#"{AT}.interface[0].defaultGateway: "\"yes\"" is neither "true" nor "false""#),
                format!(r#"{AT}.interface[0].ipaddress: "10.0.0.300" is not an IP address"#),
                format!("{AT}.interface[1].name: is required; name a network"),
                format!("{AT}.interface[2]: is a number; write an object {{…}}"),
            ]
        );
        assert_eq!(
            errors(
                r#"{"type":"ovn4nfv","interface":[{"name":"a","interface":"n","defaultGateway":"true"},{"name":"b","interface":"n","defaultGateway":"true"}]}"#
            ),
            [
                format!(
                    r#"{AT}.interface[1].interface: "n" is the interface of another network of this pod already; choose another name"#
                ),
                format!(
                    r#"{AT}.interface[1].defaultGateway: "true" is set for another interface already; a pod has one default route"#
                ),
            ]
        );
        assert_eq!(
            errors(r#"{"type":"ovn4nfv","interface":[{"name":"a","Name":"b"}]}"#),
            [format!(r#"{AT}.interface[0]: "name" is given twice, in different case; remove one"#)]
        );
        assert_eq!(errors("[]"), [format!("{AT}: is a list; write an object {{…}}")]);
        assert_eq!(errors(r#"{"interface":{}}"#).len(), 2);
    }

    #[test]
    fn routes() {
        let routes = parse_nfn_routes(
            r#"[{"dst":"192.168.1.0/24","gw":"172.16.33.1","dev":"net0"},{"gw":"fd00::1"}]"#,
        )
        .unwrap();
        assert_eq!(routes[0].interface.as_deref(), Some("net0"));
        assert_eq!(routes[1].route.destination.to_string(), "::/0");
        assert_eq!(
            parse_nfn_routes(r#"[{"dst":"192.168.1.0/33","dev":"a b"},{}]"#).unwrap_err().to_string(),
            "metadata.annotations[ovnNetworkRoutes][0].dev: \"a b\" cannot be the name of an interface; use 1 to 15 letters, digits, '-', '_' and '.'; \
             metadata.annotations[ovnNetworkRoutes][0].dst: \"192.168.1.0/33\" is not a CIDR; write an address and a prefix length, such as 10.0.0.0/24; \
             metadata.annotations[ovnNetworkRoutes][1]: has neither dst nor gw; give at least one"
        );
    }

    #[test]
    fn results_have_the_original_shape() {
        let result = NfnResult {
            ip_address: vec!["10.0.0.5".into()],
            mac_address: "0a:58:0a:00:00:05".into(),
            gateway_ip: vec!["10.0.0.1".into()],
            default_gateway: "false".into(),
            interface: "net1".into(),
        };
        assert_eq!(
            nfn_interfaces(&[result]),
            r#"[{"ip_address":["10.0.0.5"],"mac_address":"0a:58:0a:00:00:05","gateway_ip":["10.0.0.1"],"defaultGateway":"false","interface":"net1"}]"#
        );
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\{\"(type|interface)\":(\"ovn4nfv\"|\\[(\\{\"(name|ipAddress|defaultGateway)\":(\"[a-z0-9.]{0,8}\"|true|7)\\},?){0,2}\\]|null)\\}|\\PC*") {
            let _ = parse_nfn_network(&text);
            let _ = parse_nfn_routes(&text);
        }
    }
}
