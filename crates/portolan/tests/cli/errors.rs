//! What is wrong is said in plain words.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{PORTOLAN, in_a_harbour};

#[test]
fn pods_that_cannot_be_traced() {
    in_a_harbour(|harbour| {
        harbour.pod("alpha", "node1", "web", "10.0.0.1");
        harbour.pod("beta", "node2", "web", "10.0.0.1");
        harbour.cluster.pod("plain").on("node1").start().unwrap();
        harbour.cluster.pod("waits").on("node1").nad("missing").create().unwrap();
        let long = "x".repeat(300);
        for (arguments, words) in [
            (&["alpha", "alpxa"][..], "there is no pod default/alpxa; did you mean alpha?"),
            (&["alpha", "shop/beta"], "there is no pod shop/beta; did you mean default/beta?"),
            (&["alpha", "plain"], "pod default/plain has no interface of Portolan's, and asks for none"),
            (
                &["alpha", "waits"],
                "pod default/waits has no interface of Portolan's yet: waiting for network attachment",
            ),
            (&["alpha", "alpha"], "default/alpha is one pod; name two"),
            (
                &["alpha", "beta", "--network", "db"],
                "pod beta is not on network \"db\"; it is on: web.default.ovn",
            ),
            (&["alpha", "beta", "--port", "65536"], "65536 is not in 1..=65535"),
            (&["alpha", "beta", "--port", "-1"], "unexpected argument"),
            (&["alpha", "beta", "--port", "ssh"], "invalid digit"),
            (&["alpha", "beta", "--protocol", "tcp"], "say to which port, with --port"),
            (&["alpha", "beta", "--protocol", "icmp", "--port", "5"], "a ping has no port"),
            (&["alpha", "beta", "--protocol", "ospf"], "invalid value 'ospf'"),
            (&["alpha", ""], "\"\" names no pod"),
            (&["alpha", "../../etc/passwd"], "names no pod"),
            (&["alpha", "$(reboot)"], "there is no pod default/$(reboot)"),
            (&["alpha", &long], "there is no pod default/xxx"),
        ] {
            let output = harbour.run(&[&["trace"], arguments].concat());
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(said.contains(words), "{arguments:?}: {said}");
            assert!(!said.contains("Error {") && !said.contains("backtrace"), "{said}");
        }
        for (arguments, words) in [
            (&["get", "subnets", "wbe"][..], "there is no subnet \"wbe\"; did you mean web?"),
            (&["get", "frogs"], "invalid value 'frogs'"),
            (&["get", "locks", "10.0.0.300"], "there is no lock \"10.0.0.300\""),
            (&["describe", "vpc", "bleu"], "there is no VPC \"bleu\"; did you mean blue?"),
            (&["describe", "pod", "alpxa"], "there is no pod default/alpxa; did you mean alpha?"),
        ] {
            let said = harbour.refuses(arguments);
            assert!(said.contains(words), "{arguments:?}: {said}");
        }
        no_tools(harbour);
    });
}

/// Without OVN's tools or its database the model still answers, and nobody takes that for a confirmation.
fn no_tools(harbour: &crate::Harbour) {
    let command = harbour.lab.command("env").args(["-i", PORTOLAN, "trace", "alpha", "beta", "--kubeconfig"]);
    let output =
        command.arg(harbour.cluster.kubeconfig()).args(["--ovn-sb", "unix:/nowhere"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("→ pod beta"), "{said}");
    assert!(
        said.contains("ovn-sbctl is not installed on this machine: it is in the package ovn-common"),
        "{said}"
    );

    let output = harbour.run(&["trace", "alpha", "beta", "--ovn-sb", "unix:/nowhere"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("OVN's southbound database cannot be asked (--ovn-sb says where it is)"), "{said}");
}

/// `portolan …` in an environment that says nothing of any cluster.
fn alone(home: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(PORTOLAN)
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("PORTOLAN_LAB_DIRECTORY", home.join("labs"))
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn kubeconfig(directory: &Path, server: &str) -> String {
    let path = directory.join("kubeconfig");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: x, clusters: [{{name: x, cluster: {{server: '{server}'}}}}], \
         users: [{{name: x, user: {{}}}}], contexts: [{{name: x, context: {{cluster: x, user: x}}}}]}}"
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn there_is_no_cluster() {
    let home = tempfile::tempdir().unwrap();
    let (code, said) = alone(home.path(), &["get", "vpcs"]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(
        said,
        "portolan get: there is no cluster to talk to: no lab is up, and there is no kubeconfig; \
         `portolan lab up` raises a lab, --kubeconfig names a cluster\n"
    );
    let (_, said) = alone(home.path(), &["get", "vpcs", "--kubeconfig", "/nonexistent"]);
    assert_eq!(
        said,
        "portolan get: cannot use /nonexistent as a kubeconfig: No such file or directory (os error 2)\n"
    );
    let file = home.path().join("nonsense");
    std::fs::write(&file, "[1, 2").unwrap();
    let (code, said) = alone(home.path(), &["describe", "vpc", "a", "--kubeconfig", file.to_str().unwrap()]);
    assert!(code == Some(1) && said.contains("as a kubeconfig: "), "{said}");
    // Something else listens there.
    let server = not_kubernetes();
    let file = kubeconfig(home.path(), &server);
    let (code, said) = alone(home.path(), &["get", "vpcs", "--kubeconfig", &file]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("what answers at {server}/ is no API server of Kubernetes")), "{said}");
    // Nobody listens there.
    let file = kubeconfig(home.path(), "http://127.0.0.1:1");
    let (code, said) = alone(home.path(), &["trace", "a", "b", "--kubeconfig", &file]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("the API server at http://127.0.0.1:1/ does not answer: Connection refused"),
        "{said}"
    );
}

/// Serves HTTP, and knows nothing; for as long as the test runs.
fn not_kubernetes() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            // To the end of the request's head.
            while stream.by_ref().lines().map_while(Result::ok).next().is_some_and(|line| !line.is_empty()) {}
            let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope";
            let _ = stream.get_mut().write_all(answer);
        }
    });
    format!("http://{address}")
}

#[test]
fn an_api_server_that_does_not_know_the_kinds() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mut server = Command::new(PORTOLAN)
        .args(["apiserver", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let export = lines.map(|line| line.trim().to_owned()).find(|line| line.starts_with("export KUBECONFIG="));
    let export = export.unwrap();
    let (_, kubeconfig) = export.split_once('=').unwrap();
    let (code, said) = alone(home.path(), &["get", "subnets", "--kubeconfig", kubeconfig]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("does not know Portolan's kinds; `kubectl apply -f deploy/crds/` defines them"),
        "{said}"
    );
}

#[test]
fn shells_are_helped() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(PORTOLAN).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && script.contains("portolan") && script.contains("trace"),
            "{shell}"
        );
    }
    let output = Command::new("bash").args(["-n", "/dev/stdin"]).stdin(script("bash")).output();
    assert!(output.unwrap().status.success(), "bash understands it");
}

fn script(shell: &str) -> Stdio {
    let child = Command::new(PORTOLAN).args(["completions", shell]).stdout(Stdio::piped()).spawn();
    child.unwrap().stdout.unwrap().into()
}
