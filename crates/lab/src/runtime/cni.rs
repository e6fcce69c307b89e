//! The CNI plugins of a node, called as a container runtime calls them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::child::{self, Child};
use crate::error::{Result, Trying};
use crate::namespace::Namespace;

/// Where a node has its network configurations and its plugins, as everywhere.
const CONFIGURATIONS: &str = "/etc/cni/net.d";
const PLUGINS: &str = "/opt/cni/bin";

/// The name that a pod's first interface has by convention, and that calls carry.
const FIRST_INTERFACE: &str = "eth0";

/// The capability by which a plugin asks for the annotations of pods, and their key in `runtimeConfig`.
const POD_ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

/// What a call is for.
#[derive(Clone, Debug)]
pub(super) struct Attachment<'a> {
    /// The sandbox.
    pub(super) container: &'a str,
    /// Its network namespace.
    pub(super) netns: &'a Namespace,
    pub(super) pod_namespace: &'a str,
    pub(super) pod_name: &'a str,
    pub(super) pod_uid: &'a str,
    /// The pod's annotations when its sandbox was made.
    pub(super) annotations: &'a BTreeMap<String, String>,
}

/// The network that the plugins made for a sandbox.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    /// What the last plugin answered. DEL shows it again.
    result: Value,
}

/// Why a plugin failed, in the words that container runtimes use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// The plugin said so.
    #[error("plugin type=\"{plugin}\" failed ({verb}): {said}")]
    Said { plugin: String, verb: String, said: String },
    /// It could not be called.
    #[error("{0}")]
    NotCalled(String),
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        Failure::NotCalled(error.to_string())
    }
}

/// Calls every plugin of the node's configuration, each with the answer of the one before.
pub(super) async fn add(node: &Namespace, attachment: &Attachment<'_>) -> Result<Network, Failure> {
    let list = configuration(node)?;
    let mut result = Value::Null;
    for plugin in plugins(&list) {
        let config = plugin_config(&list, plugin, &result, Some(attachment.annotations));
        result = call(node, "ADD", &config, Some(attachment)).await?;
    }
    Ok(Network { result })
}

/// Calls every plugin in reverse order. A sandbox that has nothing is no failure.
pub(super) async fn del(
    node: &Namespace,
    attachment: &Attachment<'_>,
    network: Option<&Network>,
) -> Result<(), Failure> {
    let list = configuration(node)?;
    let result = network.map(|network| network.result.clone()).unwrap_or_default();
    for plugin in plugins(&list).collect::<Vec<_>>().into_iter().rev() {
        let config = plugin_config(&list, plugin, &result, Some(attachment.annotations));
        call(node, "DEL", &config, Some(attachment)).await?;
    }
    Ok(())
}

/// Asks the plugins of a node whether they could serve the ADD of any pod, also of one that asks for networks.
pub(super) async fn status(node: &Namespace) -> Result<(), Failure> {
    let list = configuration(node)?;
    for plugin in plugins(&list) {
        let mut config = plugin_config(&list, plugin, &Value::Null, None);
        // With the capability a plugin may answer without its agent, as pods that ask for nothing need none.
        if let Some(config) = config.as_object_mut() {
            config.remove("capabilities");
        }
        call(node, "STATUS", &config, None).await?;
    }
    Ok(())
}

