//! One question to a daemon over a Unix socket, in JSON-RPC 1.0: control sockets and ovsdb-server's own protocol are both that.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// How long a daemon may take to answer. It may be busy with a large transaction.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
/// For how long a database is asked at a time to answer when something has changed.
pub(crate) const AT_A_TIME: Duration = Duration::from_secs(3);
/// The longest answer that is read. Those that are asked for here are short.
const LONGEST: usize = 1 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// It cannot be asked.
    #[error("cannot ask {} for {method}: {error}", socket.display())]
    Io {
        /// Where it was asked.
        socket: PathBuf,
        /// What.
        method: String,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// It refused.
    #[error("{} refused {method}: {answer}", socket.display())]
    Refused {
        /// Where it was asked.
        socket: PathBuf,
        /// What.
        method: String,
        /// Its answer.
        answer: String,
    },
}

/// Calls a method and returns its result.
pub(crate) async fn call(socket: &Path, method: &str, params: &Value) -> Result<Value, Unanswered> {
    let io = |error| Unanswered::Io { socket: socket.into(), method: method.into(), error };
    let refused =
        |answer: String| Unanswered::Refused { socket: socket.into(), method: method.into(), answer };
    let answered = tokio::time::timeout(PATIENCE, exchange(socket, method, params)).await;
    let mut answer =
        answered.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut))).map_err(io)?;
    match answer["error"].take() {
        Value::Null => Ok(answer["result"].take()),
        Value::String(error) => Err(refused(error)),
        error => Err(refused(error.to_string())),
    }
}

/// Runs a transaction, and returns the results of its operations.
pub(crate) async fn transact(
    socket: &Path,
    database: &str,
    operations: impl IntoIterator<Item = Value>,
) -> Result<Vec<Value>, Unanswered> {
    let params: Vec<Value> = std::iter::once(json!(database)).chain(operations).collect();
    let answer = call(socket, "transact", &json!(params)).await?;
    let results = answer.as_array().cloned().unwrap_or_default();
    match results.iter().find(|result| !result["error"].is_null()) {
        None => Ok(results),
        Some(failed) => Err(Unanswered::Refused {
            socket: socket.into(),
            method: format!("a transaction of {database}"),
            answer: failed.to_string(),
        }),
    }
}

/// Waits until the rows of a table are other than these in these columns; or for [`AT_A_TIME`].
pub(crate) async fn changed(
    socket: &Path,
    database: &str,
    (table, columns): (&str, &[&str]),
    rows: &Value,
) -> Result<(), Unanswered> {
    let wait = json!({
        "op": "wait", "table": table, "where": [], "columns": columns, "until": "!=", "rows": rows,
        "timeout": u64::try_from(AT_A_TIME.as_millis()).unwrap_or(u64::MAX),
    });
    // That the time is over is an error of the operation.
    call(socket, "transact", &json!([database, wait])).await.map(drop)
}

/// Runs a command of a control socket, as ovs-appctl(8) does.
pub(crate) async fn control(socket: &Path, command: &str, arguments: &[&str]) -> Result<String, Unanswered> {
    Ok(match call(socket, command, &json!(arguments)).await? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

async fn exchange(socket: &Path, method: &str, params: &Value) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket).await?;
    let request = json!({"id": 0, "method": method, "params": params});
    stream.write_all(request.to_string().as_bytes()).await?;
    let mut received = Vec::new();
    let mut buffer = vec![0; 8192];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.extend_from_slice(&buffer[..count]);
        if received.len() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
        }
        for message in serde_json::Deserializer::from_slice(&received).into_iter::<Value>() {
            match message {
                // Anything else is the server's own request (echo), which need not be answered in so short a conversation.
                Ok(message) if message["id"] == json!(0) && message.get("method").is_none() => {
                    return Ok(message);
                }
                Ok(_) => {}
                Err(error) if error.is_eof() => break,
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
    }
}
