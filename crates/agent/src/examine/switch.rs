//! What the node's Open vSwitch says.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use ovn_schema::vswitch::{Bridge, OpenVSwitch};
use ovsdb::{Client, Endpoint, Monitor};

use super::facts::{Outcome, Switch};

const PATIENCE: Duration = Duration::from_secs(5);

/// None where there is no socket.
pub(super) async fn facts(database: &Path) -> Outcome<Option<Switch>> {
    if !database.exists() {
        return Outcome::Found(None);
    }
    let asked = tokio::time::timeout(PATIENCE, ask(database)).await;
    let asked = asked.with_context(|| {
        format!("the database of Open vSwitch at {} does not answer within {PATIENCE:?}", database.display())
    });
    Outcome::of(asked.map(Some))
}

async fn ask(database: &Path) -> Switch {
    let client = Client::builder("Open_vSwitch", [Endpoint::Unix(database.into())])
        .monitor(Monitor::of::<OpenVSwitch>().columns(["cur_cfg", "next_cfg", "external_ids", "ovs_version"]))
        .monitor(Monitor::of::<Bridge>().columns(["name", "datapath_type"]))
        .connect();
    client.ready().await;
    let cache = client.read();
    let mut switch = Switch::default();
    if let Some(row) = cache.rows::<OpenVSwitch>().find_map(|(_, row)| row.ok()) {
        switch.version = row.ovs_version.as_ref().map(ToString::to_string);
        switch.in_step = row.cur_cfg >= row.next_cfg;
        let of_ovn = |key: &str| key.starts_with("ovn-") || ["system-id", "hostname"].contains(&key);
        let settings = row.external_ids.iter().filter(|(key, _)| of_ovn(key));
        switch.settings = settings.map(|(key, value)| (key.clone(), value.clone())).collect();
    }
    let bridges = cache.rows::<Bridge>().filter_map(|(_, row)| row.ok());
    let bridges: BTreeMap<String, String> = bridges
        .map(|row| {
            // Nothing is said for the kernel's.
            let datapath = row.datapath_type.clone();
            (row.name.clone(), if datapath.is_empty() { "system".to_owned() } else { datapath })
        })
        .collect();
    switch.bridges = bridges;
    switch
}
