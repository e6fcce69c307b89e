//! `portolan doctor` and `portolan support-bundle` on a cluster with real nodes: before an installation, after it, and with things broken on
//! purpose.

use std::time::Duration;

use portolan_testbed::kubernetes::{Image, Kubernetes};
use portolan_testbed::{Result, Test, TestLab};
use serde_json::Value;

use crate::installation::Installed;

#[test]
fn what_is_broken_on_nodes_is_found_with_what_to_do() {
    Test::new().deadline(Duration::from_secs(900)).run(async |lab: TestLab| -> Result<()> {
        let cluster = Kubernetes::builder().nodes(2).start(&lab)?;
        cluster.show_on_failure(&lab);
        for image in [Image::portolan(&lab)?, Image::portolan_ovs(&lab)?] {
            cluster.load(&image)?;
        }
        let installed = Installed { cluster: &cluster, lab: &lab };
        let doctor = Doctor(&installed);
        let before = installed.nodes()?;

        // Whether the cluster can have Portolan.
        let sound = doctor.finds_nothing_wrong()?;
        sound.is("cni", "ok", "comes first");
        sound.is("mtu", "ok", "2 ways");
        doctor.breaks_before_an_installation()?;
        assert_eq!(installed.nodes()?, before, "a look leaves nothing on nodes");

        installed.userspace_datapath()?;
        installed.portolan(&["install", "--mode=secondary", "--timeout=240"]).read()?;
        // The controller says how it is reached, which the API server takes up when it does.
        let is_reached =
            ["apiservice/v1alpha1.trace.portolan.dev", "--for=condition=Available", "--timeout=60s"];
        cluster.kubectl(&[&["wait"][..], &is_reached].concat())?;
        let bundle = "--for=jsonpath={.webhooks[0].clientConfig.caBundle}";
        cluster.kubectl(&[
            "wait",
            bundle,
            "validatingwebhookconfiguration/portolan-webhook",
            "--timeout=60s",
        ])?;
        let sound = doctor.finds_nothing_wrong()?;
        sound.is("cni", "ok", "00-portolan.conflist comes first (chained)");
        sound.is("ovs", "ok", "br-int on datapath netdev");
        sound.is("webhook", "ok", "refuses");
        sound.is("leader", "ok", "leads");
        sound.is("datapath", "warning", "userspace");
        sound.is("mtu", "ok", "packets of pods of 1442 bytes");
        doctor.breaks_an_installation()?;
        doctor.finds_nothing_wrong()?;
        doctor.collects()
    });
}

struct Doctor<'a>(&'a Installed<'a>);

struct Found(Vec<Value>);

impl Found {
    #[track_caller]
    fn is(&self, check: &str, level: &str, words: &str) {
        let said: Vec<_> = self.0.iter().filter(|one| one["check"] == check).collect();
        let is = |one: &&Value| one["level"] == level && one.to_string().contains(words);
        assert!(
            said.iter().copied().any(|one| is(&one)),
            "{check}: {level} with {words:?} is not among {said:#?}"
        );
    }
}

