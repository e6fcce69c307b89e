//! The CNI specification case by case, in each version: the plugin's own binary, called as a runtime calls it.

use std::path::PathBuf;
use std::time::Duration;

use portolan_testbed::{Node, Test};
use serde_json::{Value, json};

use crate::plugged::primary;
use crate::stage::{HEALTH, Runtime, Stage, blocking, made_on, plugin};

const VERSIONS: [&str; 4] = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// A runtime that speaks one version.
struct Caller<'a> {
    node: &'a Node,
    plugin: PathBuf,
    version: &'static str,
    /// Environment variables.
    variables: Vec<(&'static str, String)>,
}

impl Caller<'_> {
    fn call(&self, command: &str, more: &Value) -> (i32, Value) {
        let mut config = json!({ "cniVersion": self.version, "name": "portolan", "type": "portolan-cni" });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.write(command, &config.to_string(), &[])
    }

    /// With this on standard input, and these variables in place of others; an empty one is left out.
    fn write(&self, command: &str, stdin: &str, instead: &[(&str, &str)]) -> (i32, Value) {
        let mut plugin = self.node.command(&self.plugin).env("CNI_COMMAND", command).stdin(stdin);
        for (name, value) in &self.variables {
            let other = instead.iter().find(|(other, _)| other == name).map(|(_, value)| (*value).to_owned());
            plugin = plugin.env(name, other.unwrap_or_else(|| value.clone()));
        }
        let output = plugin.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        // What succeeds without a result says nothing at all.
        let value = if said.is_empty() { Value::Null } else { serde_json::from_str(&said).unwrap() };
        (output.status.code().unwrap(), value)
    }

    fn succeeds(&self, command: &str, more: &Value) -> Value {
        let (code, said) = self.call(command, more);
        assert_eq!(code, 0, "{command} in {}: {said}", self.version);
        said
    }

    /// Fails with this code; the error is of the call's version and says something.
    fn fails(&self, (code, said): (i32, Value), expected: u32, about: &str) {
        let version = self.version;
        assert_eq!((code, &said["code"]), (1, &json!(expected)), "in {version}, about {about}: {said}");
        assert_eq!(said["cniVersion"], version, "{said}");
        let text = format!("{}: {}", said["msg"].as_str().unwrap(), said["details"].as_str().unwrap());
        assert!(text.contains(about), "in {version}, about {about}: {text}");
    }
}

