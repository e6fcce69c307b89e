//! Keeps what the node translates for Services as it should be: a table of nftables of its own, which says where what comes in goes on to. The
//! rest is OVN's.
//!
//! The table may have tens of thousands of elements. A Service that changes costs its own; all of them are listed only if the kernel reports
//! more changes of the table than this process made.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use ipnet::IpNet;
use portolan_host::service_map::{self, Address, Element, Listed};
use portolan_host::{Masquerade, ServiceMap, TableChange, TableMonitor};
use portolan_model::service::{Frontend, Protocol};
use portolan_plan::host::{Clients, NodeServices, ServiceChange, ServiceElement, node_local_networks};
use portolan_plan::service_addresses::cluster_wide;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, watch};

use crate::Config;
use crate::blocking::{blocking, until_done};
use crate::links::with_causes;
use crate::monitor::{next, watched};
use crate::server::Agent;

/// How soon after one look the next may be: what comes meanwhile is written together.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// How often the monitor is read for one look.
const READS: usize = 64;
/// Pauses before something that failed is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Services that have changed, by namespace and name, until somebody takes them.
#[derive(Debug, Default)]
pub(crate) struct ChangedServices {
    names: Mutex<BTreeSet<(String, String)>>,
    wake: Notify,
}

impl ChangedServices {
    pub(crate) fn add(&self, names: Vec<(String, String)>) {
        if !names.is_empty() {
            self.names.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
            self.wake.notify_one();
        }
    }

    fn take(&self) -> BTreeSet<(String, String)> {
        std::mem::take(&mut self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How it is, for health checks and the Node's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is as it should be; or something else serves Services.
    Done,
    /// Something has to come first.
    Waits,
    /// It cannot be made, and is tried again.
    Fails(String),
}

/// Where the agent keeps it.
pub(crate) type States = watch::Sender<Progress>;

impl Progress {
    /// What is known before anything was looked at.
    pub(crate) fn at_start(config: &Config) -> Self {
        if config.serves_services() { Progress::Waits } else { Progress::Done }
    }

    /// What keeps the node from serving Services, if something does.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Progress::Done | Progress::Waits => None,
            Progress::Fails(why) => Some(format!("the node does not serve Services as it should: {why}")),
        }
    }

    /// Whether the node serves Services.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Progress::Done => Ok(()),
            Progress::Waits => Err("it comes after the node's own part in the primary network".to_owned()),
            Progress::Fails(why) => Err(why.clone()),
        }
    }
}

