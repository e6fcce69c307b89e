//! A server that is started on a directory whose certificates have expired.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use apiserver::pki::{Lifetimes, Pki};
use http::Method;
use portolan_testbed::Test;

use crate::apiserver::server::{Server, request};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[test]
fn expired_certificates_are_replaced_at_the_start_and_valid_ones_are_used_again() {
    Test::new().deadline(Duration::from_secs(120)).run(async |lab| {
        let data = lab.directory("apiserver").unwrap();
        let two_years_ago = Arc::new(|| SystemTime::now() - 2 * YEAR);
        let pki = Pki::open_with(&data, Lifetimes::default(), two_years_ago).unwrap();
        pki.server(&["127.0.0.1".into()]).unwrap();
        let kubeconfig = pki.admin_kubeconfig("127.0.0.1:1".parse().unwrap()).unwrap();
        let expired = std::fs::read_to_string(&kubeconfig).unwrap();

        let server = Server::start(&lab);
        assert_eq!(server.kubeconfig(), kubeconfig);
        let renewed = std::fs::read_to_string(&kubeconfig).unwrap();
        assert_ne!(renewed, expired);
        let namespaces = || request(Method::GET, "/api/v1/namespaces", None);
        server.client().await.request_text(namespaces()).await.unwrap();

        server.process.restart().unwrap();
        assert_eq!(std::fs::read_to_string(&kubeconfig).unwrap(), renewed);
        server.client().await.request_text(namespaces()).await.unwrap();
    });
}
