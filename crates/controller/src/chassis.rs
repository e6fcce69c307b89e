//! Chassis of nodes that are gone, in OVN's southbound database.
//!
//! ovn-controller removes its own chassis when it is stopped, and nobody does when its machine is lost: all others keep a tunnel to
//! it, and a new machine with its address cannot register.
//!
//! **Whose a row is.** A chassis that bears the name that a Node says (its own, or its annotation `portolan.dev/chassis`) is tagged with
//! that Node. A tagged chassis that no Node says goes once a live read has found that its Node is absent or says another. A chassis
//! without a tag is another's, such as a gateway outside of the cluster, and is never touched.
//!
//! Whoever leads compares all chassis with all nodes whenever either changes; so it does not matter who saw a node go. If a machine
//! still runs whose Node was deleted, its ovn-controller makes the chassis again, without a tag, and removes it when it is stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use ovn_schema::sb::{Chassis, ChassisPrivate};
use ovsdb::{Cache, Client, Endpoints, Members, Monitor, Rows, Status, TlsFiles, Transaction, Uuid};
use portolan_model::doors;
use portolan_watch::{Pause, Plain};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::engine::{Engine, NodeOfChassis, NodesByChassis};
use crate::metrics::Metrics;
use crate::timer::until;

/// The name of the Node that a chassis is of, among its `external_ids`.
const NODE: &str = "portolan/node";
/// The Node's UID.
const OWNER: &str = "portolan/owner";

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What the task is told about nodes; none while this controller does not act.
#[derive(Debug)]
pub(crate) struct KnownNodes {
    known: Arc<NodesByChassis>,
    sender: watch::Sender<Option<Arc<NodesByChassis>>>,
}

impl KnownNodes {
    pub(crate) fn new() -> Self {
        KnownNodes { known: Arc::default(), sender: watch::channel(None).0 }
    }

    /// What is told.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<NodesByChassis>>> {
        self.sender.subscribe()
    }

    /// Tells what the engine knows, if this controller acts and every kind was listed.
    pub(crate) fn tell(&mut self, engine: &mut Engine, acts: bool) {
        if let Some(nodes) = engine.take_nodes() {
            self.known = Arc::new(nodes);
        }
        let told = acts.then(|| Arc::clone(&self.known));
        self.sender.send_if_modified(|current| {
            let changed = *current != told;
            if changed {
                *current = told;
            }
            changed
        });
    }
}

/// Removes the chassis of nodes that are gone.
pub(crate) struct ChassisCleaner {
    southbound: Client,
    client: kube::Client,
    nodes: watch::Receiver<Option<Arc<NodesByChassis>>>,
    metrics: Metrics,
}

impl ChassisCleaner {
    pub(crate) fn connect(
        endpoints: Endpoints,
        tls: Option<TlsFiles>,
        client: kube::Client,
        nodes: &KnownNodes,
        metrics: Metrics,
    ) -> Self {
        // Nobody waits for this, and where there is no such database it is looked for in vain for ever.
        let builder = Client::builder("OVN_Southbound", endpoints).backoff(FIRST_PAUSE, LONGEST_PAUSE);
        let mut builder = builder.members(Members::Leader);
        if let Some(tls) = tls {
            builder = builder.tls(tls);
        }
        let columns = [Chassis::NAME.name(), Chassis::EXTERNAL_IDS.name()];
        let southbound = builder.monitor(Monitor::of::<Chassis>().columns(columns)).connect();
        ChassisCleaner { southbound, client, nodes: nodes.subscribe(), metrics }
    }

