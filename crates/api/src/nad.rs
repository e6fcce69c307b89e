//! `k8s.cni.cncf.io/v1` NetworkAttachmentDefinition, and the CNI configuration inside.

use kube_core::ResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field_error::{FieldError, FieldErrors, FieldPath, Reason};
use crate::json_reader::{JsonReader, parse_json};
use crate::kubeovn::UnknownFields;
use crate::names::check_object_name;
use crate::provider::Provider;
use crate::routes::{GuestRoute, parse_route};

/// CNI types that are Portolan's: the plugin's own, a short one, and Kube-OVN's.
pub const CNI_TYPES: &[&str] = &["portolan-cni", "portolan", "kube-ovn"];
/// The CNI type of OVN4NFV, whose definitions Portolan serves too.
pub const NFN_CNI_TYPE: &str = "ovn4nfvk8s-cni";

/// The annotation by which a definition names the resource of a device plugin. Multus passes the device that the plugin gave to the pod.
pub const RESOURCE_ANNOTATION: &str = "k8s.v1.cni.cncf.io/resourceName";
/// The key by which Multus passes it.
const DEVICE: &str = "deviceID";
/// Where plugins that declare the capability find it.
const RUNTIME_CONFIG: &str = "runtimeConfig";

/// Keys that have their effect, or that rightly have none: the socket's path is the node's to say.
const KNOWN: &[&str] = &[
    "cniVersion",
    "name",
    "type",
    "provider",
    "interfaces",
    "routes",
    "server_socket",
    "capabilities",
    RUNTIME_CONFIG,
    "prevResult",
    "args",
    "disableCheck",
    "disableGC",
    "nfn-network",
    DEVICE,
];

/// How a pod's interface on some network is made.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1",
    kind = "NetworkAttachmentDefinition",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    doc = "A network that pods can ask for, as a CNI configuration.",
    plural = "network-attachment-definitions",
    singular = "network-attachment-definition",
    shortname = "net-attach-def"
)]
pub struct NetworkAttachmentDefinitionSpec {
    /// A CNI configuration or a list of them, as JSON. Without it, the one of the definition's name on the node's disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// Whose network a definition describes.
#[derive(Clone, Debug, PartialEq)]
pub enum NadConfig {
    /// Portolan's.
    Portolan(PortolanNad),
    /// One of OVN4NFV: what the pod gets is said by its own annotation.
    Nfn {
        /// Restricts the call to the interface on this network.
        network: Option<String>,
    },
    /// Another plugin's, which is no business of ours.
    Foreign {
        /// The plugin, if the definition names one.
        plugin: Option<String>,
    },
}

/// A definition of a network of Portolan.
#[derive(Clone, Debug, PartialEq)]
pub struct PortolanNad {
    /// `<name>.<namespace>.ovn` of the definition itself.
    pub provider: Provider,
    /// Routes for the pod by this interface.
    pub routes: Vec<GuestRoute>,
    /// The resource of a device plugin of which a pod's interface may be a device.
    pub resource: Option<String>,
    /// Keys of the configuration that have no effect.
    pub warnings: Vec<FieldError>,
}

impl NetworkAttachmentDefinition {
    /// Whose network this is and what it asks for, or everything that is wrong with it.
    pub fn parse(&self) -> Result<NadConfig, FieldErrors> {
        let errors = &mut FieldErrors::new();
        let config = self.parse_config(errors);
        std::mem::take(errors).into_result(config.unwrap_or(NadConfig::Foreign { plugin: None }))
    }

