//! Removes from a node what an agent made there, when Portolan is uninstalled: OVN's bridge, the node's own part in the primary network, the
//! settings of a chassis, and guards.
//!
//! Only what is ours goes: the bridge if an agent made it, which its UUID says, and keys of `external_ids` that only OVN reads. The node must
//! have no agent any more, which would make everything again.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use ovn_schema::vswitch::{Bridge, OpenVSwitch, Port};
use ovsdb::{Client, Endpoint, Monitor, Rows, Transaction};
use portolan_host::{Link, Rtnetlink, guard, masquerade, service_map};
use portolan_plan::host::{HolderTag, LinkName};
use portolan_plan::row_uuid;

use crate::blocking::blocking;
use crate::vswitch::NODE;

/// OVN's bridge.
const BRIDGE: &str = "br-int";
/// What agents set, and only OVN reads.
const KEYS: &[&str] = &[
    "ovn-remote",
    "ovn-encap-type",
    "ovn-encap-ip",
    "ovn-bridge",
    "ovn-bridge-datapath-type",
    "ovn-ofctrl-wait-before-clear",
    "ovn-match-northd-version",
];
/// How long Open vSwitch may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Removes the bridge, the settings and the guards, and says what that was. Where Open vSwitch has no database, only the guards. The guards
/// of links that exist stay: a pod still uses them.
pub async fn remove(database: &Path) -> anyhow::Result<Vec<String>> {
    let mut removed = Vec::new();
    if database.exists() {
        let outcome = tokio::time::timeout(PATIENCE * 2, from_switch(database)).await;
        removed = outcome.with_context(|| {
            format!("the database of Open vSwitch at {} does not answer", database.display())
        })??;
    }
    removed.extend(
        blocking(translation).await.context("remove the tables inet portolan and inet portolan-services")?,
    );
    removed.extend(blocking(guards).await.context("remove the guards of links")?);
    Ok(removed)
}

async fn from_switch(database: &Path) -> anyhow::Result<Vec<String>> {
    let client = Client::builder("Open_vSwitch", [Endpoint::Unix(database.into())])
        .monitor(Monitor::of::<OpenVSwitch>().columns(["bridges", "cur_cfg", "external_ids", "next_cfg"]))
        .monitor(Monitor::of::<Bridge>().columns(["name", "ports"]))
        .monitor(Monitor::of::<Port>().columns(["name", "external_ids"]))
        .connect();
    client.ready().await;
    let mut removed = Vec::new();
    let mut transaction = Transaction::new();
    let found = client.read().rows::<OpenVSwitch>().find_map(|(uuid, row)| Some((uuid, row.ok()?)));
    let Some((root, row)) = found else { return Ok(removed) };
    let bridge = row_uuid("Bridge", "", BRIDGE, "");
    let mut changes = Vec::new();
    if row.bridges.contains(&bridge) {
        changes.push(OpenVSwitch::BRIDGES.delete([bridge]));
        removed.push(format!("bridge {BRIDGE}"));
    }
    // On a bridge of somebody else's it would stay.
    let ports: BTreeSet<_> = client
        .read()
        .rows::<Port>()
        .filter_map(|(uuid, row)| row.ok()?.external_ids.contains_key(NODE).then_some(uuid))
        .collect();
    let others: Vec<_> = client
        .read()
        .rows::<Bridge>()
        .filter(|(uuid, row)| *uuid != bridge && row.as_ref().is_ok_and(|row| !row.ports.is_disjoint(&ports)))
        .map(|(uuid, _)| uuid)
        .collect();
    for other in &others {
        transaction.mutate(Rows::uuid(*other), [Bridge::PORTS.delete(ports.iter().copied())]).any();
    }
    if !others.is_empty() {
        removed.push("the node's port portolan0".to_owned());
    }
    let keys: BTreeSet<&str> =
        KEYS.iter().copied().filter(|key| row.external_ids.contains_key(*key)).collect();
    if !keys.is_empty() {
        removed.push(format!(
            "external_ids of Open vSwitch: {}",
            keys.iter().copied().collect::<Vec<_>>().join(", ")
        ));
        changes.push(OpenVSwitch::EXTERNAL_IDS.delete_keys(keys.into_iter().map(str::to_owned)));
    }
    if changes.is_empty() && others.is_empty() {
        return Ok(removed);
    }
    let wanted = row.next_cfg + 1;
    if !changes.is_empty() {
        transaction.mutate(Rows::uuid(root), changes).expect(1);
    }
    transaction.update(Rows::uuid(root), [OpenVSwitch::NEXT_CFG.set(&wanted)]).expect(1);
    client.transact(&transaction).await.context("change the database of Open vSwitch")?;
    // The bridge is gone when ovs-vswitchd has removed it.
    let applied = client.wait_for(|cache| {
        let row = cache.get::<OpenVSwitch>(root).ok()??;
        (row.cur_cfg >= wanted).then_some(())
    });
    if tokio::time::timeout(PATIENCE, applied).await.is_err() {
        tracing::warn!("ovs-vswitchd has not taken this up within {PATIENCE:?}; does it run?");
    }
    Ok(removed)
}

/// What the primary network needs of nftables.
fn translation() -> portolan_host::Result<Vec<String>> {
    let mut removed = Vec::new();
    if service_map::listed()?.is_some() {
        service_map::remove()?;
        removed.push("nftables table inet portolan-services".to_owned());
    }
    if masquerade::listed()?.is_some() {
        masquerade::remove()?;
        removed.push("nftables table inet portolan".to_owned());
    }
    Ok(removed)
}

fn guards() -> portolan_host::Result<Vec<String>> {
    let mut removed = Vec::new();
    let mut host = Rtnetlink::open()?;
    let mut links = BTreeSet::new();
    for link in host.links()? {
        // Taps of NetworkAttachments last longer than what made them. Links of pods go with the pods.
        if is_of_holder(&link) {
            if host.delete_link(&link.name)? {
                removed.push(format!("link {}", link.name));
            }
            continue;
        }
        if LinkName::parse(&link.name).is_some_and(|name| name.is_of_holder()) {
            tracing::warn!(
                link = link.name,
                "it has a name as the links of NetworkAttachments have, and no note that it is one: it stays; if nobody uses it, remove it with \
                 ip link del"
            );
        }
        links.insert(link.name);
    }
    let (used, unused): (Vec<_>, Vec<_>) =
        guard::guarded()?.into_iter().map(|(link, _)| link).partition(|link| links.contains(link));
    for link in unused {
        guard::release_ingress(&link)?;
    }
    if used.is_empty() {
        if guard::remove_table()? {
            removed.push("nftables table netdev portolan".into());
        }
    } else {
        tracing::warn!(links = used.join(", "), "pods still use these links, so their guards stay");
    }
    Ok(removed)
}

/// Whether an agent made a link for a `NetworkAttachment`: its note says so, and nobody copied that from another link.
fn is_of_holder(link: &Link) -> bool {
    let name = LinkName::parse(&link.name).filter(LinkName::is_of_holder);
    let tag = link.alias.as_deref().and_then(|alias| alias.parse::<HolderTag>().ok());
    name.is_some() && name == tag.map(|tag| tag.link())
}
