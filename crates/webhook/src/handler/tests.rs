#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::sync::{Arc, Mutex};

use kube::Resource;
use portolan_api::nad::NetworkAttachmentDefinition;
use portolan_api::portolan::{IPLock, NetworkAttachment, PolicyRoute, StaticRoute};
use portolan_api::{kubeovn, portolan};
use portolan_model::fixtures::*;
use portolan_model::validate::{Validate, validate};
use portolan_model::{FirstInterface, Settings, Source, World};
use portolan_watch::fake::{Answer as Scripted, FakeApi};
use proptest::prelude::*;
use serde::Serialize;

use super::*;

/// A World that may be behind the API server, or not there at all.
#[derive(Clone, Default)]
struct Lent(Arc<Mutex<Option<World>>>);

impl Worlds for Lent {
    async fn read<T: Send + 'static>(&self, read: impl FnOnce(&World) -> T + Send + 'static) -> Option<T> {
        let lent = self.0.lock().unwrap().clone();
        match lent {
            Some(world) => Some(read(&world)),
            // As a controller that has not listed everything yet.
            None => std::future::pending().await,
        }
    }
}

/// An API server, a controller's World of it, and the webhook.
struct Scene {
    api: FakeApi,
    lent: Lent,
    metrics: Metrics,
    handler: Handler<Lent>,
}

impl Scene {
    /// With VPC `blue` and in it Subnet `web`.
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        let (api, lent, metrics) = (FakeApi::default(), Lent::default(), Metrics::new());
        api.define::<portolan::Vpc>();
        api.define::<portolan::Subnet>();
        api.define::<NetworkAttachment>();
        api.define::<IPLock>();
        api.define::<kubeovn::Vpc>();
        api.define::<kubeovn::Subnet>();
        api.define::<kubeovn::IPPool>();
        api.define::<kubeovn::Vip>();
        api.define::<NetworkAttachmentDefinition>();
        *lent.0.lock().unwrap() = Some(World::new(settings));
        let handler = Handler::new(api.client(), settings, lent.clone(), metrics.clone());
        let scene = Scene { api, lent, metrics, handler };
        scene.put(&mk_vpc("blue"));
        scene.put(&mk_subnet("web", "10.0.0.0/16", "blue"));
        scene
    }

    /// Stores an object, which the controller sees at once.
    fn put<K: Resource<DynamicType = ()> + Serialize + Source>(&self, object: &K) {
        self.api.put(object);
        self.see(object);
    }

    /// The controller has seen an object, which may be gone again.
    fn see<K: Source>(&self, object: &K) {
        let _ = self.lent.0.lock().unwrap().get_or_insert_default().apply(object);
    }

    fn world(&self) -> World {
        self.lent.0.lock().unwrap().clone().unwrap()
    }

    async fn post(&self, body: impl Into<Bytes>) -> (StatusCode, Value) {
        let request = Request::post(PATH).header(CONTENT_TYPE, "application/json");
        self.send(request.body(Full::new(body.into())).unwrap()).await
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> (StatusCode, Value) {
        let answer = self.handler.handle(request).await;
        let code = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap())
    }

    async fn review(&self, operation: &str, kind: &Value, object: Value, old: Value) -> Value {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request":
            {"uid": "u1", "kind": kind, "operation": operation, "object": object, "oldObject": old}});
        let (code, answer) = self.post(review.to_string()).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        assert_eq!(answer["response"]["uid"], "u1");
        answer["response"].clone()
    }

    async fn update<K: Resource<DynamicType = ()> + Serialize>(&self, object: &K, old: Option<&K>) -> Value {
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        let old = old.map_or(Value::Null, |old| serde_json::to_value(old).unwrap());
        self.review(operation, &kind::<K>(), serde_json::to_value(object).unwrap(), old).await
    }

    async fn create<K: Resource<DynamicType = ()> + Serialize>(&self, object: &K) -> Value {
        self.update(object, None).await
    }

    /// The webhook says about an object what `validate` finds, errors and warnings.
    async fn says_what_is_found<K: Resource<DynamicType = ()> + Serialize + Validate>(&self, object: &K) {
        let findings = validate(object, &self.world());
        let texts =
            |found: &[portolan_api::FieldError]| found.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (errors, warnings) = (texts(&findings.errors), texts(&findings.warnings));
        assert!(!errors.is_empty() || !warnings.is_empty(), "nothing is found: {:?}", object.meta().name);
        let said = self.create(object).await;
        assert_eq!(said["allowed"], errors.is_empty(), "{said}");
        let message = said["status"]["message"].as_str().unwrap_or_default();
        for error in errors {
            assert!(message.contains(&error), "{error}\nis not in\n{message}");
        }
        if findings.is_valid() {
            assert_eq!(said["warnings"], json!(warnings));
        }
    }
}

