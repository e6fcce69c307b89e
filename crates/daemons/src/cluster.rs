//! What a server of a cluster is asked for and told while it runs.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Doing as _, Error};
use crate::json_rpc::{AT_A_TIME, Unanswered, call, changed, control, transact};

/// What a server says of its databases.
const SERVER: &str = "_Server";
const COLUMNS: [&str; 4] = ["connected", "leader", "name", "sid"];

/// It is in its cluster, and the cluster has a leader.
pub(crate) async fn is_connected(socket: PathBuf, database: &'static str) -> Result<(), String> {
    let rows = rows(&socket).await.map_err(|error| error.to_string())?;
    match of_database(&rows, database).map(|row| row["connected"] == true) {
        Some(true) => Ok(()),
        Some(false) => Err(format!("{database}: not in its cluster, or the cluster has no leader")),
        None => Err(format!("{database} is not served")),
    }
}

/// Converts the database to the schema that is installed, if that is newer. Every member looks; the first of a new version does it for all.
pub(crate) async fn convert(socket: PathBuf, database: &'static str, schema: PathBuf) -> Result<(), Error> {
    let installed = std::fs::read_to_string(&schema).doing("read", &schema)?;
    let installed: Value = serde_json::from_str(&installed).map_err(|error| Error::Tool {
        what: format!("reading {}", schema.display()),
        said: error.to_string(),
    })?;
    let served = call(&socket, "get_schema", &json!([database])).await?;
    if version(&installed) <= version(&served) {
        return Ok(());
    }
    call(&socket, "convert", &json!([database, installed])).await?;
    tracing::info!(database, version = %installed["version"], "database converted to the schema of this version");
    Ok(())
}

/// The version of a schema, to be compared.
fn version(schema: &Value) -> Vec<u32> {
    let text = schema["version"].as_str().unwrap_or_default();
    text.split('.').map(|part| part.parse().unwrap_or_default()).collect()
}

/// Removes servers that were replaced, for ever, as long as this one leads.
pub(crate) async fn remove(
    control_socket: &Path,
    socket: &Path,
    database: &str,
    replaced: impl Fn() -> Vec<String>,
) -> Infallible {
    // What this leader has removed, or never knew.
    let mut gone: Vec<String> = Vec::new();
    loop {
        let seen = rows(socket).await.unwrap_or_default();
        let leads = of_database(&seen, database).is_some_and(|row| row["leader"] == true);
        if !leads {
            gone.clear();
        }
        for server in replaced().into_iter().filter(|_| leads) {
            if gone.contains(&server) {
                continue;
            }
            match control(control_socket, "cluster/kick", &[database, &server]).await {
                Ok(said) => tracing::info!(
                    database,
                    server,
                    said = said.trim(),
                    "a server that was replaced leaves the cluster"
                ),
                Err(Unanswered::Refused { answer, .. }) => {
                    tracing::debug!(database, server, answer, "not in the cluster");
                    gone.push(server);
                }
                Err(error) => tracing::debug!(%error, "the cluster cannot be told"),
            }
        }
        let wait = changed(socket, SERVER, ("Database", &COLUMNS), &seen).await;
        if wait.is_err() {
            tokio::time::sleep(AT_A_TIME.min(Duration::from_secs(1))).await;
        }
    }
}

async fn rows(socket: &Path) -> Result<Value, Unanswered> {
    let select = json!({"op": "select", "table": "Database", "where": [], "columns": COLUMNS});
    let mut results = transact(socket, SERVER, [select]).await?;
    Ok(results.first_mut().map(|result| result["rows"].take()).unwrap_or_default())
}

fn of_database<'a>(rows: &'a Value, database: &str) -> Option<&'a Value> {
    rows.as_array()?.iter().find(|row| row["name"] == database)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let of = |text: &str| version(&json!({"version": text}));
        assert!(of("7.10.0") > of("7.9.1") && of("7.0.0") == of("7.0.0") && of("") < of("1.0.0"));
    }
}
