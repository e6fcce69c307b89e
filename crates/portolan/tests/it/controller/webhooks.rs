//! What users are told before an object is stored: by the rules of the definitions alone, and by the webhook, on either API server.

use std::time::Duration;

use portolan_testbed::{ApiKind, Test, TestLab};
use serde_json::{Value, json};

use crate::controller::Stage;

const MANIFEST: &str = include_str!("../../../../../deploy/webhook.yaml");
pub(crate) const CONFIGURATION: &str = "validatingwebhookconfiguration/portolan-webhook";
/// With all three, VPC `blue` and Subnet `blue-1` of it.
const GOOD: &str = "
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: blue-1}
spec: {vpc: blue, cidrBlock: 10.8.0.0/24, gateway: 10.8.0.1, protocol: IPv4, provider: blue-1.default.ovn, excludeIps: [10.8.0.1]}
---
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: blue}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: blue-1, namespace: default}
spec: {config: '{\"cniVersion\": \"0.3.1\", \"type\": \"kube-ovn\", \"server_socket\": \"/run/openvswitch/kube-ovn-daemon.sock\", \"provider\": \"blue-1.default.ovn\"}'}
";
const CLASH: &str = "
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: clash}
spec: {vpc: blue, cidrBlock: 10.8.0.0/25}
";
const OVERLAP: &str = r#"spec.cidrBlock: "10.8.0.0/25" overlaps 10.8.0.0/24 of Subnet blue-1 in vpc/blue; choose another prefix"#;

impl Stage<'_> {
    /// Runs kubectl with a manifest; returns whether it succeeded, and what it complained of.
    fn with_manifest(&self, arguments: &[&str], manifest: &str) -> (bool, String) {
        let kubectl = self.testbed.kubectl().unwrap().args(arguments).args(["-f", "-"]).stdin(manifest);
        let output = kubectl.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }

    #[track_caller]
    fn takes(&self, manifest: &str) -> String {
        let (taken, complaint) = self.with_manifest(&["create"], manifest);
        assert!(taken, "{complaint}");
        complaint
    }

    #[track_caller]
    fn refuses(&self, manifest: &str, why: &str) {
        let (taken, complaint) = self.with_manifest(&["create"], manifest);
        assert!(!taken && complaint.contains(why), "{manifest}: {complaint}");
    }

    /// Waits until the API server asks the webhook, and the controller has seen what it must know.
    fn wait_until_refused(&self, manifest: &str, why: &str) {
        let attempt = || self.with_manifest(&["create", "--dry-run=server"], manifest).1;
        std::iter::repeat_with(attempt).find(|complaint| complaint.contains(why)).unwrap();
    }

    /// Has the API server find the webhook at an address of this lab; returns the controller's argument.
    pub(crate) fn install_webhook(&self) -> String {
        self.testbed.apply(MANIFEST).unwrap();
        let (home, port) = (self.testbed.underlay().home_address(), self.lab.port());
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "portolan-webhook", "namespace": "portolan-system",
                "labels": {"kubernetes.io/service-name": "portolan-webhook"}},
            "endpoints": [{"addresses": [home], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}]});
        self.testbed.apply(&slice.to_string()).unwrap();
        format!("--webhook-address={home}:{port}")
    }

    /// The manifest gives the controller what it needs, and only where it needs it.
    fn has_the_rights_of_the_manifest(&self) {
        let user = "--as=system:serviceaccount:portolan-system:portolan-controller";
        let configurations = "validatingwebhookconfigurations.admissionregistration.k8s.io";
        let ours = format!("{configurations}/portolan-webhook");
        for (answer, verb, resource, namespace) in [
            ("yes", "watch", ours.as_str(), "default"),
            ("yes", "patch", &ours, "default"),
            ("yes", "watch", "secrets/portolan-webhook-ca", "portolan-system"),
            ("yes", "patch", "secrets/portolan-webhook-ca", "portolan-system"),
            ("yes", "create", "secrets", "portolan-system"),
            ("no", "patch", configurations, "default"),
            ("no", "get", "secrets/other", "portolan-system"),
            ("no", "get", "secrets/portolan-webhook-ca", "default"),
        ] {
            let kubectl = self.testbed.kubectl().unwrap();
            let output =
                kubectl.args(["auth", "can-i", verb, resource, "-n", namespace, user]).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(said.trim(), answer, "{verb} {resource} in {namespace}");
        }
    }

    fn ca_bundle(&self) -> String {
        let configuration = self.kubectl(&["get", CONFIGURATION, "-o", "json"]);
        let configuration: Value = serde_json::from_str(&configuration).unwrap();
        configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned()
    }
}

fn in_a_lab(body: impl FnOnce(&TestLab) + Send + 'static) {
    Test::new().deadline(Duration::from_secs(240)).run(async move |lab: TestLab| body(&lab));
}

