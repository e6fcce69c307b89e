//! Whether a firewall of somebody else's may stop what the node forwards for pods. It is said on the Node: what others wrote is not changed.

use std::convert::Infallible;
use std::time::Duration;

use portolan_host::{DroppingChain, ForwardMonitor, forward_policy};
use portolan_plan::host::NODE_LINK;
use tokio::sync::watch;

use crate::blocking::until_done;
use crate::monitor::{Monitor, News};
use crate::server::Agent;

/// What may stop it, for the Node's annotation.
pub(crate) type Stopped = watch::Sender<Option<String>>;

/// How soon after one look the next may be.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Looks for as long as the agent runs.
pub(crate) async fn run(agent: &Agent) -> Infallible {
    if !agent.config.settings.first_interface.is_portolan() {
        return std::future::pending().await;
    }
    // While it cannot be watched, whether others drop what pods send out of the cluster is not known.
    let mut monitor = Monitor::new("firewalls", || ForwardMonitor::open(NODE_LINK), &agent.metrics);
    if !monitor.is_open() {
        _ = monitor.next(ForwardMonitor::read).await;
    }
    loop {
        let what = "find out whether others drop what is forwarded";
        let chains = until_done(what, BETWEEN_LOOKS, || forward_policy::dropping_chains(NODE_LINK)).await;
        let found = problem(&chains);
        agent.forwarding.send_if_modified(|said| {
            let changed = *said != found;
            if changed && let Some(problem) = &found {
                tracing::warn!(problem, "what pods send out of the cluster may be dropped");
            }
            *said = found;
            changed
        });
        loop {
            match monitor.next(ForwardMonitor::read).await {
                Ok(News::Changes(changes)) if changes.is_empty() => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot watch nftables; looking again");
                    break;
                }
            }
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
        while monitor.read_now(ForwardMonitor::read).is_some() {}
    }
}

fn problem(chains: &[DroppingChain]) -> Option<String> {
    let named: Vec<_> = chains.iter().map(ToString::to_string).collect();
    (!named.is_empty()).then(|| {
        format!(
            "nftables: the policy of {} is drop and no rule there names {NODE_LINK}, so what pods send out of the cluster may be dropped; \
             let it pass, such as by: iptables -I FORWARD -i {NODE_LINK} -j ACCEPT; iptables -I FORWARD -o {NODE_LINK} -j ACCEPT",
            named.join(" and of ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drops_is_named() {
        let chain =
            |family, table: &str| DroppingChain { family, table: table.into(), chain: "FORWARD".into() };
        assert_eq!(problem(&[]), None);
        let said = problem(&[chain("ip", "filter"), chain("ip6", "filter")]).unwrap_or_default();
        let begin = "nftables: the policy of ip filter FORWARD and of ip6 filter FORWARD is drop and no rule there names portolan0";
        assert!(said.starts_with(begin), "{said}");
    }
}
