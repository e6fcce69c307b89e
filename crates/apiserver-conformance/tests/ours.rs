//! The `apiserver` crate answers as kube-apiserver did when it was recorded.
//!
//! `pending.txt` names the cases that it does not answer so yet. A case that is struck off must pass from then on, and one that
//! begins to pass must be struck off.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use apiserver::authn::UserInfo;
use apiserver::pki::Pki;
use apiserver_builtin::Embedded;
use apiserver_conformance::{ClientCertificate, Endpoint, Outcome, Suite, USERS};

const PENDING: &str = include_str!("../pending.txt");

#[tokio::test(flavor = "multi_thread")]
async fn our_server_answers_as_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let user = |user: &apiserver_conformance::User| {
        let groups = user.groups.iter().map(ToString::to_string);
        (user.token(), UserInfo { uid: user.uid.into(), ..UserInfo::new(user.name, groups) })
    };
    let embedded = Embedded {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        tokens: USERS.iter().map(user).collect(),
        ..Embedded::new(directory.path())
    };
    let running = embedded.start().await.unwrap();
    // What was stored until now has no history: no list is of the first version, and no watch begins there.
    let storage = running.server().api().storage().clone();
    storage.compact(storage.revision()).await.unwrap();
    let pki = Pki::open(directory.path()).unwrap();
    let pilot = pki.client("pilot", &["sailors"]).unwrap();
    let endpoint = Endpoint {
        address: running.address,
        authority: pki.authority().to_owned(),
        pilot: ClientCertificate { certificate: pilot.certificate, key: pilot.key },
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(running.serve(async {
        let _ = stopped.await;
    }));

    let suite = Suite::load().unwrap();
    let report = suite.verify(&endpoint, suite.differences()).await.unwrap();
    drop(stop);
    drop(storage);
    served.await.unwrap().unwrap();

    let pending: BTreeSet<&str> =
        PENDING.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let passed = |case: &str| matches!(report.outcomes.get(case), Some(Outcome::Passed) | None);
    let failed: Vec<&str> = report
        .outcomes
        .keys()
        .map(String::as_str)
        .filter(|case| !passed(case) && !pending.contains(case))
        .collect();
    let whole = std::env::var_os("CASE").is_none();
    let struck: Vec<&str> = pending.into_iter().filter(|case| whole && passed(case)).collect();
    println!("{report}");
    assert!(failed.is_empty(), "{} cases are not answered as recorded: {failed:#?}", failed.len());
    assert!(report.stale.is_empty(), "differences that did not show must be struck off");
    assert!(
        struck.is_empty(),
        "these are answered as recorded, and must be struck off pending.txt: {struck:#?}"
    );
}
