//! Of the cluster itself.

use super::super::facts::Facts;
use super::super::finding::{Finding, Group};
use super::seen;

/// What is needed for selectable fields of custom resources, and for tokens that name the node of a pod.
const LEAST_MINOR: u32 = 31;
const TOKENS_NAME_NODES: u32 = 32;
/// By how many seconds clocks may differ.
const SKEW: i64 = 5;

pub(super) fn version(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("version", Vec::new());
    let Some(version) = seen(&facts.version, check, &mut findings) else { return findings };
    let found = format!("Kubernetes {}", version.text);
    findings.push(if version.minor < LEAST_MINOR {
        Finding::error(
            Group::Cluster,
            check,
            found,
            "agents follow the addresses of their own node by selectable fields of custom resources, which Kubernetes has since 1.31",
            "upgrade Kubernetes to 1.31 or later",
        )
    } else if version.minor < TOKENS_NAME_NODES {
        Finding::warning(
            Group::Cluster,
            check,
            found,
            "before 1.32 tokens of pods do not name their node: agents are not held to their own nodes",
            "upgrade Kubernetes to 1.32 or later, or accept it (docs/agent.md)",
        )
    } else {
        Finding::ok(Group::Cluster, check, found)
    });
    findings
}

pub(super) fn clock(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("clock", Vec::new());
    let Some(ahead) = seen(&facts.ahead, check, &mut findings) else { return findings };
    findings.push(if ahead.abs() > SKEW {
        let by = ahead.abs();
        let which = if *ahead > 0 { "ahead of" } else { "behind" };
        Finding::warning(
            Group::Cluster,
            check,
            format!("the API server's clock is {by} s {which} this machine's"),
            "certificates and tokens are valid between two times; what is said of clocks here goes by the API server's",
            "let time be synchronised on both (chrony, systemd-timesyncd)",
        )
    } else {
        Finding::ok(Group::Cluster, check, "the API server and this machine agree on the time")
    });
    findings
}

pub(super) fn kube_ovn(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("kube-ovn", Vec::new());
    let Some(found) = seen(&facts.kube_ovn, check, &mut findings) else { return findings };
    findings.push(if found.is_empty() {
        Finding::ok(Group::Cluster, check, "Kube-OVN does not run")
    } else {
        Finding::error(
            Group::Cluster,
            check,
            format!("Kube-OVN runs: {}", found.join(", ")),
            "both would answer for the same VPCs and Subnets and write to bridge br-int of every node",
            "uninstall Kube-OVN; its VPCs and Subnets may stay",
        )
    });
    findings
}

/// An API that is not available also keeps namespaces from being deleted.
pub(super) fn api_services(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("apiservice", Vec::new());
    let Some(services) = seen(&facts.api_services, check, &mut findings) else { return findings };
    for service in services {
        let Some(problem) = &service.problem else { continue };
        let remedy = if service.is_ours {
            format!(
                "make a controller run (`kubectl get pods -n {} -l app=portolan-controller`); until then, `kubectl delete apiservice {}` lets \
                 namespaces be deleted, and `portolan install` brings it back",
                facts.namespace, service.name
            )
        } else {
            format!(
                "make what serves it run, or `kubectl delete apiservice {}` if nothing does any more",
                service.name
            )
        };
        let why = "as long as an API cannot be asked for its objects, no namespace can be deleted";
        let found = format!("it is not available: {problem}");
        let finding = if service.is_ours {
            Finding::error(Group::Cluster, check, found, why, remedy)
        } else {
            Finding::warning(Group::Cluster, check, found, why, remedy)
        };
        findings.push(finding.of(format!("APIService {}", service.name)));
    }
    if services.iter().all(|service| service.problem.is_none()) {
        let found = match services.len() {
            0 => "there are no aggregated APIs".to_owned(),
            number => format!("{number} aggregated APIs, all available"),
        };
        findings.push(Finding::ok(Group::Cluster, check, found));
    }
    findings
}

