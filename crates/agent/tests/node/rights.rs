//! The rights of `deploy/agent-rbac.yaml` are all that an agent needs, and no more; `deploy/agent-admission.yaml` limits them to its own
//! node.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use portolan_api::portolan::NetworkAttachment;
use portolan_testbed::{Test, TestLab};
use serde_json::{Value, json};

use crate::chained::{first_interface, further};
use crate::stage::{Agents, Runtime, Stage, blocking, wait_for_ports};

const RIGHTS: &str = include_str!("../../../../deploy/agent-rbac.yaml");
const ADMISSION: &str = include_str!("../../../../deploy/agent-admission.yaml");
const USER: &str = "system:serviceaccount:portolan-system:portolan-agent";

/// Verb, group and resource.
type Right = (String, String, String);

/// What the agent asked for, and what of it was refused.
fn requests(stage: &Stage) -> (BTreeSet<Right>, Vec<String>) {
    let log = std::fs::read_to_string(stage.testbed.api().audit_log().unwrap()).unwrap();
    let requests = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    // What the test asks in the agent's name is stored nowhere.
    let is_agent = |request: &Value| !request["requestURI"].as_str().unwrap_or_default().contains("dryRun");
    let of_user = requests.filter(|request| request["user"]["username"] == USER);
    let of_agent: Vec<Value> = of_user.filter(is_agent).collect();
    let is_refused =
        |request: &&Value| [403, 422].iter().any(|code| request["responseStatus"]["code"] == *code);
    let refused = of_agent
        .iter()
        .filter(is_refused)
        .map(|request| format!("{} {}", request["verb"], request["objectRef"]));
    let used = of_agent.iter().filter(|request| request["objectRef"].is_object()).map(|request| {
        let text = |key: &str| request["objectRef"][key].as_str().unwrap_or_default().to_owned();
        let resource = [text("resource"), text("subresource")].join("/");
        (
            request["verb"].as_str().unwrap().to_owned(),
            text("apiGroup"),
            resource.trim_end_matches('/').to_owned(),
        )
    });
    (used.collect(), refused.collect())
}

/// All that the manifest allows.
fn rights(stage: &Stage) -> BTreeSet<Right> {
    let role = stage.kubectl(&["get", "clusterrole", "portolan-agent", "-o", "json"], "");
    let role: Value = serde_json::from_str(&role).unwrap();
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let texts = |key: &str| {
            let list = rule[key].as_array().unwrap().iter();
            list.map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                rights.extend(texts("verbs").into_iter().map(|verb| (verb, group.clone(), resource.clone())));
            }
        }
    }
    rights
}

/// The kubeconfig of the service account, with a token as Kubernetes gives to a pod on `node1`.
fn kubeconfig(stage: &Stage, lab: &TestLab) -> std::path::PathBuf {
    let bound = ["--bound-object-kind=Node", "--bound-object-name=node1"];
    let token = ["create", "token", "portolan-agent", "-n", "portolan-system"];
    let token = stage.kubectl(&[&token[..], &bound].concat(), "");
    let admin = std::fs::read_to_string(stage.testbed.kubeconfig_for("agents").unwrap()).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&admin).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
    let path = lab.directory("service-account").unwrap().join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

/// What the API server says to an agent that patches a node, or the status of a pod or a NetworkAttachment. Nothing is stored.
fn patch(
    stage: &Stage,
    kubeconfig: &Path,
    [what, name]: [&'static str; 2],
    patch: Value,
) -> Result<(), String> {
    let kubeconfig = kubeconfig.to_owned();
    stage.testbed.nodes()[0].namespace().run(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
            let client = kube::Client::try_from(config).unwrap();
            let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
            let patch = Patch::Merge(patch);
            let patched = match what {
                "node" => Api::<Node>::all(client).patch(name, &parameters, &patch).await.map(drop),
                "pna" => Api::<NetworkAttachment>::namespaced(client, "default")
                    .patch_status(name, &parameters, &patch)
                    .await
                    .map(drop),
                _ => Api::<Pod>::namespaced(client, "default")
                    .patch_status(name, &parameters, &patch)
                    .await
                    .map(drop),
            };
            patched.map_err(|error| error.to_string())
        })
    })
}

