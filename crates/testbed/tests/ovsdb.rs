//! ovsdb-server, alone, with TLS, and as a raft cluster.

use std::time::{Duration, Instant};

use portolan_testbed::pki::Authority;
use portolan_testbed::{OVN_NB_SCHEMA, OvsdbServer, RaftCluster};
use serde_json::json;

const SCHEMA: &str = r#"{"name": "Ships", "version": "1.0.0", "tables": {
    "Ship": {"columns": {"name": {"type": "string"}}, "isRoot": true}}}"#;

#[test]
fn standalone_server_answers_and_survives_a_crash() {
    portolan_testbed::test(async |lab| {
        let server = OvsdbServer::builder("ships").schema_json(SCHEMA).tcp(6640).start(&lab).unwrap();
        assert_eq!(server.call("list_dbs", &json!([])).unwrap(), json!(["Ships", "_Server"]));
        server
            .transact("Ships", &[json!({"op": "insert", "table": "Ship", "row": {"name": "Argo"}})])
            .unwrap();

        server.kill().unwrap();
        assert!(!server.is_alive());
        assert!(server.call("list_dbs", &json!([])).is_err());
        server.restart().unwrap();

        let found = server
            .transact("Ships", &[json!({"op": "select", "table": "Ship", "where": [], "columns": ["name"]})])
            .unwrap();
        assert_eq!(found[0]["rows"], json!([{"name": "Argo"}]));
        let by_tcp = lab.command("ovsdb-client").args(["list-dbs", &server.tcp_endpoint().unwrap()]);
        assert!(by_tcp.read().unwrap().contains("Ships"));
        server.stop().unwrap();
        assert!(!server.is_alive());
    });
}

#[test]
fn tls_server_admits_clients_of_its_authority_only() {
    portolan_testbed::test(async |lab| {
        let (ours, theirs) = (Authority::new("ours").unwrap(), Authority::new("theirs").unwrap());
        let identity = ours.server("ovsdb", &["127.0.0.1"]).unwrap();
        let server = OvsdbServer::builder("nb")
            .schema_file(OVN_NB_SCHEMA)
            .ssl(6643, &identity, &ours)
            .start(&lab)
            .unwrap();
        let ca = ours.write(lab.path(), "ca").unwrap();
        let list_dbs = |authority: &Authority, name: &str| {
            let files = authority.client(name, None).unwrap().write(lab.path(), name).unwrap();
            lab.command("ovsdb-client")
                .arg("--timeout=5")
                .arg(format!("--private-key={}", files.key.display()))
                .arg(format!("--certificate={}", files.certificate.display()))
                .arg(format!("--ca-cert={}", ca.display()))
                .args(["list-dbs", &server.ssl_endpoint().unwrap()])
                .read()
        };
        assert!(list_dbs(&ours, "friend").unwrap().contains("OVN_Northbound"));
        assert!(list_dbs(&theirs, "stranger").is_err());
    });
}

#[test]
fn raft_cluster_survives_the_death_of_its_leader() {
    portolan_testbed::test(async |lab| {
        let cluster = RaftCluster::builder_json("ships", SCHEMA)
            .election_timer(Duration::from_millis(200))
            .start(&lab)
            .unwrap();
        let insert = |name: &str| [json!({"op": "insert", "table": "Ship", "row": {"name": name}})];
        let first = cluster.leader(Duration::from_secs(10)).unwrap();
        cluster.members()[first].transact("Ships", &insert("Argo")).unwrap();

        cluster.members()[first].kill().unwrap();
        let started = Instant::now();
        let second = cluster.leader(Duration::from_secs(10)).unwrap();
        println!("failover took {:?}", started.elapsed());
        assert_ne!(first, second);
        cluster.members()[second].transact("Ships", &insert("Beagle")).unwrap();

        cluster.members()[first].restart().unwrap();
        cluster.wait_until_connected().unwrap();
        let status = cluster.members()[first].control("cluster/status", &["Ships"]).unwrap();
        assert!(status.contains("Status: cluster member"), "{status}");
        let count = |rows: &serde_json::Value| rows[0]["rows"].as_array().unwrap().len();
        let all = [json!({"op": "select", "table": "Ship", "where": []})];
        let rows = cluster.members()[second].transact("Ships", &all).unwrap();
        assert_eq!(count(&json!(rows)), 2);
    });
}
