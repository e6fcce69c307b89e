//! Of the ways between nodes.

use portolan_agent::examine::facts::{Outcome, Path};

use super::super::facts::{Facts, Known, Node};
use super::super::finding::{Finding, Group};

pub(super) fn all(known: &Known) -> Vec<Finding> {
    let Some(examined) = &known.nodes else { return Vec::new() };
    let facts = &known.cluster;
    let mut findings = Vec::new();
    let mut good = 0;
    for (from, one) in examined {
        for path in one.paths.iter().flatten() {
            let answers = examined.get(&path.to).is_some_and(|to| to.facts.is_some());
            let problems = problems(from, path, facts, answers);
            good += usize::from(problems.is_empty());
            findings.extend(problems);
        }
    }
    if good > 0 {
        let found = match facts.pod_mtu() {
            Some(mtu) => format!("{good} ways carry tunnels with packets of pods of {mtu} bytes"),
            None => format!("{good} ways carry as large packets as their links"),
        };
        findings.push(Finding::ok(Group::BetweenNodes, "mtu", found));
    }
    findings
}

fn problems(from: &str, path: &Path, facts: &Facts, answers: bool) -> Vec<Finding> {
    let way = format!("{from} → {} ({})", path.to, path.address);
    let group = || Group::BetweenNodes;
    let mut findings = Vec::new();
    let wanted = path.wanted;
    match &path.largest {
        Outcome::Unknown(reason) => findings.push(Finding::unknown(group(), "mtu", format!("{way}: {reason}"))),
        Outcome::Found(Some(largest)) if *largest < wanted => {
            let found = format!("{way}: packets of {largest} bytes pass, and larger ones do not; {wanted} are needed");
            let finding = match facts.pod_mtu() {
                Some(mtu) => Finding::error(
                    group(),
                    "mtu",
                    found,
                    "large packets between pods of these nodes are lost, and connections that send them stall",
                    format!(
                        "raise the MTU of the links and of what lies between, or tell pods less: `--mtu {}` of the controller (docs/agent.md)",
                        mtu.saturating_sub(wanted - largest)
                    ),
                ),
                None => Finding::warning(
                    group(),
                    "mtu",
                    found,
                    "pods would be told an MTU that fits the links, and their large packets would be lost on the way",
                    "raise the MTU of what lies between the nodes, or lower that of their links",
                ),
            };
            findings.push(finding);
        }
        Outcome::Found(Some(_)) => {}
        Outcome::Found(None) => findings.push(Finding::warning(
            group(),
            "mtu",
            format!("{way}: no echo comes back, of whatever size"),
            "either the nodes do not reach each other, or something drops ICMP, which also tells senders of packets that are too large",
            "let nodes reach each other, with ICMP",
        )),
    }
    match &path.tunnel_port {
        Outcome::Found(true) => {}
        Outcome::Unknown(reason) => {
            findings.push(Finding::unknown(group(), "geneve", format!("{way}: {reason}")));
        }
        Outcome::Found(false) if !answers => {
            findings.push(Finding::unknown(
                group(),
                "geneve",
                format!("{way}: {} was not examined, so nobody answers there", path.to),
            ));
        }
        // Open vSwitch takes these packets from the interface before the kernel has seen them.
        Outcome::Found(false) if is_userspace(facts, from) || is_userspace(facts, &path.to) => {}
        Outcome::Found(false) => findings.push(Finding::error(
            group(),
            "geneve",
            format!("{way}: packets to UDP port 6081 are not answered"),
            "tunnels use this port: pods of these nodes do not reach each other",
            "open UDP port 6081 between all nodes, in firewalls of hosts and in security groups",
        )),
    }
    findings
}

fn is_userspace(facts: &Facts, name: &str) -> bool {
    let is_netdev = |node: &Node| {
        node.annotations.get("portolan.dev/datapath").is_some_and(|datapath| datapath == "netdev")
    };
    facts.all_nodes().any(|node| node.name == name && is_netdev(node))
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::Level;
    use super::super::example::{examined, known, levels, only};
    use super::*;

    fn found(change: impl FnOnce(&mut Path)) -> Vec<Finding> {
        let mut known = known();
        let nodes = known.nodes.as_mut().expect("they were examined");
        let mut path = Path {
            to: "node2".into(),
            address: "192.0.2.2".parse().expect("it is an address"),
            wanted: 1500,
            largest: Outcome::Found(Some(1500)),
            tunnel_port: Outcome::Found(true),
        };
        change(&mut path);
        nodes.get_mut("node1").expect("it is there").paths = Some(vec![path]);
        nodes.get_mut("node2").expect("it is there").paths = None;
        all(&known)
    }

    #[test]
    fn a_way_carries_what_tunnels_send() {
        let finding = only(found(|_| {}));
        assert!(finding.level == Level::Ok && finding.found.contains("1442"), "{finding:?}");
    }

    #[test]
    fn a_way_that_carries_less_is_an_error_with_the_mtu_that_fits() {
        let finding = only(found(|path| path.largest = Outcome::Found(Some(1400))));
        assert_eq!(finding.level, Level::Error);
        assert!(finding.remedy.contains("--mtu 1342"), "{finding:?}");
        assert_eq!(levels(&found(|path| path.largest = Outcome::Found(None))), [Level::Warning]);
        assert_eq!(
            levels(&found(|path| path.largest = Outcome::Unknown("no right".into()))),
            [Level::Unknown]
        );
    }

    #[test]
    fn a_port_of_tunnels_that_is_closed_is_an_error_unless_nobody_could_answer() {
        assert_eq!(levels(&found(|path| path.tunnel_port = Outcome::Found(false))), [Level::Error]);
        assert_eq!(
            levels(&found(|path| path.tunnel_port = Outcome::Unknown("no right".into()))),
            [Level::Unknown]
        );
        let not_examined = found(|path| {
            path.to = "node3".into();
            path.tunnel_port = Outcome::Found(false);
        });
        assert_eq!(levels(&not_examined), [Level::Unknown]);
        let mut userspace = known();
        let Outcome::Found(nodes) = &mut userspace.cluster.nodes else { panic!("nodes are known") };
        nodes[1].annotations.insert("portolan.dev/datapath".into(), "netdev".into());
        let paths = userspace.nodes.as_mut().expect("they were examined");
        for one in paths.values_mut() {
            for path in one.paths.iter_mut().flatten() {
                path.tunnel_port = Outcome::Found(false);
            }
        }
        assert_eq!(levels(&all(&userspace)), [Level::Ok], "it cannot be seen there");
    }

    #[test]
    fn before_an_installation_a_smaller_way_is_a_warning() {
        let mut known = known();
        let Outcome::Found(nodes) = &mut known.cluster.nodes else { panic!("nodes are known") };
        for node in nodes {
            node.annotations.clear();
        }
        known.cluster.installation = Outcome::Found(None);
        let mut one = examined("node1");
        for path in one.paths.iter_mut().flatten() {
            path.largest = Outcome::Found(Some(1450));
        }
        known.nodes = Some([("node1".to_owned(), one), ("node2".to_owned(), examined("node2"))].into());
        assert_eq!(levels(&all(&known)), [Level::Warning, Level::Ok]);
    }
}
