//! What a user may choose, on the command line and again with an upgrade.

use std::num::NonZeroU16;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use portolan_manifests::{AgentAdmission, ApiServer, Installation, Members, Mode, Object, OpenVswitch};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// The annotation of the namespace that keeps the options of an installation for the next upgrade.
const ANNOTATION: &str = "portolan.dev/installed-with";

/// The options; those that are not given are what they were, or else the usual.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Options {
    /// Whether Portolan makes pods' first interfaces. Needed for the first installation.
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<ModeName>,
    /// The image of everything but Open vSwitch.
    #[arg(long, value_name = "IMAGE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    /// The image of Open vSwitch. Nodes take a new one when their `ovs` pods are deleted, which interrupts their traffic.
    #[arg(long, value_name = "IMAGE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ovs_image: Option<String>,
    /// Who runs Open vSwitch on nodes.
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    open_vswitch: Option<SwitchOwner>,
    /// An API server's own address, HOST:PORT, with which Portolan's pods begin instead of the Service `kubernetes`; from there they follow
    /// all API servers. Without it: as a primary network, the first of that Service's endpoints; otherwise the Service.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    #[serde(skip_serializing_if = "Option::is_none")]
    api_server: Option<String>,
    /// How many controllers there are, each on a node of its own. Without it: two, or one on a cluster of one node.
    #[arg(long, value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    controllers: Option<u8>,
    /// How many members OVN's databases have, each on a node of its own: one, or three of which one may be away. One unless given.
    #[arg(long, value_name = "NUMBER", value_parser = ovn_members)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ovn_members: Option<u8>,
    /// A network of the cluster's pods or services, which pods reach by their first interface whatever their default route is; may be
    /// repeated.
    #[arg(long, value_name = "CIDR")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cluster_network: Vec<IpNet>,
    /// A network of the cluster's services that something else serves on the nodes, such as kube-proxy; may be repeated. With --mode primary
    /// those of services are named by this and not by --cluster-network.
    #[arg(long, value_name = "CIDR")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    service_network: Vec<IpNet>,
    /// The container runtime's directory of network configurations; /etc/cni/net.d unless given.
    #[arg(long, value_name = "DIRECTORY")]
    #[serde(skip_serializing_if = "Option::is_none")]
    cni_conf_dir: Option<String>,
    /// The container runtime's directory of network plugins; /opt/cni/bin unless given.
    #[arg(long, value_name = "DIRECTORY")]
    #[serde(skip_serializing_if = "Option::is_none")]
    cni_bin_dir: Option<String>,
    /// The namespace.
    #[arg(long, value_name = "NAMESPACE", default_value = "portolan-system")]
    #[serde(skip)]
    pub(crate) namespace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ModeName {
    /// Beside another network, which makes pods' first interfaces.
    Secondary,
    /// As the cluster's network.
    Primary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum SwitchOwner {
    /// Portolan, in pods.
    Pods,
    /// The hosts, as a service of their own.
    Hosts,
}

impl Options {
    /// What an installation was made with, by the annotations of its namespace.
    pub(crate) fn noted(annotation: Option<&str>) -> anyhow::Result<Self> {
        let read = annotation.map(serde_json::from_str).transpose();
        Ok(read
            .map_err(|error| {
                Failure::usage(format!(
                    "annotation {ANNOTATION} of the namespace cannot be read: {error}; remove it, and give all options again"
                ))
            })?
            .unwrap_or_default())
    }

    /// The annotation's key.
    pub(crate) fn annotation() -> &'static str {
        ANNOTATION
    }

    /// These, and what was chosen before where nothing is chosen now.
    pub(crate) fn or(&self, before: &Self) -> Self {
        let networks = if self.cluster_network.is_empty() { before } else { self };
        let services = if self.service_network.is_empty() { before } else { self };
        Self {
            mode: self.mode.or(before.mode),
            image: self.image.clone().or_else(|| before.image.clone()),
            ovs_image: self.ovs_image.clone().or_else(|| before.ovs_image.clone()),
            open_vswitch: self.open_vswitch.or(before.open_vswitch),
            api_server: self.api_server.clone().or_else(|| before.api_server.clone()),
            controllers: self.controllers.or(before.controllers),
            ovn_members: self.ovn_members.or(before.ovn_members),
            cluster_network: networks.cluster_network.clone(),
            service_network: services.service_network.clone(),
            cni_conf_dir: self.cni_conf_dir.clone().or_else(|| before.cni_conf_dir.clone()),
            cni_bin_dir: self.cni_bin_dir.clone().or_else(|| before.cni_bin_dir.clone()),
            namespace: self.namespace.clone(),
        }
    }

    /// The installation that these describe, with what was chosen before.
    pub(crate) fn installation(&self, before: &Self) -> anyhow::Result<Installation> {
        let options = self.or(before);
        let mode = match options.mode {
            Some(ModeName::Secondary) => Mode::Secondary,
            Some(ModeName::Primary) => Mode::Primary,
            None => {
                return Err(Failure::usage(
                    "--mode is missing: secondary beside the cluster's network, primary to be the cluster's network",
                ));
            }
        };
        let mut installation = Installation::new(mode);
        installation.namespace = options.namespace;
        if let Some(image) = options.image {
            installation.image = image;
        }
        match (options.open_vswitch, options.ovs_image) {
            (Some(SwitchOwner::Hosts), None) => installation.open_vswitch = OpenVswitch::Hosts,
            (Some(SwitchOwner::Hosts), Some(_)) => {
                return Err(Failure::usage("--ovs-image: there is no such image with --open-vswitch hosts"));
            }
            (_, Some(image)) => installation.open_vswitch = OpenVswitch::Ours { image },
            (_, None) => {}
        }
        if let Some(text) = &options.api_server {
            let (host, port) =
                split(text).ok_or_else(|| Failure::usage(format!("--api-server: {text:?}")))?;
            installation.api_server = Some(ApiServer { host: host.into(), port });
        }
        if let Some(controllers) = options.controllers {
            installation.controllers = controllers;
        }
        installation.members = match options.ovn_members {
            None | Some(1) => Members::One,
            Some(3) => Members::Three,
            Some(other) => return Err(Failure::usage(format!("--ovn-members: {other} is neither 1 nor 3"))),
        };
        installation.cluster_networks = options.cluster_network;
        installation.service_networks = options.service_network;
        if let Some(directory) = options.cni_conf_dir {
            installation.directories.configurations = directory;
        }
        if let Some(directory) = options.cni_bin_dir {
            installation.directories.programs = directory;
        }
        installation.agent_admission = AgentAdmission::OwnNode;
        installation.check().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(installation)
    }

    /// Whether the number of controllers was chosen.
    pub(crate) fn names_controllers(&self) -> bool {
        self.controllers.is_some()
    }

    /// Keeps them on the namespace.
    pub(crate) fn note(&self, objects: &mut [Object]) {
        let text = serde_json::to_string(self).unwrap_or_default();
        for object in objects.iter_mut().filter(|object| object.kind().kind == "Namespace") {
            object.annotate(ANNOTATION, &text);
        }
    }
}

