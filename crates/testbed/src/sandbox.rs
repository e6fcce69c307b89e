//! A pod's sandbox as a container runtime makes it, for tests that call the CNI plugin themselves.

use k8s_openapi::api::core::v1 as core;
use kube::{Api, ResourceExt as _};
use portolan_lab::cluster::Programs;
use portolan_lab::{Namespace, Node, Result};
use serde_json::{Value, json};

use crate::pod::{Pod, api_error};
use crate::testbed::Testbed;

/// A network namespace for a pod that is bound to a node without a runtime.
#[derive(Debug)]
pub struct Sandbox {
    testbed: Testbed,
    namespace: String,
    name: String,
    uid: String,
    node: String,
    netns: Namespace,
}

impl Testbed {
    /// Makes the sandbox of a pod of the namespace `default` that exists and is bound to a node.
    pub fn sandbox(&self, name: &str) -> Result<Sandbox> {
        self.sandbox_in("default", name)
    }

    /// The same in any namespace. Names of pods with sandboxes differ, whatever their namespaces.
    pub fn sandbox_in(&self, namespace: &str, name: &str) -> Result<Sandbox> {
        let (api, of) = (Api::<core::Pod>::namespaced(self.client(), namespace), name.to_owned());
        let found = self.wait(async move { api.get(&of).await });
        let pod = found.map_err(|error| api_error(&format!("read pod {namespace}/{name}"), &error))?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let on = self.node(&node).ok_or_else(|| {
            api_error(
                &format!("make a sandbox for pod {namespace}/{name}"),
                &format!("there is no node {node:?}"),
            )
        })?;
        Ok(Sandbox {
            testbed: self.clone(),
            namespace: namespace.into(),
            name: name.into(),
            uid: pod.uid().unwrap_or_default(),
            netns: on.namespace().network_beside(name)?,
            node,
        })
    }
}

impl Sandbox {
    /// The name of its pod.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The node it is on.
    ///
    /// # Panics
    /// Never: it was made on a node of the cluster.
    pub fn node(&self) -> &Node {
        self.testbed.node(&self.node).expect("nodes stay as long as their cluster")
    }

    /// Calls ADD, after which the pod is there. The error is what the plugin wrote.
    ///
    /// # Panics
    /// When the plugin cannot be run, or its result is none.
    pub fn add(&self) -> Result<Pod, String> {
        Ok(self.pod(&self.call("ADD")?))
    }

    /// The pod, as the result of an ADD describes it.
    ///
    /// # Panics
    /// When it is no result.
    pub fn pod(&self, result: &str) -> Pod {
        let result: Value = serde_json::from_str(result).expect("a result is JSON");
        let ips = result["ips"].as_array().cloned().unwrap_or_default();
        let address = |ip: &Value| ip["address"].as_str()?.split('/').next()?.parse().ok();
        Pod {
            testbed: self.testbed.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            node: self.node.clone(),
            addresses: ips.iter().filter_map(address).collect(),
            netns: self.netns.clone(),
        }
    }

    /// Calls the plugin as a container runtime does, chained after another for the first interface unless that is Portolan's. A plugin
    /// that fails says why on standard output, which is then the error.
    ///
    /// # Panics
    /// When the plugin cannot be run.
    pub fn call(&self, command: &str) -> Result<String, String> {
        let interfaces = if self.testbed.is_primary() { "all" } else { "further" };
        self.call_for("eth0", command, &json!({"interfaces": interfaces}))
    }

    /// Calls the plugin for one interface, with this in its configuration, as Multus does.
    ///
    /// # Panics
    /// When the plugin cannot be run, or `more` is no object.
    pub fn call_for(&self, interface: &str, command: &str, more: &Value) -> Result<String, String> {
        let arguments = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_UID={}",
            self.namespace, self.name, self.uid
        );
        let mut config = json!({"cniVersion": "1.0.0", "name": "portolan", "type": "portolan-cni"});
        let keys = config.as_object_mut().expect("it is one");
        keys.extend(more.as_object().expect("keys of a configuration").clone());
        let programs = Programs::built().expect("the whole workspace is built");
        let output = self
            .node()
            .command(programs.plugin())
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", format!("sandbox-{}", self.name))
            .env("CNI_NETNS", self.netns.path())
            .env("CNI_IFNAME", interface)
            .env("CNI_PATH", "/opt/cni/bin")
            .env("CNI_ARGS", arguments)
            .stdin(config.to_string())
            .output()
            .expect("the plugin runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(said) } else { Err(said) }
    }
}
