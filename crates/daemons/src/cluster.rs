//! What a server of a cluster is asked for and told while it runs.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::{Doing as _, Error};
use crate::json_rpc::{AT_A_TIME, Unanswered, call, changed, control, transact};

/// What a server says of its databases.
const SERVER: &str = "_Server";
const COLUMNS: [&str; 5] = ["cid", "connected", "leader", "name", "sid"];

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

/// Tells a client at the same host, by this command of its control socket, whenever the database has become another cluster, for ever: a
/// client remembers how far the log was, and takes a new cluster, whose log is shorter, for a server that is behind.
pub(crate) async fn tell_of_another(
    socket: &Path,
    database: &str,
    client: &Path,
    command: &str,
) -> Infallible {
    let mut told: Option<String> = None;
    loop {
        let seen = rows(socket).await.unwrap_or_default();
        let cluster = of_database(&seen, database).and_then(cluster_of);
        // The first is told as well: it may be new since the client has begun.
        if let Some(cluster) = cluster.filter(|cluster| told.as_ref() != Some(cluster)) {
            match control(client, command, &[]).await {
                Ok(_) => {
                    tracing::info!(database, cluster, "what is remembered of another cluster is forgotten");
                    told = Some(cluster);
                }
                Err(error) => {
                    tracing::warn!(%error, database, "what is remembered of another cluster cannot be forgotten; trying again");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            }
        }
        let wait = changed(socket, SERVER, ("Database", &COLUMNS), &seen).await;
        if wait.is_err() {
            tokio::time::sleep(AT_A_TIME.min(Duration::from_secs(1))).await;
        }
    }
}

/// Calls `say` each time that the server has been without a cluster, or its cluster without a leader, for so long.
pub(crate) async fn cut_off(socket: &Path, database: &str, time: Duration, say: impl Fn()) -> Infallible {
    let mut since: Option<Instant> = None;
    loop {
        let seen = rows(socket).await.unwrap_or_default();
        // One that does not answer may be starting.
        let is_cut_off = of_database(&seen, database).is_some_and(|row| row["connected"] == false);
        if !is_cut_off {
            since = None;
        } else if since.get_or_insert_with(Instant::now).elapsed() >= time {
            say();
            since = Some(Instant::now());
        }
        let wait = changed(socket, SERVER, ("Database", &COLUMNS), &seen).await;
        if wait.is_err() {
            tokio::time::sleep(AT_A_TIME.min(Duration::from_secs(1))).await;
        }
    }
}

/// The cluster of a row; none of a database of one server.
fn cluster_of(row: &Value) -> Option<String> {
    match row["cid"].as_array().map(Vec::as_slice) {
        Some([kind, id]) if kind == "uuid" => id.as_str().map(str::to_owned),
        _ => None,
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let of = |text: &str| version(&json!({"version": text}));
        assert!(of("7.10.0") > of("7.9.1") && of("7.0.0") == of("7.0.0") && of("") < of("1.0.0"));
    }
    /// Of a socket of JSON-RPC: what each request is answered.
    async fn answer(listener: UnixListener, answer: impl Fn(&Value) -> Value) {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut buffer = vec![0; 8192];
            let count = stream.read(&mut buffer).await.expect("a request");
            let request: Value = serde_json::from_slice(&buffer[..count]).expect("it is one");
            let answer = json!({"id": 0, "result": answer(&request), "error": null}).to_string();
            stream.write_all(answer.as_bytes()).await.expect("it is read");
        }
    }

    #[tokio::test]
    async fn a_client_is_told_once_of_each_cluster() {
        let place = tempfile::tempdir().expect("a directory");
        let (server, client) = (place.path().join("server"), place.path().join("client"));
        let (cluster, now) = tokio::sync::watch::channel(json!(["uuid", "a"]));
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(answer(UnixListener::bind(&server).expect("a socket"), move |request| {
            match request["params"][1]["op"] == "select" {
                true => json!([{"rows": [{"name": "D", "cid": *now.borrow()}]}]),
                false => json!([{}]),
            }
        }));
        tasks.spawn(answer(UnixListener::bind(&client).expect("a socket"), move |request| {
            tell.send(request["method"].clone()).expect("somebody listens");
            json!("")
        }));
        tasks.spawn(async move { match tell_of_another(&server, "D", &client, "reset").await {} });
        assert_eq!(told.recv().await, Some(json!("reset")), "of the first");
        // A server that is not a cluster's is no other cluster, nor is the same one after that.
        for id in [json!(["set", []]), json!(["uuid", "a"])] {
            cluster.send_replace(id);
            assert!(tokio::time::timeout(Duration::from_millis(50), told.recv()).await.is_err());
        }
        cluster.send_replace(json!(["uuid", "b"]));
        assert_eq!(told.recv().await, Some(json!("reset")));
        assert!(tokio::time::timeout(Duration::from_millis(50), told.recv()).await.is_err());
    }
    #[tokio::test]
    async fn a_server_without_a_leader_is_noticed_after_a_while_and_one_with_a_leader_is_not() {
        let place = tempfile::tempdir().expect("a directory");
        let server = place.path().join("server");
        let (connected, now) = tokio::sync::watch::channel(true);
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(answer(UnixListener::bind(&server).expect("a socket"), move |request| {
            match request["params"][1]["op"] == "select" {
                true => json!([{"rows": [{"name": "D", "connected": *now.borrow()}]}]),
                false => json!([{}]),
            }
        }));
        let time = Duration::from_millis(30);
        tasks.spawn(async move {
            let say = || tell.send(Instant::now()).expect("somebody listens");
            match cut_off(&server, "D", time, say).await {}
        });
        assert!(tokio::time::timeout(time * 3, told.recv()).await.is_err());
        let begun = Instant::now();
        connected.send_replace(false);
        let said = told.recv().await.expect("it goes on");
        assert!(said - begun >= time);
        assert!(told.recv().await.expect("it is said again") - said >= time);
    }
}
