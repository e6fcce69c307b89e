//! Makes the node a chassis of OVN and keeps it one: settings of Open vSwitch, OVN's bridge, the link of its tunnels. What it finds
//! is reported on the Node.
//!
//! Everything is compared at start, and whenever Open vSwitch, a link or an address of the node, or the Node changes.

mod desired;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use portolan_host::{Ethtool, Link, LinkAddress, LinkChange, LinkMonitor, Rtnetlink, genl};
use portolan_plan::host::{Datapath, LinkName};
use portolan_watch::{Change, Listed, Retries};
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use self::desired::{Chassis, NodeFacts, datapath_name, datapath_of};
pub use self::desired::{ChassisSettings, Encap};
use self::desired::{Found, Problem, SYSTEM_ID, TUNNEL_INTERFACE, chassis};
pub(crate) use self::report::{Report, run as report};
use crate::blocking::{blocking, until_done};
use crate::links::with_causes;
use crate::monitor::{next, watched};
use crate::server::Agent;

/// Annotations of Nodes with this prefix are Portolan's.
const PREFIX: &str = "portolan.dev/";

/// How many links are named in a problem.
const SHOWN: usize = 5;

/// Pauses after a write: somebody else who writes the same settings is not fought with.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

impl NodeFacts {
    /// Takes over what was reported of the agent's Node.
    pub(crate) fn update(&mut self, change: &Change<Node>) {
        match change {
            Change::Applied(node) => *self = Self::of(node),
            // It exists; what was known of it stays.
            Change::Unreadable(_) => {}
            Change::Deleted(_) => *self = Self::default(),
            Change::Listed(Listed { objects, .. }) => {
                *self = objects.first().map(Self::of).unwrap_or_default();
            }
        }
    }

    fn of(node: &Node) -> Self {
        let ours = |key: &str| key.starts_with(PREFIX) || key == TUNNEL_INTERFACE;
        let annotations = node.annotations().iter().filter(|(key, _)| ours(key));
        let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        let internal = addresses.filter(|address| address.type_ == "InternalIP");
        Self {
            exists: true,
            annotations: annotations.map(|(key, value)| (key.clone(), value.clone())).collect(),
            internal_addresses: internal.filter_map(|one| one.address.parse().ok()).collect(),
        }
    }
}

/// How the node is as a chassis, as far as that is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// What is to be on the Node; none before the first comparison.
    pub(crate) report: Option<Report>,
    /// What keeps the node from being as it should, if something does.
    pub(crate) problem: Option<String>,
}

/// Where the agent keeps it.
pub(crate) type States = watch::Sender<State>;

/// Runs until it fails.
pub(crate) async fn run(agent: &Agent) -> anyhow::Result<Infallible> {
    // Before the lists: what changes after them is reported.
    let monitor = watched(LinkMonitor::open_with_addresses()?).context("watch addresses")?;
    // A bridge keeps the datapath that it is made with: an error must not choose it.
    let what = "find out whether the kernel has Open vSwitch's datapath";
    let kernel = until_done(what, FIRST_PAUSE, genl::has_openvswitch).await;
    let mut host = list().await;
    let mut changes = agent.vswitch.changes();
    let mut connected = agent.vswitch.connected();
    let mut cluster = agent.cluster.revisions_of_node();
    let mut southbound = agent.config.southbound.clone();
    let mut later = Retries::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut offload_off = None;
    loop {
        if agent.vswitch.behind().is_none() {
            compare(agent, &host, kernel, &mut later, &mut offload_off).await;
        }
        tokio::select! {
            changes = next(Some(&monitor), LinkMonitor::read) => {
                let mut changes = changes.context("watch addresses")?;
                while let Ok(more) = monitor.get_ref().read() {
                    changes.extend(more);
                }
                if host.take(&changes) {
                    host = list().await;
                }
                offload_off.take_if(|link| may_concern(&changes, link));
            }
            batch = changes.next() => anyhow::ensure!(batch.is_some(), "the client of Open vSwitch has ended"),
            () = connected.next() => {
                later.hasten(Instant::now());
                offload_off = None;
            }
            changed = cluster.changed() => changed.expect("invariant: the agent keeps the sender alive"),
            () = told(southbound.as_mut()) => {}
            () = later.wait() => drop(later.take_due(Instant::now())),
        }
        while changes.try_next().is_some() {}
    }
}

