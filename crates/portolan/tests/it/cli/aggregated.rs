//! `portolan trace` on a real kube-apiserver, answered by the controller: a user needs neither OVN's credentials nor its tools.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use portolan_testbed::cluster::ApiServer;
use portolan_testbed::{ApiKind, Daemon, Process};
use serde_json::{Value, json};

use crate::cli::{Harbour, PORTOLAN, in_a_harbour_of};

/// Who serves traces, as `deploy/trace.yaml` names it.
const CONTROLLER: &str = "portolan-system:portolan-controller";
const MANIFEST: &str = include_str!("../../../../../deploy/trace.yaml");
/// What it may besides.
const RIGHTS: &str = include_str!("../../../../../deploy/controller-rbac.yaml");

impl Harbour {
    /// The kubeconfig of a user without any right.
    pub(crate) fn kubeconfig_of(&self, user: &str) -> PathBuf {
        let ApiServer::Lab(server) = self.cluster.api() else { panic!("the API server is the lab's own") };
        let directory = self.lab.directory("users").unwrap();
        let identity = server.authority().client(user, None).unwrap().write(&directory, user).unwrap();
        let ca = server.authority().write(&directory, "ca").unwrap();
        let url = format!("https://{}:{}", self.home(), server.port());
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": url, "certificate-authority": ca}}],
            "users": [{"name": user, "user": {"client-certificate": identity.certificate, "client-key": identity.key}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}]});
        let path = directory.join(format!("{user}.kubeconfig"));
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// The address of the API server.
    fn home(&self) -> Ipv4Addr {
        self.cluster.underlay().home_address()
    }

    /// The kubeconfig of the controller's service account, which has the rights of `deploy/trace.yaml` and
    /// `deploy/controller-rbac.yaml`.
    fn kubeconfig_of_controller(&self) -> PathBuf {
        self.cluster.apply(RIGHTS).unwrap();
        let token = self.kubectl(&["create", "token", "portolan-controller", "-n", "portolan-system"]);
        let ApiServer::Lab(server) = self.cluster.api() else { panic!("the API server is the lab's own") };
        let directory = self.lab.directory("controller").unwrap();
        let ca = server.authority().write(&directory, "ca").unwrap();
        let url = format!("https://{}:{}", self.home(), server.port());
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": url, "certificate-authority": ca}}],
            "users": [{"name": "controller", "user": {"token": token.trim()}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "controller"}}]});
        let path = directory.join("kubeconfig");
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// Whether the controller's service account may do something.
    fn controller_may(&self, verb: &str, resource: &str, namespace: &str) -> bool {
        let user = format!("--as=system:serviceaccount:{CONTROLLER}");
        let arguments = ["auth", "can-i", verb, resource, "-n", namespace, &user];
        let output = self.cluster.kubectl().unwrap().args(arguments).output().unwrap();
        match String::from_utf8_lossy(&output.stdout).trim() {
            "yes" => true,
            "no" => false,
            other => panic!("{arguments:?}: {other} {}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Runs a controller that serves traces, with the API service that leads to it; returns it with its port.
    fn serve_traces(&self) -> (Process, u16) {
        self.cluster.apply(MANIFEST).unwrap();
        // By the manifest alone, each only where it is needed.
        let trace = "apiservices.apiregistration.k8s.io/v1alpha1.trace.portolan.dev";
        for (verb, resource, namespace) in [
            ("create", "tokenreviews.authentication.k8s.io", "default"),
            ("create", "subjectaccessreviews.authorization.k8s.io", "default"),
            ("watch", trace, "default"),
            ("list", trace, "default"),
            ("watch", "configmaps/extension-apiserver-authentication", "kube-system"),
            ("list", "configmaps/extension-apiserver-authentication", "kube-system"),
            ("watch", "secrets/portolan-trace-ca", "portolan-system"),
            ("patch", "secrets/portolan-trace-ca", "portolan-system"),
        ] {
            assert!(self.controller_may(verb, resource, namespace), "{verb} {resource} in {namespace}");
        }
        for (verb, resource, namespace) in [
            ("get", "secrets/other", "portolan-system"),
            ("list", "secrets", "portolan-system"),
            ("get", "secrets/portolan-trace-ca", "default"),
            ("patch", "apiservices.apiregistration.k8s.io/v1.apps", "default"),
            ("get", "configmaps", "kube-system"),
        ] {
            assert!(!self.controller_may(verb, resource, namespace), "{verb} {resource} in {namespace}");
        }
        let (home, port) = (self.home(), self.lab.port());
        let central = self.cluster.central();
        let controller = Daemon::new("tracing-controller", PORTOLAN)
            .args(["controller", "--ovn-nb", &central.nb().endpoint(), "--ovn-sb", &central.sb().endpoint()])
            .arg(format!("--trace-address={home}:{port}"))
            .arg(format!("--kubeconfig={}", self.kubeconfig_of_controller().display()))
            .start(self.lab.home())
            .unwrap();
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "portolan-trace", "namespace": "portolan-system",
                "labels": {"kubernetes.io/service-name": "portolan-trace"}},
            "endpoints": [{"addresses": [home], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}]});
        self.cluster.apply(&slice.to_string()).unwrap();
        let service = "apiservice/v1alpha1.trace.portolan.dev";
        self.kubectl(&["wait", "--for=condition=Available", service, "--timeout=90s"]);
        (controller, port)
    }

    /// Runs `portolan …` as a user, with nothing of OVN at hand.
    fn run_as(&self, user: &str, arguments: &[&str]) -> (i32, String, String) {
        let command = self
            .lab
            .command("env")
            .args(["-i", "HOME=/nonexistent", "PATH=/nonexistent", PORTOLAN])
            .args(arguments);
        let output = command.arg("--kubeconfig").arg(self.kubeconfig_of(user)).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Posts to the trace server, past kube-apiserver; returns the HTTP status and the body.
    fn post(&self, port: u16, headers: &[&str], body: &str) -> (u16, String) {
        let url = format!(
            "https://{}:{port}/apis/trace.portolan.dev/v1alpha1/namespaces/default/traces",
            self.home()
        );
        let mut command = self.lab.command("curl").args(["-sSk", "-w", "\n%{http_code}", "-d", body, &url]);
        for header in [&["Content-Type: application/json"], headers].concat() {
            command = command.args(["-H", header]);
        }
        let output = command.read().unwrap();
        let (body, code) = output.trim_end().rsplit_once('\n').unwrap();
        (code.parse().unwrap(), body.to_owned())
    }
}

