//! The test in the place of a server, for what no real one does on request.

use std::io;

use ovsdb::transport::{Connecting, Connector, Stream};
use ovsdb::{Client, ConnectionError, Endpoint, Monitor, Status, Uuid};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

use crate::support::{SCHEMA, SEA};

/// The test in a server's place.
pub(crate) struct Server {
    stream: DuplexStream,
    input: Vec<u8>,
}

impl Server {
    pub(crate) fn new(stream: DuplexStream) -> Self {
        Server { stream, input: Vec::new() }
    }

    /// The next message of the client; none when it hangs up.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let mut values = serde_json::Deserializer::from_slice(&self.input).into_iter::<Value>();
            if let Some(Ok(value)) = values.next() {
                let end = values.byte_offset();
                self.input.drain(..end);
                return Some(value);
            }
            if self.stream.read_buf(&mut self.input).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
        // A client that hung up is what some tests want.
        drop(self.stream.write_all(text.as_ref()).await);
    }

    pub(crate) async fn answer(&mut self, id: &Value, result: Value) {
        self.send(json!({"id": id, "result": result, "error": null}).to_string()).await;
    }

    /// Answers everything up to and with the monitor request, as an empty server does.
    pub(crate) async fn greet(&mut self) {
        let monitor = self.greet_up_to("monitor_cond_since").await;
        self.answer(&monitor["id"], json!([false, Uuid::nil(), {}])).await;
    }

    /// Answers everything before a request for `method`, and returns that one.
    pub(crate) async fn greet_up_to(&mut self, method: &str) -> Value {
        loop {
            let request = self.next().await.expect("a client that greets");
            let id = &request["id"];
            match request["method"].as_str().unwrap() {
                asked if asked == method => return request,
                "monitor_cond" => {
                    let row = json!({"name": SEA, "model": "standalone", "connected": true, "leader": true});
                    self.answer(id, json!({"Database": {Uuid::nil().to_string(): {"initial": row}}})).await;
                }
                "get_schema" => self.answer(id, serde_json::from_str(SCHEMA).unwrap()).await,
                _ => self.answer(id, json!({})).await,
            }
        }
    }
}

pub(crate) fn staged() -> (Client, tokio::sync::mpsc::UnboundedReceiver<DuplexStream>) {
    let (stage, connections) = stage();
    let endpoint: Endpoint = "unix:nowhere".parse().unwrap();
    let builder = Client::builder(SEA, [endpoint]).monitor(Monitor::table("Lighthouse")).connector(stage);
    (builder.max_message(4096).connect(), connections)
}

pub(crate) async fn next_error(client: &Client) -> String {
    let mut status = client.status();
    let failed = |status: &Status| matches!(status, Status::Connecting { error: Some(_), .. });
    match &*status.wait_for(failed).await.unwrap() {
        Status::Connecting { error: Some(error), .. } => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&**error);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            text
        }
        other => panic!("{other:?}"),
    }
}

/// Connections that end at the test itself, which plays the server.
pub(crate) fn stage() -> (Stage, mpsc::UnboundedReceiver<DuplexStream>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Stage(sender), receiver)
}

pub(crate) struct Stage(mpsc::UnboundedSender<DuplexStream>);

impl Connector for Stage {
    fn connect(&self, _: &Endpoint) -> Connecting {
        let (client, server) = duplex(1 << 16);
        let sent = self.0.send(server);
        Box::pin(async move {
            sent.map_err(|_| ConnectionError::Connect(io::ErrorKind::ConnectionRefused.into()))?;
            Ok(Box::new(client) as Box<dyn Stream>)
        })
    }
}
