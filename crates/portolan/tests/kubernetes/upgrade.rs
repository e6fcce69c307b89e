//! An installation is brought to another version and back while pods of two nodes talk to each other: `portolan upgrade`, with real images.
//!
//! `PORTOLAN_PREVIOUS_BINARIES` names a directory with `portolan` and `portolan-cni` of an earlier version, to come from and go back to; without it
//! they are those of this version, under another tag, and the definition of Subnets lacks a field by hand.

use std::path::PathBuf;
use std::time::Duration;

use portolan_testbed::cluster::Programs;
use portolan_testbed::kubernetes::{Image, Kubernetes, Network};
use portolan_testbed::{Command, Result, Test, TestLab};

use crate::installation::Installed;
use crate::pods;
use crate::traffic::{Traffic, Window};

const PREVIOUS: &str = "PORTOLAN_PREVIOUS_BINARIES";
const DEFINITION: &str = include_str!("../../../../deploy/crds/subnets.portolan.dev.yaml");
/// Those of the definition above that are about one field.
const FIELD: &str = "              private:
                description: Refuses traffic from other subnets, except those in `allowSubnets`.
                type: boolean
";

#[test]
fn traffic_goes_on_while_an_installation_is_upgraded_and_brought_back() {
    Test::new().deadline(Duration::from_secs(900)).run(async |lab: TestLab| -> Result<()> {
        let cluster = Kubernetes::builder().nodes(2).network(Network::None).start(&lab)?;
        cluster.show_on_failure(&lab);
        let directory = std::env::var_os(PREVIOUS).map(PathBuf::from);
        let previous = match &directory {
            None => Programs::built()?,
            Some(directory) => Programs::in_directory(directory),
        };
        for image in [
            Image::agnhost()?,
            Image::portolan_of(&lab, &Programs::built()?, "next")?,
            Image::portolan_of(&lab, &previous, "previous")?,
            Image::portolan_ovs(&lab)?,
        ] {
            cluster.load(&image)?;
        }
        let installed = Installed { cluster: &cluster, lab: &lab };
        // What is installed by whichever version: the older one knows nothing of what is newer.
        let by_previous = |arguments: &[&str]| -> Command {
            let kubeconfig = cluster.api_server().kubeconfig();
            lab.command(previous.portolan()).args(arguments).env("KUBECONFIG", kubeconfig)
        };
        let back_to_the_old_definition = || match &directory {
            Some(_) => Ok(()),
            None => without_the_field(&cluster),
        };

        // So that databases come up where they were.
        cluster.kubectl(&["label", "node", "node1", "portolan.dev/ovn-central="])?;
        installed.userspace_datapath()?;
        by_previous(&["install", "--mode=primary", "--image=portolan:previous", "--timeout=240"]).read()?;
        back_to_the_old_definition()?;
        pods::client(&cluster, "one", "node1")?;
        pods::client(&cluster, "two", "node2")?;
        if directory.is_none() {
            assert!(!has_field(&cluster, "before")?, "the definition of an older version");
        }
        let mut traffic = Traffic::between(&cluster, "one", "two")?;

        let upgrade = || {
            let upgrade = ["upgrade", "--image=portolan:next", "--timeout=240"];
            installed.portolan(&upgrade).read().map(drop)
        };
        let there = shown("upgrade", traffic.during(upgrade)?);
        assert!(has_field(&cluster, "after")?, "the definition of this version");
        pods::client(&cluster, "three", "node2")?;

        let back = || {
            by_previous(&["install", "--image=portolan:previous", "--timeout=240"]).read()?;
            back_to_the_old_definition()
        };
        let back = shown("way back", traffic.during(back)?);
        let images = "jsonpath={.items[*].spec.containers[*].image}";
        let images = cluster.kubectl(&["get", "pods", "-n=portolan-system", "-o", images])?;
        assert!(!images.contains("next") && images.contains("portolan:previous"), "{images}");
        pods::client(&cluster, "four", "node1")?;

        let undisturbed = shown("undisturbed", traffic.of(there.sent.max(back.sent)));
        for window in [&there, &back] {
            assert!(window.stream_lasts, "the stream is the same one: {window}");
            assert!(
                window.lost <= undisturbed.lost + REPLACED,
                "{window}, and as long undisturbed {undisturbed}"
            );
        }

        // What costs how much, and what an administrator decides about.
        for part in PARTS {
            let restart = || {
                cluster.kubectl(&["rollout", "restart", NAMESPACE, part])?;
                cluster.kubectl(&["rollout", "status", NAMESPACE, part, "--timeout=120s"]).map(drop)
            };
            shown(part, traffic.during(restart)?);
        }
        let ovs = shown("ovs-vswitchd of node2 anew", traffic.during(|| new_open_vswitch(&cluster))?);
        assert!(ovs.stream_lasts, "{ovs}");
        pods::client(&cluster, "five", "node2")
    });
}

