//! Keeps the node's own part in the primary network as it should be: its port, the addresses and routes of that link, and the translation
//! of what leaves the cluster.
//!
//! Everything is compared at start, and whenever the cluster, Open vSwitch, a link, an address, a route or nftables changes. It is one
//! unit: a change costs a look at all of it, which is a link with a few addresses and routes.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use portolan_host::rtnetlink::LinkSettings;
use portolan_host::{ChangeMonitor, Link, Masquerade, Route, Rtnetlink, masquerade, service_map, sysctl};
use portolan_model::FirstInterface;
use portolan_plan::ServiceProxy;
use portolan_plan::host::{NODE_LINK, NodeNetwork, node_network};
use serde_json::Value;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::blocking::blocking;
use crate::links::with_causes;
use crate::monitor::{next, watched};
use crate::server::Agent;
use crate::vswitch::{NodePort, Seen};

/// How soon after one look the next may be: whoever changes routes all the time does not take all of a processor.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// How often a monitor is read for one look.
const READS: usize = 16;
/// Pauses before something that failed is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How the node's own part is, for health checks and the Node's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is as it should be; or this is not the primary network.
    Done,
    /// It is, but for networks that cannot lead to pods.
    Without(Refused),
    /// Something has to come first.
    Waits(&'static str),
    /// It cannot be made, and is tried again.
    Fails(String),
}

/// Networks that are not routed to pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    networks: Vec<IpNet>,
    /// One of them is of `--cluster-network`: pods of the whole cluster are in it. Others are Subnets', which must not stop anybody else's pods.
    is_of_cluster: bool,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let networks: Vec<String> = self.networks.iter().map(ToString::to_string).collect();
        write!(
            f,
            "this node does not route {} to pods, as it has an address there itself, or is directly in a network around it: correct \
             --cluster-network or --service-network, or cidrBlock of the Subnet",
            networks.join(", ")
        )
    }
}

/// Where the agent keeps it.
pub(crate) type States = watch::Sender<Progress>;

/// What the node translates for pods, once it does: what it translates for Services goes by that too.
pub(crate) type Translation = watch::Sender<Option<Masquerade>>;

impl Progress {
    /// What is known before anything was looked at.
    pub(crate) fn at_start(first_interface: FirstInterface) -> Self {
        if first_interface.is_portolan() {
            Progress::Waits("the node was not compared with what it should have yet")
        } else {
            Progress::Done
        }
    }

    /// What keeps the node from being as it should, if something does.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Progress::Done | Progress::Waits(_) => None,
            Progress::Without(refused) => Some(refused.to_string()),
            Progress::Fails(why) => {
                Some(format!("the node's own part in the primary network is not as it should be: {why}"))
            }
        }
    }

    /// Whether the node can take part.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Progress::Without(refused) if refused.is_of_cluster => Err(refused.to_string()),
            Progress::Done | Progress::Without(_) => Ok(()),
            Progress::Waits(what) => Err((*what).to_owned()),
            Progress::Fails(why) => Err(why.clone()),
        }
    }
}

const NO_ADDRESSES: &str = "the node's port has no addresses yet: see the Events of the Node";
const NO_LINK: &str = "Open vSwitch has not made link portolan0 with its MAC address yet; if this lasts, see the log of ovs-vswitchd, and whether \
                       the node has a link portolan0 of somebody else's";
const PORT_REMOVED: &str = "somebody removed port portolan0 from Open vSwitch, and ovs-vswitchd has not seen that yet: is it running on this node?";

