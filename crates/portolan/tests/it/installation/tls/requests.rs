//! Requests that should not be granted, and ones that are interrupted.

use std::path::Path;

use portolan_testbed::{Process, Result, Test, TestLab};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use super::stage::Stage;

/// A request for a certificate of this signer and name.
fn request(signer: &str, name: &str) -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let request = k8s_openapi::ByteString(request.into_bytes());
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"generateName": "asked-"},
        "spec": {"signerName": signer, "usages": ["digital signature", "client auth"], "request": request},
    })
}

impl Stage<'_> {
    /// Makes a request as whoever has this kubeconfig, and returns its name.
    fn ask(&self, kubeconfig: &Path, request: &Value) -> Result<String> {
        let kubectl = self.api.kubectl()?.env("KUBECONFIG", kubeconfig);
        let made = kubectl.args(["create", "-f-", "-o", "jsonpath={.metadata.name}"]);
        made.stdin(request.to_string()).read()
    }

    /// Waits until a request has this condition, and returns what that says.
    fn condition(&self, request: &str, condition: &str) -> Result<String> {
        let what = format!("--for=condition={condition}");
        self.kubectl(&["wait", &what, "csr", request, "--timeout=60s"])?;
        let message = format!("jsonpath={{.status.conditions[?(@.type==\"{condition}\")].message}}");
        self.kubectl(&["get", "csr", request, "-o", &message])
    }

    fn certificate(&self, request: &str) -> Result<String> {
        self.kubectl(&["get", "csr", request, "-o", "jsonpath={.status.certificate}"])
    }
}

#[test]
fn only_what_a_pod_may_have_is_signed_and_all_else_is_denied_with_a_reason() {
    Test::new().deadline(std::time::Duration::from_secs(240)).run(async |lab: TestLab| -> Result<()> {
        let stage = Stage::new(&lab)?;
        for (node, address) in [("node1", "192.0.2.1"), ("node2", "192.0.2.2")] {
            stage.node_object(node, address)?;
        }
        let chassis = "portolan.dev/ovn-chassis";
        let [node1, agent] = [stage.pod("ovn-controller", "node1")?, stage.pod("portolan-agent", "node1")?];
        // What somebody has approved by hand before any controller came is judged all the same; and so is what a controller had approved
        // that was killed then.
        let [approved, wrong] =
            [stage.ask(&node1, &request(chassis, "node1"))?, stage.ask(&node1, &request(chassis, "node2"))?];
        stage.kubectl(&["certificate", "approve", &approved, &wrong])?;
        let _controller = stage.controller(&[])?;
        stage.kubectl(&[
            "wait",
            "--for=jsonpath={.status.certificate}",
            "csr",
            &approved,
            "--timeout=60s",
        ])?;
        assert!(stage.condition(&wrong, "Failed")?.contains("node2 is not the chassis of node node1"));

        let agents = stage.ask(&agent, &request(chassis, "node1")).unwrap_err().to_string();
        assert!(agents.contains("forbidden"), "{agents}");
        // Whoever may make requests at all: an administrator is no ovn-controller.
        let admin = stage.ask(stage.api.kubeconfig(), &request(chassis, "node1"))?;
        let said = stage.condition(&admin, "Denied")?;
        assert!(said.contains("only system:serviceaccount:portolan-system:ovn-controller may"), "{said}");
        let central = stage.ask(&node1, &request("portolan.dev/ovn-central", "ovn-central"))?;
        let said = stage.condition(&central, "Denied")?;
        assert!(said.contains("only system:serviceaccount:portolan-system:ovn-central may"), "{said}");
        // A compromised agent says that its node is another's chassis.
        stage.kubectl(&["annotate", "node", "node1", "portolan.dev/chassis=node2"])?;
        let stolen = stage.ask(&node1, &request(chassis, "node2"))?;
        let said = stage.condition(&stolen, "Denied")?;
        assert!(said.contains("nodes node1 and node2 both say to be chassis node2"), "{said}");
        for denied in [&wrong, &admin, &central, &stolen] {
            assert_eq!(stage.certificate(denied)?, "", "{denied}");
        }
        // The one whose name it is gets it.
        let node2 = stage.pod("ovn-controller", "node2")?;
        let own = stage.ask(&node2, &request(chassis, "node2"))?;
        stage.kubectl(&["wait", "--for=jsonpath={.status.certificate}", "csr", &own, "--timeout=60s"])?;
        // Requests of others are none of ours.
        let other = stage.ask(stage.api.kubeconfig(), &request("example.org/other", "node1"))?;
        let again = stage.ask(&node2, &request(chassis, "node9"))?;
        stage.condition(&again, "Denied")?;
        assert_eq!(stage.kubectl(&["get", "csr", &other, "-o", "jsonpath={.status}"])?, "{}");
        Ok(())
    });
}

/// Kills a process once its log says this.
fn kill_at(process: &Process, said: &str) {
    while !process.log_tail().contains(said) {
        assert!(process.is_alive(), "{}", process.log_tail());
        std::thread::yield_now();
    }
    process.kill().unwrap();
}

#[test]
fn a_database_that_is_killed_while_it_gets_its_certificate_is_served_by_the_next() {
    Test::new().deadline(std::time::Duration::from_secs(240)).run(async |lab: TestLab| -> Result<()> {
        let stage = Stage::new(&lab)?;
        // Each with a log of its own.
        let start = |number: usize| {
            stage.database(&format!("northbound-{number}"), "northbound", &[])?.spawn(lab.home())
        };
        // Nobody signs yet.
        let early = start(0)?;
        kill_at(&early, "waiting for ConfigMaps");
        let controller = stage.controller(&[])?;
        let published =
            ["get", "configmap", "ovn-central-authority", "-n=portolan-system", "-o=jsonpath={.data}"];
        while !stage.kubectl(&published)?.contains("BEGIN CERTIFICATE") {}
        controller.kill()?;
        let asking = start(1)?;
        kill_at(&asking, "asked for a certificate");
        controller.restart()?;
        for (number, said) in
            ["asked for a certificate", "are written", "daemon started"].into_iter().enumerate()
        {
            let process = start(number + 2)?;
            kill_at(&process, said);
        }
        let last = start(9)?;
        last.wait_until_ready()?;
        let requests = stage.kubectl(&["get", "csr", "-o", "name"])?.lines().count();
        // With the certificate of one that was killed when it had it.
        assert_eq!(requests, 3, "{}", last.log_tail());
        let left = std::fs::read_dir(stage.central_directory().join("northbound-tls")).unwrap().count();
        assert_eq!(left, 2, "the link and what it leads to");
        Ok(())
    });
}