/// How many messages an upgrade may cost more than nothing does: an ovn-controller that has taken over replaces all flows, one after the other, and
/// this is 300 ms of them. One that cleared them when it ended would cost seconds.
pub(crate) const REPLACED: u64 = 30;

pub(crate) const NAMESPACE: &str = "-n=portolan-system";
const PARTS: [&str; 4] = [
    "deployment/portolan-controller",
    "daemonset/portolan-agent",
    "daemonset/ovn-controller",
    "statefulset/ovn-central",
];

/// Open vSwitch of a node ends and is started again, by the kubelet alone: the nodes' own addresses are on bridges of it here, so that a kubelet whose
/// pod of Open vSwitch was deleted would never hear of the next one.
fn new_open_vswitch(cluster: &Kubernetes) -> Result<()> {
    let of_node2 =
        ["-l=app=ovs", "--field-selector=spec.nodeName=node2", "-o=jsonpath={.items[0].metadata.name}"];
    let pod = cluster.kubectl(&[&["get", "pods", NAMESPACE][..], &of_node2].concat())?;
    let (node, process) = pods::process(cluster, "portolan-system", &pod, "vswitchd")?;
    node.command("kill")?.args(["-TERM", &process]).read()?;
    let again = "--for=jsonpath={.status.containerStatuses[?(@.name==\"vswitchd\")].restartCount}=1";
    cluster.kubectl(&["wait", again, &format!("pod/{pod}"), NAMESPACE, "--timeout=120s"])?;
    cluster
        .kubectl(&["wait", "--for=condition=Ready", &format!("pod/{pod}"), NAMESPACE, "--timeout=120s"])
        .map(drop)
}

pub(crate) fn shown(what: &str, window: Window) -> Window {
    println!("{what}: {window}");
    window
}

/// The definition of Subnets as a version before a field was added would apply it.
fn without_the_field(cluster: &Kubernetes) -> Result<()> {
    let older = DEFINITION.replacen(FIELD, "", 1);
    assert_ne!(older, DEFINITION);
    let apply = ["apply", "--server-side", "--force-conflicts", "--field-manager=portolan-install", "-f-"];
    cluster.kubectl_command()?.args(apply).stdin(older).read().map(drop)
}

/// Whether the field is kept.
fn has_field(cluster: &Kubernetes, name: &str) -> Result<bool> {
    let create = cluster.kubectl_command()?.args(["create", "--validate=ignore", "-f-"]);
    create.stdin(SUBNET.replace("NAME", name)).read()?;
    let subnet = format!("subnets.portolan.dev/{name}");
    let kept = cluster.kubectl(&["get", &subnet, "-o=jsonpath={.spec.private}"])? == "true";
    cluster.kubectl(&["delete", &subnet])?;
    Ok(kept)
}

const SUBNET: &str = r#"
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: NAME}
spec: {cidrBlock: 10.77.0.0/24, private: true}
"#;
