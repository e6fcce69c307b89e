//! ovn-controller.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::checks::answers;
use crate::daemon::{Control, Daemon, Stop};
use crate::error::Error;
use crate::json_rpc::{AT_A_TIME, call};
use crate::transport::TlsFiles;

/// OVN's bridge.
const BRIDGE: &str = "br-int";
/// The pauses while there is no database to ask.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// ovn-controller of this node. `switch` is the run directory of Open vSwitch. It is stopped in a way that leaves its flows and its chassis
/// in place: the next one takes them over, and traffic goes on meanwhile. `tls` is for a southbound database that wants it.
pub fn ovn_controller(switch: &Path, run: &Path, tls: Option<&TlsFiles>) -> Daemon {
    let daemon = Daemon::new("ovn-controller", Control::InDirectory(run.into()));
    let daemon = match tls {
        Some(tls) => daemon.args(tls.arguments()),
        None => daemon,
    };
    daemon
        .args(["-vconsole:info", "-vsyslog:off", "-vfile:off"])
        .args([
            // It has no option for its control socket: the directory of this file decides.
            format!("--pidfile={}", run.join("ovn-controller.pid").display()),
            format!("unix:{}", switch.join("db.sock").display()),
        ])
        .env("OVN_RUNDIR", run)
        .env("OVS_RUNDIR", switch)
        .stop(Stop::Command("exit", &["--restart"]))
        .prepare({
            let database = switch.join("db.sock");
            move || bridge(database)
        })
        .check("southbound", |control| answers(control, "connection-status", |said| said == "connected"))
}

/// The name of this node's chassis, once it is known: the agent writes it.
pub async fn chassis_name(switch: &Path) -> String {
    let database = switch.join("db.sock");
    let select = json!({"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["external_ids"]});
    let [mut pause, longest] = PAUSES;
    loop {
        match call(&database, "transact", &json!(["Open_vSwitch", select])).await {
            Ok(results) => {
                let pairs = results[0]["rows"][0]["external_ids"][1].as_array().cloned().unwrap_or_default();
                let name = pairs.iter().find(|pair| pair[0] == "system-id").and_then(|pair| pair[1].as_str());
                if let Some(name) = name.filter(|name| !name.is_empty()) {
                    return name.to_owned();
                }
                tracing::info!(
                    "waiting for external_ids:system-id of Open vSwitch, which the agent of this node writes"
                );
            }
            Err(error) => {
                tracing::debug!(%error, "the database of Open vSwitch cannot be asked for the chassis");
            }
        }
        // The agent writes it with the bridge, which is there: this is rare.
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// Waits until Portolan's agent has made OVN's bridge. Without one ovn-controller would make it, before anybody has said on which datapath.
async fn bridge(database: PathBuf) -> Result<(), Error> {
    let bridge = json!({"name": BRIDGE});
    let there = json!({
        "op": "wait", "table": "Bridge", "where": [["name", "==", BRIDGE]], "columns": ["name"], "until": "==", "rows": [bridge],
        "timeout": u64::try_from(AT_A_TIME.as_millis()).unwrap_or(u64::MAX),
    });
    let [mut pause, longest] = PAUSES;
    let mut told = false;
    loop {
        match call(&database, "transact", &json!(["Open_vSwitch", there])).await {
            Ok(results) if results[0]["error"].is_null() => return Ok(()),
            // Not within that time.
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "the database of Open vSwitch cannot be asked for the bridge");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        }
        if !told {
            tracing::info!("waiting for bridge {BRIDGE}, which the agent of this node makes");
            told = true;
        }
    }
}
