//! Objects are made, changed, deleted and made again in any order: OVN ends with the rows of `any_order.golden`, and with none in
//! between. `PORTOLAN_GOLDEN=write` writes that file anew.

use std::path::Path;
use std::time::Duration;

use ovsdb::Cache;
use portolan_plan::comparison::Picture;
use portolan_plan::northbound::DATABASE;
use portolan_testbed::{ApiKind, Northbound, Test, TestLab};
use regex::Regex;
use serde_json::{Value, json};

use crate::Stage;

const OBJECTS: &str = include_str!("any_order.yaml");
const GOLDEN: &str = "tests/controller/any_order.golden";
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
        self.kubectl(&["delete", &kind, name, "--wait=false", "--grace-period=0", "--force"]);
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
        _ => return None,
    };
    let mut object = object.clone();
    for (field, value) in change.as_object()? {
        object["spec"][field] = value.clone();
    }
    Some(object)
}

fn any_order(lab: &TestLab, api: ApiKind) {
    let golden_file = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    let golden = std::fs::read_to_string(&golden_file).unwrap_or_default();
    let stage = Stage::new(lab, api);
    stage.kubectl(&["create", "namespace", crate::NAMESPACE]);
    let _controller = stage.start("only", &[]);
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(OBJECTS).unwrap();
    let apply = |object: &Value| stage.testbed.apply(&object.to_string()).unwrap();
    if std::env::var_os("PORTOLAN_GOLDEN").is_some() {
        objects.iter().for_each(apply);
        stage.serve_all();
        std::fs::write(&golden_file, render(&stage.northbound.client().read())).unwrap();
        return;
    }
    for seed in 0..ORDERS {
        let mut random = fastrand::Rng::with_seed(seed);
        // Made in any order, some otherwise at first, which then change back in any order.
        random.shuffle(&mut objects);
        let mut otherwise = Vec::new();
        for object in &objects {
            match changed(object).filter(|_| random.bool()) {
                Some(changed) => {
                    apply(&changed);
                    otherwise.push(object.clone());
                }
                None => apply(object),
            }
        }
        random.shuffle(&mut otherwise);
        otherwise.iter().for_each(apply);
        stage.rows_become(&golden, &format!("seed {seed}, made and changed"));
        // Deleted in any order, and nothing is left: no row, no lock.
        random.shuffle(&mut objects);
        objects.iter().for_each(|object| stage.delete_object(object));
        stage.rows_become("", &format!("seed {seed}, deleted"));
        stage.kubectl(&["wait", "--for=delete", "iplocks", "--all", "--timeout=60s"]);
        stage.kubectl(&[
            "wait",
            "--for=delete",
            "subnets.kubeovn.io,vpcs.kubeovn.io",
            "--all",
            "--timeout=60s",
        ]);
        stage.kubectl(&[
            "wait",
            "--for=delete",
            "subnets.portolan.dev,vpcs.portolan.dev",
            "--all",
            "--timeout=60s",
        ]);
    }
}

impl Stage<'_> {
    /// Waits until every pod has its ports, and the peering is there.
    fn serve_all(&self) {
        self.northbound.wait_until(|cache| {
            let units = Northbound::units_in(cache);
            let ports = units.iter().filter(|unit| unit.starts_with("attachment/")).count();
            ports == 5 && units.iter().any(|unit| unit.starts_with("peering/"))
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