    fn parse_config(&self, errors: &mut FieldErrors) -> Option<NadConfig> {
        let spec = FieldPath::SPEC;
        let path = spec.field("config");
        let text = self.spec.config.as_deref().filter(|text| !text.trim().is_empty())?;
        let value = parse_json(text, &path, errors)?;
        let json = JsonReader::new(&value, &path, errors)?;
        if json.value("plugins").is_none() {
            return self.parse_plugin(&value, &path, errors);
        }
        let (mut ours, mut first) = (None, None);
        let list = path.field("plugins");
        for (i, plugin) in json.list("plugins", errors).iter().enumerate() {
            let at = list.index(i);
            match self.parse_plugin(plugin, &at, errors) {
                Some(NadConfig::Foreign { plugin }) => first = first.or(plugin),
                Some(_) if ours.is_some() => {
                    let message =
                        "is the second plugin of this list that makes a Portolan interface; remove one";
                    errors.add_bare(&at, Reason::Duplicate, message);
                }
                Some(config) => ours = Some(config),
                None => {}
            }
        }
        ours.or(Some(NadConfig::Foreign { plugin: first }))
    }

    fn parse_plugin(
        &self,
        value: &Value,
        path: &FieldPath<'_>,
        errors: &mut FieldErrors,
    ) -> Option<NadConfig> {
        let json = JsonReader::new(value, path, errors)?;
        let Some(plugin) = json.text("type", errors) else {
            if json.value("type").is_none_or(|kind| kind == "") {
                errors.add_bare(&path.field("type"), Reason::Required, "is required; name a CNI plugin");
            }
            return None;
        };
        if plugin == NFN_CNI_TYPE {
            let checked = |text: &str| check_object_name(text).map(|()| text.to_owned());
            return Some(NadConfig::Nfn { network: json.parsed("nfn-network", errors, checked) });
        }
        if !CNI_TYPES.contains(&plugin) {
            check_ipam(&json, path, errors);
            return Some(NadConfig::Foreign { plugin: Some(plugin.to_owned()) });
        }
        let own = Provider::nad(self.namespace().unwrap_or_default(), self.name_any());
        if let Some(text) = json.text("provider", errors) {
            match text.parse::<Provider>() {
                Ok(provider) if provider == own => {}
                Ok(_) => {
                    let message = format!("is not this definition's own provider; write {own}");
                    errors.add(&path.field("provider"), text, Reason::Forbidden, message);
                }
                Err(_) => {
                    let message = format!("is not a provider; write {own}");
                    errors.add(&path.field("provider"), text, Reason::Invalid, message);
                }
            }
        }
        check_device(&json, path, errors);
        let mut warnings = FieldErrors::new();
        for (key, _) in json.others(KNOWN) {
            warnings.add(
                path,
                key,
                Reason::NotSupported,
                "is not a key that Portolan acts on; it has no effect",
            );
        }
        Some(NadConfig::Portolan(PortolanNad {
            provider: own,
            routes: parse_routes(&json, path, errors),
            resource: self.annotations().get(RESOURCE_ANNOTATION).filter(|name| !name.is_empty()).cloned(),
            warnings: warnings.into_iter().collect(),
        }))
    }
}

/// Whoever writes a definition must not choose the device: it may be the node's own, or another pod's.
fn check_device(json: &JsonReader<'_>, path: &FieldPath<'_>, errors: &mut FieldErrors) {
    let runtime_config = path.field(RUNTIME_CONFIG);
    let of_runtime = json.value(RUNTIME_CONFIG).and_then(|value| value.get(DEVICE));
    for (value, path) in [(json.value(DEVICE), path), (of_runtime, &runtime_config)] {
        if value.is_some_and(|value| !value.is_null() && value != "") {
            let message = format!(
                "is for Multus to pass, which knows the device that the pod was given; remove it, and name the device plugin's resource in the \
                 annotation {RESOURCE_ANNOTATION}"
            );
            errors.add_bare(&path.field(DEVICE), Reason::Forbidden, message);
        }
    }
}

/// Another plugin's interface with our addresses: Kube-OVN does that, Portolan does not yet.
fn check_ipam(json: &JsonReader<'_>, path: &FieldPath<'_>, errors: &mut FieldErrors) {
    let kind = json.value("ipam").and_then(|ipam| ipam.get("type")).and_then(Value::as_str);
    if let Some(kind) = kind.filter(|kind| CNI_TYPES.contains(kind)) {
        let ipam = path.field("ipam");
        let message =
            "cannot give addresses to another plugin's interface yet; use it as the type of the plugin";
        errors.add(&ipam.field("type"), kind, Reason::NotSupported, message);
    }
}

fn parse_routes(json: &JsonReader<'_>, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Vec<GuestRoute> {
    let list = path.field("routes");
    let mut routes = Vec::new();
    for (i, value) in json.list("routes", errors).iter().enumerate() {
        let at = list.index(i);
        let Some(route) = JsonReader::new(value, &at, errors) else { continue };
        let (dst, gw) = (route.text("dst", errors), route.text("gw", errors));
        if let Some(dst) = dst {
            routes.extend(parse_route(dst, gw, &at, errors));
        } else if route.value("dst").is_none_or(|dst| dst == "") {
            errors.add_bare(&at.field("dst"), Reason::Required, "is required; give a CIDR");
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nad(config: &str) -> NetworkAttachmentDefinition {
        let spec = NetworkAttachmentDefinitionSpec { config: Some(config.to_owned()), ..Default::default() };
        let mut nad = NetworkAttachmentDefinition::new("vswitch1", spec);
        nad.metadata.namespace = Some("default".into());
        nad
    }

    fn errors(config: &str) -> Vec<String> {
        nad(config).parse().unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn harvester_definition() {
        let config = r#"{"cniVersion":"0.3.1","name":"vswitch1","type":"kube-ovn",
            "server_socket":"/run/openvswitch/kube-ovn-daemon.sock","provider":"vswitch1.default.ovn"}"#;
        let NadConfig::Portolan(ours) = nad(config).parse().unwrap() else { panic!() };
        assert_eq!(ours.provider, Provider::nad("default", "vswitch1"));
        assert_eq!(ours.warnings, []);
    }

    #[test]
    fn every_type_of_portolan_is_ours_and_needs_no_provider() {
        for kind in ["portolan-cni", "portolan", "kube-ovn"] {
            let config = format!(r#"{{"cniVersion":"1.0.0","name":"vswitch1","type":"{kind}"}}"#);
            let NadConfig::Portolan(ours) = nad(&config).parse().unwrap() else { panic!("{kind}") };
            assert_eq!(ours.provider, Provider::nad("default", "vswitch1"), "{kind}");
        }
    }

    #[test]
    fn conflist_with_routes() {
        let config = r#"{"cniVersion":"1.0.0","plugins":[{"type":"tuning"},
            {"type":"portolan","routes":[{"dst":"10.9.0.0/16","gw":"10.0.0.1"},{"dst":"fd00::/8"}]}]}"#;
        let NadConfig::Portolan(ours) = nad(config).parse().unwrap() else { panic!() };
        assert_eq!(ours.routes.len(), 2);
        assert_eq!(ours.provider.to_string(), "vswitch1.default.ovn");
    }

    #[test]
    fn other_plugins_are_left_alone() {
        for config in [
            r#"{"type":"macvlan","ipam":{"type":"dhcp"},"provider":3}"#,
            r#"{"plugins":[{"type":"macvlan"}]}"#,
        ] {
            assert_eq!(nad(config).parse().unwrap(), NadConfig::Foreign { plugin: Some("macvlan".into()) });
        }
        assert_eq!(nad("").parse().unwrap(), NadConfig::Foreign { plugin: None });
        assert_eq!(
            nad(r#"{"type":"ovn4nfvk8s-cni","nfn-network":"green"}"#).parse().unwrap(),
            NadConfig::Nfn { network: Some("green".into()) }
        );
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            errors(r#"{"type":"kube-ovn","provider":"other.kube-system.ovn"}"#),
            [
                r#"spec.config.provider: "other.kube-system.ovn" is not this definition's own provider; write vswitch1.default.ovn"#
            ]
        );
        assert_eq!(
            errors(r#"{"type":"kube-ovn","provider":"vswitch1"}"#),
            [r#"spec.config.provider: "vswitch1" is not a provider; write vswitch1.default.ovn"#]
        );
        assert_eq!(errors(r#"{"cniVersion":"0.3.1"}"#), ["spec.config.type: is required; name a CNI plugin"]);
        assert_eq!(
            errors(r#"{"plugins":[{"type":"portolan"},{"type":"kube-ovn"},7]}"#),
            [
                "spec.config.plugins[1]: is the second plugin of this list that makes a Portolan interface; remove one",
                "spec.config.plugins[2]: is a number; write an object {…}",
            ]
        );
        assert_eq!(
            errors(
                r#"{"type":"portolan","provider":7,"routes":[{"gw":"10.0.0.1"},{"dst":"10.0.0.0/8","gw":"x"}]}"#
            ),
            [
                "spec.config.provider: is a number; write a text in quotes",
                "spec.config.routes[0].dst: is required; give a CIDR",
                r#"spec.config.routes[1].gw: "x" is not an IP address"#,
            ]
        );
        assert_eq!(
            errors(r#"{"type":"macvlan","ipam":{"type":"kube-ovn"}}"#),
            [
                r#"spec.config.ipam.type: "kube-ovn" cannot give addresses to another plugin's interface yet; use it as the type of the plugin"#
            ]
        );
        assert_eq!(
            errors("{type: kube-ovn}"),
            [r#"spec.config: "{type: kube-ovn}" is not valid JSON: key must be a string at line 1 column 2"#]
        );
        assert_eq!(errors("[]"), ["spec.config: is a list; write an object {…}"]);
    }

    #[test]
    fn a_definition_names_a_resource_and_never_a_device() {
        let resource = |value: &str| {
            let mut nad = nad(r#"{"type":"portolan"}"#);
            nad.metadata.annotations = Some([(RESOURCE_ANNOTATION.into(), value.into())].into());
            let NadConfig::Portolan(ours) = nad.parse().unwrap() else { panic!() };
            ours.resource
        };
        assert_eq!(resource("example.com/vf").as_deref(), Some("example.com/vf"));
        assert_eq!(resource(""), None);
        let message = "is for Multus to pass, which knows the device that the pod was given; remove it, and name the device plugin's \
             resource in the annotation k8s.v1.cni.cncf.io/resourceName";
        for (config, field) in [
            (r#"{"type":"portolan","deviceID":"0000:03:00.2"}"#, "spec.config.deviceID"),
            (r#"{"type":"portolan","deviceID":7}"#, "spec.config.deviceID"),
            (
                r#"{"type":"kube-ovn","runtimeConfig":{"deviceID":"0000:03:00.2"}}"#,
                "spec.config.runtimeConfig.deviceID",
            ),
            (
                r#"{"plugins":[{"type":"tuning"},{"type":"portolan-cni","deviceID":"x"}]}"#,
                "spec.config.plugins[1].deviceID",
            ),
        ] {
            assert_eq!(errors(config), [format!("{field}: {message}")]);
        }
        assert!(nad(r#"{"type":"portolan","runtimeConfig":[7],"deviceID":null}"#).parse().is_ok());
        assert!(
            nad(r#"{"type":"host-device","deviceID":"0000:03:00.2"}"#).parse().is_ok(),
            "another plugin's"
        );
    }

    #[test]
    fn keys_without_effect_are_worth_a_warning() {
        let NadConfig::Portolan(ours) = nad(r#"{"type":"portolan","deviceID":"","vlan":7}"#).parse().unwrap()
        else {
            panic!()
        };
        assert_eq!(
            ours.warnings[0].to_string(),
            r#"spec.config: "vlan" is not a key that Portolan acts on; it has no effect"#
        );
    }

    proptest! {
        #[test]
        fn any_configuration_is_answered(text in "\\{\"(type|plugins)\":(\"(portolan|kube-ovn|x)\"|[0-9]|\\[\\{\"type\":\"portolan\"\\}\\])(,\"(provider|routes|ipam)\":(\"[a-z.]{0,9}\"|\\[\\{\\}\\]|null|\\{\\}))?\\}|\\PC*") {
            let _ = nad(&text).parse();
        }
    }
}
