use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::fake::{Answer, FakeApi};
use crate::{Listed, Received};

fn slice(name: &str, endpoints: &Value, ports: &Value) -> EndpointSlice {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "default"}, "endpoints": endpoints, "ports": ports,
    });
    serde_json::from_value(slice).expect("it is one")
}

/// A slice as API servers make it.
fn usual(name: &str, hosts: &[&str]) -> EndpointSlice {
    slice(
        name,
        &json!([{"addresses": hosts, "conditions": {"ready": true}}]),
        &json!([{"name": "https", "port": 6443}]),
    )
}

fn texts(addresses: &[SocketAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[test]
fn the_addresses_of_a_slice_are_those_where_somebody_is_ready() {
    assert_eq!(
        texts(&addresses(&usual("a", &["192.0.2.1", "fd00::1"]))),
        ["192.0.2.1:6443", "[fd00::1]:6443"]
    );
    let endpoints = json!([
        {"addresses": ["192.0.2.1"], "conditions": {"ready": false}},
        {"addresses": ["192.0.2.2"], "conditions": {}},
        {"addresses": ["api.example.org"]},
        {"addresses": ["192.0.2.3"]},
    ]);
    let ports = json!([{"name": "metrics", "port": 1}, {"name": "https", "port": 443}]);
    let found = addresses(&slice("a", &endpoints, &ports));
    assert_eq!(texts(&found), ["192.0.2.2:443", "192.0.2.3:443"]);
    for ports in [json!([]), json!([{"name": "https"}]), json!([{"port": 0}]), json!([{"port": 65536}])] {
        assert!(addresses(&slice("a", &endpoints, &ports)).is_empty(), "{ports}");
    }
}

#[test]
fn slices_are_taken_together_and_one_that_cannot_be_read_says_what_it_said() {
    let mut slices = Slices::default();
    slices.take(Change::listed(vec![usual("a", &["192.0.2.1"]), usual("b", &["192.0.2.2", "192.0.2.1"])]));
    assert_eq!(texts(&slices.addresses()), ["192.0.2.1:6443", "192.0.2.2:6443"]);
    slices.take(Change::Applied(usual("a", &["192.0.2.3"])));
    slices.take(Change::deleted(&usual("b", &[])));
    assert_eq!(texts(&slices.addresses()), ["192.0.2.3:6443"]);
    let wrong = json!({"metadata": {"name": "a", "namespace": "default"}, "endpoints": 1});
    let Received::Unreadable(wrong) = serde_json::from_value(wrong).expect("it has metadata") else {
        panic!("it can be read")
    };
    slices
        .take(Change::Listed(Listed { objects: vec![usual("c", &["192.0.2.4"])], unreadable: vec![*wrong] }));
    assert_eq!(texts(&slices.addresses()), ["192.0.2.3:6443", "192.0.2.4:6443"]);
    slices.take(Change::listed(Vec::new()));
    assert!(slices.addresses().is_empty());
}

fn at(last: usize) -> SocketAddr {
    ([192, 0, 2, u8::try_from(last).expect("it is a byte")], 6443).into()
}

#[test]
fn every_list_is_told_and_of_a_long_one_the_first_addresses_are_used() {
    let config = kube::Config::new("https://api.example.org".parse().expect("it is a URL"));
    let followed = ApiServers::followed(config, &[at(1)]).shared().expect("they are followed");
    assert_eq!(followed.list(vec![at(1)]), Some(vec![at(1)]), "a file that is not there needs it");
    assert_eq!(followed.list(Vec::new()), None);
    let many: Vec<_> = (1..100).map(at).collect();
    assert_eq!(followed.list(many.clone()), Some(many[..MOST].to_vec()));
    assert_eq!(followed.order().0.len(), MOST + 1);
}

#[test]
fn not_every_process_begins_with_the_same_of_those_that_were_known() {
    let config = kube::Config::new("https://api.example.org".parse().expect("it is a URL"));
    let known: Vec<_> = (1..100).map(at).collect();
    let order = || {
        let followed = ApiServers::followed(config.clone(), &known).shared();
        followed.expect("they are followed").order().0
    };
    let (one, other) = (order(), order());
    assert_ne!(one, other, "in any of so many orders");
    assert_eq!((one[0], other[0]), (Server::Given, Server::Given));
    assert_eq!(BTreeSet::from_iter(one), BTreeSet::from_iter(other));
}

fn followed(url: &str) -> Option<Known> {
    let config = kube::Config::new(url.parse().expect("it is a URL"));
    ApiServers::followed(config, &[([192, 0, 2, 7], 6443).into()]).known()
}

#[test]
fn what_is_not_an_api_server_itself_is_not_followed() {
    assert!(followed("https://192.0.2.1:6443").is_some());
    assert!(followed("https://api.example.org").is_some());
    assert!(followed("http://127.0.0.1:8001").is_none(), "kubectl proxy");
    assert!(followed("https://rancher.example.org/k8s/clusters/one").is_none());
    let mut unverified = kube::Config::new("https://192.0.2.1:6443".parse().expect("it is a URL"));
    unverified.accept_invalid_certs = true;
    assert!(ApiServers::followed(unverified, &[at(7)]).known().is_none(), "credentials would go to anybody");
    let known = followed("https://[fd00::1]/").expect("it is followed");
    assert_eq!((known.current, texts(&known.addresses)), (None, vec!["192.0.2.7:6443".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn it_is_known_whether_servers_are_followed_and_why_not() {
    let api = FakeApi::default();
    api.always("endpointslices", Answer::Code(403));
    let config = kube::Config::new("https://192.0.2.1:6443".parse().expect("it is a URL"));
    let servers = ApiServers::followed(config, &[([192, 0, 2, 7], 6443).into()]);
    let known = || servers.known().expect("they may be followed");
    assert_eq!(known().behind.as_deref(), Some("following was not begun yet"));
    let followed = servers.shared().expect("they may be followed");
    let following = tokio::spawn(followed.clone().follow(api.client(), |_| {}));
    while followed.status.get().is_none() {
        tokio::task::yield_now().await;
    }
    let status = followed.status.get().expect("it was begun").clone();
    let lost = async || {
        let mut changes = status.changes();
        while !status.has_lost::<EndpointSlice>() {
            changes.changed().await.expect("it is followed");
        }
        known().behind.expect("it is not in step")
    };
    let why = lost().await;
    for part in ["endpointslices.discovery.k8s.io: not in step for ", "the API server answered 403"] {
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(texts(&known().addresses), ["192.0.2.7:6443"], "as it was before");
    api.lift();
    api.put(&usual("kubernetes", &["192.0.2.1", "192.0.2.2"]));
    status.in_step().await;
    assert_eq!(known().behind, None);
    assert_eq!(texts(&known().addresses), ["192.0.2.1:6443", "192.0.2.2:6443"]);
    api.cut_watches();
    lost().await;
    following.abort();
}
