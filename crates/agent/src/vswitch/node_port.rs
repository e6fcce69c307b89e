//! The port of the node itself in the primary network: an internal port of OVN's bridge, whose link Open vSwitch makes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ovn_schema::vswitch::{Bridge, Interface, Port};
use ovsdb::{Atom, Cache, Rows, Transaction, Uuid};
use portolan_plan::host::{NODE_LINK, NodeNetwork, Removal, Removals};
use portolan_plan::row_uuid;

use super::{
    BY_NAME, IFACE_ID, INTERNAL, OWNER, Vswitch, configuration, find_bridge, raise_next_cfg, take_from_others,
};

/// The tag of what is made for the node itself.
pub(crate) const NODE: &str = "portolan/node";

/// By what ovn-controller knows its tunnels: the chassis at their other end.
const TUNNEL_TO: &str = "ovn-chassis-id";
/// The option of a tunnel that says where it leads.
const REMOTE: &str = "remote_ip";

/// A port of the node's name that is somebody else's.
const FOREIGN: &str = "Open vSwitch has a port portolan0 that is not Portolan's; remove it";

/// What was seen of the node's port: a removal that ovs-vswitchd may not have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    was_there: bool,
    removals: Removals,
}

impl Seen {
    fn removal(&mut self, cache: &Cache) -> Option<Removal> {
        self.removals.configured(configuration(cache));
        let is_there = find_port(cache).is_some();
        if std::mem::replace(&mut self.was_there, is_there) && !is_there {
            self.removals.removed(NODE_LINK);
        }
        self.removals.of(NODE_LINK).filter(|_| !is_there)
    }
}

/// What became of the node's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodePort {
    /// It was not as it should be, and is now.
    Made,
    /// It is as it should be, or there is no bridge yet.
    Unchanged,
    /// It is made once ovs-vswitchd has seen that the one before was removed.
    Awaited,
}

impl Vswitch {
    /// Makes the node's port as it should be, as far as that can be done now.
    pub(crate) async fn assert_node_port(
        &self,
        node: &str,
        network: &NodeNetwork,
        seen: &mut Seen,
    ) -> Result<NodePort, String> {
        let (transaction, outcome) = {
            let cache = self.client.read();
            match seen.removal(&cache) {
                None => (self.node_port_transaction(&cache, node, network)?, NodePort::Made),
                Some(Removal::Unasked) => (raising_next_cfg(&cache), NodePort::Awaited),
                Some(Removal::Asked) => return Ok(NodePort::Awaited),
            }
        };
        if transaction.is_empty() {
            return Ok(NodePort::Unchanged);
        }
        // It may be there for a moment, whatever becomes of it before the next look.
        seen.was_there |= outcome == NodePort::Made;
        self.client.transact(&transaction).await.map(|_| outcome).map_err(|error| error.to_string())
    }

    /// Whether there is a port of the node.
    pub(crate) fn has_node_port(&self) -> bool {
        find_port(&self.client.read()).is_some_and(|(_, row)| row.external_ids.contains_key(NODE))
    }

    /// The addresses of other nodes: those to which ovn-controller has made tunnels. None if the copy of the database is not in step.
    pub(crate) fn other_nodes(&self) -> Option<Vec<IpAddr>> {
        if self.behind().is_some() {
            return None;
        }
        let cache = self.client.read();
        let ports = cache.rows::<Port>().filter_map(|(_, row)| row.ok());
        let tunnels = ports.filter(|port| port.external_ids.contains_key(TUNNEL_TO));
        let interfaces = tunnels.flat_map(|port| port.interfaces);
        let remote = |uuid: Uuid| interface_row(&cache, uuid)?.options.get(REMOTE)?.parse().ok();
        Some(interfaces.filter_map(remote).collect())
    }

    /// Removes the node's port, if it is there.
    pub(crate) async fn remove_node_port(&self) -> Result<(), String> {
        let mut transaction = Transaction::new();
        {
            let cache = self.client.read();
            let ours = |(uuid, row): (Uuid, Port)| row.external_ids.contains_key(NODE).then_some(uuid);
            if let Some(port) = find_port(&cache).and_then(ours) {
                for (bridge, row) in cache.rows::<Bridge>() {
                    if row.is_ok_and(|row| row.ports.contains(&port)) {
                        transaction.mutate(Rows::uuid(bridge), [Bridge::PORTS.delete([port])]).any();
                    }
                }
            }
            if !transaction.is_empty() {
                // For whoever makes it again.
                raise_next_cfg(&mut transaction, &cache);
            }
        }
        if transaction.is_empty() {
            return Ok(());
        }
        self.client.transact(&transaction).await.map(drop).map_err(|error| error.to_string())
    }

