//! What is concluded from facts. Pure: each check says what it found, of which object, why that matters and what to do.

mod certificates;
mod cluster;
mod installation;
mod networks;
mod nodes;
mod paths;

#[cfg(test)]
pub(crate) mod example;

use portolan_agent::examine::facts::Outcome;

use super::facts::Known;
use super::finding::{Finding, Group};

/// All findings, in the order in which they are shown.
pub(crate) fn findings(known: &Known) -> Vec<Finding> {
    let facts = &known.cluster;
    let mut findings = Vec::new();
    findings.extend(cluster::version(facts));
    findings.extend(cluster::clock(facts));
    findings.extend(cluster::kube_ovn(facts));
    findings.extend(installation::state(facts));
    findings.extend(installation::definitions(facts));
    findings.extend(installation::workloads(facts));
    findings.extend(installation::members(facts));
    findings.extend(installation::leader(facts));
    findings.extend(installation::webhook(facts));
    findings.extend(cluster::api_services(facts));
    findings.extend(cluster::namespaces(facts));
    findings.extend(certificates::expiry(facts));
    findings.extend(networks::overlaps(facts));
    findings.extend(networks::cluster_networks(facts));
    findings.extend(networks::nat_outgoing(facts));
    findings.extend(networks::objects(facts));
    findings.extend(nodes::all(known));
    findings.extend(paths::all(known));
    findings.sort_by(|a, b| a.group.cmp(&b.group));
    findings
}

/// What was found; or a finding that it could not be found out.
fn seen<'a, T>(outcome: &'a Outcome<T>, check: &'static str, findings: &mut Vec<Finding>) -> Option<&'a T> {
    if let Outcome::Unknown(reason) = outcome {
        findings.push(Finding::unknown(Group::Cluster, check, reason));
    }
    outcome.found()
}

/// A few of many, by name.
fn some(names: impl IntoIterator<Item = impl Into<String>>) -> String {
    const SHOWN: usize = 5;
    let names: Vec<String> = names.into_iter().map(Into::into).collect();
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}
