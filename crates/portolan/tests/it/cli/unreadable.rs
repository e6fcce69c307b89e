//! An object that cannot be decoded hides no other: the rest is shown, and a line says what is wrong with this one.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::cli::{Harbour, PORTOLAN, in_a_harbour};

/// A definition that lets any value into any field.
const SUBNETS_WITHOUT_SCHEMA: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: subnets.kubeovn.io}
spec:
  group: kubeovn.io
  scope: Cluster
  names: {kind: Subnet, listKind: SubnetList, plural: subnets, singular: subnet, shortNames: [subnet]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
const BROKEN: &str = r#"{"apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": "broken"},
    "spec": {"cidrBlock": 7}}"#;
const LINE: &str = "warning: Subnet.kubeovn.io broken cannot be read and is left out: spec.cidrBlock: invalid type: integer `7`, \
                    expected a string; correct it with `kubectl edit subnets.kubeovn.io broken`, or delete it";

/// Runs `portolan …`; returns its exit code, what it prints and what it warns of.
fn run(harbour: &Harbour, arguments: &[&str]) -> (i32, String, String) {
    let output = harbour.run(arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn one_object_that_cannot_be_decoded_is_told_and_hides_no_other() {
    in_a_harbour(|harbour| {
        harbour.pod("alpha", "node1", "web", "10.0.0.1");
        harbour.pod("beta", "node2", "web", "10.0.0.1");
        harbour.cluster.apply(SUBNETS_WITHOUT_SCHEMA).unwrap();
        harbour.cluster.apply(BROKEN).unwrap();

        let (code, output, warning) = run(harbour, &["get", "subnets", "-o", "name"]);
        assert_eq!(code, 0, "{warning}");
        assert!(output.contains("subnet.kubeovn.io/web\n") && !output.contains("broken"), "{output}");
        assert_eq!(warning.trim_end(), LINE);
        // What else needs subnets is shown too.
        let (code, output, warning) = run(harbour, &["get", "attachments"]);
        assert!(code == 0 && output.contains("alpha") && warning.contains(LINE), "{code} {output} {warning}");
        let (code, output, _) = run(harbour, &["describe", "subnet", "web"]);
        assert!(code == 0 && output.contains("default/alpha"), "{code} {output}");
        let direct = harbour.direct();
        let direct: Vec<&str> = direct.iter().map(String::as_str).collect();
        let (code, output, warning) = run(harbour, &[&["trace", "alpha", "beta"], &direct[..]].concat());
        assert!(code == 0 && output.contains(": reachable") && warning.contains(LINE), "{output} {warning}");

        // It exists: asked for by its name, it is never called missing.
        let (code, output, warning) = run(harbour, &["get", "subnets", "broken"]);
        assert_eq!((code, output.as_str()), (8, ""), "{warning}");
        assert!(warning.contains("subnet \"broken\" exists and cannot be read"), "{warning}");
        let (code, output, warning) = run(harbour, &["describe", "subnet", "broken"]);
        assert_eq!((code, warning.as_str()), (0, ""), "it is shown, not left out");
        assert!(output.starts_with("Subnet.kubeovn.io broken"), "{output}");
        assert!(output.contains("spec.cidrBlock: invalid type: integer `7`"), "{output}");
        assert!(output.contains("`kubectl edit subnets.kubeovn.io broken`"), "{output}");
    });
}

#[test]
fn a_watch_tells_once_of_an_object_that_cannot_be_decoded_and_goes_on() {
    in_a_harbour(|harbour| {
        harbour.cluster.apply(SUBNETS_WITHOUT_SCHEMA).unwrap();
        let program = harbour.lab.command(PORTOLAN).args(["get", "subnets", "-w", "-o", "name"]);
        let program = program.arg("--kubeconfig").arg(harbour.cluster.kubeconfig());
        let mut running = program.spawn_with(Stdio::null(), Stdio::piped(), Stdio::piped()).unwrap();
        let mut rows = BufReader::new(running.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut warnings = BufReader::new(running.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert_eq!(rows.by_ref().take(5).count(), 5);
        harbour.cluster.apply(BROKEN).unwrap();
        assert_eq!(warnings.next().as_deref(), Some(LINE));
        // Changes of others, and of it, are followed.
        harbour.kubectl(&["label", "subnets.kubeovn.io", "broken", "tier=back"]);
        harbour.cluster.apply(&BROKEN.replace("broken", "late").replace('7', "\"10.78.0.0/24\"")).unwrap();
        assert_eq!(rows.next().as_deref(), Some("subnet.kubeovn.io/late"));
        harbour.cluster.apply(&BROKEN.replace('7', "\"10.77.0.0/24\"")).unwrap();
        assert!(rows.any(|row| row == "subnet.kubeovn.io/broken"));
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(warnings.next(), None, "it was told once");
    });
}
