//! The node's Open vSwitch: ports of OVN's bridge, by its database. `chassis` has the bridge itself.

mod chassis;
mod node_port;
mod tags;
pub(crate) use self::node_port::{NODE, NodePort, Seen};

use std::collections::BTreeSet;

use ovn_schema::vswitch::{Bridge, Interface, OpenVSwitch, Port};
use ovsdb::change::Batch;
use ovsdb::{
    Atom, Cache, Changes, Client, Endpoint, ErrorKind, Index, Monitor, Outcome, Rows, Status, TransactError,
    Transaction, Uuid,
};
use portolan_plan::host::{
    Change, Configuration, Datapath, DesiredPort, Internal, LinkName, Note, ObservedPort, Tag,
};
use tokio::sync::watch;

use self::tags::{OWNER, POD, tag, tags_of};
use crate::chassis::datapath_of;
use crate::engine::{Engine, Failure};
use crate::metrics::Metrics;
use crate::steps::{ChangeHook, Moment};

/// `external_ids` that OVN reads and writes.
const IFACE_ID: &str = "iface-id";
const IFACE_ID_VER: &str = "iface-id-ver";
const INSTALLED: &str = "ovn-installed";
/// The type of interfaces whose link Open vSwitch makes.
const INTERNAL: &str = "internal";

const BY_NAME: &str = "name";
const BY_IFACE_ID: &str = "external_ids:iface-id";

/// The node's Open vSwitch.
#[derive(Clone)]
pub(crate) struct Vswitch {
    client: Client,
    bridge: String,
}

/// Open vSwitch cannot use a link.
#[derive(Debug, thiserror::Error)]
#[error("Open vSwitch cannot use link {link}: {error}")]
pub(crate) struct UnusableLink {
    link: String,
    error: String,
}

/// How far a port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Why it is not in the database.
    Missing(String),
    /// Open vSwitch cannot use its link.
    Unusable(String),
    /// What is still to come, and from whom.
    Waiting(String),
    /// OVN has installed its flows.
    Installed,
}

/// Tells when the copy of the database is in step again.
pub(crate) struct Connected(watch::Receiver<Status>);

impl Vswitch {
    pub(crate) fn connect(endpoint: Endpoint, bridge: &str) -> Self {
        let client = Client::builder("Open_vSwitch", [endpoint])
            .monitor(Monitor::of::<OpenVSwitch>().columns([
                "cur_cfg",
                "external_ids",
                "next_cfg",
                "ovs_version",
            ]))
            .monitor(Monitor::of::<Bridge>().columns([
                "datapath_type",
                "fail_mode",
                "name",
                "other_config",
                "ports",
            ]))
            .monitor(
                Monitor::of::<Port>()
                    .columns(["external_ids", "interfaces", "name"])
                    .index(Index::column("name")),
            )
            .monitor(
                Monitor::of::<Interface>()
                    .columns([
                        "error",
                        "external_ids",
                        "mac",
                        "mtu_request",
                        "name",
                        "ofport",
                        "options",
                        "type",
                    ])
                    .index(Index::map_key("external_ids", IFACE_ID)),
            )
            .connect();
        Self { client, bridge: bridge.to_owned() }
    }

    /// Waits until the copy of the database is in step.
    pub(crate) async fn ready(&self) {
        self.client.ready().await;
    }

    /// Tells when the copy of the database is in step again.
    pub(crate) fn connected(&self) -> Connected {
        Connected(self.client.status())
    }

    /// Why the copy of the database is not in step, if it is not.
    pub(crate) fn behind(&self) -> Option<String> {
        match &*self.client.status().borrow() {
            Status::Ready { .. } => None,
            Status::Connecting { error: Some(error), .. } => {
                Some(format!("the agent cannot reach the database of Open vSwitch: {error}"))
            }
            Status::Connecting { error: None, .. } => {
                Some("the agent is connecting to the database of Open vSwitch".into())
            }
            Status::Closed => Some("the agent's connection to the database of Open vSwitch has ended".into()),
        }
    }

    /// Waits until there is the bridge, and answers its datapath.
    pub(crate) async fn bridge_datapath(&self) -> Datapath {
        self.client.wait_for(|cache| self.datapath(cache)).await
    }

    /// Waits until OVN has installed the flows of an interface. Whether its port exists is the engine's business.
    pub(crate) async fn installed(&self, note: &Note) -> Result<(), UnusableLink> {
        let uuid = note.interface_row();
        let find = |cache: &Cache| match cache.get::<Interface>(uuid).ok()?? {
            Interface { error: Some(error), name, .. } => Some(Err(UnusableLink { link: name, error })),
            row => is_installed(&row).then_some(Ok(())),
        };
        self.client.wait_for(find).await
    }