/// Waits until it is said anew where the southbound database is.
async fn told(southbound: Option<&mut watch::Receiver<Option<String>>>) {
    let Some(southbound) = southbound else { return std::future::pending().await };
    if southbound.changed().await.is_err() {
        // Nobody will say anything more; what was said stays.
        std::future::pending::<()>().await;
    }
}

/// Whether changes may be such of a link of this name.
fn may_concern(changes: &[LinkChange], name: &str) -> bool {
    changes.iter().any(|change| match change {
        LinkChange::Present(link) | LinkChange::Removed(link) => link.name == name,
        LinkChange::Addresses => false,
        LinkChange::Lost => true,
    })
}

/// The node's network.
#[derive(Debug, Default)]
struct Host {
    /// The links that agents did not make.
    links: Vec<Link>,
    addresses: Vec<LinkAddress>,
    /// The MTUs of pods' links.
    pods: BTreeMap<String, u32>,
}

impl Host {
    /// Takes changes of pods' links over: they come and go. True if there are others.
    fn take(&mut self, changes: &[LinkChange]) -> bool {
        let mut others = false;
        for change in changes {
            let link = match change {
                LinkChange::Present(link) | LinkChange::Removed(link) => link,
                LinkChange::Addresses | LinkChange::Lost => {
                    others = true;
                    continue;
                }
            };
            match (LinkName::parse(&link.name), change) {
                // Ports of the node itself are no way to other nodes either.
                (Some(name), _) if name.is_of_holder() => {}
                (Some(_), LinkChange::Present(link)) => drop(self.pods.insert(link.name.clone(), link.mtu)),
                (Some(_), _) => drop(self.pods.remove(&link.name)),
                (None, _) => others = true,
            }
        }
        others
    }
}

async fn list() -> Host {
    let list = || {
        let mut host = Rtnetlink::open()?;
        let (links, addresses) = (host.links()?, host.all_addresses()?);
        let (pods, links): (Vec<_>, Vec<_>) =
            links.into_iter().partition(|link| LinkName::parse(&link.name).is_some());
        let of_pod = |link: &Link| LinkName::parse(&link.name).is_some_and(|name| !name.is_of_holder());
        let pods = pods.into_iter().filter(of_pod).map(|link| (link.name, link.mtu)).collect();
        Ok(Host { links, addresses, pods })
    };
    until_done("list links and addresses", FIRST_PAUSE, list).await
}

