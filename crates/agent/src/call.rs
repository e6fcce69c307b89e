//! A call of the CNI plugin, as values.

use std::collections::BTreeSet;

use portolan_api::Provider;
use portolan_api::nad::NFN_CNI_TYPE;
use portolan_cni::{CniError, Code, FURTHER, Version, annotations};
use portolan_model::doors::pod::FIRST_INTERFACE;
use portolan_plan::host::Sandbox;
use serde_json::Value;

/// The key under which GC lists the attachments to keep.
const VALID_ATTACHMENTS: &str = "cni.dev/valid-attachments";
/// The same, as the specification had it at first. Callers pass both or either.
const ATTACHMENTS: &str = "cni.dev/attachments";

/// The key by which a configuration of OVN4NFV's type names a network.
const NFN_NETWORK: &str = "nfn-network";

/// Which interfaces a call makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All that the pod asks for: `"interfaces": "all"`, or neither key in a call for the pod's first interface.
    All,
    /// All but the first, which another plugin made before: `"interfaces": "further"`.
    Further,
    /// The one that the call names: neither key, as in a NetworkAttachmentDefinition without provider that Multus passes on.
    Named,
    /// The one that the call names, which must be of this provider: `"provider": "<nad>.<namespace>.ovn"`.
    Provider(Provider),
    /// OVN4NFV's type under Multus: those that the pod's annotation `nfn-network` asks for, whatever the call names. With
    /// `"nfn-network": "<network>"` only those on that network.
    Nfn(Option<String>),
}

/// A network configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NetworkConfig {
    pub(crate) version: Version,
    /// The name of the network.
    pub(crate) name: String,
    pub(crate) selection: Selection,
    /// The result of the plugins before this one; in CHECK, that of the whole ADD.
    pub(crate) previous: Option<Value>,
    /// The runtime passed the pod's annotations, and none of them asks for a network.
    pub(crate) asks_for_nothing: bool,
    /// The configuration makes the runtime pass annotations.
    pub(crate) declares_annotations: bool,
}

/// The pod that `CNI_ARGS` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodArgs {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Not every runtime passes it. For a static pod it is the kubelet's, not that of the mirror pod.
    pub(crate) uid: Option<String>,
}

pub(crate) fn invalid(details: impl Into<String>) -> CniError {
    CniError::new(Code::InvalidConfig, "invalid network configuration", details)
}

impl Selection {
    /// True if the interface that the call names is always among them.
    pub(crate) fn makes_named(&self) -> bool {
        !matches!(self, Selection::Further | Selection::Nfn(_))
    }

    /// Of a call that names the interface `call`.
    fn parse(config: &Value, call: &str) -> Result<Self, CniError> {
        if config["type"] == NFN_CNI_TYPE {
            return match config.get(NFN_NETWORK) {
                None => Ok(Selection::Nfn(None)),
                Some(Value::String(name)) if name.is_empty() => Ok(Selection::Nfn(None)),
                Some(Value::String(name)) => Ok(Selection::Nfn(Some(name.clone()))),
                Some(other) => {
                    Err(invalid(format!("{NFN_NETWORK} is {other}; it must be the name of a network")))
                }
            };
        }
        match (config.get("interfaces"), config.get("provider")) {
            (None, None) if call == FIRST_INTERFACE || call.is_empty() => Ok(Selection::All),
            (None, None) => Ok(Selection::Named),
            (Some(Value::String(text)), None) if text == "all" => Ok(Selection::All),
            (Some(Value::String(text)), None) if text == FURTHER => Ok(Selection::Further),
            (Some(other), None) => {
                Err(invalid(format!("interfaces is {other}; it must be \"all\" or \"{FURTHER}\"")))
            }
            (None, Some(provider)) => {
                let parsed = provider.as_str().and_then(|text| text.parse::<Provider>().ok());
                parsed.map(Selection::Provider).ok_or_else(|| {
                    invalid(format!("provider is {provider}; it must be \"<nad>.<namespace>.ovn\""))
                })
            }
            (Some(_), Some(_)) => Err(invalid("interfaces and provider exclude each other; remove one")),
        }
    }
}

