//! ovn-controller.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::checks::answers;
use crate::daemon::{Control, Daemon, Stop};
use crate::error::Error;
use crate::json_rpc::call;

/// OVN's bridge.
const BRIDGE: &str = "br-int";
/// For how long the database is asked at a time to answer when there is the bridge.
const AT_A_TIME: Duration = Duration::from_secs(3);
/// The pauses while there is no database to ask.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// ovn-controller of this node. `switch` is the run directory of Open vSwitch. It is stopped in a way that leaves its flows and its chassis
/// in place: the next one takes them over, and traffic goes on meanwhile.
pub fn ovn_controller(switch: &Path, run: &Path) -> Daemon {
    Daemon::new("ovn-controller", Control::InDirectory(run.into()))
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
