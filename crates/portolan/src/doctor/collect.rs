//! What the API server says of a cluster. Each part is asked for by itself: what is refused or missing hides nothing else.

mod certificates;
mod cluster;
mod installation;
mod nodes;
mod objects;

use http::Request;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::client::Body;
use kube::{Api, Resource};
use portolan_agent::examine::facts::Outcome;
use serde::de::DeserializeOwned;

use super::facts::Facts;
use crate::cluster::Cluster;
use crate::output::now;
use crate::waiting::Waiting;

/// Fails only if the API server cannot be asked at all.
pub(super) async fn facts(cluster: &Cluster, namespace: &str) -> anyhow::Result<Facts> {
    let _waiting = Waiting::start(format!("asking the API server at {}", cluster.url));
    let ahead = clock(cluster).await?;
    let ask = Ask { cluster, namespace };
    let (
        (version, kube_ovn, api_services, stuck_namespaces),
        installed,
        (nodes, service_networks, subnets, troubled),
    ) = futures::join!(
        async {
            futures::join!(
                cluster::version(&ask),
                cluster::kube_ovn(&ask),
                cluster::api_services(&ask),
                cluster::stuck_namespaces(&ask),
            )
        },
        installation::all(&ask),
        async {
            futures::join!(
                nodes::all(&ask),
                cluster::service_networks(&ask),
                objects::subnets(&ask),
                objects::troubled(&ask),
            )
        },
    );
    let (installation, definitions, members, certificates, webhook, lease) = installed;
    Ok(Facts {
        namespace: namespace.to_owned(),
        now: now() + ahead.found().copied().unwrap_or_default(),
        ahead,
        version,
        kube_ovn,
        definitions,
        installation,
        members,
        certificates,
        webhook,
        api_services,
        stuck_namespaces,
        lease,
        nodes,
        service_networks,
        subnets,
        troubled,
    })
}

/// Asks one cluster, about an installation in one namespace.
struct Ask<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
}

impl Ask<'_> {
    /// All objects of a kind; none if the API server does not serve it.
    async fn list<K>(&self, api: &Api<K>, what: &str, parameters: &ListParams) -> anyhow::Result<Vec<K>>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        match api.list(parameters).await {
            Ok(list) => Ok(list.items),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(self.cluster.explain(what, &error)),
        }
    }

    fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.cluster.client.clone())
    }

    /// Objects of a kind that has no type here, everywhere.
    fn dynamic(&self, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        Api::all_with(self.cluster.client.clone(), &resource)
    }
}

/// By how much the API server's clock is ahead of this machine's: it says its time in every answer.
async fn clock(cluster: &Cluster) -> anyhow::Result<Outcome<i64>> {
    let request = Request::get("/version").body(Body::empty())?;
    let sent = now();
    let answer = cluster.client.send(request).await;
    let answer = answer.map_err(|error| cluster.explain("its version", &error))?;
    let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
    let Some(date) = date else {
        return Ok(Outcome::Unknown("the API server does not say what time it has".into()));
    };
    // The time is of some moment between request and answer.
    let (earliest, latest) = (sent, now());
    Ok(match jiff::fmt::rfc2822::parse(date) {
        Err(error) => Outcome::Unknown(format!("the API server's time {date:?} cannot be read: {error}")),
        Ok(time) => {
            let time = time.timestamp().as_second();
            Outcome::Found(if time < earliest { time - earliest } else { (time - latest).max(0) })
        }
    })
}
