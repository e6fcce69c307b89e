//! Serves the core kinds in the clear, on a port of this machine and a store in a directory:
//! `cargo run -p apiserver-builtin --example serve -- 8001 /tmp/store`, then `kubectl --server http://127.0.0.1:8001 get ns`.

use std::path::Path;

use apiserver::Server;
use apiserver::admission::NamespaceLifecycle;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().unwrap_or_else(|| "0".into());
    let directory = arguments.next().unwrap_or_else(|| ".".into());
    let store = apistore::Redb::open(Path::new(&directory).join("store.redb"), apistore::Options::default())?;
    let server = Server::builder(store)
        .resources(apiserver_builtin::resources())
        .admission(NamespaceLifecycle)
        .authorizer(apiserver::authz::AlwaysAllow)
        .build()
        .await?;
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("http://{}", listener.local_addr()?);
    server.serve(listener, async { drop(tokio::signal::ctrl_c().await) }).await?;
    Ok(())
}
