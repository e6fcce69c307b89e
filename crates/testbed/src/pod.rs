//! Pods of a test.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt as _};
use portolan_lab::{Command, Error, Namespace, Result};
use serde_json::{Value, json};

use crate::testbed::Testbed;

/// How long a pod is given to run, or to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pod that runs in a cluster.
#[derive(Clone, Debug)]
pub struct Pod {
    pub(crate) testbed: Testbed,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) node: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) netns: Namespace,
}

/// How a pod shall be.
#[derive(Clone, Debug)]
#[must_use = "no pod runs until it is started"]
pub struct PodBuilder<'a> {
    testbed: &'a Testbed,
    namespace: String,
    name: String,
    node: Option<String>,
    networks: Vec<Value>,
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    command: Vec<String>,
}

impl Testbed {
    /// A pod of this name in the namespace `default`. Without a command it merely holds its interfaces.
    pub fn pod(&self, name: &str) -> PodBuilder<'_> {
        PodBuilder {
            testbed: self,
            namespace: "default".into(),
            name: name.into(),
            node: None,
            networks: Vec::new(),
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
            command: Vec::new(),
        }
    }

    /// Waits until a pod that was made otherwise runs.
    pub fn running_pod(&self, namespace: &str, name: &str) -> Result<Pod> {
        let (client, of, named) = (self.client(), namespace.to_owned(), name.to_owned());
        let pod = self.wait(async move { running(&client, &of, &named).await })?;
        let status = pod.status.as_ref();
        let ips = status.and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
        // The runtime shows its pods before it says that they run.
        let place = self.pod_place(namespace, name);
        let gone = || api_error(&format!("enter pod {namespace}/{name}"), &"it does not run any more");
        Ok(Pod {
            testbed: self.clone(),
            namespace: namespace.into(),
            name: name.into(),
            uid: pod.uid().unwrap_or_default(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            addresses: ips.filter_map(|ip| ip.ip.parse().ok()).collect(),
            netns: place.and_then(|place| place.netns).ok_or_else(gone)?,
        })
    }
}

impl PodBuilder<'_> {
    /// Puts it into this namespace, which must exist.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Puts it on this node. Without, it is put somewhere.
    pub fn on(mut self, node: &str) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Gives it an interface on the network of this attachment definition: `name`, or `namespace/name`.
    pub fn nad(mut self, nad: &str) -> Self {
        let (namespace, name) = nad.split_once('/').unwrap_or((&self.namespace, nad));
        self.networks.push(json!({"name": name, "namespace": namespace}));
        self
    }

    /// Says more of the last network, by a key of the networks annotation: `ips`, `mac`, `interface`, `default-route`.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        if let Some(network) = self.networks.last_mut() {
            network[key] = value.into();
        }
        self
    }

    /// An annotation.
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.insert(name.into(), value.into());
        self
    }

    /// A label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// What its container runs.
    pub fn command(mut self, words: &[&str]) -> Self {
        self.command = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Makes it, without waiting for it to run.
    pub fn create(self) -> Result<()> {
        let pod = self.object();
        let (client, namespace) = (self.testbed.client(), self.namespace.clone());
        let created = self.testbed.wait(async move {
            let pod = serde_json::from_value(pod).map_err(|error| error.to_string())?;
            let api = Api::<core::Pod>::namespaced(client, &namespace);
            api.create(&PostParams::default(), &pod).await.map_err(|error| error.to_string())
        });
        let what = format!("make pod {}/{}", self.namespace, self.name);
        created.map(drop).map_err(|error| api_error(&what, &error))
    }

    /// Makes it and waits until it runs.
    pub fn start(self) -> Result<Pod> {
        let (testbed, namespace, name) = (self.testbed, self.namespace.clone(), self.name.clone());
        self.create()?;
        testbed.running_pod(&namespace, &name)
    }

    fn object(&self) -> Value {
        let mut annotations = self.annotations.clone();
        if !self.networks.is_empty() {
            let networks = Value::from(self.networks.clone()).to_string();
            annotations.insert("k8s.v1.cni.cncf.io/networks".into(), networks);
        }
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "annotations": annotations, "labels": self.labels},
            "spec": {"nodeName": self.node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "none", "command": self.command}]}})
    }
}

impl Pod {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The node it runs on.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its addresses, as its status has them.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Its first address.
    ///
    /// # Panics
    /// When it has none.
    #[track_caller]
    pub fn address(&self) -> IpAddr {
        *self.addresses.first().unwrap_or_else(|| panic!("pod {} has no address", self.name))
    }

    /// Its network namespace, with the mounts of its node.
    pub fn netns(&self) -> &Namespace {
        &self.netns
    }

    /// A command to run in it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.netns.command(program)
    }

    /// Deletes it and waits until it is gone.
    pub fn delete(&self) -> Result<()> {
        let (client, namespace, name) = (self.testbed.client(), self.namespace.clone(), self.name.clone());
        let uid = self.uid.clone();
        let deleted = self.testbed.wait(async move {
            let api = Api::<core::Pod>::namespaced(client, &namespace);
            api.delete(&name, &DeleteParams::default()).await.map_err(|error| error.to_string())?;
            let gone = await_condition(api, &name, conditions::is_deleted(&uid));
            match tokio::time::timeout(PATIENCE, gone).await {
                Ok(gone) => gone.map(drop).map_err(|error| error.to_string()),
                Err(_) => Err(format!("it is still there after {PATIENCE:?}")),
            }
        });
        deleted.map_err(|error| api_error(&format!("delete pod {}/{}", self.namespace, self.name), &error))
    }
}

/// Waits until a pod runs.
async fn running(client: &Client, namespace: &str, name: &str) -> Result<core::Pod> {
    let api = Api::<core::Pod>::namespaced(client.clone(), namespace);
    let what = format!("run pod {namespace}/{name}");
    let is_running = await_condition(api.clone(), name, is_ready);
    match tokio::time::timeout(PATIENCE, is_running).await {
        Ok(Ok(Some(pod))) => Ok(pod),
        Ok(Ok(None)) => Err(api_error(&what, &"it was deleted")),
        Ok(Err(error)) => Err(api_error(&what, &error)),
        Err(_) => {
            let status = api.get(name).await.ok().and_then(|pod| pod.status);
            let said = events_of(client, namespace, name).await;
            let why = format!("not after {PATIENCE:?}; its status: {}; its Events: {said}", json!(status));
            Err(api_error(&what, &why))
        }
    }
}

/// Whether the pod runs and the API server was told so of every container.
fn is_ready(pod: Option<&core::Pod>) -> bool {
    let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
}

async fn events_of(client: &Client, namespace: &str, name: &str) -> String {
    let api = Api::<core::Event>::namespaced(client.clone(), namespace);
    let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
    let events = api.list(&about).await.map(|list| list.items).unwrap_or_default();
    let said = events.iter().map(|event| event.message.clone().unwrap_or_default());
    said.collect::<Vec<_>>().join("; ")
}

pub(crate) fn api_error(what: &str, why: &dyn std::fmt::Display) -> Error {
    Error::ApiServer { what: what.into(), why: why.to_string() }
}
