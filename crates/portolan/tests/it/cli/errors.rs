//! Failures have a message in plain words and an exit code that means one thing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cli::{PORTOLAN, in_a_harbour};

#[test]
fn failures_have_a_message_and_an_exit_code() {
    in_a_harbour(|harbour| {
        harbour.pod("alpha", "node1", "web", "10.0.0.1");
        harbour.pod("beta", "node2", "web", "10.0.0.1");
        harbour.cluster.pod("plain").on("node1").start().unwrap();
        harbour.cluster.pod("waits").on("node1").nad("missing").create().unwrap();
        let long = "x".repeat(300);
        let direct = harbour.direct();
        for (arguments, code, words) in [
            (&["alpha", "alpxa"][..], 3, "pod default/alpxa does not exist; did you mean alpha?"),
            (&["alpha", "shop/beta"], 3, "pod shop/beta does not exist; did you mean default/beta?"),
            (&["alpha", "plain"], 3, "pod default/plain asks for no interface of Portolan's"),
            (
                &["alpha", "waits"],
                3,
                "pod default/waits has no interface of Portolan's yet: waiting for network attachment",
            ),
            (&["alpha", "alpha"], 2, "spec.to.pod: is the pod that sends; name another"),
            (
                &["alpha", "beta", "--network", "db"],
                2,
                "pod default/beta is not on network db.default.ovn; it is on: web.default.ovn",
            ),
            (&["alpha", "beta", "--port", "65536"], 2, "65536 is not in 1..=65535"),
            (&["alpha", "beta", "--port", "-1"], 2, "unexpected argument"),
            (&["alpha", "beta", "--port", "ssh"], 2, "invalid digit"),
            (&["alpha", "beta", "--protocol", "tcp"], 2, "need a port: add --port"),
            (&["alpha", "beta", "--protocol", "icmp", "--port", "5"], 2, "a ping has no port"),
            (&["alpha", "beta", "--protocol", "ospf"], 2, "invalid value 'ospf'"),
            (&["alpha", ""], 2, "\"\" is no pod"),
            (&["alpha", "../../etc/passwd"], 2, "is no pod"),
            (&["alpha", "$(reboot)"], 3, "pod default/$(reboot) does not exist"),
            (&["alpha", &long], 3, "pod default/xxx"),
            (&["alpha", "fd00::1"], 2, "pod default/alpha has no IPv6 address"),
        ] {
            let direct: Vec<&str> = direct.iter().map(String::as_str).collect();
            let output = harbour.run(&[&["trace"], &direct[..], arguments].concat());
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
            assert!(message.contains(words), "{arguments:?}: {message}");
            assert!(!message.contains("Error {") && !message.contains("backtrace"), "{message}");
        }
        for (arguments, code, words) in [
            (&["get", "subnets", "wbe"][..], 3, "subnet \"wbe\" does not exist; did you mean web?"),
            (&["get", "subnets", "wbe", "-w"], 3, "subnet \"wbe\" does not exist; did you mean web?"),
            (&["get", "frogs"], 2, "invalid value 'frogs'"),
            (&["get", "locks", "10.0.0.300"], 3, "lock \"10.0.0.300\" does not exist"),
            (&["describe", "vpc", "bleu"], 3, "VPC \"bleu\" does not exist; did you mean blue?"),
            (&["describe", "pod", "alpxa"], 3, "pod default/alpxa does not exist; did you mean alpha?"),
            (&["get", "vpcs", "--context", "moon"], 3, "context \"moon\" is not in "),
            (
                &["trace", "alpha", "beta"],
                8,
                "does not serve trace.portolan.dev: run the controller with --trace-address",
            ),
        ] {
            let (refused, message) = harbour.refuses(arguments);
            assert_eq!(refused, code, "{arguments:?}: {message}");
            assert!(message.contains(words), "{arguments:?}: {message}");
        }
        no_tools(harbour);
    });
}

impl crate::cli::Harbour {
    /// The options for direct access to OVN.
    pub(crate) fn direct(&self) -> [String; 4] {
        let central = self.cluster.central();
        ["--ovn-nb".into(), central.nb().endpoint(), "--ovn-sb".into(), central.sb().endpoint()]
    }
}