#[test]
fn the_controller_answers_traces_of_users_who_may_ask() {
    in_a_harbour_of(ApiKind::Kubernetes, |harbour| {
        let a = harbour.pod("a", "node1", "web", "10.0.0.1");
        let c = harbour.pod("c", "node2", "db", "10.0.1.1");
        harbour.cluster.ping(&a, &c).succeeds();
        let (controller, port) = harbour.serve_traces();

        // A user who may: no access to OVN, and no tools of OVN, in reach.
        harbour.kubectl(&[
            "create",
            "role",
            "tracer",
            "--verb=create",
            "--resource=traces.trace.portolan.dev",
        ]);
        harbour.kubectl(&["create", "role", "reader", "--verb=get", "--resource=pods"]);
        harbour.kubectl(&["create", "rolebinding", "tracer", "--role=tracer", "--user=ann", "--user=eve"]);
        harbour.kubectl(&["create", "rolebinding", "reader", "--role=reader", "--user=ann"]);
        let (code, output, message) = harbour.run_as("ann", &["trace", "a", "c"]);
        assert_eq!(code, 0, "{output}{message}");
        assert!(output.starts_with("ping from default/a to default/c: reachable\n"), "{output}");
        assert!(output.contains("→ router blue   [connected network 10.0.1.0/24]"), "{output}");
        let (code, output, _) = harbour.run_as("ann", &["trace", "a", "c", "--port", "23"]);
        assert_eq!(code, 1, "{output}");
        assert!(output.contains("✗ router blue drops it by policy route 100"), "{output}");
        let (code, _, message) = harbour.run_as("ann", &["trace", "a", "nothing"]);
        assert_eq!((code, message.trim()), (3, "portolan trace: pod default/nothing does not exist"));

        // Users who may not, each with what they lack.
        let (code, _, message) = harbour.run_as("bob", &["trace", "a", "c"]);
        assert_eq!(code, 5, "{message}");
        assert!(
            message.contains(r#"cannot create resource "traces" in API group "trace.portolan.dev""#),
            "{message}"
        );
        let (code, _, message) = harbour.run_as("eve", &["trace", "a", "c"]);
        assert_eq!(code, 5, "{message}");
        assert!(message.contains(r#"User "eve" cannot get resource "pods""#), "{message}");
        let (code, _, message) = harbour.run_as("ann", &["trace", "a", "kube-system/x"]);
        assert_eq!(code, 5, "{message}");

        // Past kube-apiserver: headers without its certificate prove nothing, tokens are reviewed.
        let question = json!({"apiVersion": "trace.portolan.dev/v1alpha1", "kind": "Trace",
            "spec": {"from": {"pod": "a"}, "to": {"pod": {"name": "c"}}}});
        let question = question.to_string();
        let forged = ["X-Remote-User: admin", "X-Remote-Group: system:masters"];
        assert_eq!(harbour.post(port, &forged, &question).0, 401);
        assert_eq!(harbour.post(port, &[], &question).0, 401);
        assert_eq!(harbour.post(port, &["Authorization: Bearer nonsense"], &question).0, 401);
        harbour.kubectl(&["create", "serviceaccount", "robot"]);
        let token = harbour.kubectl(&["create", "token", "robot"]);
        let bearer = format!("Authorization: Bearer {}", token.trim());
        assert_eq!(harbour.post(port, &[&bearer], &question).0, 403);
        harbour.kubectl(&[
            "create",
            "rolebinding",
            "robot",
            "--role=tracer",
            "--serviceaccount=default:robot",
        ]);
        harbour.kubectl(&[
            "create",
            "rolebinding",
            "robot2",
            "--role=reader",
            "--serviceaccount=default:robot",
        ]);
        let (code, body) = harbour.post(port, &[&bearer], &question);
        assert_eq!(code, 201, "{body}");
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["status"]["verdict"], "Reachable", "{body}");

        // Bounds: a body that is too large, and one that is no Trace.
        let large = format!("{{\"apiVersion\": \"{}\"}}", "x".repeat(100_000));
        assert_eq!(harbour.post(port, &[&bearer], &large).0, 413);
        let (code, body) = harbour.post(port, &[&bearer], "{}");
        assert_eq!(code, 400, "{body}");
        let wrong = question.replace("\"to\"", "\"protocol\": \"TCP\", \"to\"");
        let (code, body) = harbour.post(port, &[&bearer], &wrong);
        assert!(code == 422 && body.contains("spec.port: TCP and UDP need a port"), "{code} {body}");

        // Without a controller: before kube-apiserver has noticed, and after.
        drop(controller);
        let is_told = || {
            let (code, _, message) = harbour.run_as("ann", &["trace", "a", "c"]);
            assert_eq!(code, 4, "{message}");
            assert!(message.contains("is the controller running with --trace-address?"), "{message}");
        };
        is_told();
        let service = "apiservice/v1alpha1.trace.portolan.dev";
        harbour.kubectl(&["wait", "--for=condition=Available=False", service, "--timeout=90s"]);
        is_told();
    });
}
