//! Open vSwitch of a node: its database and ovs-vswitchd.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::checks::{answers, serves};
use crate::daemon::{Control, Daemon};
use crate::database::DatabaseFile;
use crate::error::Error;
use crate::json_rpc::call;

/// The database.
const DATABASE: &str = "Open_vSwitch";

/// The server of the node's Open vSwitch database, with the one row that every program expects to be there.
pub fn switch_database(run: &Path, data: &Path, schema: &Path) -> Daemon {
    let file = DatabaseFile { file: data.join("conf.db"), schema: schema.into() };
    let socket = run.join("db.sock");
    let own = socket.clone();
    Daemon::new("ovsdb-server", Control::InDirectory(run.into()))
        .args(["-vconsole:info", "-vsyslog:off", "-vfile:off", "--no-chdir"])
        .args([
            format!("--pidfile={}", run.join("ovsdb-server.pid").display()),
            format!("--remote=punix:{}", socket.display()),
            "--remote=db:Open_vSwitch,Open_vSwitch,manager_options".into(),
        ])
        .args([file.file.clone()])
        .env("OVS_RUNDIR", run)
        .check("database", move |_| serves(socket.clone(), DATABASE))
        .prepare(move || async move { file.prepare().await })
        .begin(move |control| first_row(control, own.clone()))
}

/// The one row that every program expects to be there, with the version as people look for it.
async fn first_row(control: PathBuf, socket: PathBuf) -> Result<(), Error> {
    let none = json!({"op": "wait", "table": DATABASE, "where": [], "columns": ["_uuid"], "until": "==", "rows": [], "timeout": 0});
    let insert = json!({"op": "insert", "table": DATABASE, "row": {}});
    // Refused if there is a row, which is as well.
    call(&socket, "transact", &json!([DATABASE, none, insert])).await?;
    let said = crate::json_rpc::control(&control, "version", &[]).await?;
    // As in "ovsdb-server (Open vSwitch) 3.1.0".
    let version =
        said.lines().next().and_then(|line| line.split_whitespace().next_back()).unwrap_or_default();
    let update = json!({"op": "update", "table": DATABASE, "where": [], "row": {"ovs_version": version}});
    call(&socket, "transact", &json!([DATABASE, update])).await?;
    Ok(())
}

/// ovs-vswitchd, with its database in the same directory. When it is stopped, bridges and the kernel's flows stay.
pub fn vswitchd(run: &Path) -> Daemon {
    Daemon::new("ovs-vswitchd", Control::InDirectory(run.into()))
        .args(["-vconsole:info", "-vsyslog:off", "-vfile:off", "--no-chdir"])
        .args([
            format!("--pidfile={}", run.join("ovs-vswitchd.pid").display()),
            format!("unix:{}", run.join("db.sock").display()),
        ])
        .env("OVS_RUNDIR", run)
        .check("vswitchd", |control| answers(control, "version", |_| true))
}