    /// Waits until the port of an interface exists.
    pub(crate) async fn plugged(&self, note: &Note) {
        let uuid = note.interface_row();
        self.client.wait_for(|cache| cache.get::<Interface>(uuid).ok()?.map(drop)).await;
    }

    /// Why OVN has not installed the flows of an interface, as far as can be seen; none if it has.
    pub(crate) fn obstacle(&self, note: &Note, iface_id: &str) -> Option<String> {
        match self.progress(&note.link(), note.interface_row(), iface_id) {
            Progress::Missing(why) | Progress::Unusable(why) | Progress::Waiting(why) => Some(why),
            Progress::Installed => None,
        }
    }

    /// How far the port of a link is.
    pub(crate) fn progress(&self, link: &LinkName, interface: Uuid, iface_id: &str) -> Progress {
        if let Some(behind) = self.behind() {
            return Progress::Missing(behind);
        }
        let cache = self.client.read();
        if self.datapath(&cache).is_none() {
            let bridge = &self.bridge;
            return Progress::Missing(format!(
                "Open vSwitch has no bridge {bridge}, which the agent makes: the agent's log says why it could not"
            ));
        }
        match cache.get::<Interface>(interface) {
            Ok(Some(Interface { error: Some(error), name, .. })) => {
                Progress::Unusable(UnusableLink { link: name, error }.to_string())
            }
            Ok(Some(row)) if is_installed(&row) => Progress::Installed,
            Ok(Some(Interface { ofport: None, .. })) => Progress::Waiting(format!(
                "ovs-vswitchd has not taken up port {link}: is ovs-vswitchd running on this node?"
            )),
            Ok(Some(_)) => Progress::Waiting(format!(
                "OVN has not installed port {iface_id} ({link}): is ovn-controller running and connected to the southbound \
                 database, and does the northbound database have the port?"
            )),
            Ok(None) | Err(_) => {
                let Configuration { next, current } = configuration(&cache);
                let behind = match current < next {
                    true => {
                        ", and ovs-vswitchd has not taken up what is there: is ovs-vswitchd running on this node?"
                    }
                    false => "",
                };
                Progress::Missing(format!("port {link} is not in the database of Open vSwitch yet{behind}"))
            }
        }
    }

    /// Whether there is an interface with this row; none while the copy of the database is not in step.
    pub(crate) fn has_port(&self, interface: Uuid) -> Option<bool> {
        let cache = self.behind().is_none().then(|| self.client.read())?;
        Some(matches!(cache.get::<Interface>(interface), Ok(Some(_))))
    }

    /// Whether OVN has installed the flows of an interface.
    pub(crate) fn is_installed(&self, tag: &Tag) -> bool {
        matches!(self.client.read().get::<Interface>(tag.interface_row()), Ok(Some(row)) if is_installed(&row))
    }

    // For the reconcile loop.

    /// The changes of the database, from empty on.
    pub(crate) fn changes(&self) -> Changes {
        self.client.changes()
    }

    /// Reports changes of the database to the engine.
    pub(crate) fn report(&self, batch: &Batch, engine: &Engine) {
        let name = |row: &ovsdb::Row| match row.datum("name")?.keys().next()? {
            Atom::String(name) => LinkName::parse(name),
            _ => None,
        };
        let rows = batch.changes.iter().flat_map(|change| [&change.old, &change.new]).flatten();
        let names: BTreeSet<LinkName> = rows.filter_map(|row| name(row)).collect();
        let cache = self.client.read();
        let ports: Vec<_> = names.into_iter().map(|name| (observe(&cache, &name), name)).collect();
        let (datapath, configuration) = (self.datapath(&cache), configuration(&cache));
        drop(cache);
        engine.bridge_changed(datapath);
        engine.configuration_changed(configuration);
        for (port, name) in ports {
            engine.port_changed(&name, port);
        }
        engine.ports_observed(batch.revision);
    }

    /// The revision of the copy of the database.
    pub(crate) fn revision(&self) -> u64 {
        self.client.read().revision()
    }

    /// Applies changes and reports on each.
    pub(crate) async fn apply(
        &self,
        changes: Vec<Change>,
        engine: &Engine,
        metrics: &Metrics,
        hook: &ChangeHook,
    ) {
        if changes.is_empty() {
            return;
        }
        changes.iter().for_each(|change| hook.at(change, Moment::Began));
        let outcome = self.transact(&changes).await;
        let refused = |error: &TransactError| {
            failure_of(error) == Failure::Refused && !matches!(error, TransactError::NotConnected(_))
        };
        if outcome.as_ref().is_err_and(refused) && changes.len() > 1 {
            // One that cannot be made must not keep the others from it.
            for change in changes {
                let outcome = self.transact(std::slice::from_ref(&change)).await;
                report_outcome(&[change], &outcome, engine, metrics);
            }
            return;
        }
        if outcome.is_ok() {
            changes.iter().for_each(|change| hook.at(change, Moment::Ended));
        }
        report_outcome(&changes, &outcome, engine, metrics);
    }