/// Runs until it fails.
pub(crate) async fn run(agent: &Agent) -> anyhow::Result<Infallible> {
    match agent.config.settings.first_interface {
        FirstInterface::Portolan => {}
        FirstInterface::NoLonger => {
            remove(agent).await;
            return std::future::pending().await;
        }
        FirstInterface::Other => {
            warn_of_what_is_left(agent).await;
            return std::future::pending().await;
        }
    }
    // Before anything is looked at: what changes after that is reported.
    let routing = watched(ChangeMonitor::of_link(NODE_LINK)?).context("watch routes")?;
    let mut nftables = watch_table();
    // Until all is listed, what is not known may be there all the same.
    agent.cluster.status().in_step().await;
    let mut cluster = agent.cluster.revisions_of_node();
    let mut vswitch = agent.vswitch.changes();
    let mut state = State::default();
    let mut pause = FIRST_PAUSE;
    loop {
        if nftables.is_err() {
            nftables = watch_table();
            state.table_changed = true;
        }
        let kept = keep(agent, &mut state).await;
        let failed = kept.and_then(|progress| nftables.as_ref().map(|_| progress).map_err(Clone::clone));
        let progress = match &failed {
            Ok(progress) => progress.clone(),
            Err(why) => Progress::Fails(why.clone()),
        };
        if let Progress::Without(refused) = &progress
            && *agent.node_network.borrow() != progress
        {
            tracing::warn!(problem = %refused, "not all networks of pods are routed");
        }
        agent.node_network.send_if_modified(|is| {
            let differs = *is != progress;
            *is = progress;
            differs
        });
        let retry = async {
            match &failed {
                Ok(_) => std::future::pending().await,
                Err(_) => tokio::time::sleep(pause).await,
            }
        };
        if let Err(error) = &failed {
            tracing::warn!(error, "the node's own part in the primary network is not as it should be");
        }
        tokio::select! {
            changed = next(Some(&routing), ChangeMonitor::read) => drop(changed.context("watch routes")?),
            changed = next(nftables.as_ref().ok(), ChangeMonitor::read) => {
                changed.context("watch nftables")?;
                state.table_changed = true;
            }
            batch = vswitch.next() => anyhow::ensure!(batch.is_some(), "the client of Open vSwitch has ended"),
            changed = cluster.changed() => {
                changed.expect("invariant: the agent keeps the sender alive");
                cluster.borrow_and_update();
                // Most Subnets are tenants', and none of this node's own.
                state.only_if_changed = failed.is_ok();
            }
            () = retry => {}
        }
        pause = if failed.is_ok() { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(BETWEEN_LOOKS).await;
        if has_more(Some(&routing)) {
            state.only_if_changed = false;
        }
        if has_more(nftables.as_ref().ok()) {
            (state.table_changed, state.only_if_changed) = (true, false);
        }
        while vswitch.try_next().is_some() {
            state.only_if_changed = false;
        }
    }
}

/// Watches the table that masquerades. A kernel without nftables is a reason, and no end.
fn watch_table() -> Result<AsyncFd<ChangeMonitor>, String> {
    let opened = ChangeMonitor::of_table(masquerade::TABLE).map_err(|error| with_causes(&error));
    let watched = opened.and_then(|monitor| watched(monitor).map_err(|error| error.to_string()));
    watched.map_err(|error| {
        format!("cannot watch nftables, by which what leaves the cluster is masqueraded: {error}")
    })
}

/// Whether a monitor has more to report, which one look answers together. What is left is for the next one.
fn has_more(monitor: Option<&AsyncFd<ChangeMonitor>>) -> bool {
    let reads = (0..READS).map_while(|_| monitor?.get_ref().read().ok());
    // All of them, whatever the first says.
    reads.filter(|changes| !changes.is_empty()).count() > 0
}

/// What is known of earlier rounds.
#[derive(Default)]
struct State {
    /// What was asked for and was made, if nothing was found missing since, and what became of it.
    made: Option<(NodeNetwork, Progress)>,
    /// The networks of pods, with those that were kept.
    pods: Vec<IpNet>,
    /// The table as nft listed it once it had been written, and what was written.
    table: Option<(Masquerade, Value)>,
    /// Somebody has changed nftables since that was listed.
    table_changed: bool,
    /// Nothing but the cluster has changed: there is something to do only if that asks for something else.
    only_if_changed: bool,
    port: Seen,
}

impl State {
    /// What became of it, if nothing but the cluster has changed since and that asks for the same. Otherwise nothing counts as made until it was
    /// looked at: what was reported of the kernel and of Open vSwitch meanwhile is not reported again.
    fn unchanged(&mut self, wanted: Option<&NodeNetwork>) -> Option<Progress> {
        let only_if_changed = std::mem::take(&mut self.only_if_changed);
        let is_same = |made: &NodeNetwork| only_if_changed && wanted == Some(made);
        self.made = self.made.take().filter(|(made, _)| is_same(made));
        self.made.as_ref().map(|(_, progress)| progress.clone())
    }
}

/// Makes the node as it should be, as far as that is known.
async fn keep(agent: &Agent, state: &mut State) -> Result<Progress, String> {
    let config = &agent.config;
    let wanted = agent.cluster.read(|known| {
        let mtu = config.mtu_of_subnets(known)?;
        node_network(&known.world, &config.node, config.networks(), mtu)
    });
    if let Some(progress) = state.unchanged(wanted.as_ref()) {
        return Ok(progress);
    }
    let Some(wanted) = wanted else {
        remove_if_deleted(agent, state).await?;
        return Ok(Progress::Waits(NO_ADDRESSES));
    };
    let port = agent.vswitch.assert_node_port(&config.node, &wanted, &mut state.port).await?;
    if port == NodePort::Made {
        tracing::info!(iface_id = wanted.iface_id, "made the node's port in Open vSwitch");
    }
    let (mut host, mut before) = (wanted.clone(), state.pods.clone());
    let (table, table_changed) = (state.table.take(), std::mem::take(&mut state.table_changed));
    let others = agent.vswitch.other_nodes();
    let done = blocking(move || {
        before.extend(routed_networks()?);
        host.keep(&before);
        let left_out = leave_out_own_networks(&mut host)?;
        let (outcome, table) = make(&host, others, table, table_changed);
        Ok::<_, anyhow::Error>((outcome, table, left_out, host.pods))
    });
    let (outcome, table, left_out, pods) = done.await.map_err(|error| error.to_string())?;
    (state.table, state.pods) = (table, pods);
    if let Some((written, _)) = &state.table {
        tell(&agent.translation, Some(written));
    }
    if port == NodePort::Awaited {
        return outcome.map(|_| Progress::Waits(PORT_REMOVED));
    }
    if !outcome? {
        return Ok(Progress::Waits(NO_LINK));
    }
    let of_cluster = [&config.cluster_networks[..], &config.service_networks].concat();
    let progress = done_without([&wanted.refused[..], &left_out].concat(), &of_cluster);
    state.made = Some((wanted, progress.clone()));
    Ok(progress)
}

fn tell(translation: &Translation, now: Option<&Masquerade>) {
    translation.send_if_modified(|is| {
        let differs = is.as_ref() != now;
        if differs {
            *is = now.cloned();
        }
        differs
    });
}

fn done_without(networks: Vec<IpNet>, of_cluster: &[IpNet]) -> Progress {
    if networks.is_empty() {
        return Progress::Done;
    }
    // Those that are next to each other may have been put together.
    let is_of_cluster = networks.iter().any(|net| of_cluster.iter().any(|given| net.contains(given)));
    Progress::Without(Refused { networks, is_of_cluster })
}

/// The networks that the node reaches by its port, as the kernel knows: what an earlier agent made is remembered there.
fn routed_networks() -> portolan_host::Result<Vec<IpNet>> {
    let mut host = Rtnetlink::open()?;
    let Some(link) = host.link(NODE_LINK)? else { return Ok(Vec::new()) };
    let routes = host.routes(&link)?.into_iter().filter(|route| route.gateway.is_some());
    Ok(routes.map(|route| route.destination).collect())
}

/// Removes networks of pods and of Services that are in one which the node is directly in by another link: its neighbours there could not be reached any
/// more, whether or not they are nodes. Answers which.
fn leave_out_own_networks(wanted: &mut NodeNetwork) -> portolan_host::Result<Vec<IpNet>> {
    let mut host = Rtnetlink::open()?;
    let by = host.link(NODE_LINK)?.unwrap_or_default();
    let own = host.connected_networks(&by)?;
    let is_in_one = |net: &mut IpNet| own.iter().any(|own| own.contains(&*net));
    let mut left_out: Vec<IpNet> = wanted.pods.extract_if(.., is_in_one).collect();
    if wanted.service_proxy == ServiceProxy::Portolan {
        left_out.extend(wanted.services.extract_if(.., is_in_one));
    }
    Ok(left_out)
}

/// Removes what was made for a Node that is certainly gone. One that has no addresses for its port keeps what it has.
async fn remove_if_deleted(agent: &Agent, state: &mut State) -> Result<(), String> {
    let node = &agent.config.node;
    if agent.cluster.read(|known| known.world.node(node).is_some()) || !agent.vswitch.has_node_port() {
        return Ok(());
    }
    // An agent may list its own Node, and needs no more rights for this.
    let own = ListParams::default().fields(&format!("metadata.name={node}"));
    match portolan_watch::list_selected::<Node>(&agent.client, &own).await {
        Ok(found) if !found.objects.is_empty() || !found.unreadable.is_empty() => Ok(()),
        Ok(_) => {
            // Of its port all is remembered: it may be made again soon.
            *state = State { port: std::mem::take(&mut state.port), ..State::default() };
            try_remove(agent, "its Node was deleted").await
        }
        Err(error) => Err(format!("cannot read Node {node}: {}", portolan_watch::Plain(&error))),
    }
}

type Table = Option<(Masquerade, Value)>;

/// Makes links, addresses, routes and translation as they should be. False if Open vSwitch has not made the link yet.
fn make(
    wanted: &NodeNetwork,
    others: Option<Vec<IpAddr>>,
    table: Table,
    table_changed: bool,
) -> (Result<bool, String>, Table) {
    // What leaves the cluster is translated from the first packet on.
    let (outcome, table) = match make_table(wanted, others, table, table_changed) {
        Ok(table) => (Ok(()), table),
        Err(error) => (Err(with_causes(&error)), None),
    };
    let made = make_link(wanted).map_err(|error| with_causes(&error));
    (outcome.and(made), table)
}

fn make_table(
    wanted: &NodeNetwork,
    others: Option<Vec<IpAddr>>,
    table: Table,
    changed: bool,
) -> portolan_host::Result<Table> {
    // What is not known now stays as it is: what an earlier agent made is remembered by the kernel.
    let (unmasqueraded, nodes) = match &table {
        Some((written, _)) => (written.unmasqueraded.clone(), written.nodes.clone()),
        None => {
            let listed = masquerade::listed()?.unwrap_or_default();
            (masquerade::unmasqueraded_in(&listed), masquerade::nodes_in(&listed))
        }
    };
    let masquerade = Masquerade {
        link: NODE_LINK.to_owned(),
        pods: wanted.pods.clone(),
        unmasqueraded: wanted.unmasqueraded(&unmasqueraded),
        nodes: others.map_or(nodes, |others| others.into_iter().map(IpNet::from).collect()),
        own: wanted.masquerade.clone(),
    };
    let as_written = match table {
        Some(table) if !changed || masquerade::listed()?.as_ref() == Some(&table.1) => Some(table),
        Some(_) => {
            tracing::warn!("somebody changed the table inet portolan of nftables; it is written again");
            None
        }
        None => None,
    };
    match as_written {
        Some((written, listed)) if written == masquerade => return Ok(Some((written, listed))),
        Some((written, _)) => masquerade.apply_after(&written)?,
        None => masquerade.apply()?,
    }
    Ok(Some((masquerade, masquerade::listed()?.unwrap_or_default())))
}

/// False if there is no link yet.
fn make_link(wanted: &NodeNetwork) -> portolan_host::Result<bool> {
    let mut host = Rtnetlink::open()?;
    let Some(link) = host.link(NODE_LINK)? else { return Ok(false) };
    if link.mac != Some(wanted.mac.octets()) {
        // Open vSwitch is about to give it.
        return Ok(false);
    }
    for (setting, value) in SETTINGS {
        sysctl::set(setting, value)?;
    }
    for setting in SETTINGS_OF_IPV6 {
        sysctl::set_of_ipv6(setting, "0")?;
    }
    if wanted.addresses.iter().any(|address| address.addr().is_ipv6()) {
        sysctl::forward_ipv6(&mut host, &wanted.own)?;
    }
    if !link.up {
        host.set_link(NODE_LINK, LinkSettings { up: true, ..LinkSettings::default() })?;
    }
    make_addresses(&mut host, &link, &wanted.addresses)?;
    let existing = host.routes(&link)?;
    let routes: Vec<Route> = wanted
        .routes()
        .into_iter()
        .map(|(destination, gateway)| Route { destination, gateway: Some(gateway) })
        .collect();
    // One that is refused, as by a route of the node's own to the same network, does not stop the others.
    let mut outcome = Ok(true);
    for route in routes.iter().filter(|route| !existing.contains(route)) {
        if let Err(error) = host.add_route(&link, *route) {
            tracing::warn!(%route, error = with_causes(&error), "cannot add a route by portolan0: has the node one to this network already?");
            outcome = Err(error);
        }
    }
    // Those without a router are the kernel's own.
    let left = existing.iter().filter(|route| route.gateway.is_some() && !routes.contains(route));
    for route in left {
        host.remove_route(&link, *route)?;
    }
    outcome
}

fn make_addresses(host: &mut Rtnetlink, link: &Link, wanted: &[IpNet]) -> portolan_host::Result<()> {
    let existing = host.addresses(link)?;
    for address in wanted.iter().filter(|address| !existing.contains(address)) {
        host.add_address(link, *address)?;
    }
    let is_link_local = |net: &IpNet| matches!(net, IpNet::V6(v6) if v6.addr().is_unicast_link_local());
    for address in existing.iter().filter(|address| !wanted.contains(address) && !is_link_local(address)) {
        host.remove_address(link, *address)?;
    }
    Ok(())
}

/// Settings of the kernel. A node forwards what leaves the cluster, and must not tell pods of a shorter way: what it translates has to pass
/// it. Redirects are sent if either of the two settings says so.
const SETTINGS: [(&str, &str); 3] = [
    ("/proc/sys/net/ipv4/ip_forward", "1"),
    ("/proc/sys/net/ipv4/conf/all/send_redirects", "0"),
    ("/proc/sys/net/ipv4/conf/portolan0/send_redirects", "0"),
];

/// Pods are behind the link: what they advertise is no way for the node.
const SETTINGS_OF_IPV6: [&str; 2] =
    ["/proc/sys/net/ipv6/conf/portolan0/accept_ra", "/proc/sys/net/ipv6/conf/portolan0/autoconf"];

/// What an agent with `--primary` made stays: that the flag is missing now may be a mistake.
async fn warn_of_what_is_left(agent: &Agent) {
    agent.vswitch.ready().await;
    if agent.vswitch.has_node_port() {
        tracing::warn!(
            "this node has the port portolan0 of the cluster's primary network, and the agent was started without --primary: it leaves the \
             port, its routes and the tables inet portolan and inet portolan-services of nftables as they are, whatever happens to them; start it with --primary, or with \
             --remove-primary if another network is the cluster's primary one now"
        );
    }
}

/// Removes what was made when this was the cluster's primary network, once, however often that has to be tried.
async fn remove(agent: &Agent) {
    let mut pause = FIRST_PAUSE;
    loop {
        agent.vswitch.ready().await;
        match try_remove(agent, "this is not the cluster's primary network any more").await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(error, "cannot remove the node's port of the primary network; trying again");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn try_remove(agent: &Agent, why: &str) -> Result<(), String> {
    if agent.vswitch.has_node_port() {
        // Whoever keeps the other table ends that first.
        tell(&agent.translation, None);
        // The port goes last: it says that there is something to remove.
        let tables = blocking(|| service_map::remove().and_then(|()| masquerade::remove()));
        tables.await.map_err(|error| error.to_string())?;
        agent.vswitch.remove_node_port().await?;
        tracing::info!("removed the node's port: {why}");
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use portolan_model::HeldNetworks;

    use super::*;

    fn network(pods: &str) -> NodeNetwork {
        NodeNetwork {
            owner: "node-w1".into(),
            iface_id: "port:w1/node/node-w1".into(),
            mac: "0a:58:0a:10:01:02".parse().unwrap(),
            mtu: 1400,
            addresses: vec!["10.16.1.2/24".parse().unwrap()],
            routers: vec!["10.16.1.1".parse().unwrap()],
            pods: vec![pods.parse().unwrap()],
            leaves: Vec::new(),
            masquerade: vec!["10.16.1.3".parse().unwrap()],
            own: Vec::new(),
            services: Vec::new(),
            service_proxy: ServiceProxy::Other,
            refused: Vec::new(),
            held: HeldNetworks::Known(Vec::new()),
        }
    }

    #[test]
    fn what_was_made_counts_only_until_something_else_than_the_cluster_changes_or_is_waited_for() {
        let (wanted, other) = (network("10.16.0.0/16"), network("10.17.0.0/16"));
        let made = |state: &mut State| state.made = Some((wanted.clone(), Progress::Done));
        let after_event_of_cluster = |state: &mut State, wanted: Option<&NodeNetwork>| {
            state.only_if_changed = true;
            state.unchanged(wanted)
        };
        let mut state = State::default();
        made(&mut state);
        assert_eq!(after_event_of_cluster(&mut state, Some(&wanted)), Some(Progress::Done));
        assert_eq!(after_event_of_cluster(&mut state, Some(&other)), None);
        // The link is gone: it is looked at, and waited for. Then the cluster changes.
        made(&mut state);
        assert_eq!(state.unchanged(Some(&wanted)), None);
        assert_eq!(
            after_event_of_cluster(&mut state, Some(&wanted)),
            None,
            "/readyz must not say that it is made"
        );
        // The port has no addresses for a moment, in which somebody removes a route.
        made(&mut state);
        assert_eq!(after_event_of_cluster(&mut state, None), None);
        assert_eq!(after_event_of_cluster(&mut state, Some(&wanted)), None, "the route would be missed");
    }

    #[test]
    fn networks_that_are_not_routed_are_a_problem_and_stop_pods_only_if_they_are_the_clusters() {
        let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpNet>>();
        let of_cluster = nets(&["10.16.0.0/16"]);
        let done = done_without(Vec::new(), &of_cluster);
        assert_eq!((done.problem(), done.check()), (None, Ok(())));
        let subnets = done_without(nets(&["10.50.0.0/24", "fd00:50::/64"]), &of_cluster);
        let problem = subnets.problem().unwrap();
        assert!(problem.contains("does not route 10.50.0.0/24, fd00:50::/64 to pods"), "{problem}");
        assert_eq!(subnets.check(), Ok(()), "a Subnet must not make every node not ready");
        let all = done_without(nets(&["10.16.0.0/15"]), &of_cluster);
        assert!(all.problem().is_some() && all.check().is_err());
    }
}
