//! The controller with a real API server and a real northbound database.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::events;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use ovsdb::Endpoint;
use portolan_api::kubeovn;
use portolan_api::portolan::{HolderKind, IPLock};
use portolan_controller::Config;
use portolan_testbed::cluster::define_kinds;
use portolan_testbed::{ApiKind, Northbound, TestLab, Testbed};
use tokio::task::JoinHandle;

const OBJECTS: &str = include_str!("objects.yaml");
const POD: &str = include_str!("pod.yaml");
const USER: &str = "portolan-controller";

/// An API server with the CRDs, and a northbound database; no nodes. Controllers are started by the test, in its process.
struct Stage {
    testbed: Testbed,
    northbound: Northbound,
}

impl Stage {
    async fn new(lab: &TestLab) -> Self {
        let stage = Self::without_kinds(lab);
        stage.define_kinds().await;
        stage
    }

    /// The API server as it is made: it knows none of our kinds.
    fn without_kinds(lab: &TestLab) -> Self {
        let builder = Testbed::builder().nodes(0).api(ApiKind::Kubernetes).audit_log();
        let testbed = builder.without_kinds().without_controller().without_agents().start(lab).unwrap();
        Self { northbound: testbed.northbound(), testbed }
    }

    async fn define_kinds(&self) {
        define_kinds(&self.testbed.client()).await.unwrap();
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        self.testbed.kubectl().unwrap().args(arguments).stdin(input).read().unwrap()
    }

    async fn start_controller(&self) -> JoinHandle<()> {
        let kubeconfig = self.testbed.kubeconfig_for(USER).unwrap();
        let endpoints = Endpoint::parse_list(&self.testbed.central().nb().endpoint()).unwrap();
        let mut config = Config::new(kube_config(&kubeconfig).await, endpoints);
        config.sb = Endpoint::parse_list(&self.testbed.central().sb().endpoint()).unwrap().into();
        tokio::spawn(async move { portolan_controller::run(config, std::future::pending()).await.unwrap() })
    }

    /// Waits until there are no locks, of gateways either.
    async fn no_locks(&self) {
        self.locks_of(&[HolderKind::Pod, HolderKind::Subnet], 0).await;
    }

    /// Waits until pods hold so many locks, and returns their names.
    async fn locks(&self, count: usize) -> BTreeSet<String> {
        self.locks_of(&[HolderKind::Pod], count).await
    }

    async fn locks_of(&self, holders: &[HolderKind], count: usize) -> BTreeSet<String> {
        let mut events =
            watcher(Api::<IPLock>::all(self.testbed.client()), watcher::Config::default()).boxed();
        let (mut names, mut listed) = (BTreeSet::new(), false);
        loop {
            match events.next().await.unwrap().unwrap() {
                Event::Init => names.clear(),
                Event::InitDone => listed = true,
                Event::InitApply(lock) | Event::Apply(lock) if holders.contains(&lock.spec.holder.kind) => {
                    names.insert(lock.name_any());
                }
                Event::Delete(lock) => {
                    names.remove(&lock.name_any());
                }
                Event::InitApply(_) | Event::Apply(_) => {}
            }
            if listed && names.len() == count {
                return names;
            }
        }
    }

    /// Waits until exactly these units have rows.
    async fn units(&self, expected: &[&str]) {
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let seen = self.northbound.client().wait_for(|cache| {
            let units = Northbound::units_in(cache);
            let shown: BTreeSet<&str> = units
                .iter()
                .map(|unit| {
                    unit.rsplit_once('/')
                        .map_or(unit.as_str(), |(start, last)| if last.len() == 36 { start } else { unit })
                })
                .collect();
            (shown == expected).then(|| units.clone())
        });
        if tokio::time::timeout(Duration::from_secs(30), seen).await.is_err() {
            panic!("expected {expected:?}, there are {:?}", self.northbound.units());
        }
    }

    /// Waits until the VPC says that it is in effect with so many subnets: nothing more is to be said about it then.
    async fn vpc_is_ready(&self, subnets: usize) {
        let says_all = move |vpc: Option<&kubeovn::Vpc>| {
            let status = vpc.and_then(|vpc| vpc.status.as_ref());
            status.is_some_and(|status| {
                status.standby && status.subnets.as_ref().is_some_and(|listed| listed.len() == subnets)
            })
        };
        await_condition(Api::<kubeovn::Vpc>::all(self.testbed.client()), "blue", says_all).await.unwrap();
    }

