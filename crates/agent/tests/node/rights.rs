//! The rights of `deploy/agent-rbac.yaml` are all that an agent needs, and no more.

use std::time::Duration;

use portolan_testbed::Test;
use serde_json::{Value, json};

use crate::stage::{Agents, Runtime, Stage, blocking, wait_for_ports};

const MANIFEST: &str = include_str!("../../../../deploy/agent-rbac.yaml");
const USER: &str = "system:serviceaccount:portolan-system:portolan-agent";

/// What the agent asked for and was refused.
fn refused_requests(stage: &Stage) -> Vec<String> {
    let log = std::fs::read_to_string(stage.testbed.api().audit_log().unwrap()).unwrap();
    let requests = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_agent: Vec<Value> = requests.filter(|request| request["user"]["username"] == USER).collect();
    assert!(of_agent.len() > 20, "the audit log has {} requests of the agent alone", of_agent.len());
    let refused = of_agent.iter().filter(|request| request["responseStatus"]["code"] == 403);
    refused.map(|request| format!("{} {}", request["verb"], request["objectRef"])).collect()
}

/// Whether the service account may do something.
fn may(stage: &Stage, verb: &str, group: &str, resource: &str) -> bool {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": USER, "resourceAttributes":
            {"verb": verb, "group": group, "resource": resource, "namespace": "default"}}});
    stage.kubectl(&["create", "-f-", "-o", "jsonpath={.status.allowed}"], &review.to_string()) == "true"
}

#[test]
fn an_agent_needs_no_rights_but_those_of_its_manifest() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            stage.stop_agents();
            stage.kubectl(&["apply", "-f-"], MANIFEST);
            let token = stage.kubectl(&["create", "token", "portolan-agent", "-n", "portolan-system"], "");
            let admin = std::fs::read_to_string(stage.testbed.kubeconfig_for("agents").unwrap()).unwrap();
            let mut kubeconfig: Value = serde_json::from_str(&admin).unwrap();
            kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
            let path = lab.directory("service-account").unwrap().join("kubeconfig");
            std::fs::write(&path, kubeconfig.to_string()).unwrap();
            stage.settings.kubeconfig = Some(path);
            // What the administrator's agent wrote is gone, so that this one writes it.
            stage.kubectl(
                &["annotate", "node", "node1", "portolan.dev/chassis-", "portolan.dev/encap-ip-"],
                "",
            );
            stage.start_agents();
            stage.wait_for_annotation("chassis", Some("node1"));

            // A pod's way from ADD to its end without DEL, which is confirmed by a read.
            let node = &stage.testbed.nodes()[0];
            let uid = stage.pod("argo", "node1");
            stage.assign("argo", &uid, "node1", 7);
            let netns = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &uid, &netns);
            argo.succeeds("ADD");
            stage.stop_agents();
            drop(netns);
            stage.kubectl(&["delete", "pod", "argo", "--force", "--grace-period=0"], "");
            stage.start_agents();
            wait_for_ports(&stage.testbed.nodes()[0], 0);

            assert_eq!(refused_requests(&stage), Vec::<String>::new());
            for (expected, verb, group, resource) in [
                (true, "watch", "", "pods"),
                (true, "patch", "", "nodes"),
                (false, "delete", "", "pods"),
                (false, "patch", "", "pods"),
                (false, "update", "", "nodes"),
                (false, "patch", "", "nodes/status"),
                (false, "get", "", "secrets"),
                (false, "create", "portolan.dev", "iplocks"),
                (false, "patch", "portolan.dev", "subnets"),
            ] {
                assert_eq!(may(&stage, verb, group, resource), expected, "{verb} {group}/{resource}");
            }
        })
        .await;
    });
}