    async fn transact(&self, changes: &[Change]) -> Result<(), TransactError> {
        let transaction = self.transaction(changes);
        match transaction.is_empty() {
            true => Ok(()),
            false => self.client.transact(&transaction).await.map(drop),
        }
    }

    fn transaction(&self, changes: &[Change]) -> Transaction {
        let cache = self.client.read();
        let mut transaction = Transaction::new();
        let bridge = find_bridge(&cache, &self.bridge).map(|(uuid, _)| uuid);
        for change in changes {
            match change {
                Change::Plug(_, port) => {
                    // Without a bridge the engine does not ask for it.
                    if let Some(bridge) = bridge {
                        plug(&mut transaction, &cache, bridge, port);
                    }
                }
                Change::Correct(name, port) => correct(&mut transaction, &cache, name, port),
                Change::Unplug(name) => unplug(&mut transaction, &cache, name),
                // Once for all of them.
                Change::RaiseNextCfg(_)
                | Change::MakeTap(..)
                | Change::RemoveLink(_)
                | Change::Release(..)
                | Change::Guard(..)
                | Change::Prepare(..)
                | Change::SetUp(_)
                | Change::SetDown(_)
                | Change::RemoveGuard(_) => {}
            }
        }
        // With every removal too: as ovs-vswitchd follows, earlier ones need not be remembered.
        let raises = |change: &Change| matches!(change, Change::RaiseNextCfg(_) | Change::Unplug(_));
        if changes.iter().any(raises) {
            raise_next_cfg(&mut transaction, &cache);
        }
        transaction
    }

    fn datapath(&self, cache: &Cache) -> Option<Datapath> {
        let (_, bridge) = find_bridge(cache, &self.bridge)?;
        Some(datapath_of(&bridge.datapath_type))
    }
}

impl Connected {
    /// Waits until the connection is lost, there again, or fails for another reason. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the connection was lost and is there again. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        loop {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if matches!(&*self.0.borrow_and_update(), Status::Ready { .. }) {
                return;
            }
        }
    }
}

/// Has ovs-vswitchd say when it has seen what is in the database now.
fn raise_next_cfg(transaction: &mut Transaction, cache: &Cache) {
    if let Some((root, _)) = root(cache) {
        transaction.mutate(Rows::uuid(root), [OpenVSwitch::NEXT_CFG.add(1)]).any();
    }
}

/// The one row of its table.
fn root(cache: &Cache) -> Option<(Uuid, OpenVSwitch)> {
    cache.rows::<OpenVSwitch>().find_map(|(uuid, row)| Some((uuid, row.ok()?)))
}

fn configuration(cache: &Cache) -> Configuration {
    let row = root(cache).map(|(_, row)| row).unwrap_or_default();
    Configuration { next: row.next_cfg, current: row.cur_cfg }
}

fn is_installed(row: &Interface) -> bool {
    row.external_ids.get(INSTALLED).is_some_and(|value| value == "true")
}

fn find_bridge(cache: &Cache, name: &str) -> Option<(Uuid, Bridge)> {
    cache.rows::<Bridge>().find_map(|(uuid, row)| Some((uuid, row.ok().filter(|row| row.name == name)?)))
}

/// A port as the engine knows it, if agents made it.
fn observe(cache: &Cache, name: &LinkName) -> Option<ObservedPort> {
    let key = Atom::from(name.as_str());
    let port = cache.find::<Port>(BY_NAME, &key).find_map(|(_, row)| row.ok())?;
    let interfaces: Vec<Interface> =
        port.interfaces.iter().filter_map(|uuid| cache.get::<Interface>(*uuid).ok()?).collect();
    let iface_id = interfaces.iter().find_map(|row| row.external_ids.get(IFACE_ID).cloned());
    let internal = interfaces.iter().find(|row| row.r#type == INTERNAL).map(|row| Internal {
        mac: row.mac.as_deref().and_then(|mac| mac.parse().ok()),
        mtu: row.mtu_request.and_then(|mtu| mtu.try_into().ok()),
    });
    let mut tags = port.external_ids;
    let pod = tags.remove(POD).unwrap_or_default();
    Some(ObservedPort { tag: tag(tags)?, pod, iface_id, internal })
}

/// What OVN binds an interface by. A late interface of a pod's former life must not bind its port.
fn binding(port: &DesiredPort, iface_id: &str) -> Vec<(String, String)> {
    let version = port.tag.note().map(|note| note.pod_uid.clone().unwrap_or_default());
    let version = version.map(|version| (IFACE_ID_VER.to_owned(), version));
    std::iter::once((IFACE_ID.to_owned(), iface_id.to_owned())).chain(version).collect()
}