#[test]
fn every_version_of_the_specification_case_by_case() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, primary(3600));
            let node = &stage.testbed.nodes()[0];
            stage.nad("blue", r#"{"cniVersion":"1.0.0","name":"blue","type":"portolan-cni"}"#);
            stage.subnet("blue", "10.1.0.0/24", "aegean", Some("blue.default.ovn"));
            let mut namespaces = Vec::new();
            let mut callers = Vec::new();
            for (number, version) in VERSIONS.into_iter().enumerate() {
                let (name, last) = (format!("pod{number}"), u8::try_from(number).unwrap() + 7);
                let networks = json!({ "k8s.v1.cni.cncf.io/networks": "blue" });
                let uid = stage.pod_with(&name, "node1", &networks);
                let (own, further) =
                    ([format!("10.0.0.{last}"), format!("fd00::{last}")], format!("10.1.0.{last}"));
                let (own, further): ([&str; 2], [&str; 1]) = ([&own[0], &own[1]], [&further]);
                let interfaces: [(&str, &str, &[&str]); 2] =
                    [("sea", "eth0", &own), ("blue", "net1", &further)];
                let decided = interfaces.map(|(_, interface, addresses)| (interface, addresses));
                stage.assign_all(&name, &uid, ("node1", "aegean"), &interfaces, &decided);
                let netns = node.namespace().network_beside(&name).unwrap();
                let Runtime { args, .. } = Runtime::new(node, "-", &name, &uid, &netns);
                let variables = vec![
                    ("CNI_CONTAINERID", format!("cafe0{number}")),
                    ("CNI_NETNS", netns.path().display().to_string()),
                    ("CNI_IFNAME", "eth0".to_owned()),
                    ("CNI_ARGS", args),
                ];
                namespaces.push(netns);
                callers.push(Caller { node, plugin: plugin(), version, variables });
            }
            for (caller, netns) in callers.iter().zip(&namespaces) {
                succeeds_in(caller);
                keeps_what_another_plugin_made(caller);
                assert_eq!(made_on(node), Vec::<String>::new());
                // The kernel refuses: the pod has such a link already.
                netns.ip("link add eth0 type veth peer name other").unwrap();
                caller.fails(caller.call("ADD", &json!({})), 100, "make links");
                netns.ip("link del eth0").unwrap();
                fails_in(caller);
                assert_eq!(made_on(node), Vec::<String>::new());
            }

            // The agent runs and is not in step: STATUS says so, as ADD would fail. Its database has just ended, which it notices soon.
            let newest = &callers[3];
            node.ovsdb_server().kill().unwrap();
            let not_ready = loop {
                let answer = newest.call("STATUS", &json!({}));
                if answer.0 != 0 {
                    break answer;
                }
            };
            newest.fails(not_ready, 50, "database of Open vSwitch");
            node.ovsdb_server().restart().unwrap();
            let known: Vec<_> = callers.into_iter().map(|caller| caller.variables).collect();
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            let callers = || {
                VERSIONS.into_iter().zip(&known).map(|(version, variables)| Caller {
                    node,
                    plugin: plugin(),
                    version,
                    variables: variables.clone(),
                })
            };
            for caller in callers() {
                caller.fails(
                    caller.call("DEL", &json!({})),
                    11,
                    "the node's Portolan agent cannot be reached",
                );
            }

            // An agent that starts has its socket before it knows the cluster, of which it does not learn here.
            stage.testbed.component("kube-apiserver").unwrap().kill().unwrap();
            let _starting = stage.begin_another(HEALTH);
            for caller in callers() {
                let said = loop {
                    let (code, said) = caller.call("ADD", &json!({}));
                    // The socket is not there yet.
                    if !said.to_string().contains("agent cannot be reached") {
                        break (code, said);
                    }
                };
                caller.fails(said, 11, "the API server cannot be reached");
                if caller.version == "1.1.0" {
                    caller.fails(caller.call("STATUS", &json!({})), 50, "");
                }
                caller.succeeds("DEL", &json!({}));
            }
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

fn succeeds_in(caller: &Caller<'_>) {
    let version = caller.version;
    let said = caller.succeeds("VERSION", &json!({}));
    assert_eq!(said, json!({ "cniVersion": version, "supportedVersions": VERSIONS }));

    // A runtime that does not know what became of a call may call again: the container has what one call makes.
    let add = || {
        let result = caller.succeeds("ADD", &json!({}));
        let mut made = made_on(caller.node);
        made.sort();
        (result, made)
    };
    let first = add();
    assert_eq!(first, add());
    let (result, _) = first;
    assert_eq!(result["cniVersion"], version);
    let interfaces = result["interfaces"].as_array().unwrap();
    assert_eq!(
        (interfaces.len(), &interfaces[1]["name"], &interfaces[3]["name"]),
        (4, &json!("eth0"), &json!("net1"))
    );
    assert_eq!(interfaces[1]["sandbox"], caller.variables[1].1.as_str());
    assert!(interfaces[0].get("sandbox").is_none(), "{result}");
    assert!(interfaces[1]["mac"].as_str().unwrap().starts_with("0a:58:"), "{result}");
    assert_eq!(interfaces[1].get("mtu").is_some(), version == "1.1.0", "{result}");
    let ips = result["ips"].as_array().unwrap();
    let old = ["0.3.1", "0.4.0"].contains(&version);
    let families: Vec<_> = ips.iter().map(|ip| ip.get("version").and_then(Value::as_str)).collect();
    assert_eq!(families, if old { [Some("4"), Some("6"), Some("4")] } else { [None; 3] }, "{result}");
    for (ip, interface) in ips.iter().zip([1, 1, 3]) {
        assert_eq!(ip["interface"], interface, "{result}");
        assert!(ip["address"].is_string() && ip["gateway"].is_string(), "{result}");
    }
    let defaults: Vec<_> = result["routes"].as_array().unwrap().iter().map(|route| &route["dst"]).collect();
    assert_eq!(defaults, ["0.0.0.0/0", "::/0"], "{result}");
    assert!(result["dns"].is_object(), "{result}");

    let previous = json!({ "prevResult": result });
    if version == "0.3.1" {
        caller.fails(caller.call("CHECK", &previous), 1, "has no CHECK");
    } else {
        assert_eq!(caller.succeeds("CHECK", &previous), Value::Null);
    }
    let valid = json!({ "cni.dev/valid-attachments":
        [{ "containerID": caller.variables[0].1, "ifname": "eth0" }] });
    if version == "1.1.0" {
        assert_eq!(caller.succeeds("STATUS", &json!({})), Value::Null);
        assert_eq!(caller.succeeds("GC", &valid), Value::Null);
        caller.succeeds("CHECK", &previous);
    } else {
        caller.fails(caller.call("STATUS", &json!({})), 1, "has no STATUS");
        caller.fails(caller.call("GC", &valid), 1, "has no GC");
    }

    // DEL, again, and without the namespace; then the same container once more.
    for _ in 0..2 {
        assert_eq!(caller.succeeds("DEL", &previous), Value::Null);
    }
    if version != "0.3.1" {
        caller.fails(caller.call("CHECK", &previous), 101, "has no port");
    }
    caller.succeeds("ADD", &json!({}));
    let config = json!({ "cniVersion": version, "name": "portolan", "type": "portolan-cni" }).to_string();
    for netns in ["", "/nowhere"] {
        assert_eq!(caller.write("DEL", &config, &[("CNI_NETNS", netns)]), (0, Value::Null));
    }
    if version == "1.1.0" {
        caller.succeeds("ADD", &json!({}));
        caller.succeeds("GC", &json!({ "cni.dev/valid-attachments": [] }));
    }
}

/// Chained after another plugin, whose result is in the version of the call.
fn keeps_what_another_plugin_made(caller: &Caller<'_>) {
    let mut previous = json!({
        "cniVersion": caller.version,
        "interfaces": [
            { "name": "cni0", "mac": "02:00:00:00:00:01" },
            { "name": "eth9", "mac": "02:00:00:00:00:07", "sandbox": caller.variables[1].1 },
        ],
        "ips": [{ "address": "10.244.1.7/24", "gateway": "10.244.1.1", "interface": 1 }],
        "routes": [{ "dst": "0.0.0.0/0", "gw": "10.244.1.1" }],
        "dns": { "nameservers": ["10.96.0.10"], "search": ["cluster.local"] },
    });
    if ["0.3.1", "0.4.0"].contains(&caller.version) {
        previous["ips"][0]["version"] = "4".into();
    }
    let config = json!({ "interfaces": "further", "prevResult": previous });
    let result = caller.succeeds("ADD", &config);
    assert_eq!(result["cniVersion"], caller.version);
    for list in ["interfaces", "ips", "routes"] {
        let (was, is) = (previous[list].as_array().unwrap(), result[list].as_array().unwrap());
        assert_eq!(&is[..was.len()], was, "{list}: {result}");
    }
    assert_eq!(result["dns"], previous["dns"], "{result}");
    let interfaces = result["interfaces"].as_array().unwrap();
    assert_eq!((interfaces.len(), &interfaces[3]["name"]), (4, &json!("net1")), "{result}");
    assert_eq!(
        (&result["ips"][1]["interface"], result["ips"].as_array().unwrap().len()),
        (&json!(3), 2),
        "{result}"
    );
    caller.succeeds("DEL", &json!({ "interfaces": "further", "prevResult": result }));
}

fn fails_in(caller: &Caller<'_>) {
    let config = |more: Value| {
        let mut config = json!({ "cniVersion": caller.version, "name": "portolan", "type": "portolan-cni" });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config.to_string()
    };
    let good = config(json!({}));
    // Of a version that is not spoken here, the error is of one that is.
    let (code, said) = caller.write("ADD", &config(json!({ "cniVersion": "9.9.9" })), &[]);
    assert_eq!((code, &said["code"], &said["cniVersion"]), (1, &json!(1), &json!("1.0.0")), "{said}");
    let (code, said) = caller.write("ADD", "{", &[]);
    assert_eq!((code, &said["code"]), (1, &json!(6)), "{said}");
    let unknown = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=nobody;K8S_POD_UID=7";
    caller.fails(
        caller.write("ADD", &good, &[("CNI_ARGS", unknown)]),
        3,
        "pod default/nobody does not exist",
    );
    for (variable, value) in [
        ("CNI_CONTAINERID", ""),
        ("CNI_CONTAINERID", "../x"),
        ("CNI_IFNAME", ""),
        ("CNI_IFNAME", "a/b"),
        ("CNI_NETNS", ""),
        ("CNI_NETNS", "/nowhere"),
        ("CNI_ARGS", ""),
    ] {
        caller.fails(caller.write("ADD", &good, &[(variable, value)]), 4, variable);
    }
    for (wrong, about) in [
        (json!({ "name": "" }), "name"),
        (json!({ "name": "a b" }), "name"),
        (json!({ "interfaces": "first" }), "interfaces"),
        (json!({ "provider": 7 }), "provider"),
        (json!({ "socket": "/elsewhere" }), "socket"),
    ] {
        caller.fails(caller.write("ADD", &config(wrong), &[]), 7, about);
    }
    if caller.version == "1.1.0" {
        caller.fails(caller.write("GC", &good, &[]), 7, "cni.dev/valid-attachments");
    }
    // Standard input that cannot be read.
    let mut shell = caller.node.command("sh").args(["-c", "exec \"$0\" < /"]).arg(&caller.plugin);
    shell = shell.env("CNI_COMMAND", "ADD");
    let said: Value = serde_json::from_slice(&shell.output().unwrap().stdout).unwrap();
    assert_eq!(said["code"], 5, "{said}");
}
