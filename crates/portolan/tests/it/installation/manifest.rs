//! The committed manifests, as API servers judge them.

use portolan_testbed::{ApiKind, Testbed, test};

use crate::installation::Stage;

const MANIFESTS: [&str; 2] = [
    include_str!("../../../../../deploy/portolan.yaml"),
    include_str!("../../../../../deploy/portolan-primary.yaml"),
];

#[test]
fn kube_apiserver_accepts_every_field_of_the_manifests() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        for manifest in MANIFESTS {
            let apply = ["apply", "--server-side", "--force-conflicts", "--validate=strict", "-f-"];
            let kubectl = stage.api.kubectl().unwrap().args(apply).stdin(manifest);
            let said = kubectl.read().unwrap();
            assert!(said.contains("daemonset.apps/portolan-agent serverside-applied"), "{said}");
        }
        // Whoever does not know server-side apply.
        let apply = ["apply", "--validate=strict", "--dry-run=server", "-f-"];
        stage.api.kubectl().unwrap().args(apply).stdin(MANIFESTS[0]).read().unwrap();
    });
}

#[test]
fn a_field_that_kubernetes_does_not_have_is_refused() {
    test(async |lab| {
        let stage = Stage::new(&lab);
        let broken = MANIFESTS[0].replacen("hostNetwork: true", "hostNetworking: true", 1);
        assert_ne!(broken, MANIFESTS[0]);
        let apply = ["apply", "--server-side", "--validate=strict", "-f-"];
        let said = stage.api.kubectl().unwrap().args(apply).stdin(broken).read().unwrap_err().to_string();
        assert!(said.contains("hostNetworking"), "{said}");
    });
}

#[test]
fn the_embedded_api_server_accepts_what_it_has_kinds_for() {
    test(async |lab| {
        let testbed =
            Testbed::builder().nodes(0).api(ApiKind::Portolan).without_controller().without_agents();
        let testbed = testbed.start(&lab).unwrap();
        let served = testbed.kubectl().unwrap().args(["api-resources", "-o", "name"]).read().unwrap();
        let mut applied = 0;
        for document in MANIFESTS[0].split("\n---\n").skip(1) {
            let kind = document.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap();
            let plural = match kind {
                "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
                "ValidatingAdmissionPolicyBinding" => "validatingadmissionpolicybindings".to_owned(),
                kind => format!("{}s", kind.to_lowercase()),
            };
            if !served.lines().any(|name| name == plural || name.starts_with(&format!("{plural}."))) {
                continue;
            }
            let apply = ["apply", "--server-side", "--force-conflicts", "--validate=strict", "-f-"];
            testbed.kubectl().unwrap().args(apply).stdin(document).read().unwrap();
            applied += 1;
        }
        assert!(applied > 30, "{applied} objects alone are of kinds that it serves: {served}");
    });
}
