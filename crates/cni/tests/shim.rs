//! The plugin against a fake agent, with valid, wrong and hostile input.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::io::{Read, Seek, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use portolan_cni::protocol::{self, Inbox};
use portolan_cni::shim::{Environment, Output, Places, run};
use portolan_cni::{Answer, CniError, Code, Request, Verb};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Node {
    directory: TempDir,
    places: Places,
}

fn node() -> Node {
    let directory = tempfile::tempdir().unwrap();
    let places =
        Places { socket: directory.path().join("cni.sock"), configurations: directory.path().join("net.d") };
    std::fs::create_dir(&places.configurations).unwrap();
    Node { directory, places }
}

impl Node {
    /// An agent that takes one call. Returns the request, and what the descriptor beside it reads.
    fn agent(&self, answer: Answer) -> JoinHandle<(Request, Option<String>)> {
        let listener = UnixListener::bind(&self.places.socket).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut inbox = Inbox::default();
            let request: Request = loop {
                assert!(inbox.read(&stream).unwrap() > 0, "the plugin hung up");
                if let Some(request) = inbox.take().unwrap() {
                    break request;
                }
            };
            let netns = inbox.descriptor().map(|descriptor| {
                let mut text = String::new();
                std::fs::File::from(descriptor).read_to_string(&mut text).unwrap();
                text
            });
            stream.write_all(&protocol::encode(&answer).unwrap()).unwrap();
            (request, netns)
        })
    }

    fn environment(&self, command: &str) -> Environment {
        let netns = self.directory.path().join("netns");
        if !netns.exists() {
            std::fs::write(&netns, "a namespace").unwrap();
        }
        Environment {
            command: Some(command.into()),
            container_id: Some("cafe01".into()),
            netns: Some(netns.display().to_string()),
            ifname: Some("eth0".into()),
            args: Some("K8S_POD_NAMESPACE=sea;K8S_POD_NAME=argo".into()),
        }
    }

    fn run(&self, environment: &Environment, stdin: impl AsRef<[u8]>) -> Output {
        run(environment, stdin.as_ref(), &self.places)
    }

    fn fails(&self, environment: &Environment, stdin: impl AsRef<[u8]>, code: Code) -> String {
        let output = self.run(environment, stdin);
        let error: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.code, &error["code"]), (1, &json!(code as u32)), "{error}");
        assert!(error["cniVersion"].is_string() && error["msg"].is_string(), "{error}");
        format!("{}: {}", error["msg"].as_str().unwrap(), error["details"].as_str().unwrap())
    }
}

fn config(version: &str) -> String {
    json!({ "cniVersion": version, "name": "portolan", "type": "portolan-cni" }).to_string()
}

#[test]
fn add_passes_the_open_namespace_and_prints_the_result() {
    let node = node();
    let result = json!({ "cniVersion": "1.0.0", "interfaces": [] });
    let agent = node.agent(Answer::Result(result.clone()));
    let output = node.run(&node.environment("ADD"), config("1.0.0"));
    let (request, netns) = agent.join().unwrap();
    assert_eq!(output.code, 0);
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), result);
    assert_eq!(
        (request.verb, request.container_id.as_str(), request.ifname.as_str()),
        (Verb::Add, "cafe01", "eth0")
    );
    assert_eq!(request.args, "K8S_POD_NAMESPACE=sea;K8S_POD_NAME=argo");
    assert_eq!(request.config["name"], "portolan");
    assert_eq!(netns.as_deref(), Some("a namespace"));
}

#[test]
fn errors_of_the_agent_are_errors_of_the_call_in_its_version() {
    let node = node();
    let agent =
        node.agent(Answer::Error(CniError::new(Code::TryAgainLater, "no address yet", "Subnet sea is full")));
    let said = node.fails(&node.environment("ADD"), config("0.4.0"), Code::TryAgainLater);
    assert_eq!(said, "no address yet: Subnet sea is full");
    agent.join().unwrap();
}

#[test]
fn del_works_when_the_namespace_is_gone_and_says_nothing() {
    let node = node();
    for netns in [None, Some("/nowhere".to_owned()), Some(String::new())] {
        let agent = node.agent(Answer::Done);
        let output = node.run(&Environment { netns, ..node.environment("DEL") }, config("1.0.0"));
        assert_eq!(output, Output { stdout: Vec::new(), code: 0 });
        let (request, netns) = agent.join().unwrap();
        assert_eq!((request.verb, request.netns, netns), (Verb::Del, None, None));
        std::fs::remove_file(&node.places.socket).unwrap();
    }
}

