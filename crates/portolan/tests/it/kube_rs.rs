//! kube-rs on either API server: the same tests, on kube-apiserver and on Portolan's own.

mod apply;
mod controller;
mod deletion;
mod discovery;
mod finalizer;
mod leader;
mod watchers;

use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Resource};
use portolan_testbed::cluster::ApiServer;
use portolan_testbed::{ApiKind, Lab, Test, Underlay};

#[test]
fn kube_rs_works_on_kube_apiserver() {
    run(ApiKind::Kubernetes);
}

#[test]
fn kube_rs_works_on_portolans_own_apiserver() {
    run(ApiKind::Portolan);
}

fn run(api: ApiKind) {
    Test::new().deadline(Duration::from_secs(180)).run(async move |lab| {
        let server = tokio::task::spawn_blocking(move || Server::start(&lab, api)).await.unwrap();
        let client = server.client().await;
        let space = async |name: &'static str| Space::make(client.clone(), name).await;
        tokio::join!(
            watchers::the_two_ways_to_list_agree(space("watchers").await),
            watchers::metadata_alone_can_be_watched(space("metadata").await),
            watchers::a_store_reflects_what_there_is(space("reflector").await),
            apply::owners_of_fields_are_respected(space("apply").await),
            apply::who_saw_an_old_version_may_not_write(space("versions").await),
            apply::status_and_scale_are_apart(space("subresources").await),
            finalizer::nothing_goes_before_it_is_cleaned_up(space("finalizer").await),
            deletion::who_deletes_is_not_told_that_there_was_nothing(space("deletion").await),
            controller::what_is_owned_is_kept_as_it_should_be(space("controller").await),
            controller::events_are_recorded(space("events").await),
            discovery::kinds_are_found_in_both_ways(space("discovery").await),
            leader::another_leads_when_the_leader_stops_or_crashes(space("leader").await),
        );
    });
}

struct Server {
    // Held for its processes.
    _server: ApiServer,
    _underlay: Underlay,
    kubeconfig: std::path::PathBuf,
}

impl Server {
    fn start(lab: &Lab, api: ApiKind) -> Server {
        let underlay = Underlay::start(lab).unwrap();
        let home = underlay.home_address();
        let server = ApiServer::builder(api.into(), home).start(lab).unwrap();
        let kubeconfig = server.kubeconfig_for("admin", lab, home).unwrap();
        Server { _server: server, _underlay: underlay, kubeconfig }
    }

    async fn client(&self) -> Client {
        let file = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

/// A namespace of one test.
struct Space {
    client: Client,
    name: &'static str,
}

impl Space {
    async fn make(client: Client, name: &'static str) -> Space {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.into());
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        Space { client, name }
    }

    /// The objects of a kind in the namespace.
    fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), self.name)
    }
}
