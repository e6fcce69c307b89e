//! etcd and kube-apiserver, as built from their sources.

use portolan_testbed::{Etcd, KubeApiServer};

#[test]
fn one_etcd_serves() {
    portolan_testbed::test(async |lab| {
        let etcd = Etcd::builder().start(&lab).unwrap();
        let health = lab.command("curl").args(["-sf", &format!("{}/health", etcd.urls()[0])]).read().unwrap();
        assert!(health.contains(r#""health":"true""#), "{health}");
    });
}

#[test]
fn three_etcds_with_tls_survive_the_death_of_one() {
    portolan_testbed::test(async |lab| {
        let etcd = Etcd::builder().members(3).tls().start(&lab).unwrap();
        let client = etcd.client().unwrap();
        let curl = |member: usize, path: &str| {
            lab.command("curl")
                // While a new leader is elected, clients are asked to come again.
                .args(["-sSf", "--max-time", "20", "--retry", "5", "--cacert"])
                .arg(etcd.authority_file().unwrap())
                .arg("--cert")
                .arg(&client.certificate)
                .arg("--key")
                .arg(&client.key)
                .arg(format!("{}{path}", etcd.urls()[member]))
        };
        // "ship" = "Argo"
        curl(0, "/v3/kv/put").args(["-d", r#"{"key": "c2hpcA==", "value": "QXJnbw=="}"#]).read().unwrap();
        etcd.members()[0].kill().unwrap();
        let found = curl(1, "/v3/kv/range").args(["-d", r#"{"key": "c2hpcA=="}"#]).read().unwrap();
        assert!(found.contains("QXJnbw=="), "{found}");
        etcd.members()[0].restart().unwrap();
        let found = curl(0, "/v3/kv/range").args(["-d", r#"{"key": "c2hpcA=="}"#]).read().unwrap();
        assert!(found.contains("QXJnbw=="), "{found}");

        let stranger = lab.command("curl").args(["-sk", &format!("{}/health", etcd.urls()[0])]);
        assert!(stranger.read().is_err(), "a client without a certificate is refused");
    });
}

#[test]
fn kube_apiserver_keeps_objects_and_audits_who_wrote_them() {
    portolan_testbed::test(async |lab| {
        let server = KubeApiServer::builder().audit_log().start(&lab).unwrap();
        assert_eq!(server.get("/readyz").unwrap(), (200, "ok".into()));
        let kubectl = |arguments: &[&str]| server.kubectl().unwrap().args(arguments).read();
        kubectl(&["create", "configmap", "chart", "--from-literal=sea=Aegean"]).unwrap();
        assert_eq!(kubectl(&["get", "configmap", "chart", "-o=jsonpath={.data.sea}"]).unwrap(), "Aegean");

        server.kill().unwrap();
        server.restart().unwrap();
        assert_eq!(kubectl(&["get", "configmap", "chart", "-o=jsonpath={.data.sea}"]).unwrap(), "Aegean");

        let audit = std::fs::read_to_string(server.audit_log().unwrap()).unwrap();
        let events = audit.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let writes = events.filter(|event| {
            event["verb"] == "create"
                && event["objectRef"]["name"] == "chart"
                && event["user"]["username"] == "admin"
        });
        assert_eq!(writes.count(), 1);
    });
}
