//! How much memory the controller's state takes for each attachment, by part.
//!
//! ```text
//! cargo run --release --package portolan-controller --example engine_memory -- 100000
//! ```

#[path = "../../plan/examples/support/large_world.rs"]
#[allow(dead_code, reason = "only the database of it is used here")]
mod large_world;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use portolan_api::portolan::{DecidedInterface, Holder, HolderKind, IPLockSpec, LockAddress};
use portolan_api::portolan::{IPLock, NetworkAttachment};
use portolan_api::{Domain, Family, Mac, kubeovn, kubevirt};
use portolan_controller::Engine;
use portolan_controller::engine::{Change, Observed};
use portolan_model::fixtures::{mk_nad_of, mk_subnet, mk_validated, mk_vpc};
use portolan_model::{AttachmentId, Settings};
use portolan_watch::Page;
use serde_json::json;

const SUBNETS: usize = 20;

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let mut engine = Engine::new(Settings::default(), portolan_plan::Settings::default());
    let (mut subnets, mut nads) = (Vec::new(), Vec::new());
    for number in 0..SUBNETS {
        let subnet = mk_subnet(&format!("net{number}"), &format!("10.{number}.0.0/16"), "blue");
        subnets.push(mk_validated(subnet, Some(1)));
        let (name, provider) = (format!("net{number}"), format!("net{number}.default.ovn"));
        let config = json!({"cniVersion": "0.3.1", "type": "kube-ovn", "provider": provider});
        nads.push(mk_nad_of("default", &name, &config.to_string()));
    }
    engine.feed(&Change::listed(vec![mk_vpc("blue")]));
    engine.feed(&Change::listed(subnets));
    engine.feed(&Change::listed(nads));
    engine.feed(&Change::<kubeovn::Vpc>::listed(Vec::new()));
    engine.feed(&Change::<kubeovn::Subnet>::listed(Vec::new()));
    engine.feed(&Change::<kubeovn::IPPool>::listed(Vec::new()));
    engine.feed(&Change::<kubeovn::Vip>::listed(Vec::new()));
    engine.feed(&Change::<kubevirt::VirtualMachine>::listed(Vec::new()));
    engine.feed(&Change::<kubevirt::VirtualMachineInstance>::listed(Vec::new()));
    engine.feed(&Change::<NetworkAttachment>::listed(Vec::new()));
    engine.feed(&Change::<StatefulSet>::listed(Vec::new()));
    engine.feed(&Change::<Node>::listed(Vec::new()));
    let before = live();
    println!("an engine without attachments: {} KiB", before / 1024);
    pages(&mut engine, count, lock);
    pages(&mut engine, count, pod);
    let listed = live();
    report("attachments that were listed, each", listed - before, count);
    println!("{} actions", engine.actions().len());
    let decided = live();
    report("after deciding, each", decided - before, count);
    let cache = large_world::cache(large_world::full_plan(engine.world()));
    let rows = live();
    report("the copy of the database, per attachment", rows - decided, count);
    engine.compare_all(&cache);
    println!("{} transactions", engine.plan(&cache, 1_000).len());
    report("all, per attachment", live() - before, count);
}

/// Feeds objects as the pages of a list.
fn pages<K: Observed>(engine: &mut Engine, count: usize, object: fn(usize) -> K) {
    for first in (0..count).step_by(500) {
        let objects: Vec<K> = (first..count.min(first + 500)).map(object).collect();
        engine.feed_page(Page { listed: objects.into(), first: first == 0 });
    }
    engine.feed(&Change::<K>::listed(Vec::new()));
}

/// The resident memory of this process in bytes.
fn live() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

fn report(what: &str, bytes: usize, count: usize) {
    println!("{what}: {} bytes (in all {} KiB)", bytes / count, live() / 1024);
}

fn name(number: usize) -> String {
    format!("many-{number}")
}

fn pod(number: usize) -> Pod {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": name(number), "namespace": "default", "uid": uid(2, number),
            "resourceVersion": "17", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"k8s.v1.cni.cncf.io/networks": format!("net{}", number % SUBNETS)}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "none"}]},
        "status": {"phase": "Running", "hostIP": "192.0.2.1"}});
    serde_json::from_value(pod).expect("invariant: this is a pod")
}

fn lock(number: usize) -> IPLock {
    let (subnet, host) = (number % SUBNETS, number / SUBNETS + 2);
    let address = std::net::Ipv4Addr::new(10, subnet as u8, (host / 256) as u8, (host % 256) as u8);
    let holder = Holder {
        kind: HolderKind::Pod,
        namespace: Some("default".into()),
        name: name(number),
        uid: uid(2, number),
        interface: Some("net1".into()),
    };
    let spec = IPLockSpec {
        subnet: format!("net{subnet}"),
        mac: Some(Mac::derive(address.into(), None).to_string()),
        iface_id: AttachmentId::new(&holder, "net1").map(|id| id.iface_id()),
        holder,
        node: Some("node-1".into()),
        interfaces: vec![DecidedInterface { interface: "net1".into(), families: vec![Family::IPv4] }],
        ..IPLockSpec::default()
    };
    let mut lock = IPLock::of(&Domain::Vpc("blue".into()), LockAddress::Ip(address.into()), spec);
    lock.metadata.uid = Some(uid(1, number));
    lock.metadata.resource_version = Some((number + 1).to_string());
    lock.metadata.generation = Some(1);
    lock
}

fn uid(kind: usize, number: usize) -> String {
    format!("{kind}0000000-0000-4000-8000-{number:012}")
}
