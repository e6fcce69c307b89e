//! How kube-apiserver proves itself to aggregated servers: what the ConfigMap `kube-system/extension-apiserver-authentication` says.

use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::watch;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// What is asked of a front proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontProxy {
    /// The authorities that sign its certificate, in PEM.
    pub(crate) authorities: String,
    /// The common names that its certificate may have; any if there is none.
    pub(crate) allowed_names: Vec<String>,
    pub(crate) user_headers: Vec<String>,
    pub(crate) group_headers: Vec<String>,
    pub(crate) extra_prefixes: Vec<String>,
}

/// Follows the ConfigMap. Nothing is trusted until it was seen, nor after it was deleted.
pub(crate) fn follow(client: Client) -> (watch::Receiver<Option<Arc<FrontProxy>>>, impl Future<Output = ()>) {
    let (sender, receiver) = watch::channel(None);
    let api = Api::<ConfigMap>::namespaced(client, NAMESPACE);
    let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let following = async move {
        let mut events = watcher(api, config).default_backoff().boxed();
        let mut listed = None;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed = None,
                Ok(Event::InitApply(map)) => listed = Some(map),
                Ok(Event::InitDone) => {
                    sender.send_replace(listed.take().and_then(|map| FrontProxy::read(&map)).map(Arc::new));
                }
                Ok(Event::Apply(map)) => {
                    sender.send_replace(FrontProxy::read(&map).map(Arc::new));
                }
                Ok(Event::Delete(_)) => {
                    sender.send_replace(None);
                }
                Err(error) => tracing::warn!(%error, "cannot watch ConfigMap {NAMESPACE}/{NAME}"),
            }
        }
    };
    (receiver, following)
}

impl FrontProxy {
    /// None if the cluster has no front proxy.
    fn read(map: &ConfigMap) -> Option<Self> {
        let data = map.data.as_ref()?;
        // An unreadable list of names must not turn into an empty one, which admits every name.
        let list = |key: &str| {
            let text = data.get(key).map_or("[]", String::as_str);
            let parsed = serde_json::from_str::<Vec<String>>(text);
            parsed.inspect_err(|error| tracing::warn!(key, %error, "ConfigMap extension-apiserver-authentication cannot be read")).ok()
        };
        Some(Self {
            authorities: data.get("requestheader-client-ca-file").filter(|text| !text.is_empty())?.clone(),
            allowed_names: list("requestheader-allowed-names")?,
            user_headers: list("requestheader-username-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?,
        })
    }

    /// Whether a certificate with this common name may speak for users. Its signature was checked before.
    pub(crate) fn admits(&self, common_name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|name| name == common_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_a_front_proxy_admits_nobody() {
        let map = |json: &str| serde_json::from_str::<ConfigMap>(json).unwrap();
        assert_eq!(FrontProxy::read(&map("{}")), None);
        assert_eq!(FrontProxy::read(&map(r#"{"data": {"client-ca-file": "x"}}"#)), None);
        let read = FrontProxy::read(&map(
            r#"{"data": {"requestheader-client-ca-file": "x", "requestheader-allowed-names": "[\"front\"]",
                "requestheader-username-headers": "[\"X-Remote-User\"]"}}"#,
        ));
        let read = read.unwrap();
        assert!(read.admits("front") && !read.admits("other"));
        assert_eq!(read.user_headers, ["X-Remote-User"]);
    }
}