    /// Waits for an Event about a Subnet, and returns what it says.
    async fn event(&self, subnet: &str, reason: &str) -> String {
        let config = watcher::Config::default().fields(&format!("reason={reason}"));
        let events = Api::<events::v1::Event>::namespaced(self.testbed.client(), "default");
        let mut events = watcher(events, config).applied_objects().boxed();
        loop {
            let event = events.next().await.unwrap().unwrap();
            if event.regarding.is_some_and(|object| object.name.as_deref() == Some(subnet)) {
                return event.note.unwrap_or_default();
            }
        }
    }

    /// What the controller wrote: verbs, resources and names.
    fn writes(&self) -> Vec<(String, String, String)> {
        let audit = std::fs::read_to_string(self.testbed.api().audit_log().unwrap()).unwrap();
        let events = audit.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let writes = events.filter(|event| {
            let verb = event["verb"].as_str().unwrap();
            event["user"]["username"] == USER && ["create", "update", "patch", "delete"].contains(&verb)
        });
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let object = |event: &serde_json::Value, field: &str| text(&event["objectRef"][field]);
        writes
            .map(|event| (text(&event["verb"]), object(&event, "resource"), object(&event, "name")))
            .collect()
    }

    /// How often it did this to one of these locks.
    fn count(&self, verb: &str, locks: &BTreeSet<String>) -> usize {
        let of_locks = |write: &&(String, String, String)| {
            (write.0.as_str(), write.1.as_str()) == (verb, "iplocks") && locks.contains(&write.2)
        };
        self.writes().iter().filter(of_locks).count()
    }

    /// Deletes all that was made, and waits until nothing is left of it.
    async fn empty(&self) {
        self.kubectl(&["delete", "--wait=false", "--grace-period=0", "--force", "-f-"], POD);
        self.kubectl(&["delete", "--wait=false", "-f-"], OBJECTS);
        self.units(&[]).await;
        self.no_locks().await;
    }
}

async fn kube_config(path: &Path) -> kube::Config {
    let file = Kubeconfig::read_from(path).unwrap();
    kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap()
}

const ALL: &[&str] = &[
    "attachment/pod/default/app/net1",
    "attachment/pod/default/app/net2",
    "subnet/db",
    "subnet/web",
    "vpc/blue",
];

#[test]
fn a_pod_costs_one_write_per_address_and_leaves_nothing() {
    portolan_testbed::test(async |lab| {
        let stage = Stage::new(&lab).await;
        let controller = stage.start_controller().await;
        stage.kubectl(&["apply", "-f-"], OBJECTS);
        stage.units(&["subnet/db", "subnet/web", "vpc/blue"]).await;
        stage.vpc_is_ready(2).await;
        let before = stage.writes().len();
        stage.kubectl(&["apply", "-f-"], POD);
        let locks = stage.locks(2).await;
        stage.units(ALL).await;
        let shown = stage.testbed.central().nbctl(&["show"]).unwrap();
        assert!(shown.contains("port:default/app/net1/"), "{shown}");
        assert_eq!(stage.count("create", &locks), 2, "one write per address");
        // The watch may show a subnet's condition and gateway, and a VPC's status, before the audit log has the write; and what both say of
        // themselves is written beside, with no pod waiting for it.
        let mut others = stage.writes().split_off(before);
        others.retain(|(_, resource, _)| !["subnets", "vpcs", "iplocks"].contains(&resource.as_str()));
        // Nobody waits for what tells the pod what it got.
        let told = others
            .extract_if(.., |(verb, resource, _)| (verb.as_str(), resource.as_str()) == ("patch", "pods"));
        assert!(told.count() <= 1, "it is told once");
        assert_eq!(others, []);
        stage.empty().await;
        assert_eq!(stage.count("delete", &locks), 2);
        assert!(!controller.is_finished());
        controller.abort();
    });
}

#[test]
fn a_controller_killed_between_lock_and_plan_is_replaced_by_the_next() {
    portolan_testbed::test(async |lab| {
        let stage = Stage::new(&lab).await;
        // Somebody else is the writer, so that the first controller comes as far as the locks.
        let writer = stage.northbound.hold_writes();
        let first = stage.start_controller().await;
        stage.kubectl(&["apply", "-f-"], OBJECTS);
        stage.kubectl(&["apply", "-f-"], POD);
        let locks = stage.locks(2).await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        assert_eq!(stage.northbound.units(), BTreeSet::new());
        drop(writer);

        let second = stage.start_controller().await;
        stage.units(ALL).await;
        assert_eq!(stage.locks(2).await, locks);
        assert_eq!(stage.count("create", &locks), 2, "the locks that were there are enough");
        stage.empty().await;
        second.abort();
    });
}

