//! Carries connections from one network namespace to another: bytes, unread.

use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::error::{Result, Trying};
use crate::namespace::Namespace;

/// A forward. It ends when dropped, with the connections through it.
#[derive(Debug)]
pub struct Forward {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Forward {
    /// Carries what comes in at `listener`, which stays in the namespace where it was bound, to an address as seen from
    /// `namespace`; without one, from the namespace of the caller.
    pub fn start(
        listener: TcpListener,
        namespace: Option<&Namespace>,
        host: &str,
        port: u16,
    ) -> Result<Self> {
        let address = listener.local_addr().trying(|| "name a listener".into())?;
        listener.set_nonblocking(true).trying(|| format!("listen at {address}"))?;
        let (stop, stopped) = oneshot::channel();
        let target = (host.to_owned(), port);
        let carry = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return tracing::error!(%error, "no runtime to forward connections"),
            };
            runtime.block_on(async {
                tokio::select! {
                    () = carry_all(listener, target) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = match namespace {
            Some(namespace) => namespace.spawn_thread("forward", carry)?,
            None => std::thread::Builder::new()
                .name("forward".into())
                .spawn(carry)
                .trying(|| "start a thread".into())?,
        };
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn carry_all(listener: TcpListener, target: (String, u16)) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen"),
    };
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(carry(client, target.clone()))),
            // Of one connection, such as one that was given up before it was accepted.
            Err(error) => tracing::debug!(%error, "a connection was not accepted"),
        }
    }
}

async fn carry(mut client: TcpStream, target: (String, u16)) {
    let carried = async {
        let mut server = TcpStream::connect((target.0.as_str(), target.1)).await?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    };
    if let Err(error) = carried.await {
        tracing::debug!(%error, host = target.0, port = target.1, "a connection broke");
    }
}