#[test]
fn version_is_answered_without_an_agent() {
    let node = node();
    for stdin in ["", "garbage", r#"{"cniVersion": "0.4.0"}"#] {
        let output =
            node.run(&Environment { command: Some("VERSION".into()), ..Environment::default() }, stdin);
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.code, 0);
        assert_eq!(said["supportedVersions"], json!(["0.3.1", "0.4.0", "1.0.0", "1.1.0"]));
    }
}

#[test]
fn gc_and_status_need_no_container() {
    let node = node();
    for (command, verb) in [("GC", Verb::Gc), ("STATUS", Verb::Status)] {
        let agent = node.agent(Answer::Done);
        let environment = Environment { command: Some(command.into()), ..Environment::default() };
        assert_eq!(node.run(&environment, config("1.1.0")).code, 0);
        assert_eq!(agent.join().unwrap().0.verb, verb);
        std::fs::remove_file(&node.places.socket).unwrap();
    }
}

#[test]
fn a_command_is_refused_in_versions_that_do_not_have_it() {
    let node = node();
    for (command, version) in [("CHECK", "0.3.1"), ("GC", "1.0.0"), ("STATUS", "0.4.0")] {
        node.fails(&node.environment(command), config(version), Code::IncompatibleVersion);
    }
    for version in ["", "0.1.0", "0.3.0", "2.0.0", "1.0", "latest"] {
        node.fails(&node.environment("ADD"), config(version), Code::IncompatibleVersion);
    }
    node.fails(&node.environment("ADD"), "{}", Code::InvalidConfig);
    node.fails(&node.environment("ADD"), r#"{"cniVersion": 1}"#, Code::InvalidConfig);
}

#[test]
fn environments_that_make_no_sense_are_refused_by_name() {
    let node = node();
    let good = node.environment("ADD");
    let text = |length: usize| Some("x".repeat(length));
    let cases = [
        (Environment { command: None, ..good.clone() }, "CNI_COMMAND"),
        (Environment { command: Some("add".into()), ..good.clone() }, "CNI_COMMAND"),
        (Environment { container_id: None, ..good.clone() }, "CNI_CONTAINERID"),
        (Environment { container_id: Some("../../etc".into()), ..good.clone() }, "CNI_CONTAINERID"),
        (Environment { container_id: text(100_000), ..good.clone() }, "CNI_CONTAINERID"),
        (Environment { ifname: None, ..good.clone() }, "CNI_IFNAME"),
        (Environment { ifname: Some("..".into()), ..good.clone() }, "CNI_IFNAME"),
        (Environment { ifname: Some("a/b".into()), ..good.clone() }, "CNI_IFNAME"),
        (Environment { ifname: Some("a b".into()), ..good.clone() }, "CNI_IFNAME"),
        (Environment { ifname: text(16), ..good.clone() }, "CNI_IFNAME"),
        (Environment { netns: None, ..good.clone() }, "CNI_NETNS"),
        (Environment { netns: Some("/nowhere".into()), ..good.clone() }, "CNI_NETNS"),
    ];
    for (environment, variable) in cases {
        let said = node.fails(&environment, config("1.0.0"), Code::InvalidEnvironment);
        assert!(said.contains(variable), "{said}");
        assert!(said.len() < 1000, "{said}");
    }
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let node = node();
    let add = node.environment("ADD");
    let deep = "[".repeat(200_000);
    for stdin in [
        &b""[..],
        b"garbage",
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b"\"1.0.0\"",
        b"{\"cniVersion\":",
        deep.as_bytes(),
    ] {
        node.fails(&add, stdin, Code::Decoding);
    }
    let long = format!(r#"{{"cniVersion": "1.0.0", "name": "{}"}}"#, "x".repeat(2 << 20));
    assert!(node.fails(&add, long, Code::Decoding).contains("too long"));
    let endless = run(&add, std::io::repeat(b' '), &node.places);
    assert_eq!(endless.code, 1);
}

#[test]
fn an_agent_that_is_away_or_hangs_up_or_talks_nonsense_makes_the_call_fail() {
    let node = node();
    let add = node.environment("ADD");
    assert!(node.fails(&add, config("1.0.0"), Code::TryAgainLater).contains("cannot be reached"));
    for said in [&b""[..], &[0, 0], &[0xff; 8], &[0, 0, 0, 2, b'{', b'x']] {
        let listener = UnixListener::bind(&node.places.socket).unwrap();
        let agent = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut inbox = Inbox::default();
            while inbox.take::<Request>().unwrap().is_none() {
                inbox.read(&stream).unwrap();
            }
            stream.write_all(said).unwrap();
        });
        node.fails(&add, config("1.0.0"), Code::TryAgainLater);
        agent.join().unwrap();
        std::fs::remove_file(&node.places.socket).unwrap();
    }
}