#[test]
fn a_controller_that_starts_before_its_kinds_are_defined_serves_them_once_they_are() {
    portolan_testbed::test(async |lab| {
        let stage = Stage::without_kinds(&lab);
        // Rows of a VPC whose kind is not served: discovery says that it is gone, and so do its rows.
        let tags = ["external_ids:portolan/unit=\"vpc/old\"", "external_ids:portolan/owner=\"an-old-uid\""];
        let create = ["create", "Logical_Router", "name=\"vpc:old\""].into_iter().chain(tags);
        stage.testbed.central().nbctl(&create.collect::<Vec<_>>()).unwrap();
        let controller = stage.start_controller().await;
        stage.units(&[]).await;
        stage.define_kinds().await;
        stage.kubectl(&["apply", "-f-"], OBJECTS);
        stage.kubectl(&["apply", "-f-"], POD);
        stage.units(ALL).await;
        stage.empty().await;
        assert!(!controller.is_finished());
        controller.abort();
    });
}

#[test]
fn two_controllers_at_once_end_like_one() {
    portolan_testbed::test(async |lab| {
        let stage = Stage::new(&lab).await;
        let (one, other) = (stage.start_controller().await, stage.start_controller().await);
        stage.kubectl(&["apply", "-f-"], OBJECTS);
        stage.kubectl(&["apply", "-f-"], POD);
        stage.units(ALL).await;
        stage.locks(2).await;
        // Whichever of them is the writer, the other goes on where it was.
        one.abort();
        stage.empty().await;
        assert!(!other.is_finished());
        other.abort();
    });
}

/// Subnets of Kube-OVN with whatever in their fields.
const SUBNETS_WITHOUT_SCHEMA: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: subnets.kubeovn.io}
spec:
  group: kubeovn.io
  names: {plural: subnets, singular: subnet, kind: Subnet, listKind: SubnetList}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
const WRONG_TYPE: &str = r#"{"spec": {"cidrBlock": 7}}"#;

#[test]
fn a_subnet_that_cannot_be_decoded_keeps_what_it_has_and_disturbs_no_other() {
    portolan_testbed::test(async |lab| {
        let stage = Stage::without_kinds(&lab);
        let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        for file in std::fs::read_dir(crds).unwrap() {
            let path = file.unwrap().path();
            let is_subnets = path.ends_with("subnets.kubeovn.io.yaml");
            let text = if is_subnets {
                SUBNETS_WITHOUT_SCHEMA.into()
            } else {
                std::fs::read_to_string(path).unwrap()
            };
            stage.kubectl(&["create", "-f-"], &text);
        }
        stage.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"], "");
        stage.kubectl(&["apply", "-f-"], OBJECTS);
        let broken = r#"{"apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": "broken"},
            "spec": {"cidrBlock": 7, "vpc": "blue"}}"#;
        stage.kubectl(&["apply", "-f-"], broken);
        // It is in the first list.
        let first = stage.start_controller().await;
        stage.kubectl(&["apply", "-f-"], POD);
        stage.units(ALL).await;
        let said = stage.event("broken", "Unreadable").await;
        assert!(said.contains("spec.cidrBlock: invalid type: integer `7`"), "{said}");
        // One in use becomes unreadable, for this controller and for the next.
        let locks = stage.locks(2).await;
        stage.kubectl(&["patch", "subnets.kubeovn.io/web", "--type=merge", "-p", WRONG_TYPE], "");
        stage.event("web", "Unreadable").await;
        first.abort();
        let second = stage.start_controller().await;
        let later = POD.replace("name: app\n", "name: later\n").replace("web,db", "db");
        stage.kubectl(&["apply", "-f-"], &later);
        let units: Vec<&str> = ALL.iter().copied().chain(["attachment/pod/default/later/net1"]).collect();
        stage.units(&units).await;
        assert!(stage.locks(3).await.is_superset(&locks));
        // Once they can be read, they are taken up.
        for (name, cidr) in [("web", "10.0.0.0/24"), ("broken", "10.0.2.0/24")] {
            let patch = format!(r#"{{"spec": {{"cidrBlock": "{cidr}"}}}}"#);
            stage
                .kubectl(&["patch", &format!("subnets.kubeovn.io/{name}"), "--type=merge", "-p", &patch], "");
        }
        let units: Vec<&str> = units.into_iter().chain(["subnet/broken"]).collect();
        stage.units(&units).await;
        assert!(stage.event("web", "Resolved").await.contains("Unreadable"));
        assert!(stage.locks(3).await.is_superset(&locks));
        assert!(!second.is_finished());
        second.abort();
    });
}