/// Without OVN's tools or its databases the answer is "unknown", and says why.
fn no_tools(harbour: &crate::cli::Harbour) {
    let command = harbour.lab.command("env").args(["-i", "PATH=/nonexistent", PORTOLAN]);
    let command = command.args(["trace", "alpha", "beta", "--kubeconfig"]);
    let output = command.arg(harbour.cluster.kubeconfig()).args(harbour.direct()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(text.contains("OVN could not be asked: ovn-trace is not installed here"), "{text}");

    let nowhere = ["trace", "alpha", "beta", "--ovn-nb", "unix:/nowhere", "--ovn-sb", "unix:/nowhere"];
    let output = harbour.run(&nowhere);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(text.contains("OVN could not be asked: OVN's southbound database does not answer"), "{text}");
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
fn a_server_process_says_at_its_start_what_it_cannot_do_with_its_api_server() {
    let home = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let (code, said) = alone(home.path(), &[&["controller"], arguments].concat());
        assert_eq!(code, Some(1), "{said}");
        said
    };
    let said = refused(&[]);
    assert!(said.contains("no cluster is configured: no kubeconfig ("), "{said}");
    assert!(said.contains("), and not in a pod; give --kubeconfig"), "{said}");
    let said = refused(&["--follow-api-servers=false", "--api-servers-file=/nonexistent/addresses"]);
    assert!(said.contains("--api-servers-file is of no use with --follow-api-servers=false"), "{said}");
    let proxy = kubeconfig(home.path(), "http://127.0.0.1:1");
    let said = refused(&["--follow-api-servers", "--kubeconfig", &proxy]);
    let why = "--follow-api-servers: this URL does not name an API server itself (plain HTTP, a path, or a proxy): http://127.0.0.1:1/";
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_missing_cluster_is_told_from_a_wrong_one() {
    let home = tempfile::tempdir().unwrap();
    let (code, said) = alone(home.path(), &["get", "vpcs"]);
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(
        said,
        "portolan get: no cluster is configured: there is no kubeconfig, and no lab is up; give --kubeconfig, or start a lab \
         with `portolan lab up`\n"
    );
    let (code, said) = alone(home.path(), &["get", "vpcs", "--kubeconfig", "/nonexistent"]);
    assert_eq!(code, Some(4));
    assert_eq!(
        said,
        "portolan get: cannot use /nonexistent as a kubeconfig: No such file or directory (os error 2)\n"
    );
    let file = home.path().join("nonsense");
    std::fs::write(&file, "[1, 2").unwrap();
    let (code, said) = alone(home.path(), &["describe", "vpc", "a", "--kubeconfig", file.to_str().unwrap()]);
    assert!(code == Some(4) && said.contains("as a kubeconfig: "), "{said}");
    // Something else listens there.
    let server = not_kubernetes();
    let file = kubeconfig(home.path(), &server);
    let (code, said) = alone(home.path(), &["get", "vpcs", "--kubeconfig", &file]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&format!("the server at {server}/ is not a Kubernetes API server")), "{said}");
    // Nobody listens there.
    let file = kubeconfig(home.path(), "http://127.0.0.1:1");
    let (code, said) = alone(home.path(), &["trace", "a", "b", "--kubeconfig", &file]);
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains("the API server at http://127.0.0.1:1/ does not answer: Connection refused"),
        "{said}"
    );
}

#[test]
fn a_server_that_is_busy_or_slow_is_told_from_one_that_fails() {
    let home = tempfile::tempdir().unwrap();
    for (code, words) in [
        ("429 Too Many Requests", "is too busy to serve a trace (429): the reason"),
        ("504 Gateway Timeout", "did not serve a trace in time (504): the reason; try again"),
        (
            "503 Service Unavailable",
            "cannot serve a trace (503): the reason; is the controller running with --trace-address? `kubectl get apiservice \
             v1alpha1.trace.portolan.dev` says why",
        ),
    ] {
        let (server, posts) = answers_traces_with(code);
        let file = kubeconfig(home.path(), &server);
        let (exit, said) = alone(home.path(), &["trace", "a", "b", "--kubeconfig", &file]);
        assert_eq!(exit, Some(4), "{code}: {said}");
        assert!(said.contains(words), "{code}: {said}");
        assert_eq!(posts.load(Ordering::SeqCst), 1, "{code}: it is not asked again behind the user's back");
    }
}