/// Runs until it fails.
pub(crate) async fn run(agent: &Agent) -> anyhow::Result<Infallible> {
    if !agent.config.serves_services() {
        // What is left where this is not the primary network goes with the rest of it.
        if agent.config.settings.first_interface.is_portolan() {
            remove_what_is_left().await;
        }
        return std::future::pending().await;
    }
    // Before anything is looked at: what changes after that is reported.
    let mut monitor = watch_table();
    // Until all is listed, what is not known may be there all the same.
    agent.cluster.status().in_step().await;
    let mut network = agent.translation.subscribe();
    let mut table = Table::default();
    let mut pause = FIRST_PAUSE;
    loop {
        if monitor.is_err() {
            monitor = watch_table();
            table.is_doubtful = true;
        }
        let wanted = network.borrow_and_update().as_ref().map(|network| Wanted::new(&agent.config, network));
        let kept = table.keep(agent, wanted, monitor.as_ref().ok()).await;
        let outcome = kept.and_then(|progress| monitor.as_ref().map(|_| progress).map_err(Clone::clone));
        if let Err(error) = &outcome {
            tracing::warn!(error, "what the node translates for Services is not as it should be");
        }
        let failed = outcome.is_err();
        let progress = outcome.unwrap_or_else(Progress::Fails);
        agent.services.send_if_modified(|is| {
            let differs = *is != progress;
            *is = progress;
            differs
        });
        let is_doubtful = table.is_doubtful;
        let retry = async {
            if failed {
                tokio::time::sleep(pause).await;
            } else if !is_doubtful {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            changes = next(monitor.as_ref().ok(), TableMonitor::read) => {
                changes.context("watch nftables")?;
                table.is_doubtful = true;
            }
            changed = network.changed() => changed.expect("invariant: the agent keeps the sender alive"),
            () = agent.cluster.changed_services().wake.notified() => {}
            () = retry => {}
        }
        pause = if failed { (pause * 2).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Watches the table. A kernel without nftables is a reason, and no end.
fn watch_table() -> Result<AsyncFd<TableMonitor>, String> {
    let opened = TableMonitor::open(service_map::TABLE).map_err(|error| with_causes(&error));
    let watched = opened.and_then(|monitor| watched(monitor).map_err(|error| error.to_string()));
    watched
        .map_err(|error| format!("cannot watch nftables, which translate what comes for Services: {error}"))
}

/// That the flag is missing says that something else serves Services now: what is left would take what comes for them away from it.
async fn remove_what_is_left() {
    let is_removed = until_done("remove the table inet portolan-services of nftables", LONGEST_PAUSE, || {
        let is_there = service_map::listed()?.is_some();
        if is_there {
            service_map::remove()?;
        }
        Ok(is_there)
    });
    if is_removed.await {
        tracing::info!(
            "removed the table inet portolan-services of nftables: Portolan serves no Services here any more"
        );
    }
}

/// What the table should have beside the elements of Services.
struct Wanted {
    map: ServiceMap,
    /// Pods' networks and other nodes.
    around: BTreeSet<Element>,
}

impl Wanted {
    fn new(config: &Config, network: &Masquerade) -> Self {
        let map = ServiceMap {
            link: network.link.clone(),
            // What leads to any endpoint, and is answered by way of the node.
            services: config
                .service_networks
                .iter()
                .copied()
                .chain(cluster_wide().map(IpNet::from))
                .collect(),
            node_local: node_local_networks().collect(),
            own: network.own.clone(),
        };
        let pods = IpNet::aggregate(&network.pods).into_iter().map(Element::Pods);
        let nodes = network.nodes.iter().map(|node| Element::Node(node.addr()));
        Self { map, around: pods.chain(nodes).collect() }
    }
}

/// What is known of the table.
#[derive(Default)]
struct Table {
    services: NodeServices,
    /// As it was written last; none if that is not known.
    written: Option<Written>,
    /// Somebody else may have changed it.
    is_doubtful: bool,
}

struct Written {
    wanted: Wanted,
    listed: Listed,
}

/// What was written.
enum Wrote {
    /// Elements, in so many transactions: one, or none if there was nothing to write.
    Elements(usize),
    /// All of it, in one.
    Table,
}

impl Written {
    fn is_whole(&self) -> bool {
        self.listed.is_whole(&self.wanted.map)
    }
}

impl Table {
    /// Makes it as it should be.
    async fn keep(
        &mut self,
        agent: &Agent,
        wanted: Option<Wanted>,
        monitor: Option<&AsyncFd<TableMonitor>>,
    ) -> Result<Progress, String> {
        self.is_doubtful |= changes_reported(monitor) != Some(0);
        if self.is_doubtful {
            if !self.is_as_written().await? && self.written.take().is_some() {
                tracing::warn!(
                    "somebody changed the table inet portolan-services of nftables; it is written again"
                );
            }
            self.is_doubtful = false;
        }
        let changed = agent.cluster.changed_services().take();
        let change = agent.cluster.read(|known| self.services.update(&known.world, changed));
        let Some(wanted) = wanted else {
            if self.written.take().is_some() {
                on_host(service_map::remove).await?;
            }
            return Ok(Progress::Waits);
        };
        let wrote = self.write(wanted, change).await?;
        let reported = changes_reported(monitor);
        let has_listed_its_own = match (&wrote, reported) {
            (Wrote::Elements(_), _) | (Wrote::Table, Some(1)) => true,
            // Somebody may have changed it before it was listed.
            (Wrote::Table, Some(_)) => false,
            (Wrote::Table, None) => self.written.as_ref().is_some_and(Written::is_whole),
        };
        if !has_listed_its_own {
            self.written = None;
        }
        let count = match wrote {
            Wrote::Elements(count) => count,
            Wrote::Table => 1,
        };
        self.is_doubtful = reported != Some(count);
        Ok(Progress::Done)
    }

    /// Writes what is wanted.
    async fn write(&mut self, wanted: Wanted, change: ServiceChange) -> Result<Wrote, String> {
        if let Some(written) = self.written.take_if(|written| written.wanted.map == wanted.map) {
            let before = &written.wanted.around;
            let remove =
                before.difference(&wanted.around).copied().chain(change.remove.into_iter().map(element));
            let add = wanted.around.difference(before).copied().chain(change.add.into_iter().map(element));
            let (remove, add): (Vec<Element>, Vec<Element>) = (remove.collect(), add.collect());
            let is_change = !remove.is_empty() || !add.is_empty();
            match on_host(move || service_map::change(&remove, &add)).await {
                Ok(()) => {
                    self.written = Some(Written { wanted, ..written });
                    return Ok(Wrote::Elements(usize::from(is_change)));
                }
                // It is not what it was taken for.
                Err(error) => tracing::warn!(error, "the table inet portolan-services is written again"),
            }
        }
        self.written = None;
        let (map, elements) = (wanted.map.clone(), self.elements(&wanted));
        let listed = on_host(move || {
            map.replace(&elements)?;
            service_map::listed()
        });
        self.written = Some(Written { wanted, listed: listed.await?.unwrap_or_default() });
        Ok(Wrote::Table)
    }

    /// Whether the table is what was written last.
    async fn is_as_written(&self) -> Result<bool, String> {
        let Some(written) = &self.written else { return Ok(false) };
        let elements = self.elements(&written.wanted);
        let listed =
            on_host(move || Ok(service_map::listed()?.map(|listed| (listed.has(&elements), listed))));
        Ok(listed
            .await?
            .is_some_and(|(has_elements, listed)| has_elements && listed.has_rules_of(&written.listed)))
    }

    fn elements(&self, wanted: &Wanted) -> Vec<Element> {
        self.services.elements().map(element).chain(wanted.around.iter().copied()).collect()
    }
}

async fn on_host<T: Send + 'static>(
    body: impl FnOnce() -> portolan_host::Result<T> + Send + 'static,
) -> Result<T, String> {
    blocking(body).await.map_err(|error| format!("{error:#}"))
}

/// How many transactions changed the table since that was asked last; none if that is not known.
fn changes_reported(monitor: Option<&AsyncFd<TableMonitor>>) -> Option<usize> {
    let monitor = monitor?.get_ref();
    let mut transactions = 0;
    for _ in 0..READS {
        match monitor.read() {
            Ok(changes) if changes.contains(&TableChange::Lost) => return None,
            Ok(changes) => transactions += changes.len(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Some(transactions),
            Err(_) => return None,
        }
    }
    None
}

fn element(element: ServiceElement) -> Element {
    match element {
        ServiceElement::NodePort { from, protocol, port, to } => {
            Element::NodePort { from: clients(from), protocol: self::protocol(protocol), port, to }
        }
        ServiceElement::Address { from, address: of, to } => {
            Element::Address { from: clients(from), address: address(of), to }
        }
        ServiceElement::Guarded(of) => Element::Guarded(address(of)),
        ServiceElement::Admitted(of, network) => Element::Admitted(address(of), network),
    }
}

fn address(of: Frontend) -> Address {
    Address { ip: of.address, protocol: protocol(of.protocol), port: of.port }
}

fn clients(from: Clients) -> service_map::Clients {
    match from {
        Clients::All => service_map::Clients::All,
        Clients::Outside => service_map::Clients::Outside,
    }
}

fn protocol(protocol: Protocol) -> service_map::Protocol {
    match protocol {
        Protocol::Tcp => service_map::Protocol::Tcp,
        Protocol::Udp => service_map::Protocol::Udp,
        Protocol::Sctp => service_map::Protocol::Sctp,
    }
}
