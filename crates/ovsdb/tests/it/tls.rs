//! `ssl:` endpoints.

use std::path::Path;

use ovsdb::{Monitor, ServerNames, Status, TlsFiles};
use portolan_testbed::pki::{Authority, Identity};
use portolan_testbed::{Lab, OvsdbServer};

use crate::support::{SCHEMA, SEA, client, lighthouse, transaction};

const PORT: u16 = 6640;

fn server(lab: &Lab, authority: &Authority, identity: &Identity) -> OvsdbServer {
    OvsdbServer::builder("sea").schema_json(SCHEMA).ssl(PORT, identity, authority).start(lab).unwrap()
}

fn files(directory: &Path, name: &str, ca: &Authority, identity: &Identity) -> TlsFiles {
    let files = identity.write(directory, name).unwrap();
    let ca = ca.write(directory, &format!("{name}-ca")).unwrap();
    TlsFiles { ca, certificate: files.certificate, private_key: files.key, names: ServerNames::Any }
}

async fn error(server: &OvsdbServer, tls: Option<TlsFiles>) -> String {
    let mut builder = client(SEA, &server.ssl_endpoint().unwrap());
    if let Some(tls) = tls {
        builder = builder.tls(tls);
    }
    let client = builder.connect();
    let mut status = client.status();
    let settled = |status: &Status| !matches!(status, Status::Connecting { error: None, .. });
    match &*status.wait_for(settled).await.unwrap() {
        Status::Connecting { error: Some(error), .. } => {
            let cause = std::error::Error::source(&**error).map(|e| format!(": {e}")).unwrap_or_default();
            format!("{error}{cause}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_sides_have_to_be_of_the_same_authority() {
    portolan_testbed::test(async |lab| {
        let (ours, theirs) = (Authority::new("ours").unwrap(), Authority::new("theirs").unwrap());
        let server = server(&lab, &ours, &ours.server("sea", &["sea.example"]).unwrap());
        let friend = ours.client("friend", None).unwrap();
        let stranger = theirs.client("stranger", None).unwrap();

        let good = files(lab.path(), "good", &ours, &friend);
        let client = client(SEA, &server.ssl_endpoint().unwrap())
            .tls(good.clone())
            .monitor(Monitor::table("Lighthouse"))
            .connect();
        client.ready().await;
        // More than a TLS record in each direction.
        client.transact(&transaction((0..1000).map(lighthouse))).await.unwrap();
        assert_eq!(client.read().table("Lighthouse").unwrap().len(), 1000);

        let wrong_ca = error(&server, Some(files(lab.path(), "wrong", &theirs, &friend))).await;
        assert!(wrong_ca.contains("UnknownIssuer") || wrong_ca.contains("BadSignature"), "{wrong_ca}");
        let refused = error(&server, Some(files(lab.path(), "stranger", &ours, &stranger))).await;
        assert!(refused.contains("alert") || refused.contains("closed"), "{refused}");
        assert_eq!(error(&server, None).await, "an ssl: endpoint needs certificates, and none were given");
        let other_name = TlsFiles { names: ServerNames::Verify, ..good.clone() };
        let named = error(&server, Some(other_name)).await;
        assert!(named.contains("not valid for name"), "{named}");
        let absent = TlsFiles { private_key: "/nonexistent/key".into(), ..good.clone() };
        let absent = error(&server, Some(absent)).await;
        assert!(absent.starts_with("cannot use /nonexistent/key: "), "{absent}");
        std::fs::write(lab.path().join("empty"), "").unwrap();
        let empty = error(&server, Some(TlsFiles { ca: lab.path().join("empty"), ..good })).await;
        assert!(empty.ends_with("/empty: it contains no certificate"), "{empty}");
    });
}

#[test]
fn rotated_certificates_are_used_by_the_next_connection() {
    portolan_testbed::test(async |lab| {
        let (old, new) = (Authority::new("old").unwrap(), Authority::new("new").unwrap());
        let before = server(&lab, &old, &old.server("sea", &["127.0.0.1"]).unwrap());
        let endpoint = before.ssl_endpoint().unwrap();
        let tls = files(lab.path(), "client", &old, &old.client("client", None).unwrap());
        let client = client(SEA, &endpoint).tls(tls).connect();
        client.ready().await;
        let mut status = client.status();

        before.stop().unwrap();
        drop(before);
        let after = OvsdbServer::builder("sea2")
            .schema_json(SCHEMA)
            .ssl(PORT, &new.server("sea", &["127.0.0.1"]).unwrap(), &new)
            .start(&lab)
            .unwrap();
        assert_eq!(after.ssl_endpoint().unwrap(), endpoint);
        let refused = |status: &Status| match status {
            Status::Connecting { error: Some(error), .. } => {
                matches!(**error, ovsdb::ConnectionError::Connect(_))
            }
            _ => false,
        };
        status.wait_for(refused).await.unwrap();
        // The same files, with new content.
        files(lab.path(), "client", &new, &new.client("client", None).unwrap());
        client.ready().await;
        client.transact(&transaction([lighthouse(1)])).await.unwrap();
    });
}