#[test]
fn a_trace_that_no_controller_answers_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let hint = "; is the controller running with --trace-address?";
    let own = status_of("503").replace(r#""x""#, r#""ServiceUnavailable""#);
    // kube-apiserver's answer in place of a server that it cannot reach is a text; the trace server's own is a Status.
    for (body, words, hinted) in [
        ("service unavailable\n", "cannot serve a trace (503): service unavailable; is the controller", true),
        (own.as_str(), "cannot serve a trace (503): the reason\n", false),
    ] {
        let (server, _) = answers_traces("503 Service Unavailable", body.to_owned());
        let file = kubeconfig(home.path(), &server);
        let (exit, said) = alone(home.path(), &["trace", "a", "b", "--kubeconfig", &file]);
        assert_eq!(exit, Some(4), "{said}");
        assert!(said.contains(words) && said.contains(hint) == hinted, "{said}");
    }
}

#[test]
fn whoever_refuses_a_trace_is_named_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let (server, _) = answers_traces_with("401 Unauthorized");
    let file = kubeconfig(home.path(), &server);
    let (exit, said) = alone(home.path(), &["trace", "a", "b", "--kubeconfig", &file]);
    assert_eq!(exit, Some(5), "{said}");
    assert!(said.contains("the trace server behind the API server at http://"), "{said}");
    assert!(said.contains(" refused the trace (401): the reason"), "{said}");
    // The API server itself.
    let server = serve(|_| ("401 Unauthorized", status_of("401")));
    let file = kubeconfig(home.path(), &server);
    for arguments in [&["get", "vpcs"][..], &["trace", "a", "b"]] {
        let (exit, said) = alone(home.path(), &[arguments, &["--kubeconfig", &file]].concat());
        assert_eq!(exit, Some(5), "{said}");
        assert!(said.contains("rejected the credentials in the kubeconfig (401): the reason"), "{said}");
    }
}

#[test]
fn a_log_filter_that_makes_no_sense_is_an_error_of_the_command_line() {
    let output = Command::new(PORTOLAN).args(["get", "vpcs"]).env("PORTOLAN_LOG", "a=b=c").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("'--log <FILTER>'"), "{said}");
}

/// A Kubernetes API server that serves traces, badly; and how often it was asked.
fn answers_traces_with(code: &'static str) -> (String, Arc<AtomicUsize>) {
    answers_traces(code, status_of(&code[..3]))
}

fn answers_traces(code: &'static str, body: String) -> (String, Arc<AtomicUsize>) {
    let posts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&posts);
    let server = serve(move |line| {
        if line.starts_with("POST") {
            counted.fetch_add(1, Ordering::SeqCst);
            return (code, body.clone());
        }
        let group = r#"{"name": "trace.portolan.dev", "versions": [], "preferredVersion": {"groupVersion": "x", "version": "x"}}"#;
        ("200 OK", format!(r#"{{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{group}]}}"#))
    });
    (server, posts)
}

fn status_of(code: &str) -> String {
    let status = r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "the reason", "reason": "x", "code": "#;
    format!("{status}{code}}}")
}

/// Serves HTTP, and answers every request with 404, for as long as the test runs.
fn not_kubernetes() -> String {
    serve(|_| ("404 Not Found", "nope".to_owned()))
}

/// Serves HTTP for as long as the test runs: a request's first line gives status and body.
fn serve(answer: impl Fn(&str) -> (&'static str, String) + Send + 'static) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            let head: Vec<String> =
                stream.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let length = head.iter().find_map(|line| {
                line.to_lowercase().strip_prefix("content-length: ").and_then(|length| length.parse().ok())
            });
            // Closing with something unread would reset the connection.
            let _ = stream.read_exact(&mut vec![0; length.unwrap_or(0)]);
            let (status, body) = answer(head.first().map_or("", String::as_str));
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            let _ = stream.get_mut().write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn an_api_server_without_the_crds_is_named() {
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
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("does not serve Portolan's kinds; `kubectl apply -f deploy/crds/` adds them"),
        "{said}"
    );
}

#[test]
fn completions_exist_for_each_shell() {
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