impl Network {
    /// The pod's addresses: those of its first interface. A pod that has further interfaces alone, as one that stands for a
    /// virtual machine, is known by theirs.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let interface_of = |ip: &Value| {
            let index = usize::try_from(ip["interface"].as_u64()?).ok()?;
            self.result["interfaces"][index]["name"].as_str()
        };
        let ips = || self.result["ips"].as_array().into_iter().flatten();
        let first = || ips().filter(|ip| interface_of(ip) == Some(FIRST_INTERFACE));
        let parse = |ip: &Value| ip["address"].as_str()?.split('/').next()?.parse::<IpAddr>().ok();
        let shown: Vec<_> = if first().next().is_some() {
            first().filter_map(parse).collect()
        } else {
            ips().filter_map(parse).collect()
        };
        // A pod has at most one address of each family.
        let of = |is_wanted: fn(&IpAddr) -> bool| shown.iter().find(|ip| is_wanted(ip)).copied();
        let mut addresses: Vec<_> =
            [of(IpAddr::is_ipv4), of(IpAddr::is_ipv6)].into_iter().flatten().collect();
        addresses.sort_by_key(|address| shown.iter().position(|one| one == address));
        addresses
    }
}

/// The first list of the node, by name: which is how runtimes choose.
fn configuration(node: &Namespace) -> Result<Value> {
    let directory = node.file(CONFIGURATIONS);
    let entries =
        std::fs::read_dir(&directory).trying(|| format!("read {CONFIGURATIONS} of {}", node.name()))?;
    let mut files: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "conflist"))
        .collect();
    files.sort();
    let file = files.first().ok_or_else(|| crate::Error::Refused {
        peer: format!("{CONFIGURATIONS} of {}", node.name()),
        answer: "with no network configuration".into(),
    })?;
    let text = std::fs::read(file).trying(|| format!("read {}", file.display()))?;
    serde_json::from_slice(&text).map_err(std::io::Error::from).trying(|| format!("read {}", file.display()))
}

fn plugins(list: &Value) -> impl Iterator<Item = &Value> {
    list["plugins"].as_array().into_iter().flatten()
}

/// What one plugin of the list is told.
fn plugin_config(
    list: &Value,
    plugin: &Value,
    result: &Value,
    annotations: Option<&BTreeMap<String, String>>,
) -> Value {
    let mut config = plugin.clone();
    config["cniVersion"] = list["cniVersion"].clone();
    config["name"] = list["name"].clone();
    if !result.is_null() {
        config["prevResult"] = result.clone();
    }
    if let Some(annotations) = annotations.filter(|_| plugin["capabilities"][POD_ANNOTATIONS] == true) {
        config["runtimeConfig"] = json!({POD_ANNOTATIONS: annotations});
    }
    config
}

async fn call(
    node: &Namespace,
    verb: &str,
    config: &Value,
    attachment: Option<&Attachment<'_>>,
) -> Result<Value, Failure> {
    let plugin = config["type"].as_str().unwrap_or_default();
    let mut command = child::command(node, &format!("{PLUGINS}/{plugin}"))?;
    command
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("CNI_COMMAND", verb)
        .env("CNI_PATH", PLUGINS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    if let Some(attachment) = attachment {
        command
            .env("CNI_CONTAINERID", attachment.container)
            .env("CNI_NETNS", attachment.netns.path())
            .env("CNI_IFNAME", FIRST_INTERFACE)
            .env("CNI_ARGS", arguments(attachment));
    }
    let not_called = |error: std::io::Error| Failure::NotCalled(format!("cannot call {plugin}: {error}"));
    let mut child = Child::spawn(node, command).await.map_err(not_called)?;
    let (stdin, stdout) = child.pipes().map_err(not_called)?;
    let write = async {
        // A plugin that ends without reading says why by its answer.
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(config.to_string().as_bytes()).await;
        }
    };
    let read = async {
        let mut answer = Vec::new();
        match stdout {
            Some(mut stdout) => stdout.read_to_end(&mut answer).await.map(|_| answer),
            None => Ok(answer),
        }
    };
    let ((), answer) = tokio::join!(write, read);
    let (answer, status) = (answer.map_err(not_called)?, child.wait().await.map_err(not_called)?);
    let value = serde_json::from_slice::<Value>(&answer).unwrap_or_default();
    if status.success() {
        return Ok(value);
    }
    let said = match (value["msg"].as_str(), value["details"].as_str().filter(|text| !text.is_empty())) {
        (Some(message), Some(details)) => format!("{message}; {details}"),
        (Some(message), None) => message.to_owned(),
        (None, _) => format!("{status}, {}", String::from_utf8_lossy(&answer).trim()),
    };
    Err(Failure::Said { plugin: plugin.into(), verb: verb.to_lowercase(), said })
}

