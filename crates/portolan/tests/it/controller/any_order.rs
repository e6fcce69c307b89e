//! Objects are made, changed, deleted and made again in any order: OVN ends with the rows of a golden file, and with none of theirs in
//! between; beside another primary network, and as the primary network. `PORTOLAN_GOLDEN=write` writes those files anew.

use std::path::Path;
use std::time::Duration;

use ovsdb::Cache;
use portolan_plan::comparison::Picture;
use portolan_plan::northbound::DATABASE;
use portolan_testbed::{ApiKind, Northbound, Test, TestLab};
use regex::Regex;
use serde_json::{Value, json};

use crate::controller::Stage;

/// Objects, and what comes of them.
struct Set {
    objects: &'static str,
    golden: &'static str,
    /// How many ports there are in the end.
    ports: usize,
    peerings: usize,
    /// Pods are made once the Subnets of their namespaces are in effect.
    waits_for_subnets: bool,
}

const BESIDE: Set = Set {
    objects: include_str!("any_order.yaml"),
    golden: "tests/it/controller/any_order.golden",
    ports: 5,
    peerings: 1,
    waits_for_subnets: false,
};
const PRIMARY: Set = Set {
    objects: include_str!("any_order_primary.yaml"),
    golden: "tests/it/controller/any_order_primary.golden",
    // Of three pods, of which one has two, of the node, and of the NetworkAttachment.
    ports: 6,
    peerings: 0,
    waits_for_subnets: true,
};
/// How many orders are tried on one cluster.
const ORDERS: u64 = 2;
/// How long what must come is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The rows in the database that are Portolan's, without what differs each time.
fn render(cache: &Cache) -> String {
    let units = Northbound::units_in(cache).iter().map(Into::into).collect();
    let rows = Picture::default().compare(&Picture::of_database(&DATABASE, cache, &units));
    let text: String = rows.iter().map(ToString::to_string).collect();
    let of_port = Regex::new(r#"((?:port:|attachment/)[^"\s]*/)[0-9a-f-]{8,36}"#).unwrap();
    let uuid = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    uuid.replace_all(&of_port.replace_all(&text, "${1}UID"), "UID").into_owned()
}

impl Set {
    /// The objects that are made last, and the others before them. What a pod gets on the primary network depends on what there is for its
    /// namespace by then.
    fn in_turn(&self, objects: &[Value]) -> (Vec<Value>, Vec<Value>) {
        let is_last = |object: &Value| self.waits_for_subnets && object["kind"] == "Pod";
        objects.iter().cloned().partition(is_last)
    }
}

impl Stage<'_> {
    /// Waits until the rows are these.
    fn rows_become(&self, expected: &str, when: &str) {
        let (client, wanted) = (self.northbound.client().clone(), expected.to_owned());
        let came = self.testbed.wait(async move {
            let as_wanted = client.wait_for(|cache| (render(cache) == wanted).then_some(()));
            tokio::time::timeout(PATIENCE, as_wanted).await.is_ok()
        });
        assert!(came, "{when}:\n{}", difference(expected, &render(&self.northbound.client().read())));
    }

    fn delete_object(&self, object: &Value) {
        let kind = match object["apiVersion"].as_str().unwrap().split_once('/') {
            Some((group, _)) => format!("{}.{group}", plural(object)),
            None => plural(object),
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        let namespace =
            format!("--namespace={}", object["metadata"]["namespace"].as_str().unwrap_or("default"));
        self.kubectl(&["delete", &kind, name, &namespace, "--wait=false", "--grace-period=0", "--force"]);
    }
}

fn plural(object: &Value) -> String {
    match object["kind"].as_str().unwrap() {
        "NetworkAttachmentDefinition" => "network-attachment-definitions".into(),
        kind => format!("{}s", kind.to_lowercase()),
    }
}

/// The lines that only one of the texts has.
fn difference(expected: &str, found: &str) -> String {
    let lines = |of: &str, not: &str, sign: char| -> String {
        let lost = of.lines().filter(|line| !not.lines().any(|other| other == *line));
        lost.map(|line| format!("{sign} {line}\n")).collect()
    };
    lines(expected, found, '-') + &lines(found, expected, '+')
}

/// An object with something else in it that may change, if there is anything.
fn changed(object: &Value) -> Option<Value> {
    let of = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
    if (of("/kind"), of("/metadata/name")) == ("Pod", "alone") {
        let mut object = object.clone();
        let annotations = &mut object["metadata"]["annotations"];
        annotations["isolated.default.ovn.kubernetes.io/ingress_rate"] = json!("none");
        annotations["isolated.default.ovn.kubernetes.io/egress_rate"] = json!("7");
        return Some(object);
    }
    let change = match (of("/kind"), of("/metadata/name")) {
        ("Vpc", "blue") => json!({
            "policyRoutes": [{"priority": 7, "action": "drop", "match": "ip4.src == 10.1.0.99"}],
            "staticRoutes": [{"policy": "policyDst", "cidr": "10.77.0.0/16", "nextHopIP": "10.1.0.77"}],
        }),
        ("Vpc", "red") => json!({"vpcPeerings": []}),
        ("Subnet", "plain") => json!({"mtu": 1200}),
        ("Subnet", "dual") => json!({"enableDHCP": false}),
        ("Subnet", "private") => json!({"private": false}),
        ("Subnet", "isolated") => json!({"excludeIps": ["10.1.0.3"]}),
        ("Subnet", "apps") => json!({"mtu": 1200}),
        ("Subnet", "tenant") => json!({"enableDHCP": true}),
        _ => return None,
    };
    let mut object = object.clone();
    for (field, value) in change.as_object()? {
        object["spec"][field] = value.clone();
    }
    Some(object)
}

fn any_order(lab: &TestLab, api: ApiKind) {
    let stage = Stage::new(lab, api);
    stage.kubectl(&["create", "namespace", crate::controller::NAMESPACE]);
    let beside = stage.start("beside", &["--leader-election=false"]);
    stage.try_orders(&BESIDE);
    beside.process.stop().unwrap();
    let _primary = stage.start("primary", &["--leader-election=false", "--primary"]);
    stage.northbound.wait_until(|cache| Northbound::units_in(cache).contains("vpc/ovn-cluster"));
    stage.try_orders(&PRIMARY);
}

impl Stage<'_> {
    fn try_orders(&self, set: &Set) {
        let golden_file = Path::new(env!("CARGO_MANIFEST_DIR")).join(set.golden);
        let golden = std::fs::read_to_string(&golden_file).unwrap_or_default();
        let before = render(&self.northbound.client().read());
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(set.objects).unwrap();
        let apply = |object: &Value| self.testbed.apply(&object.to_string()).unwrap();
        if std::env::var_os("PORTOLAN_GOLDEN").is_some() {
            let (pods, others) = set.in_turn(&objects);
            others.iter().for_each(apply);
            self.serve_subnets(&pods);
            pods.iter().for_each(apply);
            self.serve_all(set);
            std::fs::write(&golden_file, render(&self.northbound.client().read())).unwrap();
            objects.iter().for_each(|object| self.delete_object(object));
            return self.is_as_before(&before, "written");
        }
        for seed in 0..ORDERS {
            let mut random = fastrand::Rng::with_seed(seed);
            // Made in any order, some otherwise at first, which then change back in any order.
            random.shuffle(&mut objects);
            let (pods, others) = set.in_turn(&objects);
            let mut otherwise = Vec::new();
            let mut make = |object: &Value| match changed(object).filter(|_| random.bool()) {
                Some(changed) => {
                    apply(&changed);
                    otherwise.push(object.clone());
                }
                None => apply(object),
            };
            others.iter().for_each(&mut make);
            self.serve_subnets(&pods);
            pods.iter().for_each(&mut make);
            random.shuffle(&mut otherwise);
            otherwise.iter().for_each(apply);
            self.rows_become(&golden, &format!("seed {seed}, made and changed"));
            // Deleted in any order, and nothing is left: no row, no lock.
            random.shuffle(&mut objects);
            objects.iter().for_each(|object| self.delete_object(object));
            self.is_as_before(&before, &format!("seed {seed}, deleted"));
        }
    }

    /// Nothing is left of the objects: no row, no lock.
    fn is_as_before(&self, before: &str, when: &str) {
        self.rows_become(before, when);
        for kinds in
            ["iplocks", "subnets.kubeovn.io,vpcs.kubeovn.io", "subnets.portolan.dev,vpcs.portolan.dev"]
        {
            self.kubectl(&["wait", "--for=delete", kinds, "--all", "--timeout=60s"]);
        }
    }
}

