//! Subnets and Services that a list lacks: each is read live, and what the node has of it stays until that has answered. Lists are of servers
//! that may be starting or were restored, and without its Subnets a node would reach no pods.

use std::convert::Infallible;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::ListParams;
use portolan_api::{kubeovn, portolan};
use portolan_model::holder::Read;
use portolan_model::{Group, Source, World};
use portolan_watch::{Listed, Object, Plain};

use crate::cluster::{Cluster, in_model};
use crate::pending::Checked;

/// Reads what lists lack for as long as the agent runs.
pub(crate) async fn run(client: &Client, cluster: &Cluster) -> Infallible {
    let confirm = async |read: Read, _| confirm(client, cluster, &read).await;
    cluster.missing().serve(confirm).await
}

async fn confirm(client: &Client, cluster: &Cluster, read: &Read) -> Result<Checked, String> {
    while let Some(lists) = cluster.lists_without(read) {
        let found = find(client, read).await.map_err(|error| {
            let error = Plain(&error).to_string();
            tracing::warn!(?read, error, "cannot read what a list lacks; what there is of it stays");
            error
        })?;
        if cluster.settle_missing(read, lists, &found) {
            break;
        }
        // Another list has come meanwhile, which may be newer than the answer.
    }
    Ok(Checked::Done)
}

/// A World that has the object if it exists, and no other.
async fn find(client: &Client, read: &Read) -> kube::Result<World> {
    match read {
        Read::SubnetOf { group: Group::Portolan, name } => {
            of_kind::<portolan::Subnet>(client, "", name).await
        }
        Read::SubnetOf { group: Group::KubeOvn, name } => of_kind::<kubeovn::Subnet>(client, "", name).await,
        Read::Service { namespace, name } => of_kind::<Service>(client, namespace, name).await,
        // Nothing else stays that a list lacks.
        _ => Ok(World::default()),
    }
}

async fn of_kind<K: Source + Object>(client: &Client, namespace: &str, name: &str) -> kube::Result<World> {
    // An agent may list these, and needs no more rights for this.
    let in_namespace =
        if namespace.is_empty() { String::new() } else { format!("metadata.namespace={namespace},") };
    let named = ListParams::default().fields(&format!("{in_namespace}metadata.name={name}"));
    let Listed { objects, unreadable } = portolan_watch::list_selected::<K>(client, &named).await?;
    let mut found = World::default();
    // Nothing is planned from this World.
    let is_it = |metadata: &ObjectMeta| {
        let of = metadata.namespace.as_deref().unwrap_or_default();
        of == namespace && metadata.name.as_deref() == Some(name)
    };
    if let Some(object) = objects.iter().find(|object| is_it(object.meta())) {
        drop(found.apply(object));
    }
    if let Some(object) = unreadable.iter().find(|object| is_it(&object.object.metadata)) {
        drop(found.apply_unreadable::<K>(&in_model(object)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use std::sync::Arc;

    use portolan_model::fixtures::mk_subnet;
    use portolan_model::subnet::DEFAULT_VPC;
    use portolan_model::{FirstInterface, Settings};
    use portolan_watch::Followers;
    use portolan_watch::fake::{Answer, FakeApi};

    use super::*;
    use crate::cluster::Known;
    use crate::engine::Engine;

    const LIST: &str = "GET /apis/portolan.dev/v1alpha1/subnets";
    const WATCH: &str = "WATCH /apis/portolan.dev/v1alpha1/subnets";
    const NAMES: [&str; 2] = ["apps", "sea"];

    /// An API server with two Subnets, and what an agent knows of them.
    async fn followed() -> (FakeApi, Arc<Cluster>, Followers) {
        let api = FakeApi::default();
        api.define::<portolan::Subnet>();
        api.put(&mk_subnet("apps", "10.50.0.0/24", DEFAULT_VPC));
        api.put(&mk_subnet("sea", "10.60.0.0/24", DEFAULT_VPC));
        let settings = Settings { first_interface: FirstInterface::Portolan };
        let (cluster, followers) =
            Cluster::follow(&api.client(), "node1", settings, &Arc::new(Engine::new()), &Arc::default());
        cluster.wait_for(|known| (has(known) == NAMES).then_some(())).await;
        (api, cluster, followers)
    }

    fn has(known: &Known) -> Vec<&'static str> {
        NAMES.into_iter().filter(|name| known.world.subnet(name).is_some()).collect()
    }

    /// Lets the next list lack all Subnets and no watch bring any, and waits until that was taken in.
    async fn list_none(api: &FakeApi, cluster: &Cluster) {
        api.script(WATCH, 1, Answer::ExpiredEvent);
        api.always(WATCH, Answer::Silence);
        api.script(LIST, 1, Answer::EmptyList);
        api.cut_watches();
        let is_listed = |known: &Known| known.world.missing().count() == 2 || has(known) != NAMES;
        cluster.wait_for(|known| is_listed(known).then_some(())).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_subnet_that_a_list_lacks_stays_unless_a_live_read_finds_it_gone() {
        let (api, cluster, _followers) = followed().await;
        list_none(&api, &cluster).await;
        assert_eq!(cluster.read(has), NAMES);
        // That it cannot be read is no answer either.
        api.script(LIST, 3, Answer::Code(503));
        tokio::spawn({
            let (client, cluster) = (api.client(), Arc::clone(&cluster));
            async move { match run(&client, &cluster).await {} }
        });
        let settled = |known: &Known| known.world.missing().next().is_none().then(|| has(known));
        assert_eq!(cluster.wait_for(settled).await, NAMES, "they are there");

        // One is deleted while nobody watches.
        api.lift();
        api.remove::<portolan::Subnet>("", "apps");
        list_none(&api, &cluster).await;
        assert_eq!(cluster.wait_for(settled).await, ["sea"]);
    }
}
