use super::*;

const BEFORE: &str = "
apiVersion: portolan.dev/v1alpha1
kind: Vpc
metadata: {name: blue}
spec: {staticRoutes: [{cidr: 10.9.0.0/24, nextHopIP: 10.0.0.7}]}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: web}
spec: {vpc: blue, cidrBlock: 10.0.0.0/24, provider: web.default.ovn}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: web, namespace: default}
spec: {config: '{\"cniVersion\": \"0.3.1\", \"type\": \"kube-ovn\", \"provider\": \"web.default.ovn\"}'}
";

fn outcome(manifest: &str) -> anyhow::Result<Outcome> {
    let objects = Objects::of_files(manifest::parse("before.yaml", BEFORE)?)?;
    let documents = manifest::parse("manifest.yaml", manifest)?;
    Outcome::of(objects, documents, "default", &portolan_plan::Settings::default())
}

fn shown(manifest: &str) -> String {
    outcome(manifest).unwrap().to_string()
}

fn error(manifest: &str) -> String {
    let error = outcome(manifest).unwrap_err();
    assert_eq!(Exit::of(&error), Exit::Usage);
    error.to_string()
}

#[test]
fn what_is_there_already_changes_nothing() {
    assert_eq!(shown(BEFORE), "No changes.\n");
    assert!(outcome("").unwrap().is_nothing());
}

#[test]
fn rows_and_columns_that_change_are_shown() {
    insta::assert_snapshot!(shown(
        "
apiVersion: portolan.dev/v1alpha1
kind: Vpc
metadata: {name: blue}
spec: {staticRoutes: [{cidr: 10.8.0.0/24, nextHopIP: 10.0.0.7}]}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: web}
spec: {gateway: 10.0.0.254}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: db}
spec: {vpc: blue, cidrBlock: 10.0.1.0/24}
"
    ));
}

#[test]
fn a_subnet_that_does_not_fit_the_others_is_named_with_what_it_would_not_do() {
    let text = shown(
        "
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: db}
spec: {vpc: blue, cidrBlock: 10.0.0.0/16}
",
    );
    assert!(text.contains("! Subnet db would not be in effect: spec.cidrBlock: "), "{text}");
    assert!(text.ends_with("Rows: 0 to add, 0 to change, 0 to remove.\n"), "{text}");
}

#[test]
fn pods_that_would_be_served_and_pods_that_would_wait_are_told_apart() {
    let text = shown(
        "
apiVersion: v1
kind: Pod
metadata: {name: served, annotations: {k8s.v1.cni.cncf.io/networks: web}}
spec: {containers: [{name: one, image: one}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, annotations: {k8s.v1.cni.cncf.io/networks: other}}
spec: {containers: [{name: one, image: one}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: many}
",
    );
    assert!(
        text.contains("+ Pod default/served would get 1 address, which the controller chooses"),
        "{text}"
    );
    assert!(text.contains("! Pod default/waits would not get all it asks for: "), "{text}");
    assert!(
        text.contains("note: Deployment default/many was not looked at: what its pods ask for"),
        "{text}"
    );
}

#[test]
fn a_pod_with_the_longest_name_is_served() {
    let name = "p".repeat(253);
    let text = shown(&format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{k8s.v1.cni.cncf.io/networks: web}}}}
spec: {{containers: [{{name: one, image: one}}]}}
"
    ));
    assert!(text.contains(&format!("+ Pod default/{name} would get 1 address")), "{text}");
    assert!(!text.contains('!'), "{text}");
}

#[test]
fn pools_and_vips_are_judged_and_served() {
    let text = shown(
        "
apiVersion: kubeovn.io/v1
kind: IPPool
metadata: {name: gold}
spec: {subnet: web, ips: [10.0.9.7]}
---
apiVersion: kubeovn.io/v1
kind: IPPool
metadata: {name: early}
spec: {subnet: later, ips: [10.0.9.7], enableAddressSet: true}
---
apiVersion: kubeovn.io/v1
kind: Vip
metadata: {name: front}
spec: {subnet: web, v4ip: 10.0.0.9}
---
apiVersion: kubeovn.io/v1
kind: Vip
metadata: {name: second}
spec: {subnet: web, v4ip: 10.0.0.9}
---
apiVersion: kubeovn.io/v1
kind: Vip
metadata: {name: gateway}
spec: {subnet: web, v4ip: 10.0.0.1}
",
    );
    for line in [
        "! IPPool gold would not be in effect: spec.ips: 10.0.9.7 is not in Subnet web, which has 10.0.0.0/24\n",
        "note: IPPool early: spec.subnet: there is no Subnet \"later\"\n",
        "note: IPPool early: spec.enableAddressSet: not supported yet; it has no effect\n",
        "+ Vip front would get 1 address, which the controller chooses\n",
        "! Vip second would not get all it asks for: 10.0.0.9 in vpc/blue is taken by Vip front; waiting for it, or ask for another\n",
        "! Vip gateway would not be in effect: spec.v4ip: 10.0.0.1 is the gateway of Subnet web; ask for another\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("was not looked at"), "{text}");
    let refused = error(
        "apiVersion: kubeovn.io/v1\nkind: Vip\nmetadata: {name: bad}\nspec: {subnet: web, v4ip: 10.300.0.1}",
    );
    assert!(refused.contains("v4ip must be an IPv4 address such as 10.0.0.5"), "{refused}");
}

#[test]
fn an_immutable_field_that_changes_is_refused() {
    let change = "
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: web}
spec: {cidrBlock: 10.7.0.0/24}
";
    let refused = error(change);
    assert!(
        refused.starts_with("manifest.yaml: document 1: Subnet web: spec.cidrBlock: Invalid value: "),
        "{refused}"
    );
    assert!(refused.contains("cidrBlock is immutable"), "{refused}");
}