impl Stage<'_> {
    /// Waits until every pod has its ports, and the peering is there.
    fn serve_all(&self, set: &Set) {
        let (all_ports, all_peerings) = (set.ports, set.peerings);
        self.northbound.wait_until(move |cache| {
            let units = Northbound::units_in(cache);
            let count = |of: &str| units.iter().filter(|unit| unit.starts_with(of)).count();
            count("attachment/") == all_ports && count("peering/") == all_peerings
        });
    }

    /// Waits until the Subnets are in effect that these pods are on by their namespaces.
    fn serve_subnets(&self, pods: &[Value]) {
        if pods.is_empty() {
            return;
        }
        self.northbound.wait_until(|cache| {
            let units = Northbound::units_in(cache);
            ["subnet/apps", "subnet/tenant", "subnet/node:node-1"].iter().all(|unit| units.contains(*unit))
        });
    }
}

fn run(api: ApiKind) {
    Test::new().deadline(Duration::from_secs(300)).run(async move |lab: TestLab| any_order(&lab, api));
}

#[test]
fn objects_made_changed_and_deleted_in_any_order_end_in_the_same_rows_on_portolans_own_apiserver() {
    run(ApiKind::Portolan);
}

#[test]
fn objects_made_changed_and_deleted_in_any_order_end_in_the_same_rows_on_kube_apiserver() {
    run(ApiKind::Kubernetes);
}
