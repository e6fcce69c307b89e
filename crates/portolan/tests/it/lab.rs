//! `portolan lab`, as a person uses it: up, pods by kubectl, a look inside, things killed, down, and nothing left.

mod command_line;
mod dsl;
mod traces;

use std::time::Instant;

use crate::lab::command_line::{Kubectl, Labs};
use crate::lab::traces::Traces;

const OBJECTS: &str = include_str!("lab/objects.yaml");
const PODS: &str = include_str!("lab/pods.yaml");

#[test]
fn a_lab_from_up_to_down() {
    let labs = Labs::new();
    let begun = Instant::now();
    let said = labs.run(&["up", "--name", "sea", "--nodes", "2"]);
    println!("up after {:?}", begun.elapsed());
    let directory = labs.directory().join("sea");
    for line in ["node1  172.31.0.11", "node2  172.31.0.12", "kubectl get nodes"] {
        assert!(said.contains(line), "{said}");
    }
    assert!(
        said.contains(&format!("export KUBECONFIG={}", directory.join("kubeconfig").display())),
        "{said}"
    );
    let traces = Traces::of(&directory);
    for name in ["ovsdb-server", "ovs-vswitchd", "ovn-controller", "ovn-northd", "portolan", "sh"] {
        assert!(traces.names().contains(name), "{name} runs: {:?}", traces.names());
    }

    assert_eq!(traces.on_the_machine(), Vec::<String>::new(), "it has namespaces of its own");

    let kubectl = labs.kubectl("sea");
    kubectl.run(&["apply", "-f-"], OBJECTS);
    kubectl.run(&["apply", "-f-"], PODS);
    pods_are_as_they_say(&kubectl);
    commands_reach_into_pods(&labs, &kubectl);
    commands_for_clusters_find_the_lab(&labs);
    what_is_wrong_is_said(&labs);
    killed_components_come_back(&labs, &kubectl);
    a_killed_runtime_goes_on_where_it_was(&labs, &kubectl);
    deleted_pods_are_gone(&labs, &kubectl);

    let traces = Traces::of(&directory);
    labs.run(&["down"]);
    traces.assert_gone();
}

