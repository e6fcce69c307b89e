//! Keeps the node's own part in the primary network as it should be: its port, the addresses and routes of that link, and the translation
//! of what leaves the cluster.
//!
//! Everything is compared at start, and whenever the cluster, Open vSwitch, a link, an address, a route or nftables changes. It is one
//! unit: a change costs a look at all of it, which is a link with a few addresses and routes.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::Context;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use portolan_host::rtnetlink::LinkSettings;
use portolan_host::{ChangeMonitor, Link, Masquerade, Route, Rtnetlink, masquerade, sysctl};
use portolan_model::FirstInterface;
use portolan_plan::host::{NODE_LINK, NodeNetwork, node_network};
use serde_json::Value;
use tokio::sync::watch;

use crate::blocking::blocking;
use crate::links::with_causes;
use crate::reconcile::{next, watched};
use crate::server::Agent;

/// How soon after one look the next may be: whoever changes routes all the time does not take all of a processor.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Pauses before something that failed is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How the node's own part is, for health checks and the Node's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is as it should be; or this is not the primary network.
    Done,
    /// Something has to come first.
    Waits(&'static str),
    /// It cannot be made, and is tried again.
    Fails(String),
}

/// Where the agent keeps it.
pub(crate) type States = watch::Sender<Progress>;

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
            Progress::Fails(why) => {
                Some(format!("the node's own part in the primary network is not as it should be: {why}"))
            }
        }
    }

    /// Whether the node can take part.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Progress::Done => Ok(()),
            Progress::Waits(what) => Err((*what).to_owned()),
            Progress::Fails(why) => Err(why.clone()),
        }
    }
}

const NO_ADDRESSES: &str = "the node's port has no addresses yet: see the Events of the Node";
const NO_LINK: &str = "Open vSwitch has not made link portolan0 with its MAC address yet; if this lasts, see the log of ovs-vswitchd, and whether \
                       the node has a link portolan0 of somebody else's";

/// Runs until it fails.
pub(crate) async fn run(agent: &Agent) -> anyhow::Result<Infallible> {
    if !agent.config.settings.first_interface.is_portolan() {
        remove(agent).await;
        return std::future::pending().await;
    }
    // Before anything is looked at: what changes after that is reported.
    let routing = watched(ChangeMonitor::of_link(NODE_LINK)?).context("watch routes")?;
    let nftables = watched(ChangeMonitor::of_table(masquerade::TABLE)?).context("watch nftables")?;
    // Until all is listed, what is not known may be there all the same.
    agent.cluster.status().in_step().await;
    let mut cluster = agent.cluster.revisions();
    let mut vswitch = agent.vswitch.changes();
    let mut state = State::default();
    let mut pause = FIRST_PAUSE;
    loop {
        let failed = keep(agent, &mut state).await;
        let progress = match &failed {
            Ok(progress) => progress.clone(),
            Err(why) => Progress::Fails(why.clone()),
        };
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
            changed = next(Some(&nftables), ChangeMonitor::read) => {
                changed.context("watch nftables")?;
                state.table_changed = true;
            }
            batch = vswitch.next() => anyhow::ensure!(batch.is_some(), "the client of Open vSwitch has ended"),
            changed = cluster.changed() => {
                changed.expect("invariant: the agent keeps the sender alive");
                cluster.borrow_and_update();
                // Most of what changes in the cluster is none of this node's own.
                state.only_if_changed = failed.is_ok();
            }
            () = retry => {}
        }
        pause = if failed.is_ok() { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(BETWEEN_LOOKS).await;
        while let Ok(changes) = routing.get_ref().read() {
            state.only_if_changed &= changes.is_empty();
        }
        while nftables.get_ref().read().is_ok() {
            (state.table_changed, state.only_if_changed) = (true, false);
        }
        while vswitch.try_next().is_some() {
            state.only_if_changed = false;
        }
    }
}

/// What is known of earlier rounds.
#[derive(Default)]
struct State {
    /// What was asked for, and was made.
    made: Option<NodeNetwork>,
    /// The networks of pods, with those that were kept.
    pods: Vec<IpNet>,
    /// Networks that were left out because the node is in them by other links.
    left_out: Vec<IpNet>,
    /// The table as nft listed it once it had been written, and what was written.
    table: Option<(Masquerade, Value)>,
    /// Somebody has changed nftables since that was listed.
    table_changed: bool,
    /// Nothing but the cluster has changed: there is something to do only if that asks for something else.
    only_if_changed: bool,
}