fn arguments(attachment: &Attachment<'_>) -> String {
    format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={};K8S_POD_UID={}",
        attachment.pod_namespace, attachment.pod_name, attachment.container, attachment.pod_uid
    )
}

/// Puts a configuration and the plugin where a node has them.
pub(super) fn install(node: &Namespace, plugin: &std::path::Path) -> Result<()> {
    // Pods have the interfaces that they ask for, and no other: nobody makes a first one here. So it is with pods that stand for
    // virtual machines, whose management network is another plugin's business.
    let conflist = json!({"cniVersion": "1.1.0", "name": "portolan", "plugins": [
        {"type": "portolan-cni", "interfaces": "further", "capabilities": {POD_ANNOTATIONS: true}},
    ]});
    let conflist = conflist.to_string();
    let plugin = plugin.to_owned();
    node.run(move || {
        let file = format!("{CONFIGURATIONS}/10-portolan.conflist");
        std::fs::write(&file, conflist).trying(|| format!("write {file}"))?;
        let link = format!("{PLUGINS}/portolan-cni");
        std::os::unix::fs::symlink(&plugin, &link).trying(|| format!("make {link}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(interfaces: &[&str], ips: &[(usize, &str)]) -> Vec<String> {
        let interfaces: Vec<_> = interfaces.iter().map(|name| json!({"name": name})).collect();
        let ips: Vec<_> = ips.iter().map(|(at, ip)| json!({"interface": at, "address": ip})).collect();
        let network = Network { result: json!({"interfaces": interfaces, "ips": ips}) };
        network.addresses().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_is_known_by_its_first_interface() {
        let found =
            addresses(&["net1", "eth0"], &[(0, "10.0.0.2/24"), (1, "10.9.0.2/16"), (1, "fd00::2/64")]);
        assert_eq!(found, ["10.9.0.2", "fd00::2"]);
    }

    #[test]
    fn a_pod_without_a_first_interface_is_known_by_the_others() {
        let found = addresses(
            &["veth", "net1", "net2"],
            &[(1, "fd00::2/64"), (1, "10.0.0.2/24"), (2, "10.1.0.2/24")],
        );
        assert_eq!(found, ["fd00::2", "10.0.0.2"]);
        assert_eq!(addresses(&[], &[]), Vec::<String>::new());
    }

    #[test]
    fn a_plugin_is_told_the_name_of_the_list_and_what_was_answered_before() {
        let list = json!({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "x", "key": 1}]});
        let plugin = plugins(&list).next().cloned().unwrap_or_default();
        let annotations = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let told = plugin_config(&list, &plugin, &Value::Null, Some(&annotations));
        assert_eq!(told, json!({"cniVersion": "1.1.0", "name": "net", "type": "x", "key": 1}));
        let told = plugin_config(&list, &plugin, &json!({"ips": []}), Some(&annotations));
        assert_eq!(told["prevResult"], json!({"ips": []}));
    }

    #[test]
    fn a_plugin_is_told_the_annotations_of_the_pod_if_it_asks_for_them() {
        let list = json!({"cniVersion": "1.1.0", "name": "net"});
        let annotations = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        for (asks, told) in [(json!(true), json!({POD_ANNOTATIONS: {"a": "b"}})), (json!(false), Value::Null)]
        {
            let plugin = json!({"type": "x", "capabilities": {POD_ANNOTATIONS: asks}});
            let config = plugin_config(&list, &plugin, &Value::Null, Some(&annotations));
            assert_eq!(config["runtimeConfig"], told);
        }
    }
}
