//! A trace server over real TLS: who gets in, who does not, and what they are told.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod bounds;
mod client;
mod front_proxy;

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::ObjectMeta;
use portolan_model::World;
use portolan_trace::{Databases, NotAvailable, Tracer, Worlds};
use portolan_trace_server::{Config, Server, ServiceReference};
use portolan_watch::fake::FakeApi;
use tokio::task::JoinSet;

use client::{Authority, Client};

/// An API server that knows a front proxy, and a trace server on it.
pub(crate) struct Scene {
    pub(crate) api: FakeApi,
    /// The authority that signs the front proxy's certificate.
    pub(crate) front_proxies: Authority,
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

/// The ConfigMap that says how kube-apiserver proves itself.
pub(crate) fn config_map(front_proxies: &Authority, allowed_names: &str) -> ConfigMap {
    let metadata = ObjectMeta {
        namespace: Some("kube-system".into()),
        name: Some("extension-apiserver-authentication".into()),
        ..ObjectMeta::default()
    };
    let authorities = front_proxies.pem();
    let data = [
        ("requestheader-client-ca-file", authorities.as_str()),
        ("requestheader-allowed-names", allowed_names),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
    ];
    let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
    ConfigMap { metadata, data: Some(data.into()), ..ConfigMap::default() }
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";

impl Scene {
    /// Kubernetes as kubeadm sets it up: the front proxy is called `front-proxy-client`.
    pub(crate) async fn usual() -> Self {
        Self::with_allowed_names(r#"["front-proxy-client"]"#).await
    }

    pub(crate) async fn with_allowed_names(allowed_names: &str) -> Self {
        let (api, front_proxies) = (FakeApi::default(), Authority::new());
        api.put(&config_map(&front_proxies, allowed_names));
        let scene = Self::start(api, front_proxies).await;
        // A watch is opened once the list has been taken in.
        scene.api.requested(&format!("WATCH {CONFIG_MAPS}"), 1).await;
        scene
    }

    pub(crate) async fn start(api: FakeApi, front_proxies: Authority) -> Self {
        let service = ServiceReference { namespace: "portolan-system".into(), name: "portolan-trace".into() };
        let listen = SocketAddr::from(([0, 0, 0, 0], 0));
        let server = Server::bind(Config { listen, service }).await.unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], server.address().port()));
        let (client, mut tasks) = (api.client(), JoinSet::new());
        tasks.spawn(async move {
            let databases = || ["unix:/nonexistent".parse().unwrap()].into();
            let nowhere = Databases { northbound: databases(), southbound: databases(), tls: None };
            let tracer = Tracer::connect(&nowhere, portolan_plan::Settings::default());
            server.run(client, tracer, NoWorld).await.unwrap();
        });
        Self { api, front_proxies, address, _tasks: tasks }
    }

    /// A client that trusts what the Secret says.
    pub(crate) async fn client(&self) -> Client {
        self.api.requested("WATCH /api/v1/namespaces/portolan-system/secrets", 1).await;
        loop {
            if let Some(secret) = self.api.stored::<Secret>("portolan-system", "portolan-trace-ca") {
                let secret: Secret = serde_json::from_value(secret).unwrap();
                return Client::new(self.address, &secret.data.unwrap()["ca.crt"].0);
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Nothing here gets as far as to ask for it.
struct NoWorld;

impl Worlds for NoWorld {
    async fn read<T: Send + 'static>(
        &self,
        _reader: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Result<T, NotAvailable> {
        Err(NotAvailable)
    }
}