fn pods_are_as_they_say(kubectl: &Kubectl) {
    for pod in ["server", "client", "host"] {
        kubectl.wait("condition=Ready", &format!("pod/{pod}"));
    }
    let server = kubectl.get("pod", "server");
    assert_eq!(server["status"]["phase"], "Running");
    assert!(server["status"]["podIP"].as_str().unwrap().starts_with("10.0.0."), "{server:#}");
    assert_eq!(server["status"]["hostIP"], "172.31.0.11");
    let client = kubectl.get("pod", "client");
    assert_eq!(client["spec"]["nodeName"], "node2");
    assert!(client["status"]["podIP"].as_str().unwrap().starts_with("10.0.1."), "{client:#}");
    assert_eq!(kubectl.get("pod", "host")["status"]["podIP"], "172.31.0.12");

    kubectl.wait("jsonpath={.status.phase}=Failed", "pod/job");
    let job = kubectl.get("pod", "job");
    assert_eq!(job["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    assert_eq!(job["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    kubectl.wait("jsonpath={.status.phase}=Succeeded", "pod/stubborn");
    let stubborn = kubectl.get("pod", "stubborn");
    assert_eq!(stubborn["status"]["containerStatuses"][0]["restartCount"], 1);
    let last = &stubborn["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(last["exitCode"], 1);

    event_of(kubectl, "homeless");
    let events = kubectl.run(&["events", "--for=pod/homeless"], "");
    assert!(events.contains("FailedScheduling") && events.contains("0/2 nodes are available"), "{events}");
    let nodes = kubectl.run(&["get", "nodes", "--no-headers"], "");
    assert_eq!(nodes.lines().filter(|line| line.contains(" Ready ")).count(), 2, "{nodes}");
}

fn commands_reach_into_pods(labs: &Labs, kubectl: &Kubectl) {
    let address = |pod: &str| kubectl.get("pod", pod)["status"]["podIP"].as_str().unwrap().to_owned();
    let (server, client) = (address("server"), address("client"));
    for (from, to) in [("client", &server), ("server", &client)] {
        labs.run(&["exec", from, "--", "ping", "-c1", "-w10", "-i0.1", "-Mdo", "-s1372", to]);
    }
    let links = labs.run(&["exec", "server", "--", "ip", "-br", "address"]);
    assert!(links.contains(&server) && !links.contains("eth0"), "{links}");
    assert_eq!(labs.run(&["exec", "server", "--", "printenv", "GREETING"]), "hello\n");
    assert_eq!(labs.output(&["exec", "client", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert!(labs.run(&["exec", "node/node1", "--", "ovs-vsctl", "show"]).contains("br-int"));
    assert!(labs.run(&["exec", "central", "--", "ovn-nbctl", "show"]).contains("vpc:blue"));
    assert_eq!(labs.run(&["logs", "server"]), format!("hello from {server} on node1\n"));
    assert_eq!(labs.run(&["logs", "job"]), "nothing works\n");
    assert!(labs.run(&["logs", "node1/agent"]).contains("listening for the CNI plugin"));
    let status = labs.run(&["status"]);
    for component in ["controller", "node2/ovn-controller", "central/ovn-northd", "node1/runtime"] {
        assert!(status.contains(component), "{status}");
    }
    assert!(!status.contains('!'), "{status}");
}

fn commands_for_clusters_find_the_lab(labs: &Labs) {
    let (table, remark) = labs.look(&["get", "subnets"]);
    assert!(table.contains("web.default.ovn"), "{table}");
    assert_eq!(remark, "using lab \"sea\": there is no kubeconfig, and it is the only lab\n");
    let (trace, _) = labs.look(&["trace", "client", "server"]);
    assert!(trace.starts_with("ping from default/client to default/server: reachable\n"), "{trace}");
    assert!(trace.contains("\nReply:\n") && trace.contains("→ pod client ("), "{trace}");
    let (named, remark) = labs.look(&["get", "subnets", "--lab", "sea"]);
    assert_eq!((named, remark.as_str()), (table, ""));
}

fn what_is_wrong_is_said(labs: &Labs) {
    for (arguments, words) in [
        (&["up", "--name", "sea"][..], "there is a lab called \"sea\" already"),
        (&["up", "--name", "Sea"], "is no name for a lab"),
        (&["status", "--name", "lake"], "there is no lab called \"lake\"; there are: sea"),
        (
            &["exec", "nobody", "--", "true"],
            "no pod default/nobody on a node; these run: default/server, default/client, default/host",
        ),
        (&["exec", "server", "-c", "other", "--", "true"], "has no container \"other\"; it has: main"),
        (&["exec", "node/node9", "--", "true"], "there is no node \"node9\"; there are: node1, node2"),
        (&["kill", "agent"], "several components are called \"agent\"; say one of: node1/agent, node2/agent"),
        (&["kill", "kubelet"], "no component is called \"kubelet\""),
        (&["exec", "job", "--", "true"], "pod default/job does not run"),
        (&["logs", "nobody"], "no pod default/nobody on a node"),
    ] {
        let said = labs.refused(arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

fn killed_components_come_back(labs: &Labs, kubectl: &Kubectl) {
    assert_eq!(labs.run(&["kill", "controller"]), "Killed: controller\n");
    labs.run(&["kill", "node1/agent"]);
    let status = labs.run(&["status"]);
    assert_eq!(status.matches("! ended (signal: 9 (SIGKILL))").count(), 2, "{status}");
    kubectl.run(&["apply", "-f-"], &pod("late", "node1"));
    labs.run(&["start", "controller"]);
    // Without an agent the pod cannot have its network, and says so.
    let event = event_of(kubectl, "late");
    kubectl.wait("jsonpath={.reason}=FailedCreatePodSandBox", &event);
    let said = kubectl.run(&["get", &event, "--output=jsonpath={.message}"], "");
    assert!(said.contains("portolan-cni") && said.contains("cannot be reached"), "{said}");
    // One that asks for no network comes and goes all the same.
    let plain = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"},
        "spec": {"nodeName": "node1", "containers": [{"name": "main", "image": "none"}]}}"#;
    kubectl.run(&["apply", "-f-"], plain);
    kubectl.wait("condition=Ready", "pod/plain");
    kubectl.run(&["delete", "pod", "plain"], "");
    labs.run(&["start", "node1/agent"]);
    kubectl.wait("condition=Ready", "pod/late");
    labs.run(&["kill", "ovn-northd", "--restart"]);
    let late = kubectl.get("pod", "late")["status"]["podIP"].as_str().unwrap().to_owned();
    labs.run(&["exec", "client", "--", "ping", "-c1", "-w10", "-i0.1", &late]);
    assert!(!labs.run(&["status"]).contains('!'));
}

/// The name of the first Event of a pod, once there is one.
fn event_of(kubectl: &Kubectl, pod: &str) -> String {
    let about = format!("--field-selector=involvedObject.name={pod}");
    let watch = ["get", "events", &about, "--watch", "--output=name", "--request-timeout=60s"];
    kubectl.first_line(&watch)
}

fn a_killed_runtime_goes_on_where_it_was(labs: &Labs, kubectl: &Kubectl) {
    let container = |pod: &str| kubectl.get("pod", pod)["status"]["containerStatuses"][0].clone();
    let before = container("server");
    labs.run(&["kill", "node1/runtime"]);
    assert!(labs.run(&["status"]).contains("! killed"));
    kubectl.run(&["apply", "-f-"], &pod("later", "node1"));
    kubectl.run(&["delete", "pod", "late", "--wait=false"], "");
    labs.run(&["start", "node1/runtime"]);
    kubectl.wait("condition=Ready", "pod/later");
    kubectl.wait("delete", "pod/late");
    assert_eq!(container("server"), before, "it was not touched");
}

fn deleted_pods_are_gone(labs: &Labs, kubectl: &Kubectl) {
    let links = labs.run(&["exec", "node/node1", "--", "ip", "-o", "link"]);
    assert_eq!(links.matches(": pt").count(), 2, "of server and later: {links}");
    let follow = labs.follow(&["logs", "server", "--follow"]);
    kubectl.run(&["delete", "pod", "server", "later"], "");
    let said = follow.until("bye");
    assert!(said.starts_with("hello from "), "it was asked to end, and did: {said}");
    let links = labs.run(&["exec", "node/node1", "--", "ip", "-o", "link"]);
    assert_eq!(links.matches(": pt").count(), 0, "{links}");
    assert_eq!(kubectl.run(&["get", "pods", "server", "--ignore-not-found"], ""), "");
}

fn pod(name: &str, node: &str) -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "Pod",
            "metadata": {{"name": "{name}", "annotations": {{"k8s.v1.cni.cncf.io/networks":
                "[{{\"name\": \"web\", \"default-route\": [\"10.0.0.1\"]}}]"}}}},
            "spec": {{"nodeName": "{node}", "containers": [{{"name": "main", "image": "none"}}]}}}}"#
    )
}

#[test]
fn labs_live_side_by_side_and_a_killed_one_is_cleared_away() {
    let labs = Labs::new();
    std::thread::scope(|scope| {
        for name in ["one", "two"] {
            let labs = &labs;
            scope.spawn(move || labs.run(&["up", "--name", name, "--nodes", "1"]));
        }
    });
    let list = labs.run(&["list"]);
    assert_eq!(list.lines().filter(|line| line.contains(" up ")).count(), 2, "{list}");
    assert!(labs.refused(&["status"]).contains("there are several labs, say which with --name: one, two"));

    let one = Traces::of(&labs.directory().join("one"));
    one.kill_supervisor();
    one.assert_processes_gone();
    let list = labs.run(&["list"]);
    assert!(list.lines().any(|line| line.starts_with("one") && line.contains("dead")), "{list}");
    assert!(labs.refused(&["status", "--name", "one"]).contains("`portolan lab down one` clears it away"));
    labs.run(&["down", "--name", "one"]);
    one.assert_gone();
    assert!(!labs.run(&["status", "--name", "two"]).contains("! ended"), "the other is as it was");

    let two = Traces::of(&labs.directory().join("two"));
    two.kill_supervisor();
    labs.run(&["up", "--name", "two", "--nodes", "1"]);
    two.assert_processes_gone();
    let two = Traces::of(&labs.directory().join("two"));
    labs.run(&["down"]);
    two.assert_gone();
    assert!(!labs.directory().exists());
}