pub(super) fn namespaces(facts: &Facts) -> Vec<Finding> {
    let (check, mut findings) = ("namespaces", Vec::new());
    let Some(stuck) = seen(&facts.stuck_namespaces, check, &mut findings) else { return findings };
    for namespace in stuck {
        let finding = Finding::error(
            Group::Cluster,
            check,
            format!("it is being deleted and stays: {}", namespace.message),
            "Kubernetes asks every API for the objects of a namespace before it is gone",
            "see `apiservice` above: make the API available, or delete its APIService",
        );
        findings.push(finding.of(format!("Namespace {}", namespace.name)));
    }
    if stuck.is_empty() {
        findings.push(Finding::ok(
            Group::Cluster,
            check,
            "none is kept from being deleted by an API that is away",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use portolan_agent::examine::facts::Outcome;

    use super::super::super::facts::{ApiService, StuckNamespace, Version};
    use super::super::super::finding::Level;
    use super::super::example::{facts, levels, only};
    use super::*;

    #[test]
    fn a_version_is_too_old_old_enough_to_warn_or_good() {
        let of = |minor: u32| {
            let mut facts = facts();
            facts.version = Outcome::Found(Version { text: format!("v1.{minor}.0"), minor });
            only(version(&facts)).level
        };
        assert_eq!((of(30), of(31), of(32), of(40)), (Level::Error, Level::Warning, Level::Ok, Level::Ok));
        let mut unknown = facts();
        unknown.version = Outcome::Unknown("it does not answer".into());
        let finding = only(version(&unknown));
        assert_eq!((finding.level, finding.found.as_str()), (Level::Unknown, "it does not answer"));
    }

    #[test]
    fn clocks_may_differ_a_little() {
        for (ahead, level, words) in [
            (0, Level::Ok, "agree"),
            (5, Level::Ok, "agree"),
            (60, Level::Warning, "60 s ahead of"),
            (-60, Level::Warning, "60 s behind"),
        ] {
            let mut facts = facts();
            facts.ahead = Outcome::Found(ahead);
            let finding = only(clock(&facts));
            assert!(finding.level == level && finding.found.contains(words), "{ahead}: {finding:?}");
        }
    }

    #[test]
    fn kube_ovn_is_an_error_where_it_runs() {
        assert_eq!(levels(&kube_ovn(&facts())), [Level::Ok]);
        let mut beside = facts();
        beside.kube_ovn = Outcome::Found(vec!["DaemonSet kube-system/kube-ovn-cni".into()]);
        let finding = only(kube_ovn(&beside));
        assert!(finding.level == Level::Error && finding.found.contains("kube-ovn-cni"), "{finding:?}");
    }

    #[test]
    fn an_api_that_is_away_is_named_with_how_to_let_namespaces_go() {
        assert_eq!(levels(&api_services(&facts())), [Level::Ok]);
        let mut away = facts();
        let service = |name: &str, is_ours: bool, problem: Option<&str>| ApiService {
            name: name.into(),
            is_ours,
            problem: problem.map(str::to_owned),
        };
        away.api_services = Outcome::Found(vec![
            service("v1alpha1.trace.portolan.dev", true, Some("no endpoints")),
            service("v1beta1.metrics.k8s.io", false, Some("timeout")),
            service("v1.good", false, None),
        ]);
        let found = api_services(&away);
        assert_eq!(levels(&found), [Level::Error, Level::Warning]);
        assert!(
            found[0].remedy.contains("kubectl delete apiservice v1alpha1.trace.portolan.dev"),
            "{found:?}"
        );
        assert_eq!(found[1].object, "APIService v1beta1.metrics.k8s.io");
    }

    #[test]
    fn a_namespace_that_cannot_go_is_named() {
        assert_eq!(levels(&namespaces(&facts())), [Level::Ok]);
        let mut stuck = facts();
        let one = StuckNamespace { name: "old".into(), message: "trace.portolan.dev/v1alpha1: stale".into() };
        stuck.stuck_namespaces = Outcome::Found(vec![one]);
        let finding = only(namespaces(&stuck));
        assert!(finding.level == Level::Error && finding.object == "Namespace old", "{finding:?}");
    }
}