#[test]
fn two_pods_do_not_get_the_same_address() {
    let pod = |name: &str| {
        format!(
            "
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  annotations: {{k8s.v1.cni.cncf.io/networks: '[{{\"name\": \"web\", \"ips\": [\"10.0.0.9\"]}}]'}}
spec: {{containers: [{{name: one, image: one}}]}}
---"
        )
    };
    let text = shown(&[pod("first"), pod("second")].concat());
    assert!(text.contains("+ Pod default/first would get 1 address"), "{text}");
    assert!(text.contains("! Pod default/second would not get all it asks for: "), "{text}");
}

#[test]
fn objects_of_one_name_in_both_groups_are_told_apart() {
    let text = shown(
        "
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: web}
spec: {cidrBlock: 10.0.3.0/24, gateway: 10.0.3.1}
",
    );
    assert_eq!(text.matches("! Subnet web would not be in effect: ").count(), 1, "{text}");
    let version = error("apiVersion: kubeovn.io/v2\nkind: Subnet\nmetadata: {name: web}\nspec: {}");
    assert!(version.ends_with("Subnet web: apiVersion: Portolan knows Subnet of kubeovn.io/v1"), "{version}");
}

#[test]
fn null_removes_a_field() {
    let stored =
        serde_json::json!({"metadata": {"name": "a"}, "spec": {"gateway": "10.0.0.1", "vpc": "blue"}});
    let manifest = serde_json::json!({"metadata": {"name": "a"}, "spec": {"gateway": null}});
    assert_eq!(apply::applied_to(stored, &manifest)["spec"], serde_json::json!({"vpc": "blue"}));
}

#[test]
fn what_others_wrote_gives_the_terminal_no_orders() {
    assert_eq!(without_control_characters("a\u{1b}[31mb\r\nc\u{9b}"), "a\\u{1b}[31mb\\r\nc\\u{9b}");
}

#[test]
fn a_directory_that_contains_itself_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.yaml"), BEFORE).unwrap();
    std::os::unix::fs::symlink(directory.path(), directory.path().join("again")).unwrap();
    std::os::unix::fs::symlink(directory.path(), directory.path().join("again.yaml")).unwrap();
    assert_eq!(manifest::read(directory.path()).unwrap().len(), 3);
}

#[test]
fn a_field_that_was_applied_before_and_is_not_any_more_is_removed() {
    let last = r#"{"spec": {"staticRoutes": [{"cidr": "10.9.0.0/24", "nextHopIP": "10.0.0.7"}]}}"#;
    let stored = serde_json::json!({
        "metadata": {"name": "blue", "generation": 4, "annotations": {LAST: last}}, "spec": {"staticRoutes": [1], "other": 2},
    });
    let manifest = serde_json::json!({"metadata": {"name": "blue"}, "spec": {}});
    let applied = apply::applied_to(stored, &manifest);
    assert_eq!(
        (&applied["spec"], &applied["metadata"]["generation"]),
        (&serde_json::json!({"other": 2}), &5.into())
    );
}

const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[test]
fn malformed_input_is_refused_with_file_document_and_field() {
    assert_eq!(error("kind: Vpc\nmetadata: {name: blue}"), "manifest.yaml: document 1: apiVersion: required");
    let broken = error("a: b\n---\napiVersion: [");
    assert!(broken.starts_with("manifest.yaml is not YAML: "), "{broken}");
    let subnet = |spec: &str| {
        error(&format!(
            "# nothing\n---\napiVersion: portolan.dev/v1alpha1\nkind: Subnet\nmetadata: {{name: db}}\nspec: {spec}"
        ))
    };
    let wrong = subnet("{cidrBlock: 10.0.1.0/24, mtu: many}");
    assert!(wrong.contains("Subnet db: spec.mtu: invalid type: string \"many\""), "{wrong}");
    let misspelt = subnet("{cidrBlock: 10.0.1.0/24, gateways: 10.0.1.1}");
    assert!(misspelt.ends_with("Subnet db: spec.gateways: there is no such field"), "{misspelt}");
    let missing = subnet("{vpc: blue}");
    assert_eq!(missing, "manifest.yaml: document 1: Subnet db: spec.cidrBlock: required");
    let required = subnet("{cidrBlock: 7}");
    assert!(required.contains("Subnet db: spec.cidrBlock: invalid type: integer `7`"), "{required}");
    let nested = error(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, ports: [{containerPort: x}]}]}",
    );
    assert!(nested.contains("Pod default/a: spec.containers[0].ports[0].containerPort: "), "{nested}");
}
