//! The controller and an API server that fails: nothing of the old is touched, and new pods are served afterwards. Time is
//! virtual; there is no northbound database, and none is needed to take addresses.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use portolan_api::kubeovn;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, NetworkAttachment, Subnet, Vpc};
use portolan_controller::Config;
use portolan_model::fixtures::{mk_nad, mk_subnet, mk_vpc};
use portolan_model::node::POD_CIDRS_ANNOTATION;
use portolan_model::{FirstInterface, Settings};
use portolan_watch::fake::{Answer, FakeApi};
use serde_json::json;
use tokio::task::JoinHandle;

const CREATE_LOCK: &str = "POST /apis/portolan.dev/v1alpha1/iplocks";
/// The locks of gateways: the scene has one Subnet.
const GATEWAYS: usize = 1;

/// An API server with a network, and a controller of it.
struct Scene {
    api: FakeApi,
    controller: JoinHandle<()>,
}

impl Scene {
    fn new() -> Self {
        let api = FakeApi::default();
        api.define::<Vpc>();
        api.define::<Subnet>();
        api.define::<NetworkAttachment>();
        api.define::<IPLock>();
        api.define::<NetworkAttachmentDefinition>();
        api.define::<kubeovn::Subnet>();
        let metadata = ObjectMeta { name: Some("node-1".into()), ..ObjectMeta::default() };
        api.put(&Node { metadata, ..Node::default() });
        api.put(&mk_vpc("blue"));
        let mut subnet = mk_subnet("web", "10.0.0.0/24", "blue");
        subnet.spec.provider = Some("web.default.ovn".into());
        api.put(&subnet);
        api.put(&mk_nad("default", "web"));
        let controller = start(&api);
        Scene { api, controller }
    }

    fn pod(&self, name: &str) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("uid-{name}"),
                "annotations": {"k8s.v1.cni.cncf.io/networks": "web"},
            },
            "spec": {"nodeName": "node-1", "containers": []},
        }))
        .unwrap();
        self.api.put(&pod);
    }

    fn end(self) {
        assert!(!self.controller.is_finished(), "the controller ended");
        self.controller.abort();
    }
}

fn start(api: &FakeApi) -> JoinHandle<()> {
    start_with(api, Settings::default())
}

fn start_with(api: &FakeApi, settings: Settings) -> JoinHandle<()> {
    let kube = kube::Config::new("http://fake".parse().unwrap());
    let nb = ovsdb::Endpoint::parse_list("unix:/nonexistent/nb.sock").unwrap();
    let (client, config) = (api.client(), Config { settings, ..Config::new(kube, nb) });
    tokio::spawn(async move {
        portolan_controller::run_with_client(client, config, std::future::pending()).await.unwrap();
    })
}

