//! Of what is installed.

use super::super::facts::{DefinitionState, Facts, Webhook};
use super::super::finding::{Finding, Group};
use super::{seen, some};

/// How many seconds a Lease may be overdue, for clocks that differ and a controller that has just taken over.
const LEASE_GRACE: i64 = 15;

/// Whether there is an installation; everything else depends on it.
pub(super) fn state(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("installation", Vec::new());
    let Some(installed) = seen(&facts.installation, check, &mut findings) else { return findings };
    let namespace = &facts.namespace;
    findings.push(match installed {
        None => Finding::ok(
            Group::Cluster,
            check,
            format!("Portolan is not installed in namespace {namespace}; what follows is whether it can be"),
        ),
        Some(one) => {
            let mode = if one.is_primary { "as the primary network" } else { "beside another network" };
            Finding::ok(
                Group::Cluster,
                check,
                format!("installed {mode} in namespace {namespace}, image {}", one.image),
            )
        }
    });
    findings
}

pub(super) fn definitions(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("definitions", Vec::new());
    let Some(definitions) = seen(&facts.definitions, check, &mut findings) else { return findings };
    let named = |state: DefinitionState| {
        let of_state = definitions.iter().filter(move |one| one.state == state);
        of_state.map(|one| one.name.clone()).collect::<Vec<_>>()
    };
    let (missing, differ) = (named(DefinitionState::Missing), named(DefinitionState::Differs));
    if facts.installed().is_some() && !missing.is_empty() {
        findings.push(Finding::error(
            Group::Cluster,
            check,
            format!("there are no definitions of {}", some(missing.clone())),
            "objects of these kinds cannot be made, and the controller does not act before it can list them",
            "`portolan install`, or `kubectl apply --server-side -f deploy/crds/`",
        ));
    }
    if !differ.is_empty() {
        findings.push(Finding::warning(
            Group::Cluster,
            check,
            format!("other than in this version of `portolan`: {}", some(differ)),
            "fields that a definition lacks are dropped from objects without a word",
            "`portolan install` brings them to this version; if a newer version is installed, use its `portolan`",
        ));
    }
    if findings.is_empty() {
        let others = named(DefinitionState::SomebodyElses);
        let others = if others.is_empty() {
            String::new()
        } else {
            format!("; of others, and used as they are: {}", some(others))
        };
        let here = definitions.len() - missing.len();
        findings.push(Finding::ok(
            Group::Cluster,
            check,
            format!("{here} of {} definitions are there and of this version{others}", definitions.len()),
        ));
    }
    findings
}

pub(super) fn workloads(facts: &Facts) -> Vec<Finding> {
    let check = "workloads";
    let Some(installed) = facts.installed() else { return Vec::new() };
    let mut findings = Vec::new();
    for workload in &installed.workloads {
        let counts = format!("{} of {} pods are ready", workload.ready, workload.wanted);
        let finding = if workload.ready < workload.wanted || workload.wanted == 0 {
            let pods = workload.not_ready.iter().map(|(pod, why)| format!("; pod {pod}: {why}"));
            let found = format!("{counts}{}", pods.collect::<String>());
            let remedy = match workload.not_ready.keys().next() {
                Some(pod) => format!(
                    "`kubectl describe pod -n {0} {pod}` and `kubectl logs -n {0} {pod} --all-containers` have more; docs/installation.md has \
                     what can go wrong",
                    facts.namespace
                ),
                None => format!(
                    "`kubectl describe {}` says why it has no pods",
                    workload.title.replacen(' ', " -n ", 1).replacen('/', " ", 1)
                ),
            };
            Finding::error(Group::Cluster, check, found, what_stops(&workload.name), remedy)
        } else if workload.updated < workload.wanted {
            let found =
                format!("{counts}; {} of them are of an earlier version", workload.wanted - workload.updated);
            let (why, remedy) = if workload.on_delete {
                (
                    "a new version of Open vSwitch is taken only when somebody deletes the pod, which interrupts the node's traffic",
                    format!(
                        "node by node, when its traffic may be interrupted: `kubectl delete pod -n {} -l app={} --field-selector spec.nodeName=NODE`",
                        facts.namespace, workload.name
                    ),
                )
            } else {
                (
                    "an update has not come to its end",
                    "wait for it, or look at the pods that are not ready".to_owned(),
                )
            };
            Finding::warning(Group::Cluster, check, found, why, remedy)
        } else {
            Finding::ok(Group::Cluster, check, counts)
        };
        findings.push(finding.of(&workload.title));
    }
    findings
}

/// What does not work without a part.
fn what_stops(part: &str) -> &'static str {
    match part {
        "portolan-controller" => "without a controller, new objects and pods wait; what runs goes on",
        "portolan-agent" => "new pods of a node wait for its agent; those that run go on",
        "ovn-controller" => {
            "changes of networks do not reach a node without ovn-controller; what runs goes on"
        }
        "ovs" => "a node without Open vSwitch has no traffic of Portolan",
        "ovn-central" => {
            "changes of networks wait for OVN's databases, unless two of three members are there; what runs goes on"
        }
        _ => "it is a part of the installation",
    }
}

