//! A cluster without nodes, whose pods nobody runs.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, Resource};
use ovn_schema::sb::PortBinding;
use ovsdb::{Cache, Condition, Endpoint, Monitor};
use portolan_api::portolan::IPLock;
use portolan_testbed::{ApiKind, Daemon, Northbound, Process, TestLab, Testbed};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::load;

const NAMESPACE: &str = "portolan-system";

pub(crate) struct Stage<'a> {
    lab: &'a TestLab,
    testbed: Testbed,
    northbound: Northbound,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(lab: &'a TestLab, api: ApiKind) -> Self {
        let testbed = Testbed::builder().nodes(0).api(api).audit_log().without_controller().without_agents();
        let testbed = testbed.start(lab).unwrap();
        testbed.kubectl().unwrap().args(["create", "namespace", NAMESPACE]).read().unwrap();
        testbed.apply(&objects()).unwrap();
        let northbound = testbed.northbound();
        Stage { lab, testbed, northbound }
    }

    pub(crate) fn controller(&self, name: &str, arguments: &[&str]) -> Process {
        let central = self.testbed.central();
        Daemon::new(name, env!("CARGO_BIN_EXE_portolan"))
            .args(["controller", "--log=warn", "--ovn-nb", &central.nb().endpoint()])
            .args(["--ovn-sb", &central.sb().endpoint(), "--kubeconfig"])
            .arg(self.testbed.kubeconfig())
            .args(arguments)
            .start(self.lab.home())
            .unwrap()
    }

    /// Waits for something that a client does.
    pub(crate) fn wait<T, F>(&self, run: impl FnOnce(Client) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.testbed.wait(run(self.testbed.client()))
    }

    /// Waits until the subnets are in effect.
    pub(crate) fn warm_up(&self) {
        self.create_pods("warm-", load::SUBNETS);
        self.wait_for_ports("warm-", load::SUBNETS);
    }

    pub(crate) fn create_pods(&self, prefix: &str, count: usize) {
        self.wait(|client| load::create(client, prefix.to_owned(), count));
    }

    pub(crate) fn delete_pods(&self, prefix: &str, count: usize) {
        self.wait(|client| load::delete(client, prefix.to_owned(), count));
    }

    /// Waits until so many pods of a name have their ports.
    pub(crate) fn wait_for_ports(&self, prefix: &str, count: usize) {
        let start = format!("attachment/pod/default/{prefix}");
        self.northbound.wait_until(move |cache| {
            // The cheap question first: the whole is walked through for each change.
            let ports = cache.table("Logical_Switch_Port").map_or(0, |table| table.iter().count());
            ports >= count
                && Northbound::units_in(cache).iter().filter(|unit| unit.starts_with(&start)).count() == count
        });
    }

    /// Waits until northd has made so many ports of guests.
    pub(crate) fn wait_for_bindings(&self, count: usize) {
        let endpoints = Endpoint::parse_list(&self.testbed.central().sb().endpoint()).unwrap();
        let columns = [PortBinding::TYPE.name()];
        let ports = Condition::any_of([PortBinding::TYPE.equals(&String::new())]);
        let ports = Monitor::of::<PortBinding>().columns(columns).condition(ports);
        self.wait(|_| async move {
            let southbound = ovsdb::Client::builder("OVN_Southbound", endpoints).monitor(ports).connect();
            let rows = |cache: &Cache| cache.table("Port_Binding").map_or(0, |table| table.iter().count());
            southbound.wait_for(|cache| (rows(cache) >= count).then_some(())).await;
        });
    }

    /// Removes all pods and locks.
    pub(crate) fn clear(&self) {
        self.wait(|client| async move {
            let now = DeleteParams::default().grace_period(0);
            Api::<Pod>::namespaced(client.clone(), "default")
                .delete_collection(&now, &ListParams::default())
                .await
                .unwrap();
            Api::<IPLock>::all(client).delete_collection(&now, &ListParams::default()).await.unwrap();
        });
    }

    pub(crate) fn stop_northd(&self) {
        self.testbed.central().northd().kill().unwrap();
    }

    pub(crate) fn start_northd(&self) {
        self.testbed.central().northd().restart().unwrap();
    }

    pub(crate) fn audit_log(&self) -> &Path {
        self.testbed.api().audit_log().unwrap()
    }

    /// A controller that is ready to act.
    pub(crate) fn ready_controller(&self, name: &str) -> Process {
        let port = self.lab.port();
        let controller = self.controller(name, &[&format!("--health-address={port}")]);
        let url = format!("http://127.0.0.1:{port}/readyz");
        let curl = self.lab.command("curl").args(["-sSf", "--retry", "50", "--retry-connrefused"]);
        curl.args(["--retry-delay", "1", &url]).read().unwrap();
        controller
    }

    /// How long it takes to list pods and locks and to copy the database, all at once.
    pub(crate) fn bare_start(&self) -> Duration {
        let endpoints = Endpoint::parse_list(&self.testbed.central().nb().endpoint()).unwrap();
        let begun = Instant::now();
        self.wait(|client| async move {
            let builder = ovsdb::Client::builder("OVN_Northbound", endpoints);
            let tables = portolan_plan::northbound::DATABASE.indexes();
            let copy = tables.into_iter().fold(builder, |builder, (table, indexes)| {
                builder.monitor(indexes.into_iter().fold(ovsdb::Monitor::table(table), ovsdb::Monitor::index))
            });
            let copy = copy.connect();
            futures::join!(list::<Pod>(client.clone()), list::<IPLock>(client), copy.ready());
        });
        begun.elapsed()
    }
}

async fn list<K>(client: Client) -> usize
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    Api::<K>::all(client).list(&ListParams::default()).await.unwrap().items.len()
}

/// A VPC with its subnets, a definition for each, and a node.
fn objects() -> String {
    let mut items = vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}),
        json!({"apiVersion": "kubeovn.io/v1", "kind": "Vpc", "metadata": {"name": "blue"}, "spec": {}}),
    ];
    for number in 0..load::SUBNETS {
        let (name, provider) = (format!("net{number}"), format!("net{number}.default.ovn"));
        let config = json!({"cniVersion": "0.3.1", "type": "kube-ovn", "provider": provider}).to_string();
        items.push(
            json!({"apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": name}, "spec": {
            "vpc": "blue", "protocol": "IPv4", "provider": provider,
            "cidrBlock": format!("10.{number}.0.0/16"), "gateway": format!("10.{number}.0.1")}}),
        );
        items.push(json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"config": config}}));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}
