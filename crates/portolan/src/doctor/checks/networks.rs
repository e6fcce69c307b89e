//! Of networks that overlap, and of objects that say what is wrong with them.

use std::collections::BTreeMap;

use ipnet::IpNet;
use portolan_model::node::POD_CIDRS_ANNOTATION;

use super::super::facts::{Facts, Troubled};
use super::super::finding::{Finding, Group};
use super::{seen, some};

/// Networks of which each pod, or each node, must tell the addresses apart.
pub(super) fn overlaps(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("networks", Vec::new());
    let nodes = seen(&facts.nodes, check, &mut findings);
    let services = seen(&facts.service_networks, check, &mut findings);
    let subnets = seen(&facts.subnets, check, &mut findings);
    let pods: Vec<(String, IpNet)> = nodes
        .into_iter()
        .flatten()
        .flat_map(|node| {
            node.pod_networks.iter().map(|network| (format!("the pods of Node {}", node.name), *network))
        })
        .collect();
    let hosts: Vec<(String, IpNet)> = nodes
        .into_iter()
        .flatten()
        .flat_map(|node| {
            node.addresses.iter().map(|address| (format!("Node {}", node.name), IpNet::from(*address)))
        })
        .collect();
    let services: Vec<(String, IpNet)> =
        services.into_iter().flatten().map(|network| ("Services".to_owned(), *network)).collect();

    let mut clash = |one: &[(String, IpNet)], other: &[(String, IpNet)]| {
        for (name, network) in one {
            let others = other.iter().filter(|(_, other)| overlap(network, other));
            let others: Vec<String> = others.map(|(name, network)| format!("{network} of {name}")).collect();
            if !others.is_empty() {
                let finding = Finding::error(
                    Group::Cluster,
                    check,
                    format!("{network} of {name} overlaps {}", some(others)),
                    "an address that two have is reached at one of them at most",
                    "give one of them another network",
                );
                findings.push(finding);
            }
        }
    };
    clash(&pods, &hosts);
    clash(&services, &hosts);
    clash(&services, &pods);
    let cluster = [pods, hosts, services].concat();
    for subnet in subnets.into_iter().flatten() {
        for network in &subnet.networks {
            let others = cluster.iter().filter(|(_, other)| overlap(network, other));
            let others: Vec<String> = others.map(|(name, network)| format!("{network} of {name}")).collect();
            if others.is_empty() {
                continue;
            }
            let finding = Finding::warning(
                Group::Cluster,
                check,
                format!("{network} overlaps {}", some(others)),
                "a pod that has an interface here too cannot reach those addresses by its first interface",
                "give the Subnet another network, unless its pods are to have no other interface",
            );
            findings.push(finding.of(&subnet.title));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            Group::Cluster,
            check,
            "those of nodes, pods, Services and Subnets do not overlap",
        ));
    }
    findings
}

fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// Agents must be told which networks are the cluster's: beside another network those of pods and Services, as the primary one those of pods.
pub(super) fn cluster_networks(facts: &Facts) -> Vec<Finding> {
    let check = "cluster-network";
    let Some(installed) = facts.installed() else { return Vec::new() };
    let told = |network: &&IpNet| installed.cluster_networks.iter().any(|one| one.contains(*network));
    let untold = |networks: Vec<&IpNet>| -> Vec<String> {
        networks.into_iter().filter(|network| !told(network)).map(ToString::to_string).collect()
    };
    if installed.is_primary {
        // Prefixes that Nodes have and nobody uses are no pods'.
        let in_use = facts.all_nodes().filter(|node| node.annotations.contains_key(POD_CIDRS_ANNOTATION));
        let untold = untold(in_use.flat_map(|node| &node.pod_networks).collect());
        if untold.is_empty() {
            return vec![Finding::ok(Group::Cluster, check, "agents know the networks of pods")];
        }
        return vec![Finding::error(
            Group::Cluster,
            check,
            format!("agents are not told that {} are of pods", some(untold)),
            "a node reaches pods of other nodes only by networks that its agent knows",
            "`portolan install` once more, which finds those of Nodes that have joined; or give it --cluster-network CIDR, once for each network \
             that covers these (docs/installation.md)",
        )];
    }
    let pods = facts.all_nodes().flat_map(|node| &node.pod_networks);
    let services = facts.service_networks.found().into_iter().flatten();
    let untold = untold(pods.chain(services).collect());
    if untold.is_empty() {
        let found = "agents know the networks of pods and Services";
        return vec![Finding::ok(Group::Cluster, check, found)];
    }
    vec![Finding::warning(
        Group::Cluster,
        check,
        format!("agents are not told that {} belong to the cluster", some(untold)),
        "a pod whose default route goes by an interface of Portolan reaches neither Services nor pods of other nodes by its first one",
        "`portolan install --cluster-network CIDR`, once for each network that covers these (docs/agent.md)",
    )]
}