pub(super) fn members(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("ovn-members", Vec::new());
    let Some(installed) = facts.installed() else { return findings };
    let Some(members) = seen(&facts.members, check, &mut findings) else { return findings };
    let place = format!("ConfigMap {}/{}", facts.namespace, portolan_manifests::ADDRESSES);
    if members.is_empty() {
        let finding = Finding::error(
            Group::Cluster,
            check,
            "no member of OVN's databases has written its address",
            "controllers and agents find OVN's databases by it",
            format!("`kubectl logs -n {} ovn-central-0 -c southbound` says why", facts.namespace),
        );
        return vec![finding.of(place)];
    }
    let known = facts.nodes.found();
    let is_of_node = |address: &str| {
        let address = address.parse().ok();
        known.is_none_or(|nodes| {
            nodes.iter().any(|node| address.is_some_and(|one| node.addresses.contains(&one)))
        })
    };
    for member in members.iter().filter(|member| !is_of_node(&member.address)) {
        let finding = Finding::error(
            Group::Cluster,
            check,
            format!(
                "member {} is said to be at {}, which is the address of no Node",
                member.name, member.address
            ),
            "controllers and agents connect there",
            format!(
                "if the node is gone for good, delete its Node and pod {}; if it has another address now, delete the pod",
                member.name
            ),
        );
        findings.push(finding.of(&place));
    }
    let stateful_set = installed.workloads.iter().find(|workload| workload.name == "ovn-central");
    let wanted =
        (0..stateful_set.map_or(1, |one| one.wanted)).map(|ordinal| format!("ovn-central-{ordinal}"));
    for missing in wanted.filter(|name| members.iter().all(|member| member.name != *name)) {
        let finding = Finding::error(
            Group::Cluster,
            check,
            format!("member {missing} has not written its address"),
            "the others do not find it, and one more that is lost stops changes of networks",
            format!("`kubectl logs -n {} {missing} -c southbound` says why", facts.namespace),
        );
        findings.push(finding.of(&place));
    }
    if findings.is_empty() {
        let list = members.iter().map(|member| format!("{} at {}", member.name, member.address));
        findings.push(Finding::ok(Group::Cluster, check, list.collect::<Vec<_>>().join(", ")));
    }
    findings
}

pub(super) fn leader(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("leader", Vec::new());
    if facts.installed().is_none() {
        return findings;
    }
    let Some(lease) = seen(&facts.lease, check, &mut findings) else { return findings };
    let object = format!("Lease {}/portolan-controller", facts.namespace);
    let why = "a controller that does not lead assigns no addresses and writes nothing to OVN";
    let remedy =
        format!("`kubectl logs -n {} -l app=portolan-controller` says why none leads", facts.namespace);
    let held = lease
        .as_ref()
        .and_then(|lease| Some((lease.holder.as_deref().filter(|one| !one.is_empty())?, lease)));
    findings.push(match held {
        None => Finding::error(Group::Cluster, check, "no controller leads", why, remedy).of(object),
        Some((holder, lease)) => {
            let since = lease.renewed.map(|renewed| facts.now - renewed);
            if since.is_none_or(|since| since > lease.duration + LEASE_GRACE) {
                let since = since.map_or_else(|| "never".to_owned(), |since| format!("{since} s ago"));
                let found = format!("{holder} was the last to lead, and renewed its Lease {since}");
                Finding::error(Group::Cluster, check, found, why, remedy).of(object)
            } else {
                Finding::ok(Group::Cluster, check, format!("{holder} leads"))
            }
        }
    });
    findings
}

pub(super) fn webhook(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("webhook", Vec::new());
    if facts.installed().is_none() {
        return findings;
    }
    let Some(webhook) = seen(&facts.webhook, check, &mut findings) else { return findings };
    let why = "without it wrong objects are stored, and say so only in their conditions";
    let remedy = format!(
        "its log: `kubectl logs -n {} -l app=portolan-controller`; port 9444 of the nodes with a controller must be open to the API server \
         (docs/webhooks.md)",
        facts.namespace
    );
    findings.push(match webhook {
        Webhook::Answers => Finding::ok(Group::Cluster, check, "it refuses what it should refuse"),
        Webhook::Absent => Finding::warning(
            Group::Cluster,
            check,
            "there is no ValidatingWebhookConfiguration portolan-webhook",
            why,
            "`portolan install` brings it",
        ),
        Webhook::DoesNotAnswer => Finding::error(
            Group::Cluster,
            check,
            "the API server accepted an object that the webhook refuses (as a trial; nothing was stored)",
            why,
            remedy,
        ),
        Webhook::Fails(said) => Finding::error(
            Group::Cluster,
            check,
            format!("the API server cannot call it: {said}"),
            why,
            remedy,
        ),
    });
    findings
}

#[cfg(test)]
mod tests {
    use portolan_agent::examine::facts::Outcome;

    use super::super::super::facts::{Definition, Lease, Member};
    use super::super::super::finding::Level;
    use super::super::example::{facts, levels, not_installed, only};
    use super::*;

