//! kube-apiserver answers as recorded. With `PORTOLAN_RECORD=1` in the environment its answers become the recordings.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use apiserver_conformance::{ClientCertificate, Endpoint, Suite, token_file};
use portolan_testbed::{KubeApiServer, Lab};

/// Admission that does half of a work whose other half is kube-controller-manager's: it gives the tokens that pods are made
/// to mount, and takes away the taint that nodes are born with.
const WITHOUT: &str = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition";

#[test]
#[ignore = "half a minute; part of make test-full"]
fn kube_apiserver_answers_as_recorded() {
    portolan_testbed::Test::new().deadline(Duration::from_secs(600)).run(async |lab| {
        let suite = Suite::load().unwrap();
        let (server, endpoint) = start(&lab).unwrap();
        let report = if std::env::var_os("PORTOLAN_RECORD").is_some() {
            suite.record(&endpoint).await
        } else {
            suite.verify(&endpoint, &[]).await
        };
        let report = report.unwrap();
        println!("{report}");
        assert!(report.has_passed(), "not all cases passed");
        drop(server);
    });
}

/// What etcd held until now is gone: no list is of the first version, and no watch begins there.
fn forget_history(lab: &Lab, server: &KubeApiServer) -> portolan_testbed::Result<()> {
    let etcd = |path: &str, body: String| {
        let url = format!("{}/v3/kv/{path}", server.etcd().urls()[0]);
        lab.command("curl").args(["-sSf", "-d", &body, &url]).read()
    };
    let answer = etcd("range", r#"{"key": "AA=="}"#.into())?;
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("etcd answers in JSON");
    etcd("compaction", format!(r#"{{"revision": {}}}"#, answer["header"]["revision"]))?;
    Ok(())
}

fn start(lab: &Lab) -> portolan_testbed::Result<(KubeApiServer, Endpoint)> {
    let tokens = lab.path().join("tokens.csv");
    std::fs::write(&tokens, token_file()).expect("the lab's directory can be written");
    let server = KubeApiServer::builder()
        .arg(format!("--token-auth-file={}", tokens.display()))
        .arg(WITHOUT)
        .start(lab)?;
    forget_history(lab, &server)?;
    let pilot = server.authority().client("pilot", Some("sailors"))?;
    let endpoint = Endpoint {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, server.port())),
        authority: server.authority().certificate().to_owned(),
        pilot: ClientCertificate { certificate: pilot.certificate, key: pilot.key },
    };
    Ok((server, endpoint))
}