    fn node_port_transaction(
        &self,
        cache: &Cache,
        node: &str,
        network: &NodeNetwork,
    ) -> Result<Transaction, String> {
        let mut transaction = Transaction::new();
        let Some((bridge, bridge_row)) = find_bridge(cache, &self.bridge) else { return Ok(transaction) };
        let tags: BTreeMap<String, String> =
            [(NODE.to_owned(), node.to_owned()), (OWNER.to_owned(), network.owner.clone())].into();
        let mut external_ids = tags.clone();
        external_ids.insert(IFACE_ID.to_owned(), network.iface_id.clone());
        let [port, interface] = ["Port", "Interface"].map(|table| row_uuid(table, "", NODE_LINK, ""));
        let wanted = Interface {
            name: NODE_LINK.to_owned(),
            r#type: INTERNAL.to_owned(),
            mac: Some(network.mac.to_string()),
            mtu_request: Some(network.mtu.into()),
            external_ids,
            ..Interface::default()
        };
        let Some((found, row)) = find_port(cache) else {
            transaction.require::<Bridge>(bridge);
            take_from_others(&mut transaction, cache, &network.iface_id, interface);
            transaction.insert(interface, &wanted);
            let interfaces = [interface].into();
            let row = Port { name: NODE_LINK.to_owned(), interfaces, external_ids: tags, ..Port::default() };
            transaction.insert(port, &row);
            transaction.mutate(Rows::uuid(bridge), [Bridge::PORTS.insert([port])]).expect(1);
            return Ok(transaction);
        };
        if !row.external_ids.contains_key(NODE) {
            return Err(FOREIGN.to_owned());
        }
        if !bridge_row.ports.contains(&found) {
            // It is on another bridge: it is made anew here once it is gone from there.
            for (other, row) in cache.rows::<Bridge>() {
                if row.is_ok_and(|row| row.ports.contains(&found)) {
                    transaction.mutate(Rows::uuid(other), [Bridge::PORTS.delete([found])]).any();
                }
            }
            return Ok(transaction);
        }
        let differing = |is: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>| {
            let differs = |(key, value): &(&String, &String)| is.get(*key) != Some(*value);
            wanted.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
        };
        let tags = differing(&row.external_ids, &tags);
        if !tags.is_empty() {
            let without = Port::EXTERNAL_IDS.delete_keys(tags.iter().map(|(key, _)| key.clone()));
            transaction.mutate(Rows::uuid(found), [without, Port::EXTERNAL_IDS.insert(tags)]).any();
        }
        for (uuid, is) in row.interfaces.iter().filter_map(|uuid| Some((*uuid, interface_row(cache, *uuid)?)))
        {
            let ids = differing(&is.external_ids, &wanted.external_ids);
            if !ids.is_empty() {
                take_from_others(&mut transaction, cache, &network.iface_id, uuid);
                let without = Interface::EXTERNAL_IDS.delete_keys(ids.iter().map(|(key, _)| key.clone()));
                transaction.mutate(Rows::uuid(uuid), [without, Interface::EXTERNAL_IDS.insert(ids)]).any();
            }
            if (&is.r#type, &is.mac, is.mtu_request) != (&wanted.r#type, &wanted.mac, wanted.mtu_request) {
                let columns = [
                    Interface::TYPE.set(&wanted.r#type),
                    Interface::MAC.set(&wanted.mac),
                    Interface::MTU_REQUEST.set(&wanted.mtu_request),
                ];
                transaction.update(Rows::uuid(uuid), columns).any();
            }
        }
        Ok(transaction)
    }
}

fn raising_next_cfg(cache: &Cache) -> Transaction {
    let mut transaction = Transaction::new();
    raise_next_cfg(&mut transaction, cache);
    transaction
}

fn find_port(cache: &Cache) -> Option<(Uuid, Port)> {
    let key = Atom::from(NODE_LINK);
    cache.find::<Port>(BY_NAME, &key).find_map(|(uuid, row)| Some((uuid, row.ok()?)))
}

fn interface_row(cache: &Cache, uuid: Uuid) -> Option<Interface> {
    cache.get::<Interface>(uuid).ok()?
}