    /// Works until nobody tells about nodes any more, or the session has ended.
    pub(crate) async fn run(mut self) {
        let mut changes = self.southbound.changes();
        let mut status = self.southbound.status();
        let mut pause = Pause::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let nodes = self.nodes.borrow_and_update().clone();
            let ready = matches!(*status.borrow_and_update(), Status::Ready { .. });
            let outcome = match nodes.filter(|_| ready) {
                Some(nodes) => self.compare(&nodes).await,
                None => Ok(()),
            };
            let again = match outcome {
                Ok(()) => {
                    pause.reset();
                    None
                }
                Err(error) => {
                    tracing::warn!(
                        error,
                        "cannot compare the chassis in the southbound database with the nodes yet"
                    );
                    Some(pause.lengthen())
                }
            };
            tokio::select! {
                changed = self.nodes.changed() => if changed.is_err() { return },
                changed = status.changed() => if changed.is_err() { return },
                batch = changes.next() => if batch.is_none() { return },
                () = until(again.map(|pause| Instant::now() + pause)) => {}
            }
        }
    }

    /// Tags what is of a node, and removes what is of a node that is gone.
    async fn compare(&self, nodes: &NodesByChassis) -> Result<(), String> {
        let differences = compare(nodes, &rows_of(&self.southbound.read()));
        // One that fails keeps no other from being dealt with.
        let mut failures = Vec::new();
        for (row, node) in differences.untagged {
            failures.extend(self.tag(&row, &node).await.err());
        }
        for (row, node) in differences.stale {
            failures.extend(self.remove_if_gone(&row, &node).await.err());
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }

    async fn remove_if_gone(&self, row: &ChassisRow, node: &NodeOfChassis) -> Result<(), String> {
        match self.is_gone(row, node).await? {
            true => self.remove(row, node).await,
            false => Ok(()),
        }
    }

    async fn tag(&self, row: &ChassisRow, node: &NodeOfChassis) -> Result<(), String> {
        let mut transaction = Transaction::new();
        let keys = [NODE.to_owned(), OWNER.to_owned()];
        let tags = [(NODE.to_owned(), node.name.clone()), (OWNER.to_owned(), node.uid.clone())];
        let mutations = [Chassis::EXTERNAL_IDS.delete_keys(keys), Chassis::EXTERNAL_IDS.insert(tags)];
        transaction.mutate(Rows::uuid(row.uuid), mutations).any();
        self.transact(transaction, row, node).await
    }

    /// Whether a live read finds that no Node of this name says this chassis.
    async fn is_gone(&self, row: &ChassisRow, node: &NodeOfChassis) -> Result<bool, String> {
        let found =
            portolan_watch::get(&self.client, &Api::<Node>::all(self.client.clone()), &node.name).await;
        let found = found.map_err(|error| format!("node {}: {}", node.name, Plain(&error)))?;
        Ok(found.is_none_or(|found| doors::node::node(&found).chassis != row.name))
    }

    async fn remove(&self, row: &ChassisRow, node: &NodeOfChassis) -> Result<(), String> {
        let mut transaction = Transaction::new();
        // If it was made again meanwhile, somebody runs there.
        transaction.require::<Chassis>(row.uuid);
        transaction.delete(Rows::<Chassis>::uuid(row.uuid)).expect(1);
        transaction.delete(Rows::matching([ChassisPrivate::NAME.equals(&row.name)])).any();
        self.transact(transaction, row, node).await?;
        tracing::info!(chassis = row.name, node = node.name, "removed the chassis of a node that is gone");
        self.metrics.chassis_removed();
        Ok(())
    }

    async fn transact(
        &self,
        mut transaction: Transaction,
        row: &ChassisRow,
        node: &NodeOfChassis,
    ) -> Result<(), String> {
        transaction.comment(format!("portolan-controller: chassis {} of node {}", row.name, node.name));
        let done = self.southbound.transact(&transaction).await;
        done.map(drop).map_err(|error| format!("chassis {}: {error}", row.name))
    }
}

/// A chassis, as far as it counts here.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChassisRow {
    uuid: Uuid,
    name: String,
    /// The node that it is tagged with.
    node: Option<NodeOfChassis>,
}

fn rows_of(cache: &Cache) -> Vec<ChassisRow> {
    let rows = cache.rows::<Chassis>().filter_map(|(uuid, row)| Some((uuid, row.ok()?)));
    rows.map(|(uuid, mut row)| {
        let tags: (Option<String>, Option<String>) =
            (row.external_ids.remove(NODE), row.external_ids.remove(OWNER));
        let node = match tags {
            (Some(name), Some(uid)) => Some(NodeOfChassis { name, uid }),
            _ => None,
        };
        ChassisRow { uuid, name: row.name, node }
    })
    .collect()
}

/// What is to be done, each with the node that it is about.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differences {
    /// To be tagged with this node.
    untagged: Vec<(ChassisRow, NodeOfChassis)>,
    /// Tagged with a node that does not say it, as far as is known.
    stale: Vec<(ChassisRow, NodeOfChassis)>,
}

fn compare(nodes: &BTreeMap<String, NodeOfChassis>, rows: &[ChassisRow]) -> Differences {
    let mut differences = Differences::default();
    for row in rows {
        match (nodes.get(&row.name), &row.node) {
            (Some(node), tagged) if tagged.as_ref() != Some(node) => {
                differences.untagged.push((row.clone(), node.clone()));
            }
            (None, Some(node)) => differences.stale.push((row.clone(), node.clone())),
            _ => {}
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, uid: &str) -> NodeOfChassis {
        NodeOfChassis { name: name.into(), uid: uid.into() }
    }

    fn row(name: &str, node: Option<NodeOfChassis>) -> ChassisRow {
        ChassisRow { uuid: Uuid::nil(), name: name.into(), node }
    }

    #[test]
    fn only_a_chassis_that_was_a_nodes_is_ever_stale() {
        let nodes = BTreeMap::from([
            ("chassis-1".to_owned(), node("node-1", "1")),
            ("chassis-2".to_owned(), node("node-2", "made again")),
        ]);
        let rows = [
            row("chassis-1", Some(node("node-1", "1"))),
            row("chassis-2", Some(node("node-2", "2"))),
            row("chassis-3", Some(node("node-3", "3"))),
            row("a-gateway-elsewhere", None),
        ];
        let Differences { untagged, stale } = compare(&nodes, &rows);
        assert_eq!(untagged, [(rows[1].clone(), node("node-2", "made again"))]);
        assert_eq!(stale, [(rows[2].clone(), node("node-3", "3"))]);
        // A chassis that a node says from now on is tagged, whatever it was.
        let nodes = BTreeMap::from([("a-gateway-elsewhere".to_owned(), node("gateway", "4"))]);
        assert_eq!(compare(&nodes, &rows[3..]).untagged, [(rows[3].clone(), node("gateway", "4"))]);
    }
}