#[tokio::test(start_paused = true)]
async fn after_any_failure_of_the_api_server_new_pods_get_addresses_and_old_locks_stay() {
    for failure in [
        Answer::Refused,
        Answer::Code(410),
        Answer::TooManyRequests(1),
        Answer::Code(500),
        Answer::Code(503),
        Answer::NamelessNotFound,
    ] {
        let scene = Scene::new();
        scene.pod("old");
        scene.api.requested(CREATE_LOCK, GATEWAYS + 1).await;
        // The API server fails for a while, on everything but discovery, and forgets its history.
        scene.api.always("/v1", failure.clone());
        scene.api.compact();
        scene.api.cut_watches();
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        scene.pod("new");
        scene.api.lift();
        scene.api.requested(CREATE_LOCK, GATEWAYS + 2).await;
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert_eq!(scene.api.requests("DELETE"), [""; 0], "{failure:?}");
        assert_eq!(scene.api.requests(CREATE_LOCK).len(), GATEWAYS + 2, "{failure:?}");
        scene.end();
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_pods_64_are_served_at_a_time_and_the_others_after_them() {
    let scene = Scene::new();
    scene.api.requested(CREATE_LOCK, GATEWAYS).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    // Every answer takes a second, so what was asked for by the middle of a second is under way.
    scene.api.always(CREATE_LOCK, Answer::Late(std::time::Duration::from_secs(1)));
    (0..200).for_each(|pod| scene.pod(&format!("pod-{pod}")));
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    for asked in [64, 128, 192, 200, 200] {
        assert_eq!(scene.api.requests(CREATE_LOCK).len(), GATEWAYS + asked);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    scene.end();
}

#[tokio::test(start_paused = true)]
async fn a_new_subnet_is_validated_although_others_write_its_status_at_the_same_time() {
    let scene = Scene::new();
    let mut subnet = mk_subnet("db", "10.0.1.0/24", "blue");
    subnet.status = None;
    scene.api.script("PATCH /apis/portolan.dev/v1alpha1/subnets/db/status", 3, Answer::Code(409));
    scene.api.put(&subnet);
    scene.api.requested("PATCH /apis/portolan.dev/v1alpha1/subnets/db/status", 4).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let stored = scene.api.stored::<Subnet>("", &subnet.name_any()).unwrap();
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    let validated = conditions.iter().find(|condition| condition["type"] == "Validated").unwrap();
    assert_eq!(validated["status"], "True", "{stored}");
    scene.end();
}

#[tokio::test(start_paused = true)]
async fn an_unsupported_field_is_reported_on_the_object() {
    let scene = Scene::new();
    let spec = json!({
        "cidrBlock": "10.7.0.0/16", "vpc": "blue", "provider": "later.default.ovn", "natOutgoing": true,
    });
    let mut subnet = kubeovn::Subnet::new("nat", serde_json::from_value(spec).unwrap());
    subnet.metadata.generation = Some(1);
    scene.api.put(&subnet);
    let status = "PATCH /apis/kubeovn.io/v1/subnets/nat/status";
    scene.api.requested(status, 1).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let stored = scene.api.stored::<kubeovn::Subnet>("", "nat").unwrap();
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    let supported = conditions.iter().find(|condition| condition["type"] == "Supported").unwrap();
    assert_eq!(supported["status"], "False");
    assert!(supported["message"].as_str().unwrap().contains("spec.natOutgoing"), "{supported}");
    let event = "POST /apis/events.k8s.io/v1/namespaces/default/events";
    scene.api.requested(event, 1).await;
    scene.end();
}

#[tokio::test(start_paused = true)]
async fn on_the_primary_network_no_pod_is_made_outside_of_its_vpc_while_subnets_cannot_be_watched() {
    let scene = Scene::new();
    scene.controller.abort();
    let node: Node = serde_json::from_value(json!({
        "metadata": {
            "name": "node-1", "uid": "node-1", "annotations": {POD_CIDRS_ANNOTATION: "10.16.1.0/24 of node-1"},
        },
        "spec": {"podCIDRs": ["10.16.1.0/24"]},
    }))
    .unwrap();
    scene.api.put(&node);
    let settings = Settings { first_interface: FirstInterface::Portolan };
    let scene = Scene { controller: start_with(&scene.api, settings), api: scene.api };
    let a_while = || tokio::time::sleep(std::time::Duration::from_secs(60));
    a_while().await;
    let before = scene.api.requests(CREATE_LOCK).len();
    // The watch of pods goes on, that of Subnets does not, and somebody makes both.
    scene.api.always("/apis/portolan.dev/v1alpha1/subnets", Answer::Code(503));
    scene.api.cut_watches();
    a_while().await;
    let mut subnet = mk_subnet("shop", "10.1.0.0/24", "blue");
    subnet.spec.namespaces = vec!["default".to_owned()];
    scene.api.put(&subnet);
    scene.pod("app");
    a_while().await;
    assert_eq!(scene.api.requests(CREATE_LOCK).len(), before);
    scene.api.lift();
    a_while().await;
    // The Subnet's gateway, and the pod's three interfaces.
    assert_eq!(scene.api.requests(CREATE_LOCK).len(), before + 4);
    scene.end();
}
