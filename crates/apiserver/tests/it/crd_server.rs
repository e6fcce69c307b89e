//! A server with custom resources, webhooks and controllers.

use std::time::Duration;

use apiserver::Server;
use apiserver::admission::NamespaceLifecycle;
use apiserver::admission::webhook::{self, StoredServices, Webhooks};
use apiserver::api::Api;
use apiserver::authz::AlwaysAllow;
use apiserver::controllers::Controllers;
use apiserver::crd::Definitions;
use apiserver::server::TaskEnded;
use apiserver::storage::Storage;
use apistore::Revision;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::faulty_store::{Faults, FaultyStore};
use crate::support::{Client, revision};

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A running server. It can be stopped and started again on the same data.
pub(crate) struct ExtensionServer {
    directory: TempDir,
    pub(crate) client: Client,
    pub(crate) faults: Faults,
    api: Api,
    definitions: Definitions,
    webhooks: Webhooks,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), TaskEnded>>,
}

/// Whether a server follows definitions from its start.
#[derive(Clone, Copy, PartialEq)]
enum CustomResources {
    Served,
    NotServed,
}

impl ExtensionServer {
    pub(crate) async fn start() -> ExtensionServer {
        let server = ExtensionServer::run(TempDir::new().unwrap(), CustomResources::Served).await;
        server.client.create("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await.created();
        server
    }

    async fn run(directory: TempDir, custom_resources: CustomResources) -> ExtensionServer {
        let (file, faults) = (directory.path().join("store.redb"), Faults::default());
        let open = move || apistore::Redb::open(file, apistore::Options::default()).unwrap();
        let store = tokio::task::spawn_blocking(open).await.unwrap();
        let storage = Storage::new(FaultyStore { store, faults: faults.clone() });
        let (webhooks, informer) = Webhooks::start(&storage, StoredServices).await.unwrap();
        let (definitions, controllers) = (Definitions::default(), Controllers::default());
        let mut builder = Server::on(storage)
            .resources(apiserver_builtin::resources())
            .resources(webhook::resources())
            .admission(NamespaceLifecycle)
            .authorizer(AlwaysAllow);
        if custom_resources == CustomResources::Served {
            builder = builder.definitions(&definitions);
        }
        let server = builder
            .admission(webhooks.clone())
            .informer("webhookconfigurations", informer)
            .in_sync("controllers", controllers.progress())
            .task("controllers", |api| controllers.run(api))
            .build()
            .await
            .unwrap();
        let api = server.api().clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(server.serve(listener, async {
            let _ = stopped.await;
        }));
        ExtensionServer { directory, client, faults, api, definitions, webhooks, stop, served }
    }

    /// Stops the server in order; its data stays.
    pub(crate) async fn stop(self) -> TempDir {
        let ExtensionServer { directory, client, faults, api, definitions, webhooks, stop, served } = self;
        drop((client, faults, api, definitions, webhooks));
        stop.send(()).unwrap();
        let served = tokio::time::timeout(Duration::from_secs(30), served).await.expect("the server ends");
        served.unwrap().unwrap();
        directory
    }

    /// Stops the server, and starts another on the same data and another port.
    pub(crate) async fn restart(self) -> ExtensionServer {
        ExtensionServer::run(self.stop().await, CustomResources::Served).await
    }

    /// Like [`ExtensionServer::restart`], but custom resources are not served until definitions are loaded.
    pub(crate) async fn restart_without_definitions(self) -> ExtensionServer {
        ExtensionServer::run(self.stop().await, CustomResources::NotServed).await
    }

    /// Serves what the definitions in the store define.
    pub(crate) async fn load_definitions(&self) {
        self.definitions.load(&self.api).await.unwrap();
    }

    pub(crate) fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Makes a definition, and waits until what it defines can be used.
    pub(crate) async fn define(&self, definition: &Value) -> Value {
        self.client.create(DEFINITIONS, definition).await.created();
        let name = definition["metadata"]["name"].as_str().unwrap();
        self.wait_for_definition(name, |definition| condition(definition, "Established") == "True").await
    }

    /// Replaces a definition, and waits until the server acts on it.
    pub(crate) async fn redefine(&self, definition: &Value) {
        let path = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap());
        let mut definition = definition.clone();
        let existing = self.client.get(&path).await.ok();
        definition["metadata"]["resourceVersion"] = existing["metadata"]["resourceVersion"].clone();
        let written = self.client.update(&path, &definition).await.ok();
        self.definitions.wait_for(Revision(revision(&written))).await;
    }

    /// Waits until a definition is so.
    pub(crate) async fn wait_for_definition(&self, name: &str, is: impl Fn(&Value) -> bool) -> Value {
        let list = self.client.get(&format!("{DEFINITIONS}?fieldSelector=metadata.name={name}")).await.ok();
        let first = list["items"].get(0).cloned().unwrap_or_default();
        if is(&first) {
            return first;
        }
        let from = revision(&list);
        let path = format!("{DEFINITIONS}?watch=1&fieldSelector=metadata.name={name}&resourceVersion={from}");
        let mut events = self.client.watch(&path).await;
        loop {
            let event = events.next().await.expect("the definition changes");
            let gone = event["type"] == "DELETED";
            let object = if gone { Value::Null } else { event["object"].clone() };
            if is(&object) {
                return object;
            }
            assert!(!gone, "the definition is gone");
        }
    }

    /// Waits until a definition is gone.
    pub(crate) async fn wait_until_gone(&self, name: &str) {
        self.wait_for_definition(name, Value::is_null).await;
    }

    /// Makes a configuration of webhooks, and waits until they are asked.
    pub(crate) async fn configure(&self, kind: &str, webhooks: Value) {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
            "metadata": {"generateName": "test-"}, "webhooks": webhooks,
        });
        let path =
            format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
        let made = self.client.create(&path, &configuration).await.created();
        self.webhooks.wait_for(Revision(revision(&made))).await;
    }
}

/// The status of a condition.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .find(|condition| condition["type"] == kind)
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}

/// The reason of a condition.
pub(crate) fn reason<'a>(object: &'a Value, kind: &str) -> &'a str {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .find(|condition| condition["type"] == kind)
        .and_then(|condition| condition["reason"].as_str())
        .unwrap_or_default()
}

/// A definition of namespaced foos in one version, whose objects have these properties.
#[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
pub(crate) fn definition(properties: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"], "categories": ["all"]},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}],
        },
    })
}

pub(crate) const FOOS: &str = "/apis/ex.io/v1/namespaces/default/foos";

/// A foo.
#[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
pub(crate) fn foo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}
