//! Services: what only a list lacks stays, what is wrong with one node stops no Service, and a change costs its own rows.

use portolan_model::FirstInterface;
use portolan_model::fixtures::{mk_service, mk_slice};

use super::*;

/// A primary network that serves Services, with these nodes, each with the name of its chassis.
fn serving(nodes: &[(&str, &str)]) -> Scene {
    let settings = Settings { first_interface: FirstInterface::Portolan };
    let plan = portolan_plan::Settings {
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        ..portolan_plan::Settings::default()
    };
    let mut scene = Scene::unlisted_as(MemDb::new(NB_SCHEMA).unwrap(), settings, plan);
    scene.list_all(Vec::new(), Vec::new(), Vec::new());
    assert!(!scene.engine.is_synced(), "Services are waited for");
    scene.list::<Service>(vec![]);
    scene.list::<EndpointSlice>(vec![]);
    scene.nodes = nodes.iter().map(|(name, chassis)| node(name, chassis)).collect();
    scene.list(scene.nodes.clone());
    scene.engine.compare_all(&scene.cache);
    scene.settle();
    scene.live_reads.clear();
    scene
}

fn node(name: &str, chassis: &str) -> Node {
    let mut metadata = named(name, &format!("uid-{name}"));
    metadata.annotations = Some([(CHASSIS_ANNOTATION.to_owned(), chassis.to_owned())].into());
    Node { metadata, ..Node::default() }
}

impl Scene {
    fn service(&mut self, name: &str, ip: &str, policy: &str) {
        let mut service = mk_service(name, &[ip]);
        service.spec.as_mut().unwrap().internal_traffic_policy = Some(policy.to_owned());
        self.engine.feed(&Change::Applied(service.clone()));
        self.services.insert(name.to_owned(), service);
    }

    fn endpoints(&mut self, service: &str, endpoints: &[(&str, &str)]) {
        let slice = mk_slice(service, endpoints);
        self.engine.feed(&Change::Applied(slice.clone()));
        self.slices.insert(slice.name_any(), slice);
    }

    /// As [`Scene::settle`], but only what an event makes dirty is compared.
    fn settle_by_events(&mut self) {
        for _ in 0..20 {
            let actions = self.engine.actions();
            let batches = self.engine.plan(&self.cache, 1000);
            if actions.is_empty() && batches.is_empty() {
                return;
            }
            actions.into_iter().for_each(|action| self.perform(action));
            for batch in batches {
                self.nb.transact(&batch.transaction()).unwrap();
                let changes = self.nb.refresh(&mut self.cache);
                self.engine.rows_changed(&changes, &self.cache);
                self.engine.committed(&batch);
            }
        }
        panic!("it never comes to rest");
    }

    /// The backends of all load balancers, and all variables.
    fn backends(&self) -> Vec<String> {
        let column = |table: &str, column: &'static str| {
            let rows = self.cache.table(table).unwrap().iter();
            let maps = rows.filter_map(move |row| row.datum(column).cloned());
            maps.map(|map| map.to_string()).filter(|text| text != "{}").collect::<Vec<_>>()
        };
        let mut all = [column("Load_Balancer", "vips"), column("Chassis_Template_Var", "variables")].concat();
        all.sort();
        all
    }

    fn has(&self, text: &str) -> bool {
        self.backends().iter().any(|row| row.contains(text))
    }
}

