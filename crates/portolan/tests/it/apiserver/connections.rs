//! Connections that never carry a request.

use std::time::Duration;

use portolan_testbed::Test;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::apiserver::server::{Server, request};

const CONNECTIONS: usize = 200;

#[test]
fn connections_without_a_request_are_closed_and_new_clients_are_served() {
    Test::new().deadline(Duration::from_secs(120)).run(async |lab| {
        let server = Server::start_with(&lab, &["--header-timeout", "2", "--max-connections", "250"]);
        let mut connections = JoinSet::new();
        for number in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            connections.spawn(async move {
                // Nothing at all, or the beginning of a TLS handshake.
                if number % 2 == 0 {
                    stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
                }
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
        // Every one is closed by the server, and meanwhile others are served.
        let client = server.client().await;
        client.request_text(request(http::Method::GET, "/api/v1/namespaces", None)).await.unwrap();
        connections.join_all().await;
    });
}