impl NetworkConfig {
    /// Of a call that names the interface `call`.
    pub(crate) fn parse(config: &Value, call: &str) -> Result<Self, CniError> {
        let version = config["cniVersion"].as_str().and_then(Version::parse);
        let supported = || Version::ALL.map(Version::as_str).join(", ");
        Ok(Self {
            version: version
                .ok_or_else(|| invalid(format!("unsupported cniVersion; supported: {}", supported())))?,
            name: config["name"].as_str().unwrap_or_default().to_owned(),
            selection: Selection::parse(config, call)?,
            previous: config.get("prevResult").cloned(),
            asks_for_nothing: annotations::ask_for_nothing(config),
            declares_annotations: annotations::declared(config),
        })
    }
}

/// GC: the calls whose interfaces are to stay. Everything else of the network is removed, so nothing may be missing or in doubt.
pub(crate) fn valid_attachments(config: &Value) -> Result<BTreeSet<Sandbox>, CniError> {
    let Some(list) = config.get(VALID_ATTACHMENTS).or_else(|| config.get(ATTACHMENTS)) else {
        return Err(invalid(format!("{VALID_ATTACHMENTS} is missing; GC removes nothing without it")));
    };
    let Some(list) = list.as_array() else {
        return Err(invalid(format!("{VALID_ATTACHMENTS} must be a list; GC removed nothing")));
    };
    let field = |one: &Value, at: usize, key: &str| {
        let text = one.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| {
            invalid(format!("{VALID_ATTACHMENTS}[{at}].{key} must be a non-empty string; GC removed nothing"))
        })
    };
    let entry = |(at, one): (usize, &Value)| {
        Ok(Sandbox { container: field(one, at, "containerID")?, call: field(one, at, "ifname")? })
    };
    list.iter().enumerate().map(entry).collect()
}

impl PodArgs {
    /// The pod that `CNI_ARGS` names.
    pub(crate) fn parse(args: &str) -> Result<Self, CniError> {
        // Multus repeats what it was passed after its own: the first that says something counts.
        let find = |key: &str| {
            let mut pairs = args.split(';').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, value)| *name == key && !value.is_empty()).map(|(_, value)| value.to_owned())
        };
        let missing = |key: &str| {
            CniError::new(Code::InvalidEnvironment, format!("CNI_ARGS does not have {key}"), args.to_owned())
        };
        Ok(Self {
            namespace: find("K8S_POD_NAMESPACE").ok_or_else(|| missing("K8S_POD_NAMESPACE"))?,
            name: find("K8S_POD_NAME").ok_or_else(|| missing("K8S_POD_NAME"))?,
            uid: find("K8S_POD_UID"),
        })
    }
}