#[test]
fn only_the_nodes_own_configuration_may_name_another_socket() {
    let node = node();
    let other = node.directory.path().join("other.sock");
    let named =
        json!({ "cniVersion": "1.0.0", "name": "x", "type": "portolan-cni", "socket": other }).to_string();
    let listener = UnixListener::bind(&other).unwrap();
    let said = node.fails(&node.environment("ADD"), &named, Code::InvalidConfig);
    assert!(said.contains("is in no configuration of type portolan-cni, portolan, kube-ovn"), "{said}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "no one connected");

    let list = json!({ "cniVersion": "1.0.0", "name": "x", "plugins": [{ "type": "portolan-cni", "socket": other }] });
    std::fs::write(node.places.configurations.join("10-portolan.conflist"), list.to_string()).unwrap();
    std::fs::write(node.places.configurations.join("20-broken.conf"), "{").unwrap();
    listener.set_nonblocking(false).unwrap();
    let agent = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&protocol::encode(&Answer::Done).unwrap()).unwrap();
        // The request is still to be read, or closing would reset the connection.
        let mut inbox = Inbox::default();
        while inbox.take::<Request>().unwrap().is_none() {
            inbox.read(&stream).unwrap();
        }
    });
    assert_eq!(node.run(&node.environment("DEL"), &named).code, 0);
    agent.join().unwrap();
}

#[test]
fn the_nodes_configuration_may_name_the_socket_under_every_type_of_the_plugin() {
    for kind in ["portolan-cni", "portolan", "kube-ovn", "ovn4nfvk8s-cni", "bridge"] {
        let node = node();
        let other = node.directory.path().join("other.sock");
        let plugin = json!({ "cniVersion": "1.0.0", "name": "x", "type": kind, "socket": other });
        let list = json!({ "cniVersion": "1.0.0", "name": "x", "plugins": [plugin] });
        std::fs::write(node.places.configurations.join("10-x.conflist"), list.to_string()).unwrap();
        // Nobody listens there; what matters is whether it is tried.
        let expected = if kind == "bridge" { Code::InvalidConfig } else { Code::TryAgainLater };
        node.fails(&node.environment("ADD"), plugin.to_string(), expected);
    }
}

#[test]
fn a_configuration_without_a_valid_name_is_refused() {
    let node = node();
    for name in [
        json!(null),
        json!(""),
        json!(7),
        json!("a b"),
        json!("-a"),
        json!("a/b"),
        json!(".."),
        json!("\u{e4}"),
    ] {
        let config = json!({ "cniVersion": "1.0.0", "name": name, "type": "portolan-cni" });
        for verb in ["ADD", "DEL", "CHECK"] {
            let said = node.fails(&node.environment(verb), config.to_string(), Code::InvalidConfig);
            assert!(said.contains("name"), "{said}");
        }
    }
    let without = json!({ "cniVersion": "1.0.0", "type": "portolan-cni" });
    node.fails(&node.environment("ADD"), without.to_string(), Code::InvalidConfig);
    let agent = node.agent(Answer::Done);
    let config = json!({ "cniVersion": "1.0.0", "name": "k8s_net.1-a", "type": "portolan-cni" });
    assert_eq!(node.run(&node.environment("DEL"), config.to_string()).code, 0);
    agent.join().unwrap();
}

#[test]
fn a_message_that_arrives_in_pieces_is_read_whole() {
    let (mut here, there) = UnixStream::pair().unwrap();
    let answer = Answer::Result(json!({ "long": "x".repeat(20_000) }));
    let bytes = protocol::encode(&answer).unwrap();
    let reader = thread::spawn(move || {
        let mut inbox = Inbox::default();
        loop {
            assert!(inbox.read(&there).unwrap() > 0);
            if let Some(answer) = inbox.take::<Answer>().unwrap() {
                return answer;
            }
        }
    });
    for piece in bytes.chunks(3000) {
        here.write_all(piece).unwrap();
    }
    assert_eq!(reader.join().unwrap(), answer);
}

