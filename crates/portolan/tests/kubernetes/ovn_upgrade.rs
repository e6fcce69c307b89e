//! OVN is brought to a newer version and back while pods of two nodes talk to each other, with its central part and its nodes at different versions
//! in between: OVN of Debian 12, and that of the release after it (`scripts/fetch-ovn`).

use std::time::Duration;

use portolan_testbed::cluster::Programs;
use portolan_testbed::kubernetes::{Image, Kubernetes, Network};
use portolan_testbed::{Result, Test, TestLab};

use crate::installation::Installed;
use crate::pods;
use crate::primary::{address, get};
use crate::traffic::Traffic;
use crate::upgrade::{NAMESPACE, REPLACED, shown};

const OWN: &str = "portolan:own-ovn";
const NEWER: &str = "portolan:newer-ovn";

#[test]
fn traffic_goes_on_while_ovn_is_brought_to_a_newer_version_and_back() {
    Test::new().deadline(Duration::from_secs(900)).run(async |lab: TestLab| -> Result<()> {
        let cluster = Kubernetes::builder().nodes(2).network(Network::None).start(&lab)?;
        cluster.show_on_failure(&lab);
        for image in [
            Image::agnhost()?,
            Image::portolan_of(&lab, &Programs::built()?, "own-ovn")?,
            Image::portolan_with_newer_ovn(&lab, "newer-ovn")?,
            Image::portolan_ovs(&lab)?,
        ] {
            cluster.load(&image)?;
        }
        let installed = Installed { cluster: &cluster, lab: &lab };
        // So that databases come up where they were.
        cluster.kubectl(&["label", "node", "node1", "portolan.dev/ovn-central="])?;
        installed.userspace_datapath()?;
        let image = format!("--image={OWN}");
        installed.portolan(&["install", "--mode=primary", &image, "--timeout=240"]).read()?;
        pods::client(&cluster, "one", "node1")?;
        pods::client(&cluster, "two", "node2")?;
        let parts = Parts { cluster: &cluster };
        let [own, _] = parts.versions()?;
        assert_eq!(parts.versions()?, [own.clone(), own.clone()]);
        let mut traffic = Traffic::between(&cluster, "one", "two")?;

        // Whichever part is first, both ways. While they differ, what there is stays as it is, and what is new waits.
        let mut windows = Vec::new();
        let steps = [
            ("the central part first", CENTRAL, NEWER),
            ("then the nodes", NODES, NEWER),
            ("the central part back", CENTRAL, OWN),
            (NODES_BACK, NODES, OWN),
            ("the nodes first", NODES, NEWER),
            ("then the central part", CENTRAL, NEWER),
        ];
        for (number, (what, part, image)) in steps.into_iter().enumerate() {
            windows.push((what, shown(what, traffic.during(|| parts.run(part, image))?)));
            let [central, nodes] = parts.versions()?;
            let changed = if part == CENTRAL { &central } else { &nodes };
            assert_eq!(*changed > own, image == NEWER, "{what}: central part {central}, nodes {nodes}");
            assert_eq!(get(&cluster, "one", &format!("{}/hostname", address(&cluster, "two")?))?, "two");
            let (before, after) = (format!("pod{}", number / 2), format!("then{number}"));
            if central != nodes {
                pods::create_client(&cluster, &before, "node2")?;
                continue;
            }
            // What waited is served, and so is what is new.
            pods::ready(&cluster, &format!("pod/{before}"))?;
            pods::client(&cluster, &after, "node1")?;
            for (from, to) in [(&*before, &*after), (&*after, "two"), ("one", &*before)] {
                let answer = get(&cluster, from, &format!("{}/hostname", address(&cluster, to)?))?;
                assert_eq!(answer, to, "{what}: from {from}");
            }
        }
        let longest = windows.iter().map(|(_, window)| window.sent).max().unwrap_or_default();
        let undisturbed = shown("undisturbed", traffic.of(longest));
        for (what, window) in windows {
            assert!(window.stream_lasts, "{what}: the stream is the same one: {window}");
            // An ovn-controller that takes over from a newer one makes the node's flows anew: docs/installation.md says what that costs.
            assert!(
                what == NODES_BACK || window.lost <= undisturbed.lost + REPLACED,
                "{what}: {window}, and as long undisturbed {undisturbed}"
            );
        }
        Ok(())
    });
}

const NODES_BACK: &str = "then the nodes back";
const CENTRAL: &str = "statefulset/ovn-central";
const NODES: &str = "daemonset/ovn-controller";

struct Parts<'a> {
    cluster: &'a Kubernetes,
}

impl Parts<'_> {
    /// Has a part run another image, and waits until it does.
    fn run(&self, part: &str, image: &str) -> Result<()> {
        self.cluster.kubectl(&["set", "image", NAMESPACE, part, &format!("*={image}")])?;
        self.cluster.kubectl(&["rollout", "status", NAMESPACE, part, "--timeout=180s"]).map(drop)
    }

    /// The versions that OVN's central part and its nodes run, by what they say of themselves.
    fn versions(&self) -> Result<[String; 2]> {
        let version = |of: &str, program: &str| -> Result<String> {
            let said = self.cluster.kubectl(&["exec", NAMESPACE, of, "--", program, "--version"])?;
            Ok(said.lines().next().unwrap_or_default().rsplit(' ').next().unwrap_or_default().to_owned())
        };
        Ok([version(CENTRAL, "/usr/bin/ovn-northd")?, version(NODES, "/usr/bin/ovn-controller")?])
    }
}