impl Doctor<'_> {
    fn asked(&self) -> Result<(i32, Found)> {
        let output = self.0.portolan(&["doctor", "-o=json"]).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        let found =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {complaint}"));
        Ok((output.status.code().unwrap(), Found(found)))
    }

    fn finds_nothing_wrong(&self) -> Result<Found> {
        let (code, found) = self.asked()?;
        let bad = |one: &&Value| ["error", "unknown"].contains(&one["level"].as_str().unwrap());
        let bad: Vec<_> = found.0.iter().filter(bad).collect();
        assert_eq!((code, bad.len()), (0, 0), "{bad:#?}");
        for node in ["node1", "node2"] {
            let examined = found.0.iter().any(|one| one["group"]["node"] == node && one["check"] == "kernel");
            assert!(examined, "{node} was not examined: {:#?}", found.0);
        }
        Ok(found)
    }

    fn finds(&self, check: &str, level: &str, words: &str) -> Result<()> {
        let (code, found) = self.asked()?;
        found.is(check, level, words);
        assert_eq!(code, if level == "error" { 10 } else { 0 }, "{:#?}", found.0);
        Ok(())
    }

    fn breaks_before_an_installation(&self) -> Result<()> {
        let [node1, node2] = ["node1", "node2"].map(|name| self.0.cluster.node(name).unwrap());
        let mut other = node1.command("python3")?.args(["-c", LISTENS]).spawn_with(
            std::process::Stdio::null(),
            std::process::Stdio::piped(),
            std::process::Stdio::null(),
        )?;
        let mut listens = String::new();
        let said = other.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut listens).unwrap();
        self.0.shell(node2, "nft add table inet broken; nft add chain inet broken drops '{ type filter hook input priority 0; }'")?;
        self.0.shell(node2, "nft add rule inet broken drops udp dport 6081 drop")?;
        let (code, found) = self.asked()?;
        assert_eq!(code, 10, "{:#?}", found.0);
        found.is("ports", "error", "TCP port 9444 is taken by python3");
        found.is("geneve", "error", "node1 → node2");
        other.kill().unwrap();
        other.wait().unwrap();
        self.0.shell(node2, "nft delete table inet broken")?;
        self.finds_nothing_wrong().map(drop)
    }

    fn breaks_an_installation(&self) -> Result<()> {
        let cluster = self.0.cluster;
        let [node1, node2] = ["node1", "node2"].map(|name| cluster.node(name).unwrap());

        // Something between the nodes carries less than their links.
        self.0.shell(node2, "nft add table inet broken; nft add chain inet broken drops '{ type filter hook prerouting priority 0; }'")?;
        self.0.shell(
            node2,
            "nft add rule inet broken drops icmp type echo-request meta length '>' 1400 drop",
        )?;
        self.finds("mtu", "error", "packets of 1400 bytes pass")?;
        self.0.shell(node2, "nft delete table inet broken")?;

        // A configuration that comes before any name of ours.
        self.0.shell(node1, "cp /etc/cni/net.d/10-*.conflist '/etc/cni/net.d/!a.conflist'")?;
        self.finds("cni", "error", "!a.conflist")?;
        self.0.shell(node1, "rm '/etc/cni/net.d/!a.conflist'")?;

        // An agent that has no pod on its node any more.
        let away = r#"--patch={"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms":[{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"NotIn","values":["node2"]}]}]}}}}}}}"#;
        cluster.kubectl(&["patch", "daemonset", "portolan-agent", "-n=portolan-system", away])?;
        let on_node2 = "--field-selector=spec.nodeName=node2";
        cluster.kubectl(&[
            "wait",
            "--for=delete",
            "pods",
            "-n=portolan-system",
            "-l=app=portolan-agent",
            on_node2,
            "--timeout=60s",
        ])?;
        self.finds("agent", "error", "there is no agent on this node")?;
        let back = r#"--patch={"spec":{"template":{"spec":{"affinity":null}}}}"#;
        cluster.kubectl(&["patch", "daemonset", "portolan-agent", "-n=portolan-system", back])?;
        for workload in ["daemonset/portolan-agent", "deployment/portolan-controller"] {
            cluster.kubectl(&["rollout", "status", "-n=portolan-system", workload, "--timeout=120s"])?;
        }
        Ok(())
    }

    fn collects(&self) -> Result<()> {
        self.0.cluster.apply(HARBOUR)?;
        self.0.cluster.kubectl(&[
            "wait",
            "--for=condition=Ready",
            "subnets.kubeovn.io/harbour",
            "--timeout=60s",
        ])?;
        let directory = self.0.lab.directory("bundle")?;
        let bundle = directory.join("bundle.tar.gz");
        self.0.portolan(&["support-bundle", "-o", bundle.to_str().unwrap()]).read()?;
        let tar = self.0.lab.command("tar").args(["-xz", "--strip-components=1", "-f"]).arg(&bundle);
        tar.arg("-C").arg(&directory).read()?;
        let read = |name: &str| {
            std::fs::read_to_string(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        for node in ["node1", "node2"] {
            assert!(read(&format!("nodes/{node}/agent/node.json")).contains("\"encapsulation\""));
            assert!(read(&format!("nodes/{node}/agent/metrics.txt")).contains("portolan_agent_units"));
            assert!(read(&format!("nodes/{node}/databases/open-vswitch.db")).contains("br-int"));
        }
        let place = ["get", "pod", "ovn-central-0", "-n=portolan-system", "-o=jsonpath={.spec.nodeName}"];
        let central = self.0.cluster.kubectl(&place)?;
        assert!(read(&format!("nodes/{central}/databases/northbound.db")).contains("harbour"));
        assert!(read(&format!("nodes/{central}/databases/southbound.db")).contains("harbour"));
        assert!(read("logs/ovn-central-0/northd.log").len() > 100);
        assert!(read("doctor.txt").contains("0 errors"));
        assert_eq!(read("not-collected.txt"), "everything was collected\n");
        let leftovers = self.0.cluster.kubectl(&["get", "daemonsets", "-A", "-o=name"])?;
        assert!(!leftovers.contains("examination"), "{leftovers}");
        Ok(())
    }
}

const HARBOUR: &str = "
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: harbour}
spec: {cidrBlock: 172.30.0.0/16, gateway: 172.30.0.1, provider: harbour.default.ovn, protocol: IPv4}
";

/// Says when it listens.
const LISTENS: &str = "
import socket, sys, time
s = socket.socket()
s.bind(('0.0.0.0', 9444))
s.listen()
print('ready', flush=True)
time.sleep(900)";
