//! What is asked of daemons to know whether they are ready.

use std::path::PathBuf;

use serde_json::json;

use crate::json_rpc::{call, control};

/// ovsdb-server answers, and serves this database.
pub(crate) async fn serves(socket: PathBuf, database: &'static str) -> Result<(), String> {
    let served = call(&socket, "list_dbs", &json!([])).await.map_err(|error| error.to_string())?;
    let has = served.as_array().is_some_and(|names| names.iter().any(|name| name == database));
    if has { Ok(()) } else { Err(format!("{} does not serve {database}: {served}", socket.display())) }
}

/// A command of a control socket answers so.
pub(crate) async fn answers(
    socket: PathBuf,
    command: &'static str,
    accepted: fn(&str) -> bool,
) -> Result<(), String> {
    let answer = control(&socket, command, &[]).await.map_err(|error| error.to_string())?;
    if accepted(answer.trim()) { Ok(()) } else { Err(format!("{command}: {}", answer.trim())) }
}