fn ovn_members(text: &str) -> Result<u8, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        _ => Err("write 1 or 3".into()),
    }
}

fn host_and_port(text: &str) -> Result<String, String> {
    split(text).map(|_| text.to_owned()).ok_or_else(|| "write HOST:PORT, or [ADDRESS]:PORT for IPv6".into())
}

fn split(text: &str) -> Option<(&str, NonZeroU16)> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bare {
        Some(address) => address,
        None if host.contains(':') || host.is_empty() => return None,
        None => host,
    };
    Some((host, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options { namespace: "portolan-system".into(), ..Options::default() }
    }

    #[test]
    fn an_upgrade_keeps_what_was_chosen_and_takes_what_is_new() {
        let first = Options {
            mode: Some(ModeName::Primary),
            open_vswitch: Some(SwitchOwner::Hosts),
            api_server: Some("[fd00::1]:6443".into()),
            ovn_members: Some(3),
            cluster_network: vec!["10.0.0.0/8".parse().unwrap()],
            service_network: vec!["10.96.0.0/16".parse().unwrap()],
            ..options()
        };
        let kept = Options::noted(Some(&serde_json::to_string(&first).unwrap())).unwrap();
        let second = Options { image: Some("r/p:2".into()), ..options() };
        let installation = second.installation(&kept).unwrap();
        assert_eq!(installation.mode, Mode::Primary);
        assert_eq!(installation.open_vswitch, OpenVswitch::Hosts);
        assert_eq!(installation.image, "r/p:2");
        assert_eq!(installation.members, Members::Three);
        assert_eq!(installation.api_server.unwrap().host, "fd00::1");
        assert_eq!((installation.cluster_networks.len(), installation.service_networks.len()), (1, 1));
    }

    #[test]
    fn a_first_installation_needs_a_mode_and_an_annotation_that_is_none_is_named() {
        let error = options().installation(&Options::default()).unwrap_err().to_string();
        assert!(error.starts_with("--mode is missing"), "{error}");
        for text in ["", "7", "{\"mode\": 1}", "{\"unknown\": 1}"] {
            let error = Options::noted(Some(text)).unwrap_err().to_string();
            assert!(error.contains(ANNOTATION), "{error}");
        }
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for text in ["192.0.2.1:6443", "[fd00::1]:443", "api.example.org:6443"] {
            assert!(host_and_port(text).is_ok(), "{text}");
        }
        for text in ["", "a", ":6443", "a:0", "a:65536", "fd00::1:6443", "a:b"] {
            assert!(host_and_port(text).is_err(), "{text}");
        }
    }
}