impl std::fmt::Display for PodArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use serde_json::json;

    use super::*;

    fn selection(mut config: Value, call: &str) -> Result<Selection, CniError> {
        config["cniVersion"] = "1.0.0".into();
        NetworkConfig::parse(&config, call).map(|config| config.selection)
    }

    #[test]
    fn a_configuration_says_which_interfaces_are_made() {
        assert_eq!(selection(json!({}), "eth0").unwrap(), Selection::All);
        assert_eq!(selection(json!({"interfaces": "all"}), "net1").unwrap(), Selection::All);
        assert_eq!(selection(json!({"interfaces": "further"}), "eth0").unwrap(), Selection::Further);
        let one = selection(json!({"provider": "blue.sea.ovn"}), "net1").unwrap();
        assert_eq!(one, Selection::Provider("blue.sea.ovn".parse().unwrap()));
        for wrong in [
            json!({"interfaces": "first"}),
            json!({"interfaces": ["all"]}),
            json!({"interfaces": "all", "provider": "blue.sea.ovn"}),
            json!({"provider": 7}),
        ] {
            assert_eq!(selection(wrong, "eth0").unwrap_err().code, Code::InvalidConfig as u32);
        }
        let error = NetworkConfig::parse(&json!({"cniVersion": "9.0.0"}), "eth0").unwrap_err();
        assert_eq!(error.details, "unsupported cniVersion; supported: 0.3.1, 0.4.0, 1.0.0, 1.1.0");
    }

    #[test]
    fn a_definition_without_provider_makes_the_interface_that_the_call_names() {
        for call in ["net1", "net2", "data"] {
            assert_eq!(selection(json!({"type": "portolan-cni"}), call).unwrap(), Selection::Named, "{call}");
        }
    }

    #[test]
    fn ovn4nfvs_type_makes_what_its_annotation_asks_for_whatever_the_call_names() {
        let kind = |more: Value| {
            let mut config = json!({"type": "ovn4nfvk8s-cni"});
            config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            selection(config, "net1")
        };
        assert_eq!(kind(json!({})).unwrap(), Selection::Nfn(None));
        assert_eq!(kind(json!({"nfn-network": "blue"})).unwrap(), Selection::Nfn(Some("blue".into())));
        assert_eq!(kind(json!({"nfn-network": 7})).unwrap_err().code, Code::InvalidConfig as u32);
    }

    #[test]
    fn gc_without_a_complete_list_of_attachments_is_refused_by_the_fields_name() {
        for (list, field) in [
            (None, "cni.dev/valid-attachments is missing"),
            (Some(json!({})), "cni.dev/valid-attachments must be a list"),
            (Some(Value::Null), "cni.dev/valid-attachments must be a list"),
            (Some(json!([{"containerID": "a"}])), "cni.dev/valid-attachments[0].ifname"),
            (Some(json!([{"containerID": "a", "ifname": "eth0"}, {"ifname": "eth0"}])), "[1].containerID"),
            (Some(json!(["a"])), "[0].containerID"),
            (Some(json!([{"containerID": "", "ifname": "eth0"}])), "[0].containerID"),
        ] {
            let mut config = json!({});
            if let Some(list) = list {
                config[VALID_ATTACHMENTS] = list;
            }
            let error = valid_attachments(&config).unwrap_err();
            assert!(error.details.contains(field), "{config}: {error}");
        }
        let config = json!({ VALID_ATTACHMENTS: [{"containerID": "a", "ifname": "eth0"}] });
        let sandbox = Sandbox { container: "a".into(), call: "eth0".into() };
        assert_eq!(valid_attachments(&config).unwrap(), [sandbox].into());
        assert_eq!(valid_attachments(&json!({ VALID_ATTACHMENTS: [] })).unwrap(), BTreeSet::new());
        assert_eq!(valid_attachments(&json!({ ATTACHMENTS: [] })).unwrap(), BTreeSet::new());
    }

    #[test]
    fn the_configuration_in_the_documentation_is_understood() {
        let page = include_str!("../../../docs/agent.md");
        let example = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let list: Value = serde_json::from_str(example).unwrap();
        let mut plugin = list["plugins"][1].clone();
        plugin["cniVersion"] = list["cniVersion"].clone();
        let config = NetworkConfig::parse(&plugin, "eth0").unwrap();
        assert_eq!((config.selection, config.declares_annotations), (Selection::Further, true));
    }

    #[test]
    fn arguments_name_the_pod() {
        let pod =
            PodArgs::parse("IgnoreUnknown=1;K8S_POD_NAMESPACE=sea;K8S_POD_NAME=argo;K8S_POD_UID=7").unwrap();
        assert_eq!((pod.to_string().as_str(), pod.uid.as_deref()), ("sea/argo", Some("7")));
        assert_eq!(PodArgs::parse("K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_UID=").unwrap().uid, None);
        let repeated = "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_UID=;K8S_POD_NAME=c;K8S_POD_UID=7";
        let pod = PodArgs::parse(repeated).unwrap();
        assert_eq!((pod.to_string().as_str(), pod.uid.as_deref()), ("a/b", Some("7")));
        for wrong in ["", "garbage", "K8S_POD_NAME=argo", "K8S_POD_NAMESPACE=;K8S_POD_NAME=x"] {
            assert!(PodArgs::parse(wrong).is_err(), "{wrong}");
        }
    }
}
