//! Creates objects as fast as a server takes them: `cargo run --release -p apiserver-builtin --example load -- 127.0.0.1:8001 64 20000`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8001".into());
    let clients: usize = arguments.next().unwrap_or_else(|| "64".into()).parse()?;
    let count: usize = arguments.next().unwrap_or_else(|| "20000".into()).parse()?;
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (address, next) = (address.clone(), next.clone());
        tasks.spawn(async move { create(&address, &next, count).await });
    }
    while let Some(created) = tasks.join_next().await {
        created??;
    }
    println!("{:.0} creates per second", count as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

async fn create(
    address: &str,
    next: &AtomicUsize,
    count: usize,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count {
            return Ok(());
        }
        let value = "x".repeat(512);
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"load-{index}","labels":{{"a":"b"}}}},"data":{{"k":"{value}"}}}}"#
        );
        let request = Request::post("/api/v1/namespaces/default/configmaps")
            .header("host", address)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&answer)).into());
        }
    }
}