/// On a primary network, Subnets of `kubeovn.io` that do not say with which address their pods leave the cluster.
pub(super) fn nat_outgoing(facts: &Facts) -> Vec<Finding> {
    let check = "nat-outgoing";
    if !facts.installed().is_some_and(|installed| installed.is_primary) {
        return Vec::new();
    }
    // Where they are not known, `networks` says why.
    let Some(subnets) = facts.subnets.found() else { return Vec::new() };
    let unset = subnets.iter().filter(|subnet| subnet.is_nat_outgoing_unset);
    let unset: Vec<&str> = unset.map(|subnet| subnet.title.as_str()).collect();
    if unset.is_empty() {
        let found = "Subnets say with which address their pods leave the cluster";
        return vec![Finding::ok(Group::Cluster, check, found)];
    }
    vec![Finding::warning(
        Group::Cluster,
        check,
        format!(
            "spec.natOutgoing is not set on {}: pods leave the cluster with their own addresses",
            some(unset)
        ),
        "what is outside answers them only if it has routes to them",
        "set natOutgoing: true to have them leave with their node's address, or false if there are routes (docs/primary.md)",
    )]
}

/// Objects that say themselves what is wrong.
pub(super) fn objects(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("objects", Vec::new());
    let Some(troubled) = seen(&facts.troubled, check, &mut findings) else { return findings };
    let mut kinds: BTreeMap<(&str, &str), Vec<&Troubled>> = BTreeMap::new();
    for one in troubled {
        kinds.entry((&one.kind, &one.reason)).or_default().push(one);
    }
    for ((kind, reason), objects) in kinds {
        let first = objects[0];
        let names = some(objects.iter().map(|one| one.name.as_str()));
        let finding = Finding::warning(
            Group::Cluster,
            check,
            format!("{} is not True ({reason}) on {names}: {}", first.condition, first.message),
            "what an object asks for is not, or not wholly, in effect",
            format!("`{}` says what to do; docs/status.md has every reason", first.describe),
        );
        findings.push(finding.of(kind));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(Group::Cluster, check, "none says that something is wrong with it"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use portolan_agent::examine::facts::Outcome;

    use super::super::super::facts::Subnet;
    use super::super::super::finding::Level;
    use super::super::example::{facts, levels, not_installed, only};
    use super::*;

    fn networks(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().expect("it is a network")).collect()
    }

    #[test]
    fn networks_of_the_cluster_that_overlap_are_errors() {
        assert_eq!(levels(&overlaps(&facts())), [Level::Ok]);
        let mut clashing = facts();
        clashing.service_networks = Outcome::Found(networks(&["10.244.0.0/16"]));
        let found = only(overlaps(&clashing));
        assert!(
            found.level == Level::Error && found.found.contains("10.244.1.0/24 of the pods of Node node1"),
            "{found:?}"
        );
        clashing.service_networks = Outcome::Found(networks(&["192.0.2.0/24"]));
        assert_eq!(levels(&overlaps(&clashing)), [Level::Error]);
    }

    #[test]
    fn a_subnet_that_overlaps_the_cluster_is_a_warning() {
        let mut facts = facts();
        let subnet = |title: &str, network: &str| Subnet {
            title: title.into(),
            networks: networks(&[network]),
            is_nat_outgoing_unset: true,
        };
        facts.subnets = Outcome::Found(vec![
            subnet("Subnet.kubeovn.io a", "10.244.0.0/14"),
            subnet("Subnet.kubeovn.io b", "172.20.0.0/16"),
            subnet("Subnet.portolan.dev c", "10.96.0.0/24"),
        ]);
        let found = overlaps(&facts);
        assert_eq!(levels(&found), [Level::Warning, Level::Warning]);
        assert!(found[0].object.ends_with(" a") && found[1].object.ends_with(" c"), "{found:?}");
    }

    #[test]
    fn agents_beside_another_network_are_told_those_of_the_cluster() {
        let mut facts = facts();
        assert_eq!(levels(&cluster_networks(&facts)), [Level::Ok]);
        let Outcome::Found(Some(installed)) = &mut facts.installation else { panic!("it is installed") };
        installed.cluster_networks = networks(&["10.244.0.0/16"]);
        let finding = only(cluster_networks(&facts));
        assert!(finding.level == Level::Warning && finding.found.contains("10.96.0.0/12"), "{finding:?}");
        let Outcome::Found(Some(installed)) = &mut facts.installation else { panic!("it is installed") };
        installed.is_primary = true;
        assert_eq!(levels(&cluster_networks(&facts)), [Level::Ok], "Services are not among them");
        assert_eq!(cluster_networks(&not_installed()), []);
    }

    #[test]
    fn agents_of_a_primary_network_know_the_pods_of_nodes_that_joined_later() {
        let mut facts = facts();
        let Outcome::Found(Some(installed)) = &mut facts.installation else { panic!("it is installed") };
        installed.is_primary = true;
        installed.cluster_networks = networks(&["10.244.1.0/24"]);
        assert_eq!(levels(&cluster_networks(&facts)), [Level::Ok], "nobody uses the prefixes of Nodes");
        let Outcome::Found(nodes) = &mut facts.nodes else { panic!("there are nodes") };
        for node in nodes {
            node.annotations.insert(POD_CIDRS_ANNOTATION.into(), "uid 10.244.0.0/16".into());
        }
        let finding = only(cluster_networks(&facts));
        assert_eq!(finding.level, Level::Error, "{finding:?}");
        assert!(
            finding.found.contains("10.244.2.0/24") && !finding.found.contains("10.244.1.0"),
            "{finding:?}"
        );
    }

    #[test]
    fn subnets_of_a_primary_network_say_with_which_address_pods_leave() {
        let mut facts = facts();
        let Outcome::Found(subnets) = &mut facts.subnets else { panic!("there are Subnets") };
        subnets[0].is_nat_outgoing_unset = true;
        assert_eq!(nat_outgoing(&facts), [], "beside another network the field has no effect");
        let Outcome::Found(Some(installed)) = &mut facts.installation else { panic!("it is installed") };
        installed.is_primary = true;
        let finding = only(nat_outgoing(&facts));
        assert!(
            finding.level == Level::Warning && finding.found.contains("Subnet.kubeovn.io web"),
            "{finding:?}"
        );
        let Outcome::Found(subnets) = &mut facts.subnets else { panic!("there are Subnets") };
        subnets[0].is_nat_outgoing_unset = false;
        assert_eq!(levels(&nat_outgoing(&facts)), [Level::Ok]);
    }

    #[test]
    fn objects_in_trouble_are_summed_up_by_kind_and_reason() {
        assert_eq!(levels(&objects(&facts())), [Level::Ok]);
        let mut facts = facts();
        let one = |name: &str, reason: &str| Troubled {
            kind: "Subnet.portolan.dev".into(),
            name: name.into(),
            condition: "Ready".into(),
            reason: reason.into(),
            message: "the VPC does not exist".into(),
            describe: format!("portolan describe subnet {name}"),
        };
        let mut many: Vec<_> = (0..8).map(|n| one(&format!("s{n}"), "VpcNotFound")).collect();
        many.push(one("other", "Refused"));
        facts.troubled = Outcome::Found(many);
        let found = objects(&facts);
        assert_eq!(levels(&found), [Level::Warning, Level::Warning]);
        assert!(found[1].found.contains("s0, s1, s2, s3, s4 and 3 more"), "{found:?}");
        assert!(found[1].remedy.contains("portolan describe subnet s0"), "{found:?}");
    }
}
