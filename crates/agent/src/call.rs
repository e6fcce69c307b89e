//! What a call of the CNI plugin asks for, as values.

use std::collections::BTreeSet;

use portolan_api::Provider;
use portolan_cni::{CniError, Code, Request, Version};
use serde_json::Value;
use uuid::Uuid;

/// The namespace of the UUIDs of rows that agents make.
const ROWS: Uuid = Uuid::from_u128(0x8f5a_3d1c_6e0b_4c57_9b7e_2d40_51c6_a3f8);

/// The container and the interface name of a call: what everything that the call makes is tagged with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sandbox {
    /// The container's id.
    pub(crate) id: String,
    /// The interface that the call names. It may make others besides.
    pub(crate) call: String,
}

/// Which interfaces a call makes. The network configuration says it; nothing is guessed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Everything that the pod asked for.
    #[default]
    All,
    /// All but the first, which another plugin made before.
    Further,
    /// The one of this provider.
    One(Provider),
}

/// A network configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NetworkConfig {
    pub(crate) version: Version,
    /// The name of the network.
    pub(crate) name: String,
    pub(crate) selection: Selection,
    /// What plugins before this one answered.
    pub(crate) previous: Option<Value>,
    /// GC: the calls whose work is to stay.
    pub(crate) valid: BTreeSet<(String, String)>,
}

/// The pod that a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodName {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Not every runtime says it.
    pub(crate) uid: Option<String>,
}

impl Sandbox {
    pub(crate) fn of(request: &Request) -> Self {
        Self { id: request.container_id.clone(), call: request.ifname.clone() }
    }

    /// The UUID of a row of `table` for an interface of the container.
    pub(crate) fn row(&self, table: &str, interface: &str) -> Uuid {
        Uuid::new_v5(&ROWS, format!("{table}\0{}\0{interface}", self.id).as_bytes())
    }

    /// The name of the node's end of an interface's pair of links.
    pub(crate) fn link(&self, interface: &str) -> String {
        let unique = self.row("link", interface).simple().to_string();
        format!("pt{}", &unique[..12])
    }

    /// What is noted on the node's end.
    pub(crate) fn alias(&self, interface: &str) -> String {
        format!("{}{interface}", self.alias_prefix())
    }

    /// What the notes of all links of this call begin with.
    pub(crate) fn alias_prefix(&self) -> String {
        format!("portolan {} {} ", self.id, self.call)
    }
}

impl NetworkConfig {
    pub(crate) fn parse(config: &Value) -> Result<Self, CniError> {
        let invalid = |details: String| {
            CniError::new(Code::InvalidConfig, "the network configuration makes no sense", details)
        };
        let version = config["cniVersion"].as_str().and_then(Version::parse);
        let selection = match (config.get("interfaces"), config.get("provider")) {
            (None, None) => Selection::All,
            (Some(Value::String(text)), None) if text == "all" => Selection::All,
            (Some(Value::String(text)), None) if text == "further" => Selection::Further,
            (Some(other), None) => {
                return Err(invalid(format!("interfaces is {other}; it may be \"all\" or \"further\"")));
            }
            (None, Some(provider)) => {
                let parsed = provider.as_str().and_then(|text| text.parse::<Provider>().ok());
                Selection::One(parsed.ok_or_else(|| {
                    invalid(format!("provider is {provider}; it has the form <nad>.<namespace>.ovn"))
                })?)
            }
            (Some(_), Some(_)) => return Err(invalid("both interfaces and provider are given".into())),
        };
        let valid = config["cni.dev/valid-attachments"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Self {
            version: version.ok_or_else(|| invalid("cniVersion is none that is spoken here".into()))?,
            name: config["name"].as_str().unwrap_or_default().to_owned(),
            selection,
            previous: config.get("prevResult").cloned(),
            valid: valid
                .filter_map(|one| Some((text(&one["containerID"])?, text(&one["ifname"])?)))
                .collect(),
        })
    }
}

impl PodName {
    /// The pod that `CNI_ARGS` names.
    pub(crate) fn parse(args: &str) -> Result<Self, CniError> {
        let find = |key: &str| {
            let mut pairs = args.split(';').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned());
            found.filter(|value| !value.is_empty())
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

impl std::fmt::Display for PodName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_says_which_interfaces_are_made() {
        let selection = |config: Value| NetworkConfig::parse(&config).map(|config| config.selection);
        assert_eq!(selection(json!({"cniVersion": "1.0.0"})).unwrap(), Selection::All);
        assert_eq!(
            selection(json!({"cniVersion": "1.0.0", "interfaces": "further"})).unwrap(),
            Selection::Further
        );
        let one = selection(json!({"cniVersion": "1.0.0", "provider": "blue.sea.ovn"})).unwrap();
        assert_eq!(one, Selection::One("blue.sea.ovn".parse().unwrap()));
        for wrong in [
            json!({"cniVersion": "9.0.0"}),
            json!({"cniVersion": "1.0.0", "interfaces": "first"}),
            json!({"cniVersion": "1.0.0", "interfaces": ["all"]}),
            json!({"cniVersion": "1.0.0", "interfaces": "all", "provider": "blue.sea.ovn"}),
            json!({"cniVersion": "1.0.0", "provider": 7}),
        ] {
            let error = selection(wrong).unwrap_err();
            assert_eq!(error.code, Code::InvalidConfig as u32);
        }
    }

    #[test]
    fn arguments_name_the_pod() {
        let pod =
            PodName::parse("IgnoreUnknown=1;K8S_POD_NAMESPACE=sea;K8S_POD_NAME=argo;K8S_POD_UID=7").unwrap();
        assert_eq!((pod.to_string().as_str(), pod.uid.as_deref()), ("sea/argo", Some("7")));
        assert_eq!(PodName::parse("K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_UID=").unwrap().uid, None);
        for wrong in ["", "garbage", "K8S_POD_NAME=argo", "K8S_POD_NAMESPACE=;K8S_POD_NAME=x"] {
            assert!(PodName::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_link_has_a_name_of_its_own_and_a_note_by_which_it_is_found() {
        let sandbox = Sandbox { id: "cafe".into(), call: "eth0".into() };
        assert!(sandbox.alias("net1").starts_with(&sandbox.alias_prefix()));
        let other = Sandbox { id: "cafe".into(), call: "eth01".into() };
        assert!(!other.alias("net1").starts_with(&sandbox.alias_prefix()));
        assert!(sandbox.link("net1").len() <= 15);
        assert_ne!(sandbox.link("net1"), sandbox.link("eth0"));
    }
}