/// Makes the node as it should be, as far as that is known.
async fn keep(agent: &Agent, state: &mut State) -> Result<Progress, String> {
    let only_if_changed = std::mem::take(&mut state.only_if_changed);
    let config = &agent.config;
    let wanted = agent.cluster.read(|known| {
        let mtu = config.mtu_of_subnets(known)?;
        node_network(&known.world, &config.node, &config.cluster_networks, mtu)
    });
    let Some(wanted) = wanted else {
        remove_if_deleted(agent, state).await?;
        return Ok(Progress::Waits(NO_ADDRESSES));
    };
    if only_if_changed && state.made.as_ref() == Some(&wanted) {
        return Ok(Progress::Done);
    }
    if state.made.as_ref().map(|made| &made.refused) != Some(&wanted.refused) && !wanted.refused.is_empty() {
        tracing::warn!(networks = ?wanted.refused, "a network of --cluster-network or of a Subnet contains an address of this node, and is not routed to pods");
    }
    let changed = agent.vswitch.assert_node_port(&config.node, &wanted).await?;
    if changed {
        tracing::info!(iface_id = wanted.iface_id, "made the node's port in Open vSwitch");
    }
    let (mut host, mut before) = (wanted.clone(), state.pods.clone());
    let (table, table_changed) = (state.table.take(), std::mem::take(&mut state.table_changed));
    let done = blocking(move || {
        before.extend(routed_networks()?);
        host.keep(&before);
        let left_out = leave_out_own_networks(&mut host)?;
        let (outcome, table) = make(&host, table, table_changed);
        Ok::<_, anyhow::Error>((outcome, table, left_out, host.pods))
    });
    let (outcome, table, left_out, pods) = done.await.map_err(|error| error.to_string())?;
    (state.table, state.pods) = (table, pods);
    if state.left_out != left_out && !left_out.is_empty() {
        tracing::warn!(networks = ?left_out, "a network of --cluster-network or of a Subnet is in one that this node is directly in, and is not routed to pods");
    }
    state.left_out = left_out;
    if !outcome? {
        return Ok(Progress::Waits(NO_LINK));
    }
    state.made = Some(wanted);
    Ok(Progress::Done)
}

/// The networks that the node reaches by its port, as the kernel knows: what an earlier agent made is remembered there.
fn routed_networks() -> portolan_host::Result<Vec<IpNet>> {
    let mut host = Rtnetlink::open()?;
    let Some(link) = host.link(NODE_LINK)? else { return Ok(Vec::new()) };
    let routes = host.routes(&link)?.into_iter().filter(|route| route.gateway.is_some());
    Ok(routes.map(|route| route.destination).collect())
}

/// Removes networks of pods that are in one which the node is directly in by another link: its neighbours there could not be reached any
/// more, whether or not they are nodes. Answers which.
fn leave_out_own_networks(wanted: &mut NodeNetwork) -> portolan_host::Result<Vec<IpNet>> {
    let mut host = Rtnetlink::open()?;
    let by = host.link(NODE_LINK)?.unwrap_or_default();
    let own = host.connected_networks(&by)?;
    let is_in_one = |net: &mut IpNet| own.iter().any(|own| own.contains(&*net));
    Ok(wanted.pods.extract_if(.., is_in_one).collect())
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
            *state = State::default();
            try_remove(agent, "its Node was deleted").await
        }
        Err(error) => Err(format!("cannot read Node {node}: {}", portolan_watch::Plain(&error))),
    }
}

type Table = Option<(Masquerade, Value)>;

/// Makes links, addresses, routes and translation as they should be. False if Open vSwitch has not made the link yet.
fn make(wanted: &NodeNetwork, table: Table, table_changed: bool) -> (Result<bool, String>, Table) {
    // What leaves the cluster is translated from the first packet on.
    let (outcome, table) = match make_table(wanted, table, table_changed) {
        Ok(table) => (Ok(()), table),
        Err(error) => (Err(with_causes(&error)), None),
    };
    let made = make_link(wanted).map_err(|error| with_causes(&error));
    (outcome.and(made), table)
}

fn make_table(wanted: &NodeNetwork, table: Table, changed: bool) -> portolan_host::Result<Table> {
    let (link, pods, own) = (NODE_LINK.to_owned(), wanted.pods.clone(), wanted.masquerade.clone());
    let masquerade = Masquerade { link, pods, own };
    match table {
        Some((written, listed)) if written == masquerade => {
            if !changed || masquerade::listed()?.as_ref() == Some(&listed) {
                return Ok(Some((written, listed)));
            }
            tracing::warn!("somebody changed the table inet portolan of nftables; it is written again");
        }
        _ => {}
    }
    masquerade.apply()?;
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
        sysctl::forward_ipv6(&mut host)?;
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
        // The port goes last: it says that there is something to remove.
        blocking(masquerade::remove).await.map_err(|error| error.to_string())?;
        agent.vswitch.remove_node_port().await?;
        tracing::info!("removed the node's port: {why}");
    }
    Ok(())
}
