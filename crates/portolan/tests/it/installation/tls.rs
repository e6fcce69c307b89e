//! OVN's databases by TLS, as an installation has them: certificates by requests on a real kube-apiserver, with the rights of the manifest
//! and tokens of pods; real databases and a real ovn-controller.

mod api_servers;
mod clients;
mod cluster;
mod life;
mod member;
mod nodes;
mod requests;
mod stage;

use std::path::Path;

use portolan_testbed::{Result, Test, TestLab};
use serde_json::json;

use self::stage::Stage;

/// Controllers, databases and the ovn-controller of a node, each with its own rights.
#[test]
fn networks_are_made_by_tls_and_every_client_has_its_own_rights() {
    Test::new().deadline(std::time::Duration::from_secs(300)).run(async |lab: TestLab| -> Result<()> {
        let stage = Stage::new(&lab)?;
        let controller = stage.controller(&[])?;
        let central = stage.central()?;
        let node = stage.node("node1")?;
        let ovn_controller = stage.ovn_controller(&node)?;
        ovn_controller.wait_until_ready()?;

        // From the API to the node, and back: nothing of it goes another way.
        stage.apply(
            &json!({"apiVersion": "kubeovn.io/v1", "kind": "Vpc", "metadata": {"name": "blue"}, "spec": {}}),
        )?;
        stage.apply(&json!({
            "apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": "blue"},
            "spec": {"vpc": "blue", "protocol": "IPv4", "cidrBlock": "10.1.0.0/24", "gateway": "10.1.0.1"},
        }))?;
        central.nbctl(&["ls-add", "harbour", "--", "lsp-add", "harbour", "boat"])?;
        let interface = ["type=internal", "external-ids:iface-id=boat"];
        let add = ["add-port", "br-int", "boat0", "--", "set", "Interface", "boat0"];
        node.vsctl(&[&add[..], &interface].concat())?;
        central.nbctl(&["wait-until", "Logical_Switch_Port", "boat", "up=true"])?;
        stage.wait_for_ready(&controller)?;
        central.nbctl(&["--wait=hv", "sync"])?;

        clients::each_reaches_what_it_may(&stage, &central)?;
        clients::a_chassis_changes_its_own_rows_and_no_others(&stage, &central, &node)?;
        agents_have_no_certificate(&stage, &node.file("/run/ovn/ovn-controller-tls"))
    });
}

/// The files are those of ovn-controller, and nobody else reads them.
fn agents_have_no_certificate(stage: &Stage<'_>, files: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for name in ["tls.key", "tls.crt", "ca.crt"] {
        let mode = std::fs::metadata(files.join("current").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    // What the agent's credentials allow is what its manifest says.
    let requests = "certificatesigningrequests.certificates.k8s.io";
    for what in
        [&["create", requests][..], &["get", "secrets"], &["patch", requests, "--subresource=approval"]]
    {
        for account in ["portolan-agent", "ovn-controller"] {
            let user = format!("--as=system:serviceaccount:portolan-system:{account}");
            let can = stage.kubectl(&[&["auth", "can-i", "-n=portolan-system", &user], what].concat());
            let may = account == "ovn-controller" && what[0] == "create";
            assert_eq!(can.is_ok(), may, "{account} {what:?}");
        }
    }
    Ok(())
}