fn kind<K: Resource<DynamicType = ()>>() -> Value {
    json!({"group": K::group(&()), "version": K::version(&()), "kind": K::kind(&())})
}

fn allowed(said: &Value) -> bool {
    said["allowed"].as_bool().unwrap()
}

/// Objects beside which others are wrong.
fn beside_others() -> Scene {
    let scene = Scene::new();
    scene.put(&mk_kubeovn_vpc("theirs"));
    scene.put(&mk_kubeovn_subnet("theirs", "172.30.0.0/16"));
    scene.put(&mk_nad("default", "net"));
    scene.put(&mk_nad_of("default", "foreign", r#"{"type":"macvlan"}"#));
    scene.put(&mk_nad_of("default", "nfn", r#"{"type":"ovn4nfvk8s-cni"}"#));
    scene.put(&mk_nad_of("default", "broken", "{"));
    scene.put(&mk_lock("vpc/blue", "web", "10.0.0.9", "a", 1));
    scene
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn every_finding_about_subnets_is_said_in_its_words() {
    let scene = beside_others();
    let subnet = |change: &dyn Fn(&mut portolan::Subnet)| {
        let mut subnet = mk_subnet("new", "10.1.0.0/24", "blue");
        subnet.status = None;
        change(&mut subnet);
        subnet
    };
    for one in [
        subnet(&|s| s.spec.cidr_block = "10.300.0.0/24".into()),
        subnet(&|s| s.spec.cidr_block = "10.0.7.0/24".into()),
        subnet(&|s| s.spec.vpc = text("nowhere")),
        subnet(&|s| s.spec.gateway = text("10.2.0.1")),
        subnet(&|s| s.spec.exclude_ips = vec!["10.2.0.1".into()]),
        subnet(&|s| s.spec.mtu = Some(3)),
        subnet(&|s| s.spec.dhcp_v4_options = "nonsense=1".into()),
        subnet(&|s| s.spec.provider = text("missing.default.ovn")),
        subnet(&|s| s.spec.provider = text("foreign.default.ovn")),
        subnet(&|s| s.spec.provider = text("nfn.default.ovn")),
        subnet(&|s| s.spec.provider = text("broken.default.ovn")),
        subnet(&|s| s.metadata.name = text("theirs")),
        subnet(&|s| {
            *s = mk_subnet("web", "10.0.0.0/16", "blue");
            s.spec.gateway = text("10.0.0.9");
        }),
        subnet(&|s| *s = mk_subnet("web", "10.0.0.0/15", "")),
    ] {
        scene.says_what_is_found(&one).await;
    }
    scene.put(&subnet(&|s| s.spec.default = true));
    scene
        .says_what_is_found(&subnet(&|s| {
            *s = mk_subnet("second", "10.3.0.0/24", "blue");
            s.spec.default = true;
        }))
        .await;
    let mut theirs = mk_kubeovn_subnet("ext", "172.31.0.0/16");
    theirs.spec.nat_outgoing = Some(true);
    scene.says_what_is_found(&theirs).await;
    let mut theirs = mk_kubeovn_subnet("web", "172.31.0.0/16");
    theirs.status = None;
    scene.says_what_is_found(&theirs).await;
}

#[tokio::test]
async fn every_finding_about_vpcs_pools_and_vips_is_said_in_its_words() {
    let scene = beside_others();
    let vpc = |change: &dyn Fn(&mut portolan::Vpc)| {
        let mut vpc = mk_vpc("green");
        change(&mut vpc);
        vpc
    };
    let route =
        StaticRoute { cidr: "0.0.0.0/0".into(), next_hop_ip: "10.9.0.1".into(), ..StaticRoute::default() };
    let policy = PolicyRoute {
        priority: 10,
        matches: "ip4.scr == 10.0.0.0/8".into(),
        action: "drop".into(),
        next_hop_ip: None,
    };
    for one in [
        vpc(&|v| v.metadata.name = text("theirs")),
        vpc(&|v| v.spec.vpc_peerings = vec![mk_peering("green", "169.254.0.1/30")]),
        vpc(&|v| v.spec.vpc_peerings = vec![mk_peering("red", "169.254.0.1/30")]),
        vpc(&|v| v.spec.vpc_peerings = vec![mk_peering("blue", "169.254.0.1/30")]),
        vpc(&|v| {
            v.spec.vpc_peerings =
                vec![mk_peering("blue", "169.254.0.1/30"), mk_peering("red", "169.254.0.2/30")];
        }),
        vpc(&|v| {
            *v = mk_vpc("blue");
            v.spec.vpc_peerings = vec![mk_peering("green", "10.0.5.1/30")];
        }),
        vpc(&|v| v.spec.static_routes = vec![route.clone()]),
        vpc(&|v| v.spec.policy_routes = vec![policy.clone()]),
        vpc(&|v| v.spec.default_subnet = text("nowhere")),
        vpc(&|v| v.spec.default_subnet = text("web")),
    ] {
        scene.says_what_is_found(&one).await;
    }
    let mut theirs = mk_kubeovn_vpc("blue");
    theirs.spec.enable_external = Some(true);
    scene.says_what_is_found(&theirs).await;

    scene.put(&mk_ip_pool("gold", "web", &["10.0.0.16/28"], &[]));
    for one in [
        mk_ip_pool("bad", "", &["10.0.0.9..10.0.0.5", "x"], &["A B"]),
        mk_ip_pool("early", "nowhere", &["10.0.0.5"], &[]),
        mk_ip_pool("outside", "web", &["10.2.0.5"], &[]),
        mk_ip_pool("silver", "web", &["10.0.0.17"], &[]),
    ] {
        scene.says_what_is_found(&one).await;
    }
    let vip = |change: &dyn Fn(&mut kubeovn::VipSpec)| {
        let mut spec = kubeovn::VipSpec { subnet: text("web"), ..kubeovn::VipSpec::default() };
        change(&mut spec);
        kubeovn::Vip::new("front", spec)
    };
    for one in [
        vip(&|v| v.subnet = None),
        vip(&|v| v.subnet = text("nowhere")),
        vip(&|v| v.v4ip = text("10.300.0.1")),
        vip(&|v| v.v4ip = text("10.2.0.5")),
        vip(&|v| v.v4ip = text("10.0.0.1")),
        vip(&|v| v.v6ip = text("fd00::9")),
        vip(&|v| v.mac_address = text("ff:ff:ff:ff:ff:ff")),
        vip(&|v| v.attach_subnets = Some(vec!["web".into()])),
    ] {
        scene.says_what_is_found(&one).await;
    }
}

#[tokio::test]
async fn every_finding_about_definitions_attachments_and_locks_is_said_in_its_words() {
    let scene = beside_others();
    assert_eq!(
        scene.create(&mk_nad("default", "lonely")).await,
        json!({"uid": "u1", "allowed": true}),
        "a definition comes before its Subnet"
    );
    let mut of_lonely = mk_subnet("of-lonely", "10.4.0.0/24", "blue");
    of_lonely.spec.provider = text("lonely.default.ovn");
    scene.put(&of_lonely);
    for config in [
        r#"{"type":"kube-ovn","provider":"secret.admin.ovn"}"#,
        r#"{"type":"kube-ovn","bridge":"br0"}"#,
        r#"{"type":"macvlan","ipam":{"type":"kube-ovn"}}"#,
        r#"{"type":"#,
    ] {
        scene.says_what_is_found(&mk_nad_of("default", "lonely", config)).await;
    }

    let attachment = |change: &dyn Fn(&mut NetworkAttachment)| {
        let mut attachment = mk_network_attachment("tenant", "n", "web");
        change(&mut attachment);
        attachment
    };
    for one in [
        attachment(&|_| {}),
        attachment(&|a| a.spec.subnet = "nowhere".into()),
        attachment(&|a| a.spec.subnet = "theirs".into()),
        attachment(&|a| a.spec.address = text("10.7.0.1,fd00::1")),
        attachment(&|a| a.spec.address = text("10.0.0.1")),
    ] {
        scene.says_what_is_found(&one).await;
    }
    let mut lock = mk_lock("vpc/blue", "web", "10.0.0.10", "b", 2);
    lock.spec.domain = "nonsense".into();
    scene.says_what_is_found(&lock).await;
}

#[tokio::test]
async fn a_refusal_says_what_kubernetes_says_about_an_invalid_object() {
    let said = Scene::new().create(&mk_kubeovn_subnet("bad", "10.300.0.0/24")).await;
    let problem = "is not a CIDR; write an address and a prefix length, such as 10.0.0.0/24";
    assert_eq!(
        said,
        json!({"uid": "u1", "allowed": false, "status": {
            "status": "Failure", "code": 422, "reason": "Invalid",
            "message": format!("Subnet.kubeovn.io \"bad\" is invalid: spec.cidrBlock: \"10.300.0.0/24\" {problem}"),
            "details": {"name": "bad", "group": "kubeovn.io", "kind": "Subnet", "causes": [
                {"reason": "FieldValueInvalid", "field": "spec.cidrBlock", "message": format!("\"10.300.0.0/24\" {problem}")}
            ]},
        }})
    );
}

#[tokio::test]
async fn harvesters_objects_pass_and_cost_no_request() {
    let scene = Scene::new();
    let config =
        r#"{"cniVersion":"0.3.1","name":"vswitch1","type":"kube-ovn","provider":"vswitch1.default.ovn"}"#;
    let nad = mk_nad_of("default", "vswitch1", config);
    assert!(allowed(&scene.create(&nad).await), "without a bridge");
    scene.put(&nad);
    let before = scene.api.requests("").len();
    let mut subnet = mk_kubeovn_subnet("vswitch1", "172.20.0.0/16");
    subnet.status = None;
    subnet.spec.provider = Some("vswitch1.default.ovn".into());
    subnet.spec.vpc = Some("blue".into());
    assert_eq!(scene.create(&subnet).await, json!({"uid": "u1", "allowed": true}));
    assert_eq!(scene.api.requests("").len(), before);
}

#[tokio::test]
async fn what_the_watch_has_not_shown_yet_is_no_reason_for_a_warning() {
    let scene = Scene::new();
    scene.api.put(&mk_vpc("green"));
    scene.api.put(&mk_nad("default", "net"));
    let mut subnet = mk_subnet("new", "10.1.0.0/24", "green");
    subnet.spec.provider = Some("net.default.ovn".into());
    assert_eq!(scene.create(&subnet).await, json!({"uid": "u1", "allowed": true}));
    // What does not exist is worth one, and no more: it may come later.
    scene.api.remove::<NetworkAttachmentDefinition>("default", "net");
    let said = scene.create(&subnet).await;
    let missing = r#"spec.provider: "net.default.ovn" names network attachment definition default/net, which does not exist yet"#;
    assert_eq!(said, json!({"uid": "u1", "allowed": true, "warnings": [missing]}));
}

#[tokio::test]
async fn what_is_gone_already_is_no_reason_for_a_refusal() {
    let scene = Scene::new();
    let rival = mk_subnet("new", "10.0.7.0/24", "blue");
    assert!(!allowed(&scene.create(&rival).await));
    // The controller has not heard of the deletion yet.
    scene.api.remove::<portolan::Subnet>("", "web");
    assert_eq!(scene.create(&rival).await, json!({"uid": "u1", "allowed": true}));
}

#[tokio::test]
async fn a_pool_that_is_gone_already_is_no_reason_for_a_warning() {
    let scene = Scene::new();
    scene.put(&mk_ip_pool("gold", "web", &["10.0.0.16/28"], &[]));
    let rival = mk_ip_pool("silver", "web", &["10.0.0.17"], &[]);
    let said = scene.create(&rival).await;
    assert!(said["warnings"][0].as_str().unwrap().contains("overlaps IPPool gold"), "{said}");
    scene.api.remove::<kubeovn::IPPool>("", "gold");
    assert_eq!(scene.create(&rival).await, json!({"uid": "u1", "allowed": true}));
}

/// Whatever the manifest has the API server ask about is judged.
#[tokio::test]
async fn no_kind_of_the_manifest_is_unknown() {
    let manifest = include_str!("../../../../deploy/webhook.yaml");
    let documents = serde_saphyr::from_multiple::<Value>(manifest).unwrap();
    let rules = documents.iter().find_map(|one| one["webhooks"][0]["rules"].as_array()).unwrap();
    let asked: Vec<_> = rules
        .iter()
        .flat_map(|rule| rule["resources"].as_array().unwrap().iter().map(|one| (&rule["apiGroups"][0], one)))
        .collect();
    let kinds = portolan_api::crds().into_iter().filter(|crd| crd.spec.names.kind != "IPLock");
    for crd in kinds {
        let (group, plural) = (json!(crd.spec.group), json!(crd.spec.names.plural));
        assert!(asked.contains(&(&group, &plural)), "{plural} of {group} is not in the manifest");
        let kind = json!({"group": group, "version": crd.spec.versions[0].name, "kind": crd.spec.names.kind});
        let scene = Scene::new();
        let _ = scene.review("CREATE", &kind, json!({"metadata": {"name": "x"}}), Value::Null).await;
        assert_eq!(counted(&scene, "other", "unknown"), 0, "{kind}");
    }
    assert_eq!(asked.len(), portolan_api::crds().len() - 1);
}

#[tokio::test]
async fn the_lock_of_a_subnet_that_is_made_again_is_no_reason_for_a_refusal() {
    let scene = Scene::new();
    let mut lock = mk_lock("vpc/blue", "again", "10.1.0.1", "again", 1);
    lock.spec.holder.kind = portolan_api::portolan::HolderKind::Subnet;
    lock.spec.holder.namespace = None;
    lock.spec.holder.uid = "its-former-life".into();
    scene.put(&lock);
    assert!(allowed(&scene.create(&mk_subnet("again", "10.1.0.0/24", "blue")).await));
    // That of another is.
    lock.spec.holder.name = "other".into();
    scene.put(&lock);
    assert!(!allowed(&scene.create(&mk_subnet("again", "10.1.0.0/24", "blue")).await));
}

#[tokio::test]
async fn a_subnet_that_does_not_say_with_which_address_pods_leave_is_allowed_with_a_warning() {
    let scene = Scene::with(Settings { first_interface: FirstInterface::Portolan });
    let mut subnet = mk_kubeovn_subnet("mail", "10.52.0.0/16");
    scene.says_what_is_found(&subnet).await;
    subnet.spec.nat_outgoing = Some(false);
    assert_eq!(scene.create(&subnet).await, json!({"uid": "u1", "allowed": true}));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_known_in_time_is_allowed() {
    // The API server does not answer, or refuses.
    for answer in [Scripted::Silence, Scripted::Code(503), Scripted::NamelessNotFound] {
        let scene = Scene::new();
        scene.api.always("GET /apis/portolan.dev", answer);
        let said = scene.create(&mk_subnet("new", "10.0.7.0/24", "blue")).await;
        assert_eq!(said, json!({"uid": "u1", "allowed": true}));
        assert_eq!(counted(&scene, "Subnet.portolan.dev", "unconfirmed"), 1);
    }
    // The controller has not listed everything.
    let scene = Scene::new();
    *scene.lent.0.lock().unwrap() = None;
    let mut subnet = mk_kubeovn_subnet("new", "10.0.7.0/24");
    subnet.spec.nat_outgoing = Some(true);
    let said = scene.create(&subnet).await;
    let unsupported = "spec.natOutgoing: has no effect here: it acts on Subnets of VPC ovn-cluster where Portolan is the primary network";
    assert_eq!(said, json!({"uid": "u1", "allowed": true, "warnings": [unsupported]}));
    // What is wrong by itself is refused all the same.
    assert!(!allowed(&scene.create(&mk_kubeovn_subnet("new", "10.300.0.0/24")).await));
}

#[tokio::test]
async fn nobody_is_locked_in() {
    let scene = Scene::new();
    // An object that became invalid through others, or was stored while nobody looked.
    let old = mk_subnet("late", "10.0.7.0/24", "blue");
    assert!(!allowed(&scene.create(&old).await));
    let mut labelled = old.clone();
    labelled.metadata.finalizers = Some(vec![]);
    labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    assert_eq!(scene.update(&labelled, Some(&old)).await, json!({"uid": "u1", "allowed": true}));
    assert_eq!(counted(&scene, "Subnet.portolan.dev", "unchanged"), 1);
    // One that goes may be changed in any way.
    let mut going = old.clone();
    going.spec.mtu = Some(3);
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    assert!(allowed(&scene.update(&going, Some(&old)).await));
    // A deletion, a connection and a subresource are not judged.
    let object = serde_json::to_value(&going).unwrap();
    for operation in ["DELETE", "CONNECT", "", "NEW"] {
        assert!(allowed(
            &scene.review(operation, &kind::<portolan::Subnet>(), Value::Null, object.clone()).await
        ));
    }
}

#[tokio::test]
async fn what_was_wrong_before_an_update_is_a_warning() {
    let scene = Scene::new();
    let old = mk_subnet("late", "10.0.7.0/24", "blue");
    let mut repaired = old.clone();
    repaired.spec.exclude_ips = vec!["10.0.7.5".into()];
    let overlap = r#"spec.cidrBlock: "10.0.7.0/24" overlaps 10.0.0.0/16 of Subnet web in vpc/blue; choose another prefix"#;
    assert_eq!(
        scene.update(&repaired, Some(&old)).await,
        json!({"uid": "u1", "allowed": true, "warnings": [overlap]})
    );
    repaired.spec.gateway = Some("10.0.8.1".into());
    let said = scene.update(&repaired, Some(&old)).await;
    assert!(said["status"]["message"].as_str().unwrap().contains("spec.gateway"), "{said}");
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_refused_with_the_field() {
    let scene = Scene::new();
    let subnet = json!({"metadata": {"name": "x"}, "spec": {"cidrBlock": 7}});
    let said = scene.review("CREATE", &kind::<kubeovn::Subnet>(), subnet, Value::Null).await;
    let cause = &said["status"]["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.cidrBlock", "{said}");
    for nameless in [json!({}), json!({"metadata": 3}), json!({"spec": []})] {
        let said = scene.review("CREATE", &kind::<kubeovn::Subnet>(), nameless, Value::Null).await;
        assert!(!allowed(&said), "{said}");
    }
}

#[tokio::test]
async fn kinds_of_others_are_never_refused() {
    let scene = Scene::new();
    for kind in [
        json!({"group": "", "version": "v1", "kind": "Pod"}),
        json!({"group": "kubeovn.io", "version": "v2", "kind": "Subnet"}),
        json!({}),
    ] {
        assert!(allowed(&scene.review("CREATE", &kind, json!({"spec": 1}), Value::Null).await));
    }
    assert_eq!(counted(&scene, "other", "unknown"), 3);
}

#[tokio::test]
async fn what_is_no_review_gets_a_status() {
    let scene = Scene::new();
    let review = |change: &dyn Fn(&mut Value)| {
        let mut review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request":
            {"uid": "u1", "kind": kind::<portolan::Vpc>(), "operation": "CREATE", "object": {"metadata": {"name": "a"}}}});
        change(&mut review);
        review.to_string()
    };
    assert_eq!(scene.post(review(&|_| {})).await.0, StatusCode::OK);
    for (body, message) in [
        (String::new(), "the request is not JSON of an AdmissionReview: EOF"),
        ("[]".into(), "the request is not JSON of an AdmissionReview: invalid"),
        ("[".repeat(100_000), "the request is not JSON of an AdmissionReview: "),
        ("{}".into(), r#"the request must be an AdmissionReview of admission.k8s.io/v1, and is "" of """#),
        (
            review(&|r| r["apiVersion"] = "admission.k8s.io/v1beta1".into()),
            "the request must be an AdmissionReview of",
        ),
        (review(&|r| r["request"] = Value::Null), "the AdmissionReview has no request"),
        (review(&|r| r["request"]["uid"] = "".into()), "request.uid is missing"),
        (
            review(&|r| r["request"]["uid"] = 3.into()),
            "the request is not JSON of an AdmissionReview: invalid type",
        ),
        (review(&|r| r["request"]["object"] = Value::Null), "request.object is missing, which CREATE has"),
        (review(&|r| r["request"]["object"] = "x".into()), "request.object is not an object"),
    ] {
        let (code, status) = scene.post(body).await;
        assert_eq!((code, &status["kind"]), (StatusCode::BAD_REQUEST, &"Status".into()), "{message}");
        assert!(status["message"].as_str().unwrap().starts_with(message), "{status}");
    }
    let large = review(&|r| r["request"]["object"]["x"] = "x".repeat(LARGEST_BODY).into());
    assert_eq!(scene.post(large).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let body = || Full::new(Bytes::from(review(&|_| {})));
    let text = Request::post(PATH).header(CONTENT_TYPE, "text/plain").body(body()).unwrap();
    assert_eq!(scene.send(text).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let json =
        Request::post(PATH).header(CONTENT_TYPE, "application/json; charset=utf-8").body(body()).unwrap();
    assert_eq!(scene.send(json).await.0, StatusCode::OK);
    assert_eq!(scene.send(Request::get(PATH).body(body()).unwrap()).await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(scene.send(Request::post("/other").body(body()).unwrap()).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_object_that_would_take_long_is_not_judged() {
    let scene = Scene::new();
    let mut vpc = mk_kubeovn_vpc("blue");
    let taken = scene.create(&vpc).await;
    assert!(taken["status"]["message"].as_str().unwrap().contains("metadata.name"), "{taken}");
    // All with all others would be more than 10^9 comparisons.
    let peering = kubeovn::VpcPeering {
        local_connect_ip: Some("169.254.0.1/30".into()),
        ..kubeovn::VpcPeering::default()
    };
    vpc.spec.vpc_peerings = Some(vec![peering; 50_000]);
    assert_eq!(scene.create(&vpc).await, json!({"uid": "u1", "allowed": true}));
    assert_eq!(counted(&scene, "Vpc.kubeovn.io", "unconfirmed"), 1);
}

/// How many requests of a kind had this verdict.
fn counted(scene: &Scene, kind: &str, verdict: &str) -> u64 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &scene.metrics.registry()).unwrap();
    let line = format!("portolan_webhook_requests_total{{kind=\"{kind}\",verdict=\"{verdict}\"}} ");
    text.lines().find_map(|one| one.strip_prefix(&line)).map_or(0, |count| count.parse().unwrap())
}

proptest! {
    #[test]
    fn any_body_is_answered(
        body in "\\PC*|\\{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":\\PC{0,40}\\}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (code, _) = runtime.block_on(async { Scene::new().post(body).await });
        prop_assert!(code == StatusCode::OK || code == StatusCode::BAD_REQUEST);
    }
}