/// `offload_off` is the link whose offload was turned off since it changed, which the kernel reports of offloads too.
async fn compare(
    agent: &Agent,
    host: &Host,
    kernel: bool,
    later: &mut Retries<()>,
    offload_off: &mut Option<String>,
) {
    let config = &agent.config;
    let (external_ids, bridge, version) = agent.vswitch.chassis_found();
    let (links, addresses) = (host.links.clone(), host.addresses.clone());
    let found = Found { external_ids, bridge, links, addresses, kernel };
    let (node, mtu, own_mtus) = agent.cluster.read(|known| {
        let mtu = config.mtu_of_subnets(known);
        let is_larger = |is: &u32| mtu.is_some_and(|mtu| *is > u32::from(mtu));
        // Subnets may be many, and pods with more than the others have few.
        let any_larger = host.pods.values().any(is_larger);
        let subnets = any_larger.then(|| known.world.subnets()).into_iter().flatten();
        (known.node.clone(), mtu, subnets.filter_map(|subnet| subnet.config.mtu).collect())
    });
    let told = config.southbound.as_ref().and_then(|told| told.borrow().clone());
    let southbound = told.or_else(|| config.chassis.southbound.clone());
    let settings = ChassisSettings { southbound, ..config.chassis.clone() };
    let chassis = chassis(&settings, &config.node, &config.bridge, &node, &found);
    let mut problem = problem(&chassis, mtu).or_else(|| old_mtu(&host.pods, mtu?, &own_mtus));
    if later.next_due().is_none() {
        match agent.vswitch.assert_chassis(&chassis).await {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(external_ids = ?chassis.external_ids, "set up Open vSwitch as a chassis of OVN");
                later.failed((), Instant::now());
            }
            Err(error) => {
                tracing::warn!(error, "cannot set up Open vSwitch as a chassis of OVN; trying again");
                problem =
                    problem.or(Some(format!("Open vSwitch refuses the settings of a chassis: {error}")));
                later.failed((), Instant::now());
            }
        }
    }
    if let (Datapath::Netdev, Ok(encapsulation)) = (chassis.datapath, &chassis.encapsulation)
        && offload_off.as_ref() != Some(&encapsulation.link)
    {
        let link = encapsulation.link.clone();
        match blocking(move || Ethtool::open()?.checksum_offload_off(&link)).await {
            Ok(()) => {
                agent.metrics.offload_changed("done");
                *offload_off = Some(encapsulation.link.clone());
            }
            Err(error) => {
                let error = with_causes(error.as_ref());
                tracing::warn!(
                    link = encapsulation.link,
                    error,
                    "cannot turn checksum offload off; trying again"
                );
                agent.metrics.offload_changed("failed");
                later.failed((), Instant::now());
            }
        }
    }
    let report = Report {
        chassis: chassis.external_ids[SYSTEM_ID].clone(),
        datapath: datapath_name(chassis.datapath),
        is_primary: config.settings.first_interface.is_portolan(),
        encapsulation: chassis.encapsulation.clone().ok(),
        version,
        problem: problem.clone(),
    };
    let state = State { report: Some(report), problem };
    agent.chassis.send_if_modified(|is| {
        let changed = is.report != state.report || is.problem != state.problem;
        if changed && state.problem != is.problem {
            match &state.problem {
                Some(problem) => tracing::warn!(problem, "the node is not as it should be"),
                None => tracing::info!("the node is as it should be"),
            }
        }
        *is = state;
        changed
    });
}

/// What is wrong with a node, if something is.
fn problem(chassis: &Chassis, mtu: Option<u16>) -> Option<String> {
    let encapsulation = match &chassis.encapsulation {
        Ok(encapsulation) => encapsulation,
        // There is nobody to tell.
        Err(Problem::NoNode) => return None,
        Err(problem) => return Some(problem.to_string()),
    };
    let (leaves, mtu) = (encapsulation.tunnel_mtu(), mtu?);
    let link = encapsulation.link.clone();
    let too_large = Problem::Mtu { pods: mtu, link, link_mtu: encapsulation.link_mtu, leaves };
    (u32::from(mtu) > leaves).then(|| too_large.to_string())
}

/// What is wrong with pods that run since the MTU was larger. It is never changed under them: connections would stall, and what
/// runs in a pod may have told others. Those whose Subnet names their MTU are its owner's business.
fn old_mtu(pods: &BTreeMap<String, u32>, mtu: u16, own: &BTreeSet<u16>) -> Option<String> {
    let is_old = |is: u32| is > u32::from(mtu) && !own.iter().any(|own| u32::from(*own) == is);
    let old: Vec<_> = pods.iter().filter(|(_, is)| is_old(**is)).collect();
    let largest = old.iter().map(|(_, is)| **is).max()?;
    let mut links = old.iter().take(SHOWN).map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    if old.len() > SHOWN {
        links += &format!(" and {} more", old.len() - SHOWN);
    }
    Some(Problem::OldMtu { largest, pods: mtu, links }.to_string())
}