#[test]
fn a_service_has_load_balancers_on_all_switches_as_long_as_it_is_there() {
    let mut scene = serving(&[("n1", "n1")]);
    scene.service("web", "10.96.0.10", "Cluster");
    scene.endpoints("web", &[("10.1.0.1", "n1"), ("10.1.0.2", "n2")]);
    scene.settle();
    assert_eq!(scene.backends(), [r#"{"10.96.0.10:80"="10.1.0.1:8080,10.1.0.2:8080"}"#]);
    let group = scene.cache.table("Load_Balancer_Group").unwrap().iter().next().unwrap();
    assert_eq!(group.datum("load_balancer").unwrap().keys().count(), 1);
    let web = scene.services.remove("web").unwrap();
    scene.engine.feed(&Change::deleted(&web));
    scene.settle();
    assert_eq!(scene.backends(), [""; 0]);
    assert_eq!(scene.live_reads, [""; 0], "the deletion was seen");
}

#[test]
fn what_only_a_list_lacks_stays_until_it_was_read() {
    let mut scene = serving(&[("n1", "n1")]);
    scene.service("web", "10.96.0.10", "Cluster");
    scene.endpoints("web", &[("10.1.0.1", "n1")]);
    scene.settle();
    let before = scene.backends();
    // A server that is starting has nothing to list.
    scene.list::<Service>(vec![]);
    scene.list::<EndpointSlice>(vec![]);
    assert!(scene.engine.plan(&scene.cache, 1000).is_empty());
    scene.settle();
    assert_eq!(scene.backends(), before);
    assert_eq!(scene.live_reads.len(), 2, "{:?}", scene.live_reads);
    // They are gone indeed.
    scene.slices.clear();
    scene.list::<EndpointSlice>(vec![]);
    scene.settle();
    assert_eq!(scene.backends(), [r#"{"10.96.0.10:80"=""}"#]);
    scene.services.clear();
    scene.list::<Service>(vec![]);
    scene.settle();
    assert_eq!(scene.backends(), [""; 0]);
}

#[test]
fn a_node_that_names_the_chassis_of_another_stops_no_service() {
    let mut scene = serving(&[("n1", "one"), ("n2", "one"), ("n3", "three")]);
    scene.service("local", "10.96.0.20", "Local");
    scene.endpoints("local", &[("10.1.0.1", "n1"), ("10.1.0.2", "n2"), ("10.1.0.3", "n3")]);
    scene.settle_by_events();
    assert!(scene.has("10.1.0.1:8080") && scene.has("10.1.0.3:8080") && !scene.has("10.1.0.2:8080"));
    // What waits comes about once the other has a name of its own, without a change of the Service.
    scene.nodes[1] = node("n2", "two");
    scene.engine.feed(&Change::Applied(scene.nodes[1].clone()));
    scene.settle_by_events();
    assert!(scene.has("10.1.0.2:8080"), "{:?}", scene.backends());
}

#[test]
fn variables_go_with_endpoints_nodes_and_services() {
    let mut scene = serving(&[("n1", "n1"), ("n2", "n2")]);
    scene.service("local", "10.96.0.20", "Local");
    scene.service("other", "10.96.0.21", "Local");
    scene.endpoints("local", &[("10.1.0.1", "n1"), ("10.1.0.2", "n2")]);
    scene.endpoints("other", &[("10.1.0.9", "n1")]);
    scene.settle_by_events();
    scene.endpoints("local", &[("10.1.0.2", "n2"), ("10.1.0.3", "n2")]);
    scene.settle_by_events();
    assert!(scene.has("10.1.0.2:8080,10.1.0.3:8080") && !scene.has("10.1.0.1:8080") && scene.has("10.1.0.9"));
    // Somebody removes one by hand: its Service puts it back.
    let row = scene
        .cache
        .table("Chassis_Template_Var")
        .unwrap()
        .iter()
        .find(|row| row.datum("variables").unwrap().to_string().contains("10.1.0.9"));
    let row = row.unwrap().uuid();
    let clear = ovsdb::Operation::Update {
        table: "Chassis_Template_Var".into(),
        condition: vec![ovsdb::Clause::uuid(row)],
        row: vec![("variables".into(), ovsdb::Datum::Map([].into_iter().collect()))],
    };
    let mut transaction = ovsdb::Transaction::new();
    transaction.push(clear);
    scene.nb.transact(&transaction).unwrap();
    let changes = scene.nb.refresh(&mut scene.cache);
    scene.engine.rows_changed(&changes, &scene.cache);
    scene.settle_by_events();
    assert!(scene.has("10.1.0.9"), "{:?}", scene.backends());
    // Or the whole row: node and Services put it back.
    let mut transaction = ovsdb::Transaction::new();
    let (table, condition) = ("Chassis_Template_Var".into(), vec![ovsdb::Clause::uuid(row)]);
    transaction.push(ovsdb::Operation::Delete { table, condition });
    scene.nb.transact(&transaction).unwrap();
    let changes = scene.nb.refresh(&mut scene.cache);
    scene.engine.rows_changed(&changes, &scene.cache);
    scene.settle_by_events();
    assert!(scene.has("10.1.0.9"), "{:?}", scene.backends());
    // A node goes, and its endpoints are still listed.
    let gone = scene.nodes.remove(1);
    scene.engine.feed(&Change::deleted(&gone));
    scene.settle_by_events();
    assert!(!scene.has("10.1.0.2") && scene.has("10.1.0.9"), "{:?}", scene.backends());
    let local = scene.services.remove("local").unwrap();
    scene.engine.feed(&Change::deleted(&local));
    scene.settle_by_events();
    assert!(scene.has("10.1.0.9") && !scene.has("10.96.0.20"), "{:?}", scene.backends());
}

#[test]
fn what_of_a_service_cannot_be_served_is_told_with_what_to_do() {
    let mut scene = serving(&[("n1", "n1")]);
    scene.service("web", "10.96.0.10", "Cluster");
    scene.service("afar", "10.200.0.1", "Cluster");
    let mut thief = mk_service("thief", &["10.96.0.11"]);
    thief.spec.as_mut().unwrap().external_ips = Some(vec!["10.96.0.10".to_owned()]);
    scene.engine.feed(&Change::Applied(thief.clone()));
    scene.services.insert("thief".to_owned(), thief.clone());
    scene.settle();
    let said = |scene: &Scene, wanted: &str| {
        scene.reported.iter().find(|(reason, _)| *reason == wanted).map(|(_, message)| message.clone())
    };
    let in_use = said(&scene, "AddressInUse").unwrap();
    assert!(in_use.starts_with("10.96.0.10 leads to Service default/web at TCP 80"), "{in_use}");
    let not_routed = said(&scene, "ClusterIPNotRouted").unwrap();
    assert!(not_routed.starts_with("cluster IP 10.200.0.1 is in none"), "{not_routed}");
    assert!(scene.has(r#"{"10.96.0.11:80"=""}"#), "the rest of it is served: {:?}", scene.backends());
    // It is over when the other goes, without a change of this one.
    let web = scene.services.remove("web").unwrap();
    scene.engine.feed(&Change::deleted(&web));
    scene.settle();
    assert_eq!(scene.reasons().last(), Some(&"Resolved"));
    assert!(scene.has(r#""10.96.0.10:80"="""#), "{:?}", scene.backends());
    // A Service with more ports than there are addresses.
    let mut many = mk_service("many", &["10.96.0.30"]);
    let spec = many.spec.as_mut().unwrap();
    (spec.type_, spec.health_check_node_port) = (Some("LoadBalancer".to_owned()), Some(32000));
    spec.external_traffic_policy = Some("Local".to_owned());
    spec.external_ips = Some(vec!["192.0.2.7".to_owned()]);
    let port = spec.ports.as_ref().unwrap()[0].clone();
    let numbered = |at: i32| {
        let (name, mut port) = (Some(format!("p{at}")), port.clone());
        (port.port, port.name) = (at, name);
        port
    };
    spec.ports = Some((1..=57).map(numbered).collect());
    scene.engine.feed(&Change::Applied(many));
    scene.engine.actions().into_iter().for_each(|action| scene.perform(action));
    let many = said(&scene, "TooManyPorts").unwrap();
    assert!(many.starts_with("spec.ports[56] and those after it"), "{many}");
}
