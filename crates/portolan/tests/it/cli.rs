//! `portolan get`, `describe` and `trace` on real clusters, as a person uses them; and their messages when something is wrong.

mod aggregated;
mod errors;
mod random;
mod services;
mod tracing;
mod unreadable;

use std::process::{Output, Stdio};
use std::time::Duration;

use portolan_testbed::{ApiKind, Pod, Test, TestLab, Testbed};
use serde_json::Value;

const OBJECTS: &str = include_str!("cli/objects.yaml");
const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");

/// A cluster, and the binary that asks it from where it can be reached.
pub(crate) struct Harbour {
    lab: TestLab,
    pub(crate) cluster: Testbed,
}

/// Runs a test in a cluster of two nodes that has the objects.
fn in_a_harbour(body: impl FnOnce(&Harbour) + Send + 'static) {
    in_a_harbour_for(Duration::from_secs(180), body);
}

fn in_a_harbour_of(api: ApiKind, body: impl FnOnce(&Harbour) + Send + 'static) {
    in_a_harbour_with(Duration::from_secs(240), api, body);
}

fn in_a_harbour_for(deadline: Duration, body: impl FnOnce(&Harbour) + Send + 'static) {
    in_a_harbour_with(deadline, ApiKind::default(), body);
}

fn in_a_harbour_with(deadline: Duration, api: ApiKind, body: impl FnOnce(&Harbour) + Send + 'static) {
    Test::new().deadline(deadline).run(async move |lab: TestLab| {
        let cluster = Testbed::builder().nodes(2).api(api).start(&lab).unwrap();
        cluster.apply(OBJECTS).unwrap();
        body(&Harbour { lab, cluster });
    });
}

impl Harbour {
    fn kubectl(&self, arguments: &[&str]) -> String {
        self.cluster.kubectl().unwrap().args(arguments).read().unwrap()
    }

    /// A pod whose default route goes by its one interface.
    fn pod(&self, name: &str, node: &str, nad: &str, router: &str) -> Pod {
        let pod = self.cluster.pod(name).on(node).nad(nad).with("default-route", vec![router]);
        pod.start().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let command =
            self.lab.command(PORTOLAN).args(arguments).arg("--kubeconfig").arg(self.cluster.kubeconfig());
        command.output().unwrap()
    }

    /// Runs `portolan …`, which must succeed; returns what it prints.
    #[track_caller]
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "portolan {}: {complaint}", arguments.join(" "));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `portolan …`, which must fail; returns its exit code and message.
    #[track_caller]
    fn refuses(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        assert!(!output.status.success(), "portolan {} succeeds", arguments.join(" "));
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap().trim().to_owned())
    }
}

#[test]
fn tables_and_descriptions_show_what_the_cluster_has() {
    in_a_harbour(|harbour| {
        let a = harbour.pod("a", "node1", "web", "10.0.0.1");
        harbour.cluster.pod("waits").on("node1").nad("missing").create().unwrap();

        let ready = ["wait", "--for=condition=Ready", "--timeout=60s"];
        harbour.kubectl(&[&ready[..], &["vpcs.kubeovn.io/blue", "subnets.kubeovn.io/web"]].concat());
        let subnets = harbour.says(&["get", "subnets"]);
        let line = |text: &str, begins: &str| {
            let found = text.lines().find(|line| line.starts_with(begins));
            found
                .unwrap_or_else(|| panic!("no {begins} in {text}"))
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            line(&subnets, "web"),
            ["web", "yes", "blue", "10.0.0.0/24", "10.0.0.1", "web.default.ovn", "1", "251"]
        );
        let vpcs = harbour.says(&["get", "vpcs"]);
        assert_eq!(line(&vpcs, "blue")[..6], ["blue", "yes", "2", "1", "2", "green"]);
        let attachments = harbour.says(&["get", "attachments"]);
        let address = a.address().to_string();
        let row = line(&attachments, "a ");
        assert_eq!(
            (&row[2], &row[3], &row[5], &row[6]),
            (&"web".into(), &address, &"node1".into(), &"yes".into())
        );
        assert!(line(&attachments, "waits").ends_with(&["no".into(), "(Waiting)".into()]), "{attachments}");
        let locks: Value =
            serde_json::from_str(&harbour.says(&["get", "locks", &address, "-o", "json"])).unwrap();
        assert_eq!((&locks[0]["owner"], &locks[0]["subnet"]), (&"Pod default/a".into(), &"web".into()));
        assert!(harbour.says(&["get", "subnets", "web", "-o", "yaml"]).contains("provider: web.default.ovn"));
        assert_eq!(harbour.says(&["get", "vpcs", "green", "-o", "name"]), "vpc.portolan.dev/green\n");
        assert_eq!(harbour.says(&["get", "attachments", "a", "-o", "name"]), "default/a/net1\n");

        assert!(harbour.says(&["describe", "subnet", "web"]).contains("default/a"));
        assert!(harbour.says(&["describe", "vpc", "blue"]).contains("green: connected"));
        assert!(harbour.says(&["describe", "attachment", "a/net1"]).contains(&address));
        assert!(harbour.says(&["describe", "lock", &address]).contains("Pod default/a"));
        let pod = harbour.says(&["describe", "pod", "waits"]);
        assert!(pod.contains("waiting for network attachment definition default/missing"), "{pod}");
    });
}