/// The columns of an interface that say which link Open vSwitch makes for it.
fn link_of(internal: Option<Internal>) -> (String, Option<String>, Option<i64>) {
    match internal {
        Some(Internal { mac, mtu }) => {
            (INTERNAL.to_owned(), mac.map(|mac| mac.to_string()), mtu.map(i64::from))
        }
        None => Default::default(),
    }
}

fn plug(transaction: &mut Transaction, cache: &Cache, bridge: Uuid, new: &DesiredPort) {
    let DesiredPort { tag, pod, iface_id, internal } = new;
    let tags = tags_of(tag, pod);
    let mut external_ids = tags.clone();
    let (port, interface) = (tag.port_row(), tag.interface_row());
    if let Some(iface_id) = iface_id {
        take_from_others(transaction, cache, iface_id, interface);
        external_ids.extend(binding(new, iface_id));
    }
    let name = tag.link().as_str().to_owned();
    let (r#type, mac, mtu_request) = link_of(*internal);
    transaction.require::<Bridge>(bridge);
    transaction.insert(
        interface,
        &Interface { name: name.clone(), external_ids, r#type, mac, mtu_request, ..Interface::default() },
    );
    transaction
        .insert(port, &Port { name, interfaces: [interface].into(), external_ids: tags, ..Port::default() });
    transaction.mutate(Rows::uuid(bridge), [Bridge::PORTS.insert([port])]).expect(1);
}

/// OVN regards two interfaces with one `iface-id` as invalid.
fn take_from_others(transaction: &mut Transaction, cache: &Cache, iface_id: &str, owner: Uuid) {
    for (other, _) in cache.find::<Interface>(BY_IFACE_ID, &Atom::from(iface_id)) {
        if other != owner {
            let without = Interface::EXTERNAL_IDS.delete_keys([IFACE_ID.to_owned()]);
            transaction.mutate(Rows::uuid(other), [without]).any();
        }
    }
}

fn correct(transaction: &mut Transaction, cache: &Cache, name: &LinkName, port: &DesiredPort) {
    let key = Atom::from(name.as_str());
    let rows = cache.find::<Port>(BY_NAME, &key);
    let interfaces: BTreeSet<Uuid> =
        rows.filter_map(|(_, row)| row.ok()).flat_map(|row| row.interfaces).collect();
    for interface in interfaces {
        let without = Interface::EXTERNAL_IDS.delete_keys([IFACE_ID.to_owned(), IFACE_ID_VER.to_owned()]);
        transaction.mutate(Rows::uuid(interface), [without]).any();
        if let Some(iface_id) = &port.iface_id {
            take_from_others(transaction, cache, iface_id, interface);
            let ids = Interface::EXTERNAL_IDS.insert(binding(port, iface_id));
            transaction.mutate(Rows::uuid(interface), [ids]).any();
        }
        if port.internal.is_some() {
            let (r#type, mac, mtu) = link_of(port.internal);
            let columns =
                [Interface::TYPE.set(&r#type), Interface::MAC.set(&mac), Interface::MTU_REQUEST.set(&mtu)];
            transaction.update(Rows::uuid(interface), columns).any();
        }
    }
}

/// Its rows go with the last reference to them.
fn unplug(transaction: &mut Transaction, cache: &Cache, name: &LinkName) {
    let ports: BTreeSet<Uuid> =
        cache.find::<Port>(BY_NAME, &Atom::from(name.as_str())).map(|(uuid, _)| uuid).collect();
    for (bridge, row) in cache.rows::<Bridge>() {
        let Ok(row) = row else { continue };
        let here: Vec<Uuid> = row.ports.iter().filter(|port| ports.contains(port)).copied().collect();
        if !here.is_empty() {
            transaction.mutate(Rows::uuid(bridge), [Bridge::PORTS.delete(here)]).any();
        }
    }
}

fn failure_of(error: &TransactError) -> Failure {
    let behind = matches!(error.kind(), Some(ErrorKind::DuplicateUuid | ErrorKind::TimedOut));
    let unknown = !matches!(error.outcome(), Outcome::NotApplied);
    if behind || unknown { Failure::Outdated } else { Failure::Refused }
}

fn report_outcome(
    changes: &[Change],
    outcome: &Result<(), TransactError>,
    engine: &Engine,
    metrics: &Metrics,
) {
    match outcome {
        Ok(()) => {
            for change in changes {
                metrics.changed(change);
                engine.applied(change);
            }
        }
        Err(error) => {
            if !matches!(error, TransactError::NotConnected(_)) {
                tracing::warn!(%error, ports = changes.len(), "Open vSwitch did not accept a change of ports");
            }
            for change in changes {
                metrics.change_failed(change);
                engine.failed(change.unit(), failure_of(error), error.to_string());
            }
        }
    }
}