    #[test]
    fn before_an_installation_nothing_is_missing() {
        let facts = not_installed();
        assert!(only(state(&facts)).found.contains("whether it can be"));
        for check in [workloads, members, leader, webhook] {
            assert_eq!(check(&facts), []);
        }
        assert_eq!(levels(&definitions(&facts)), [Level::Ok], "they come with it");
    }

    #[test]
    fn definitions_are_missing_differ_or_are_as_they_should_be() {
        let of = |state: DefinitionState| {
            let mut facts = facts();
            facts.definitions = Outcome::Found(vec![Definition { name: "vpcs.portolan.dev".into(), state }]);
            only(definitions(&facts)).level
        };
        assert_eq!(of(DefinitionState::Missing), Level::Error);
        assert_eq!(of(DefinitionState::Differs), Level::Warning);
        assert_eq!(of(DefinitionState::SomebodyElses), Level::Ok);
        assert_eq!(of(DefinitionState::Current), Level::Ok);
    }

    #[test]
    fn a_part_that_does_not_run_is_named_with_its_pods() {
        assert!(levels(&workloads(&facts())).iter().all(|level| *level == Level::Ok));
        let mut facts = facts();
        let Outcome::Found(Some(installed)) = &mut facts.installation else { panic!("it is installed") };
        let agent =
            installed.workloads.iter_mut().find(|one| one.name == "portolan-agent").expect("it has agents");
        agent.ready = 1;
        agent.not_ready.insert("portolan-agent-x".into(), "ErrImagePull".into());
        let ovs = installed.workloads.iter_mut().find(|one| one.name == "ovs").expect("it has ovs");
        (ovs.updated, ovs.on_delete) = (0, true);
        let controller = installed
            .workloads
            .iter_mut()
            .find(|one| one.name == "portolan-controller")
            .expect("it is there");
        (controller.wanted, controller.ready, controller.updated) = (0, 0, 0);
        let found = workloads(&facts);
        let of = |name: &str| found.iter().find(|one| one.object.ends_with(name)).expect("it is found");
        assert_eq!(of("portolan-agent").level, Level::Error);
        assert!(of("portolan-agent").found.contains("pod portolan-agent-x: ErrImagePull"), "{found:?}");
        assert!(
            of("/ovs").level == Level::Warning && of("/ovs").remedy.contains("kubectl delete pod"),
            "{found:?}"
        );
        assert_eq!(of("portolan-controller").level, Level::Error, "scaled to none");
        assert!(
            of("portolan-controller")
                .remedy
                .contains("kubectl describe Deployment -n portolan-system portolan-controller"),
            "{found:?}"
        );
    }

    #[test]
    fn members_of_ovn_are_at_addresses_of_nodes() {
        assert_eq!(levels(&members(&facts())), [Level::Ok]);
        let mut none = facts();
        none.members = Outcome::Found(Vec::new());
        assert_eq!(only(members(&none)).level, Level::Error);
        let mut three = facts();
        let Outcome::Found(Some(installed)) = &mut three.installation else { panic!("it is installed") };
        let mut central = installed.workloads[0].clone();
        (central.name, central.wanted) = ("ovn-central".into(), 3);
        installed.workloads.push(central);
        let found = members(&three);
        assert!(found.len() == 2 && found[0].found.contains("ovn-central-1"), "{found:?}");
        let mut elsewhere = facts();
        elsewhere.members =
            Outcome::Found(vec![Member { name: "ovn-central-0".into(), address: "192.0.2.99".into() }]);
        let finding = only(members(&elsewhere));
        assert!(finding.level == Level::Error && finding.found.contains("192.0.2.99"), "{finding:?}");
        elsewhere.nodes = Outcome::Unknown("forbidden".into());
        assert_eq!(levels(&members(&elsewhere)), [Level::Ok], "nothing is concluded from what is not known");
    }

    #[test]
    fn a_leader_renews_its_lease() {
        assert_eq!(levels(&leader(&facts())), [Level::Ok]);
        for lease in [
            None,
            Some(Lease { holder: None, renewed: Some(1000), duration: 15 }),
            Some(Lease { holder: Some(String::new()), renewed: Some(1000), duration: 15 }),
            Some(Lease { holder: Some("a".into()), renewed: None, duration: 15 }),
            Some(Lease { holder: Some("a".into()), renewed: Some(900), duration: 15 }),
        ] {
            let mut facts = facts();
            facts.lease = Outcome::Found(lease);
            assert_eq!(only(leader(&facts)).level, Level::Error, "{:?}", facts.lease);
        }
    }

    #[test]
    fn the_webhook_is_there_and_reached() {
        assert_eq!(levels(&webhook(&facts())), [Level::Ok]);
        for (state, level) in [
            (Webhook::Absent, Level::Warning),
            (Webhook::DoesNotAnswer, Level::Error),
            (Webhook::Fails("x509: certificate has expired".into()), Level::Error),
        ] {
            let mut facts = facts();
            facts.webhook = Outcome::Found(state);
            assert_eq!(only(webhook(&facts)).level, level, "{:?}", facts.webhook);
        }
    }
}