#[test]
fn labels_choose_what_is_shown() {
    in_a_harbour(|harbour| {
        harbour.pod("a", "node1", "web", "10.0.0.1");
        harbour.pod("b", "node2", "web", "10.0.0.1");
        harbour.kubectl(&["label", "pod", "b", "app=web"]);
        harbour.kubectl(&["label", "subnets.kubeovn.io", "db", "tier=back"]);
        let names = |arguments: &[&str]| harbour.says(&[arguments, &["-o", "name"]].concat());
        assert_eq!(names(&["get", "attachments", "-l", "app=web"]), "default/b/net1\n");
        assert_eq!(names(&["get", "attachments", "-l", "app!=web"]), "default/a/net1\n");
        assert_eq!(
            names(&["get", "subnets", "--selector", "tier in (back, front)"]),
            "subnet.kubeovn.io/db\n"
        );
        assert_eq!(names(&["get", "vpcs", "-l", "tier"]), "");
        let (code, message) = harbour.refuses(&["get", "vpcs", "-l", "a b c"]);
        assert_eq!(code, 2, "{message}");
    });
}

#[test]
fn a_watch_shows_what_changes() {
    use std::io::{BufRead as _, BufReader};
    in_a_harbour(|harbour| {
        let program =
            harbour.lab.command(PORTOLAN).args(["get", "subnets", "-w", "-o", "name", "--kubeconfig"]);
        let program = program.arg(harbour.cluster.kubeconfig());
        let mut running = program.spawn_with(Stdio::null(), Stdio::piped(), Stdio::inherit()).unwrap();
        let mut lines = BufReader::new(running.stdout.take().unwrap()).lines().map_while(Result::ok);
        let listed: Vec<String> = lines.by_ref().take(5).collect();
        assert!(listed.contains(&"subnet.kubeovn.io/web".to_owned()), "{listed:?}");
        let subnet = r#"{"apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "late"},
            "spec": {"cidrBlock": "10.77.0.0/24"}}"#;
        harbour.cluster.apply(subnet).unwrap();
        // What the others say of themselves may still change.
        let changed = lines.find(|line| !listed.contains(line));
        assert_eq!(changed.as_deref(), Some("subnet.portolan.dev/late"));
        running.kill().unwrap();
        running.wait().unwrap();
    });
}

/// A watch that runs, with the lines that it prints.
fn watch(
    harbour: &Harbour,
    arguments: &[&str],
) -> (std::process::Child, impl Iterator<Item = String> + use<>) {
    use std::io::{BufRead as _, BufReader};
    let program = harbour.lab.command(PORTOLAN).args(["get", "-w", "-o", "name"]).args(arguments);
    let program = program.arg("--kubeconfig").arg(harbour.cluster.kubeconfig());
    let mut running = program.spawn_with(Stdio::null(), Stdio::piped(), Stdio::inherit()).unwrap();
    let lines = BufReader::new(running.stdout.take().unwrap()).lines().map_while(Result::ok);
    (running, lines)
}

#[test]
fn a_watch_ends_when_nobody_reads_it_any_more() {
    in_a_harbour(|harbour| {
        let (mut running, mut lines) = watch(harbour, &["subnets"]);
        assert!(lines.next().is_some());
        // Nothing changes: it is not by a failing write that it notices.
        drop(lines);
        assert_eq!(running.wait().unwrap().code(), Some(0));
    });
}

#[test]
fn a_watch_with_labels_shows_what_gets_them() {
    in_a_harbour(|harbour| {
        harbour.kubectl(&["label", "subnets.kubeovn.io", "web", "tier=front"]);
        let (mut running, mut lines) = watch(harbour, &["subnets", "-l", "tier"]);
        assert_eq!(lines.next().as_deref(), Some("subnet.kubeovn.io/web"));
        harbour.kubectl(&["label", "subnets.kubeovn.io", "db", "tier=back"]);
        assert_eq!(lines.next().as_deref(), Some("subnet.kubeovn.io/db"));
        running.kill().unwrap();
        running.wait().unwrap();
    });
}

#[test]
fn vpcs_are_shown_to_users_who_may_not_list_pods() {
    in_a_harbour_of(ApiKind::Kubernetes, |harbour| {
        let rules = "--resource=vpcs.kubeovn.io,vpcs.portolan.dev,subnets.kubeovn.io,subnets.portolan.dev";
        harbour.kubectl(&["create", "clusterrole", "networks", "--verb=get,list,watch", rules]);
        harbour.kubectl(&[
            "create",
            "clusterrolebinding",
            "networks",
            "--clusterrole=networks",
            "--user=ann",
        ]);
        let ann = harbour.kubeconfig_of("ann");
        let run = |arguments: &[&str]| {
            harbour.lab.command(PORTOLAN).args(arguments).arg("--kubeconfig").arg(&ann).output().unwrap()
        };
        let output = run(&["get", "vpcs", "-o", "name"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = run(&["get", "attachments"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(5), "{message}");
        assert!(message.contains("refused") && message.contains("(403)"), "{message}");
        // Nor do Services need any of that, or Portolan's kinds.
        let output = run(&["get", "services"]);
        assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
        let rules = "--resource=services,nodes,endpointslices.discovery.k8s.io";
        harbour.kubectl(&["create", "clusterrole", "services", "--verb=get,list,watch", rules]);
        harbour.kubectl(&[
            "create",
            "clusterrolebinding",
            "services",
            "--clusterrole=services",
            "--user=bob",
        ]);
        let bob = harbour.kubeconfig_of("bob");
        let get = ["get", "services", "kubernetes", "-o", "name", "--kubeconfig"];
        let output = harbour.lab.command(PORTOLAN).args(get).arg(&bob).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "default/kubernetes\n", "{said}");
    });
}
