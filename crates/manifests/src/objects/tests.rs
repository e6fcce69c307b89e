use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::installation::{AgentAdmission, ApiServer, Members, Mode, OpenVswitch};
use crate::ports::PARTS;
use crate::render::manifest;

fn made(change: impl FnOnce(&mut Installation)) -> Vec<Object> {
    let mut installation = Installation::new(Mode::Secondary);
    change(&mut installation);
    objects(&installation).expect("it is a valid installation")
}

fn named<'a>(objects: &'a [Object], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|object| object.kind().kind == kind && object.name() == name);
    found.map_or_else(|| panic!("there is no {kind} {name}"), Object::value)
}

fn pods(objects: &[Object]) -> Vec<(&Object, &Value)> {
    workloads(objects)
        .into_iter()
        .map(|object| (object, &object.value()["spec"]["template"]["spec"]))
        .collect()
}

fn containers(objects: &[Object]) -> Vec<(&Object, &Value)> {
    let of = |(object, pod)| {
        let pod: &Value = pod;
        pod["containers"].as_array().into_iter().flatten().map(move |one| (object, one))
    };
    pods(objects).into_iter().flat_map(of).collect()
}

fn arguments(container: &Value) -> Vec<&str> {
    container["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn every_object_is_there_once_and_after_what_it_needs() {
    let objects = made(|_| {});
    let identities: BTreeSet<_> = objects.iter().map(Object::identity).collect();
    assert_eq!(identities.len(), objects.len());
    let position = |kind: &str| objects.iter().position(|object| object.kind().kind == kind);
    let order =
        ["Namespace", "CustomResourceDefinition", "ServiceAccount", "ConfigMap", "DaemonSet", "APIService"];
    let positions: Vec<_> =
        order.iter().map(|kind| position(kind).unwrap_or_else(|| panic!("{kind}"))).collect();
    assert!(positions.is_sorted(), "{positions:?}");
    for object in &objects {
        let part_of = &object.value()["metadata"]["labels"][PART_OF];
        assert_eq!(part_of, "portolan", "{}", object.description());
        let is_namespaced = object.kind().scope == crate::Scope::Namespaced;
        assert_eq!(is_namespaced, object.namespace().is_some(), "{}", object.description());
    }
}

#[test]
fn no_role_grants_everything_and_no_account_is_an_administrator() {
    let objects = made(|_| {});
    for object in &objects {
        for rule in object.value()["rules"].as_array().into_iter().flatten() {
            for part in ["apiGroups", "resources", "verbs"] {
                let entries =
                    rule[part].as_array().unwrap_or_else(|| panic!("{}: {part}", object.description()));
                let wide = entries.iter().any(|entry| entry.as_str().is_none_or(|entry| entry.contains('*')));
                assert!(!wide, "{}: {rule}", object.description());
            }
        }
        let role = object.value()["roleRef"]["name"].as_str().unwrap_or_default();
        assert!(!["cluster-admin", "admin", "edit"].contains(&role), "{}", object.description());
        let verbs = object.value()["rules"].to_string();
        for verb in ["\"escalate\"", "\"bind\"", "\"impersonate\""] {
            assert!(!verbs.contains(verb), "{}", object.description());
        }
    }
}

#[test]
fn a_pod_that_needs_no_api_server_gets_no_token() {
    let objects = made(|_| {});
    for (object, pod) in pods(&objects) {
        let account = pod["serviceAccountName"].as_str();
        let needs = ["portolan-controller", "portolan-agent", "ovn-central", "ovn-controller"]
            .contains(&object.name());
        assert_eq!(account.is_some(), needs, "{}", object.description());
        assert_eq!(pod["automountServiceAccountToken"] == false, !needs, "{}", object.description());
        if let Some(account) = account {
            named(&objects, "ServiceAccount", account);
        }
    }
}

#[test]
fn only_what_configures_hosts_is_privileged() {
    let objects = made(|_| {});
    for (object, container) in containers(&objects) {
        let context = &container["securityContext"];
        let name = format!("{} {}", object.name(), container["name"].as_str().unwrap_or_default());
        let privileged = ["portolan-agent portolan-agent", "ovs vswitchd"].contains(&name.as_str());
        assert_eq!(context["privileged"] == true, privileged, "{name}");
        if !privileged {
            assert_eq!(context["capabilities"]["drop"][0], "ALL", "{name}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{name}");
        }
    }
}

#[test]
fn no_two_processes_of_a_node_take_the_same_port_and_all_are_known() {
    let objects = made(|_| {});
    let mut taken = BTreeSet::new();
    for (object, container) in containers(&objects) {
        let ports = container["ports"].as_array().into_iter().flatten().map(|port| port["hostPort"].clone());
        let arguments = arguments(container);
        let health = arguments.iter().filter_map(|one| one.strip_prefix("--health-address=127.0.0.1:"));
        let health = health.map(|port| json!(port.parse::<u16>().expect("it is a port")));
        for port in ports.chain(health) {
            let port = port.as_u64().and_then(|port| u16::try_from(port).ok()).expect("it is a port");
            assert!(taken.insert(port), "{}: {port}", object.description());
        }
    }
    // What is examined on nodes, and named to people.
    let known: BTreeSet<u16> = PARTS.iter().map(|part| part.port).collect();
    assert_eq!(known, taken);
    assert_eq!(PARTS.iter().map(|part| part.name).collect::<BTreeSet<_>>().len(), PARTS.len());
}

#[test]
fn three_members_are_on_nodes_of_their_own_and_one_of_them_may_be_away() {
    let objects = made(|one| one.members = Members::Three);
    let stateful_set = named(&objects, "StatefulSet", "ovn-central");
    assert_eq!(stateful_set["spec"]["replicas"], 3);
    let pod = &stateful_set["spec"]["template"]["spec"];
    let apart = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
    for container in pod["containers"].as_array().into_iter().flatten() {
        let arguments = arguments(container);
        assert!(
            arguments.contains(&"--members=3") && arguments.contains(&"--member=$(POD_NAME)"),
            "{arguments:?}"
        );
    }
    assert_eq!(named(&objects, "PodDisruptionBudget", "ovn-central")["spec"]["maxUnavailable"], 1);
    let rights = named(&objects, "Role", "ovn-addresses-writer")["rules"].to_string();
    assert!(rights.contains(r#"["ovn-central-0","ovn-central-1","ovn-central-2"]"#), "{rights}");
}

#[test]
fn services_reach_the_controllers_by_the_ports_that_they_listen_at() {
    let objects = made(|_| {});
    let deployment = named(&objects, "Deployment", "portolan-controller");
    let pod = &deployment["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    for (service, flag) in [("portolan-trace", "--trace-address"), ("portolan-webhook", "--webhook-address")]
    {
        let service = named(&objects, "Service", service);
        assert_eq!(pod["metadata"]["labels"]["app"], service["spec"]["selector"]["app"]);
        let port = &service["spec"]["ports"][0]["targetPort"];
        let listens = format!("{flag}=[::]:{port}");
        assert!(arguments(container).contains(&listens.as_str()), "{listens}");
    }
    assert_eq!(pod["spec"]["hostNetwork"], true);
    assert_eq!(container["securityContext"]["runAsUser"], 65532);
}

#[test]
fn the_primary_network_is_made_by_controllers_agents_and_the_only_plugin() {
    for (mode, primary, plugin) in
        [(Mode::Secondary, false, "--mode=chained"), (Mode::Primary, true, "--mode=alone")]
    {
        let objects = made(|one| one.mode = mode);
        let agent = &named(&objects, "DaemonSet", "portolan-agent")["spec"]["template"]["spec"]["containers"];
        let controller = &named(&objects, "Deployment", "portolan-controller")["spec"]["template"]["spec"]["containers"]
            [0];
        for container in [&agent[0], controller] {
            assert_eq!(arguments(container).contains(&"--primary"), primary);
        }
        assert!(arguments(&agent[1]).contains(&plugin));
    }
}

#[test]
fn a_host_that_runs_open_vswitch_gets_none_and_ours_is_updated_on_delete_only() {
    let objects = made(|one| one.open_vswitch = OpenVswitch::Hosts);
    assert!(!objects.iter().any(|object| object.name() == "ovs"));
    let objects = made(|one| one.image = "registry.example/portolan:2".into());
    let ovs = named(&objects, "DaemonSet", "ovs");
    assert_eq!(ovs["spec"]["updateStrategy"]["type"], "OnDelete");
    let images = ovs["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
    for container in images {
        assert_ne!(container["image"], "registry.example/portolan:2", "it has an image of its own");
    }
}

#[test]
fn the_api_servers_own_address_reaches_all_that_ask_it() {
    let port = std::num::NonZeroU16::new(6443).expect("it is not 0");
    let objects = made(|one| one.api_server = Some(ApiServer { host: "192.0.2.1".into(), port }));
    for (object, name) in [
        ("DaemonSet", "portolan-agent"),
        ("Deployment", "portolan-controller"),
        ("StatefulSet", "ovn-central"),
        ("DaemonSet", "ovn-controller"),
    ] {
        let text = named(&objects, object, name).to_string();
        assert!(text.contains(r#"{"name":"KUBERNETES_SERVICE_HOST","value":"192.0.2.1"}"#), "{text}");
        assert!(text.contains(r#"{"name":"KUBERNETES_SERVICE_PORT","value":"6443"}"#), "{text}");
    }
}

#[test]
fn all_that_ask_api_servers_follow_where_they_are_and_have_no_other_right_in_namespace_default() {
    let objects = made(|_| {});
    let file = "--api-servers-file=/var/lib/portolan/api-servers/addresses";
    for (object, container) in containers(&objects) {
        let name = format!("{} {}", object.name(), container["name"].as_str().unwrap_or_default());
        let asks = [
            "portolan-agent portolan-agent",
            "portolan-controller portolan-controller",
            "ovn-central northbound",
            "ovn-central southbound",
            "ovn-controller ovn-controller",
        ]
        .contains(&name.as_str());
        assert_eq!(arguments(container).contains(&file), asks, "{name}");
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        let mounts: Vec<_> = mounts.filter(|mount| mount["name"] == "api-servers").collect();
        assert_eq!(mounts.len(), usize::from(asks), "{name}");
        for mount in mounts {
            // A process that is not root could not write there.
            let may_write = container["securityContext"]["runAsUser"] != 65532;
            assert_eq!(mount["readOnly"] != true, may_write, "{name}");
        }
    }
    let in_default: Vec<_> = objects.iter().filter(|one| one.namespace() == Some("default")).collect();
    let role = named(&objects, "Role", "portolan-api-servers");
    let rules = json!([{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "resourceNames": ["kubernetes"],
        "verbs": ["list", "watch"]}]);
    assert_eq!((&role["metadata"]["namespace"], &role["rules"]), (&json!("default"), &rules));
    assert_eq!(in_default.len(), 5);
    for account in ["portolan-agent", "portolan-controller", "ovn-central", "ovn-controller"] {
        let binding = named(&objects, "RoleBinding", &format!("portolan-api-servers-{account}"));
        assert_eq!(binding["metadata"]["namespace"], "default");
        assert_eq!(binding["roleRef"]["name"], "portolan-api-servers");
        let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": "portolan-system"});
        assert_eq!(binding["subjects"], json!([subject]));
    }
}

#[test]
fn everything_that_speaks_with_ovns_databases_does_so_by_tls() {
    let objects = made(|_| {});
    let flags = |kind: &str, name: &str, container: usize| {
        arguments(&named(&objects, kind, name)["spec"]["template"]["spec"]["containers"][container])
    };
    for container in [0, 1] {
        assert!(flags("StatefulSet", "ovn-central", container).contains(&"--tls=portolan-system"));
    }
    assert!(flags("DaemonSet", "ovn-controller", 0).contains(&"--tls=portolan-system"));
    assert!(flags("Deployment", "portolan-controller", 0).contains(&"--ovn-tls=portolan-system"));
    assert!(flags("DaemonSet", "portolan-agent", 0).contains(&"--ovn-tls"));
}

#[test]
fn only_controllers_sign_and_read_authorities_and_only_those_two() {
    let objects = made(|_| {});
    for object in &objects {
        for rule in object.value()["rules"].as_array().into_iter().flatten() {
            let has = |part: &str, what: &str| {
                rule[part].as_array().into_iter().flatten().any(|entry| entry == what)
            };
            let is_signer = object.name() == "portolan-ovn-signer";
            if has("resources", "signers") {
                assert!(is_signer, "{}", object.description());
                let signers = json!(["portolan.dev/ovn-central", "portolan.dev/ovn-chassis"]);
                assert_eq!(rule["resourceNames"], signers);
            }
            if has("resources", "secrets") && !has("verbs", "create") {
                assert!(rule["resourceNames"].is_array(), "{}: {rule}", object.description());
            }
            if has("resources", "certificatesigningrequests/approval") {
                assert!(is_signer, "{}", object.description());
            }
        }
        if object.value()["roleRef"]["name"] == "portolan-ovn-signer" {
            let subjects = object.value()["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
            let names: Vec<_> = subjects.iter().map(|subject| &subject["name"]).collect();
            assert_eq!(names, ["portolan-controller"]);
        }
    }
    let agents = ["portolan-ovn-certificates", "portolan-ovn-signer"].map(|role| {
        let bindings =
            ["ClusterRoleBinding", "RoleBinding"].map(|kind| named(&objects, kind, role).to_string());
        bindings.concat().contains("portolan-agent")
    });
    assert_eq!(agents, [false, false], "an agent needs no certificate");
}

#[test]
fn another_namespace_is_named_everywhere() {
    let objects = made(|one| one.namespace = "networks".into());
    for object in &objects {
        assert!(!object.value().to_string().contains("portolan-system"), "{}", object.value());
    }
    let policy = named(&objects, "ValidatingAdmissionPolicy", "portolan-agent").to_string();
    assert!(policy.contains("system:serviceaccount:networks:portolan-agent"), "{policy}");
}

#[test]
fn agents_are_held_to_their_nodes_unless_the_cluster_is_too_old() {
    let has = |objects: &[Object]| objects.iter().any(|one| one.kind().kind == "ValidatingAdmissionPolicy");
    assert!(has(&made(|_| {})));
    assert!(!has(&made(|one| one.agent_admission = AgentAdmission::Off)));
}

#[test]
fn a_manifest_has_every_object_and_is_the_same_every_time() {
    let installation = Installation::new(Mode::Primary);
    let text = manifest(&installation).expect("it is a valid installation");
    assert_eq!(manifest(&installation).expect("it is a valid installation"), text);
    let read: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it is YAML");
    let written = objects(&installation).expect("it is a valid installation");
    assert_eq!(read.len(), written.len());
    for (read, written) in read.iter().zip(&written) {
        assert_eq!(read, written.value(), "{}", written.description());
    }
}