#[test]
fn an_agent_uses_every_right_of_its_manifest_needs_no_other_and_writes_on_its_own_node_only() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            stage.stop_agents();
            stage.kubectl(&["apply", "-f-"], RIGHTS);
            stage.kubectl(&["apply", "-f-"], ADMISSION);
            let kubeconfig = kubeconfig(&stage, &lab);
            stage.settings.kubeconfig = Some(kubeconfig.clone());
            stage.settings.services = vec!["10.96.0.0/16".parse().unwrap()];
            stage.apply(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "elsewhere" } }));
            stage.pod("far", "elsewhere");
            // A policy is in effect a moment after it was stored.
            let patch = |what: [&'static str; 2], by: Value| patch(&stage, &kubeconfig, what, by);
            let annotation = || json!({ "metadata": { "annotations": { "portolan.dev/chassis": "x" } } });
            let mut refused = std::iter::repeat_with(|| patch(["node", "elsewhere"], annotation()));
            let said = refused.find_map(Result::err).unwrap();
            assert!(said.contains("the agent of node node1 may write nothing of node elsewhere"), "{said}");
            patch(["node", "node1"], annotation()).unwrap();
            let status =
                || json!({ "metadata": { "annotations": { "k8s.v1.cni.cncf.io/network-status": "[]" } } });
            let owner = || json!({ "apiVersion": "v1", "kind": "Node", "name": "elsewhere", "uid": "1" });
            let said = patch(["pod", "far"], status()).unwrap_err();
            assert!(said.contains("may write nothing of node elsewhere"), "{said}");
            stage.attachment("abroad", "elsewhere", None);
            let uid = stage.attachment("uplink", "node1", None);
            let interface = || json!({ "status": { "interface": "pn0123456789ab" } });
            patch(["pna", "uplink"], interface()).unwrap();
            let said = patch(["pna", "abroad"], interface()).unwrap_err();
            assert!(said.contains("may write nothing of node elsewhere"), "{said}");
            let addressed = json!({ "type": "Addressed", "status": "True", "reason": "Addressed", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" });
            for more in [json!({ "address": "10.0.0.9" }), json!({ "conditions": [addressed] })] {
                let said = patch(["pna", "uplink"], json!({ "status": more })).unwrap_err();
                assert!(said.contains("an agent may not change the addresses"), "{said}");
            }
            for more in [
                json!({ "metadata": { "labels": { "node-role.kubernetes.io/control-plane": "" } } }),
                json!({ "spec": { "taints": [{ "key": "x", "effect": "NoExecute" }] } }),
                json!({ "spec": { "unschedulable": true } }),
                json!({ "metadata": { "finalizers": ["example.com/mine"] } }),
                json!({ "metadata": { "ownerReferences": [owner()] } }),
            ] {
                let said = patch(["node", "node1"], more).unwrap_err();
                assert!(
                    said.contains("an agent may change annotations of its Node and nothing else"),
                    "{said}"
                );
            }
            // Labels say who gets the traffic of Services. Owners the API server itself keeps. This one has a status as its kubelet writes it.
            stage.pod_with("near", "node1", &json!({ "example.com/note": "x" }));
            let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }).to_string();
            stage.kubectl(&["patch", "pod", "near", "--subresource=status", "--type=merge", "-p", &ready], "");
            patch(["pod", "near"], status()).unwrap();
            for more in [
                json!({ "metadata": { "labels": { "k8s-app": "kube-dns" } } }),
                json!({ "metadata": { "finalizers": ["example.com/mine"] } }),
                json!({ "metadata": { "annotations": { "k8s.v1.cni.cncf.io/networks": "blue" } } }),
                json!({ "metadata": { "annotations": { "example.com/note": null } } }),
                json!({ "status": { "conditions": [], "podIP": "10.0.0.9" } }),
            ] {
                let said = patch(["pod", "near"], more.clone()).unwrap_err();
                assert!(said.contains("network-status of pods of its node and nothing else"), "{more}: {said}");
            }
            for told in ["portolan.dev/pod-cidrs", "portolan.dev/mtu", "portolan.dev/certified-chassis"] {
                let more = json!({ "metadata": { "annotations": { told: "9" } } });
                let said = patch(["node", "node1"], more).unwrap_err();
                assert!(said.contains("which are the controller's to say"), "{told}: {said}");
            }
            // What the administrator's agent wrote is gone, so that this one writes it.
            stage.kubectl(
                &["annotate", "node", "node1", "portolan.dev/chassis-", "portolan.dev/encap-ip-"],
                "",
            );
            stage.start_agents();
            stage.wait_for_annotation("chassis", Some("node1"));

            // An interface of the node, which says that it is ready.
            stage.address("node1", &[("uplink", &uid, 21)]);
            stage.ready("uplink");

            // A pod's way from ADD to its end without DEL, which is confirmed by a read.
            let node = &stage.testbed.nodes()[0];
            let uid = stage.pod("argo", "node1");
            stage.assign("argo", &uid, "node1", 7);
            let netns = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &uid, &netns);
            argo.succeeds("ADD");
            // One that shows its networks, and is told of one that nobody makes.
            stage.nad("blue", r#"{"cniVersion":"1.0.0","name":"blue","type":"portolan-cni"}"#);
            stage.nad("macvlan", r#"{"cniVersion":"0.3.1","name":"macvlan","type":"macvlan"}"#);
            stage.subnet("blue", "10.1.0.0/24", "aegean", Some("blue.default.ovn"));
            let networks = json!({ "k8s.v1.cni.cncf.io/networks": "blue,macvlan" });
            let uid = stage.pod_with("shows", "node1", &networks);
            stage.assign_further("shows", &uid, "node1", ("blue", "aegean"), ("net1", "10.1.0.7"));
            let own = first_interface(node, "shows");
            let shows = Runtime::new(node, "cafe02", "shows", &uid, &own);
            shows.succeeds_with("ADD", &further());
            let status = json!({ "status": { "podIP": "10.244.1.7", "podIPs": [{ "ip": "10.244.1.7" }] } })
                .to_string();
            stage.kubectl(
                &["patch", "pod", "shows", "--subresource=status", "--type=merge", "-p", &status],
                "",
            );
            let annotation = r"--for=jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}";
            stage.kubectl(&["wait", "pod", "shows", "--timeout=60s", annotation], "");
            stage.kubectl(
                &["wait", "--for=create", "--timeout=60s", &format!("event/shows.default.macvlan.{uid}")],
                "",
            );
            shows.succeeds_with("DEL", &further());
            // An object that goes while no agent runs is confirmed by a read, too.
            stage.stop_agents();
            stage.kubectl(&["delete", "pna", "uplink"], "");
            drop(netns);
            stage.kubectl(&["delete", "pod", "argo", "--force", "--grace-period=0"], "");
            // Kinds that do not exist are confirmed by name.
            stage.kubectl(&["delete", "crd", "vpcs.kubeovn.io"], "");
            stage.start_agents();
            wait_for_ports(&stage.testbed.nodes()[0], 0);

            let allowed = rights(&stage);
            // The log has a request a moment after its answer.
            let mut logs = std::iter::repeat_with(|| {
                stage.kubectl(&["get", "--raw", "/readyz"], "");
                requests(&stage)
            });
            let enough = |(used, _): &(BTreeSet<Right>, _)| allowed.is_subset(used);
            let (used, refused) = logs.by_ref().take(20).find(enough).unwrap_or_else(|| requests(&stage));
            assert_eq!(refused, Vec::<String>::new());
            let unused: Vec<_> = allowed.difference(&used).collect();
            assert!(unused.is_empty(), "nothing needs these rights: {unused:?}");
            // Every right that the manifest lacked would be refused above; and these are the only ones asked for.
            let others: Vec<_> = used.difference(&allowed).collect();
            assert!(others.is_empty(), "asked for without a right in the manifest: {others:?}");
        })
        .await;
    });
}
