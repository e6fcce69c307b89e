//! Just enough JSON-RPC 1.0 over a Unix socket to ask an OVS or OVN daemon one question: its control socket (unixctl) and
//! ovsdb-server's own protocol are both that.

use std::io::{BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Error, Result, Trying};

/// Calls a method and returns its result.
pub(crate) fn call(socket: &Path, method: &str, params: &Value, patience: Duration) -> Result<Value> {
    Question::ask(socket, method, params)?.answer(patience)
}

/// A call that was sent and whose answer is still to come.
pub(crate) struct Question {
    stream: UnixStream,
    socket: PathBuf,
    method: String,
}

impl Question {
    pub(crate) fn ask(socket: &Path, method: &str, params: &Value) -> Result<Self> {
        let asking = || format!("ask {} for {method}", socket.display());
        let mut stream = UnixStream::connect(socket).trying(asking)?;
        let request = json!({"id": 0, "method": method, "params": params});
        stream.write_all(request.to_string().as_bytes()).trying(asking)?;
        Ok(Self { stream, socket: socket.into(), method: method.into() })
    }

    pub(crate) fn answer(self, patience: Duration) -> Result<Value> {
        let asking = || format!("ask {} for {}", self.socket.display(), self.method);
        let refused = |answer: String| Error::Refused { peer: self.socket.display().to_string(), answer };
        self.stream.set_read_timeout(Some(patience)).trying(asking)?;
        for message in
            serde_json::Deserializer::from_reader(BufReader::new(&self.stream)).into_iter::<Value>()
        {
            let mut message = message.map_err(std::io::Error::from).trying(asking)?;
            // Anything else is the server's own request (echo), which need not be answered in so short a conversation.
            if message["id"] == json!(0) && message.get("method").is_none() {
                return match message["error"].take() {
                    Value::Null => Ok(message["result"].take()),
                    Value::String(error) => Err(refused(error)),
                    error => Err(refused(error.to_string())),
                };
            }
        }
        Err(refused("nothing".into()))
    }
}

impl AsFd for Question {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Runs a command of a daemon's control socket, as ovs-appctl(8) does.
pub(crate) fn control(
    socket: &Path,
    command: &str,
    arguments: &[&str],
    patience: Duration,
) -> Result<String> {
    match call(socket, command, &json!(arguments), patience)? {
        Value::String(answer) => Ok(answer),
        other => Ok(other.to_string()),
    }
}