/// What the definitions refuse without any webhook, and with which words.
fn definitions_refuse(stage: &Stage<'_>) {
    for (spec, why) in [
        (r#"{"cidrBlock": "10.300.0.0/24"}"#, "cidrBlock must be a prefix such as 10.0.0.0/24"),
        (
            r#"{"cidrBlock": "10.0.0.0/24", "gateway": "10.0.1.1"}"#,
            "gateway must be an address inside cidrBlock",
        ),
        (r#"{"cidrBlock": "10.0.0.0/24", "excludeIps": ["10.0.0.5-9"]}"#, "excludeIps must be addresses"),
        (
            r#"{"cidrBlock": "10.0.0.0/24", "protocol": "Dual"}"#,
            "protocol does not fit cidrBlock; leave it out",
        ),
        (r#"{"cidrBlock": "fd00::/64", "mtu": 1279}"#, "mtu must be at least"),
        (r#"{"cidrBlock": "10.0.0.0/24", "allowSubnets": ["here"]}"#, "allowSubnets must be prefixes"),
    ] {
        for api_version in ["kubeovn.io/v1", "portolan.dev/v1alpha1"] {
            let subnet = format!(
                r#"{{"apiVersion": "{api_version}", "kind": "Subnet", "metadata": {{"name": "bad"}}, "spec": {spec}}}"#
            );
            stage.refuses(&subnet, why);
        }
    }
    for (spec, why) in [
        (
            r#"{"vpcPeerings": [{"remoteVpc": "bad", "localConnectIP": "169.254.0.1/30"}]}"#,
            "a VPC cannot be peered with itself",
        ),
        (
            r#"{"vpcPeerings": [{"remoteVpc": "x", "localConnectIP": "169.254.0.1"}]}"#,
            "localConnectIP must be an address with",
        ),
        (
            r#"{"staticRoutes": [{"cidr": "ten", "nextHopIP": "10.0.0.1"}]}"#,
            "cidr must be a prefix or an address",
        ),
        (
            r#"{"staticRoutes": [{"cidr": "10.0.0.0/8", "nextHopIP": "next"}]}"#,
            "nextHopIP must be an IP address",
        ),
        (
            r#"{"policyRoutes": [{"priority": 1, "match": "ip4", "action": "reroute"}]}"#,
            "nextHopIP is required with action reroute",
        ),
    ] {
        for api_version in ["kubeovn.io/v1", "portolan.dev/v1alpha1"] {
            let vpc = format!(
                r#"{{"apiVersion": "{api_version}", "kind": "Vpc", "metadata": {{"name": "bad"}}, "spec": {spec}}}"#
            );
            stage.refuses(&vpc, why);
        }
    }
}

/// The same of IPPools and Vips.
fn definitions_refuse_pools_and_vips(stage: &Stage<'_>) {
    for (kind, spec, why) in [
        ("IPPool", r#"{"ips": ["10.0.0.5"]}"#, "name the Subnet of the addresses"),
        ("IPPool", r#"{"subnet": "web"}"#, "list addresses, ranges or prefixes of the Subnet"),
        (
            "IPPool",
            r#"{"subnet": "web", "ips": ["10.0.0.5", "10.300.0.1"]}"#,
            "ips must be addresses such as",
        ),
        (
            "IPPool",
            r#"{"subnet": "web", "ips": ["10.0.0.5..fd00::1"]}"#,
            "a range in ips mixes IPv4 and IPv6",
        ),
        (
            "IPPool",
            r#"{"subnet": "web", "ips": ["10.0.0.5"], "namespaces": ["A B"]}"#,
            "must be names of namespaces",
        ),
        ("Vip", "{}", "name the Subnet of the address"),
        ("Vip", r#"{"subnet": "a/b"}"#, "subnet cannot be the name of an object"),
        ("Vip", r#"{"subnet": "web", "v4ip": "fd00::9"}"#, "v4ip must be an IPv4 address"),
        ("Vip", r#"{"subnet": "web", "v6ip": "10.0.0.9"}"#, "v6ip must be an IPv6 address"),
        ("Vip", r#"{"subnet": "web", "macAddress": "02:00"}"#, "macAddress must be six hexadecimal bytes"),
        (
            "Vip",
            r#"{"subnet": "web", "macAddress": "ff:ff:ff:ff:ff:ff"}"#,
            "macAddress cannot be multicast or zero",
        ),
    ] {
        let object = format!(
            r#"{{"apiVersion": "kubeovn.io/v1", "kind": "{kind}", "metadata": {{"name": "bad"}}, "spec": {spec}}}"#
        );
        stage.refuses(&object, why);
    }
}

fn users_are_told(stage: &Stage<'_>) {
    definitions_refuse(stage);
    definitions_refuse_pools_and_vips(stage);

    let address = stage.install_webhook();
    stage.has_the_rights_of_the_manifest();
    let controller = stage.start("only", &[&address]);
    // In any order: what is missing is worth a warning.
    let broken =
        GOOD.replace("cidrBlock: 10.8.0.0/24", "cidrBlock: 127.0.0.0/24").replace("10.8.0.1", "127.0.0.1");
    let loopback = r#"The Subnet "blue-1" is invalid: spec.cidrBlock: "127.0.0.0/24" overlaps 127.0.0.0/8, which is loopback"#;
    stage.wait_until_refused(&broken, loopback);
    let warnings = stage.takes(GOOD);
    for warning in [
        r#"Warning: spec.vpc: "blue" is no VPC that is in effect; the subnet has no router until it is"#,
        r#"Warning: spec.provider: "blue-1.default.ovn" names network attachment definition default/blue-1, which does not exist yet"#,
    ] {
        assert!(warnings.contains(warning), "{warnings}");
    }

    // Beside the others. What the controller would say on the object, users are told first.
    stage.wait_until_refused(CLASH, OVERLAP);
    stage.refuses(CLASH, OVERLAP);
    let nad = r#"{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "thief", "namespace": "default"},
        "spec": {"config": "{\"type\": \"kube-ovn\", \"provider\": \"blue-1.default.ovn\"}"}}"#;
    stage.refuses(nad, "is not this definition's own provider; write thief.default.ovn");
    let vpc = r#"{"apiVersion": "portolan.dev/v1alpha1", "kind": "Vpc", "metadata": {"name": "blue"}}"#;
    stage.refuses(vpc, "is the name of a Vpc of kubeovn.io already");
    let unsupported = r#"{"apiVersion": "kubeovn.io/v1", "kind": "Vpc", "metadata": {"name": "green"}, "spec": {"enableExternal": true}}"#;
    assert!(stage.takes(unsupported).contains("Warning: spec.enableExternal: "));
    let pool = r#"{"apiVersion": "kubeovn.io/v1", "kind": "IPPool", "metadata": {"name": "gold"}, "spec": {"subnet": "blue-1", "ips": ["10.9.0.5"]}}"#;
    stage.refuses(pool, "spec.ips: 10.9.0.5 is not in Subnet blue-1, which has 10.8.0.0/24");
    stage.takes(&pool.replace("10.9.0.5", "10.8.0.16/28"));
    let vip = r#"{"apiVersion": "kubeovn.io/v1", "kind": "Vip", "metadata": {"name": "front"}, "spec": {"subnet": "blue-1", "v4ip": "10.8.0.1"}}"#;
    stage.refuses(vip, "spec.v4ip: 10.8.0.1 is the gateway of Subnet blue-1; ask for another");
    let early = vip.replace("blue-1", "later");
    assert!(stage.takes(&early).contains(r#"Warning: spec.subnet: "later" is no Subnet that exists"#));
    let metrics = stage.get(&controller, "/metrics");
    assert!(
        metrics.contains(r#"portolan_webhook_requests_total{kind="Vpc.kubeovn.io",verdict="allowed"}"#),
        "{metrics}"
    );

    // What operators have changed stays when the authority is replaced, of which the API server hears in time.
    let timeout = r#"[{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 2}]"#;
    stage.kubectl(&["patch", CONFIGURATION, "--type=json", "-p", timeout]);
    let before = stage.ca_bundle();
    stage.kubectl(&["delete", "secret", "-n", "portolan-system", "portolan-webhook-ca"]);
    std::iter::repeat_with(|| stage.ca_bundle()).find(|bundle| *bundle != before).unwrap();
    stage.wait_until_refused(CLASH, OVERLAP);
    let kept =
        ["get", CONFIGURATION, "-o", "jsonpath={.webhooks[0].timeoutSeconds} {.webhooks[0].failurePolicy}"];
    assert_eq!(stage.kubectl(&kept), "2 Ignore");

    // A controller that hangs holds up a write for as long as that says, and no longer.
    let stopped = controller.process.pid().unwrap().to_string();
    stage.lab.command("kill").args(["-STOP", &stopped]).read().unwrap();
    stage.takes(&CLASH.replace("clash", "late"));
    // Without the webhook, objects pass, and get the same words from the controller.
    controller.process.kill().unwrap();
    stage.kubectl(&["delete", "subnets.portolan.dev", "late"]);
    stage.takes(CLASH);
    controller.process.restart().unwrap();
    stage.kubectl(&[
        "wait",
        "--for=condition=Validated=False",
        "subnets.portolan.dev/clash",
        "--timeout=60s",
    ]);
    let said = stage.kubectl(&["get", "subnets.portolan.dev", "clash", "-o", "json"]);
    assert!(said.contains(&OVERLAP.replace('"', "\\\"")), "{said}");
    // Whoever has stored it can label it, change what is not to blame, and delete it.
    stage.wait_until_refused(&CLASH.replace("clash", "second"), OVERLAP);
    stage.kubectl(&["label", "subnets.portolan.dev", "clash", "a=b"]);
    let patch = r#"{"spec": {"excludeIps": ["10.8.0.5"]}}"#;
    stage.kubectl(&["patch", "subnets.portolan.dev", "clash", "--type=merge", "-p", patch]);
    stage.kubectl(&["delete", "subnets.portolan.dev", "clash", "--timeout=60s"]);
}

#[test]
fn users_of_kubernetes_are_told_before_an_object_is_stored() {
    in_a_lab(|lab| users_are_told(&Stage::new(lab, ApiKind::Kubernetes)));
}

#[test]
fn users_of_the_own_api_server_are_told_before_an_object_is_stored() {
    in_a_lab(|lab| users_are_told(&Stage::new(lab, ApiKind::Portolan)));
}