#[test]
fn the_binary_itself_answers_and_exits() {
    let run = |environment: &[(&str, &str)], stdin: &str| {
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(stdin.as_bytes()).unwrap();
        input.rewind().unwrap();
        std::process::Command::new(env!("CARGO_BIN_EXE_portolan-cni"))
            .env_clear()
            .envs(environment.iter().copied())
            .stdin(input)
            .output()
            .unwrap()
    };
    let version = run(&[("CNI_COMMAND", "VERSION")], "{}");
    assert!(version.status.success());
    assert!(String::from_utf8(version.stdout).unwrap().contains("supportedVersions"));
    let nothing = run(&[], "");
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8(nothing.stdout).unwrap().contains("CNI_COMMAND is not set"));
}

#[test]
fn a_killed_plugin_hangs_up() {
    let node = node();
    let listener = UnixListener::bind(&node.places.socket).unwrap();
    // Dropping the stream is what the kernel does for a process that is killed.
    let mut stream = UnixStream::connect(&node.places.socket).unwrap();
    let request = Request {
        protocol: protocol::PROTOCOL,
        verb: Verb::Add,
        container_id: "cafe01".into(),
        ifname: "eth0".into(),
        netns: None,
        args: String::new(),
        config: json!({}),
    };
    protocol::send(&mut stream, &request, None).unwrap();
    let (agent, _) = listener.accept().unwrap();
    agent.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut inbox = Inbox::default();
    assert!(inbox.read(&agent).unwrap() > 0);
    drop(stream);
    assert_eq!(inbox.read(&agent).unwrap(), 0);
}

/// A call chained after another plugin, with the pod's annotations as the runtime passes them.
fn chained(annotations: &Value) -> String {
    json!({
        "cniVersion": "1.1.0", "name": "cluster", "type": "portolan-cni", "interfaces": "further",
        "capabilities": { "io.kubernetes.cri.pod-annotations": true },
        "runtimeConfig": { "io.kubernetes.cri.pod-annotations": annotations },
        "prevResult": { "cniVersion": "1.1.0", "ips": [{ "address": "10.244.1.7/24", "interface": 0 }],
            "interfaces": [{ "name": "eth0", "sandbox": "/run/netns/a" }] },
    })
    .to_string()
}

#[test]
fn with_the_agent_down_pods_that_ask_for_nothing_start_and_end() {
    let node = node();
    for annotations in [json!({}), json!({ "kubernetes.io/config.seen": "now" })] {
        let config = chained(&annotations);
        let added = node.run(&node.environment("ADD"), &config);
        assert_eq!(added.code, 0, "{}", String::from_utf8_lossy(&added.stdout));
        let result: Value = serde_json::from_slice(&added.stdout).unwrap();
        assert_eq!(result["ips"], json!([{ "address": "10.244.1.7/24", "interface": 0 }]));
        assert_eq!(result["interfaces"], json!([{ "name": "eth0", "sandbox": "/run/netns/a" }]));
        for verb in ["CHECK", "DEL", "STATUS"] {
            assert_eq!(node.run(&node.environment(verb), &config).code, 0, "{verb}");
        }
    }
}

#[test]
fn with_the_agent_down_pods_that_ask_for_networks_are_tried_again_later() {
    let node = node();
    let asks = json!({ "k8s.v1.cni.cncf.io/networks": "vswitch1" });
    for verb in ["ADD", "DEL", "CHECK"] {
        let said = node.fails(&node.environment(verb), chained(&asks), Code::TryAgainLater);
        assert!(said.contains("cannot be reached"), "{said}");
    }
    // What the runtime did not pass may ask for anything, and a first interface is always needed.
    let mut config: Value = serde_json::from_str(&chained(&json!({}))).unwrap();
    config.as_object_mut().unwrap().remove("runtimeConfig");
    node.fails(&node.environment("ADD"), config.to_string(), Code::TryAgainLater);
    let mut config: Value = serde_json::from_str(&chained(&json!({}))).unwrap();
    config["interfaces"] = json!("all");
    for verb in ["ADD", "STATUS"] {
        node.fails(&node.environment(verb), config.to_string(), Code::TryAgainLater);
    }
}
