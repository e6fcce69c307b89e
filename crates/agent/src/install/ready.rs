//! Whether the node's agent can serve pods.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use portolan_cni::protocol::{self, PROTOCOL};
use portolan_cni::{Answer, PLUGIN_TYPE, Request, Verb, Version};
use portolan_watch::Pause;
use serde_json::json;

/// How long the agent may take to answer. It does so at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the agent at this socket says that it could serve any pod. Says what is missing whenever that changes.
pub(super) async fn wait(socket: &Path) {
    let mut pause = Pause::new(Duration::from_millis(50), Duration::from_secs(1));
    let mut told = String::new();
    loop {
        let path = socket.to_owned();
        let asked = tokio::task::spawn_blocking(move || ask(&path)).await;
        let missing = match asked.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(()) => return,
            Err(missing) => missing,
        };
        if missing != told {
            tracing::info!(missing, "waiting for the agent before the CNI plugin is installed");
            told = missing;
        }
        pause.wait().await;
    }
}

/// STATUS, as a runtime asks a plugin that is to make every interface.
fn ask(socket: &Path) -> Result<(), String> {
    let unreachable = |error: std::io::Error| format!("no answer at {}: {error}", socket.display());
    let mut stream = UnixStream::connect(socket).map_err(unreachable)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(unreachable)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(unreachable)?;
    let version = Version::V1_1_0.as_str();
    let request = Request {
        protocol: PROTOCOL,
        verb: Verb::Status,
        container_id: String::new(),
        ifname: String::new(),
        netns: None,
        args: String::new(),
        config: json!({"cniVersion": version, "name": "portolan", "type": PLUGIN_TYPE, "interfaces": "all"}),
    };
    protocol::send(&mut stream, &request, None).map_err(unreachable)?;
    match protocol::receive(&mut stream).map_err(unreachable)? {
        Some(Answer::Done | Answer::Result(_)) => Ok(()),
        Some(Answer::Error(error)) => Err(error.to_string()),
        None => Err(format!("no answer at {}: the connection was closed", socket.display())),
    }
}
