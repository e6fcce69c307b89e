//! Networks between client and server that a test controls.

use std::io;
use std::sync::Arc;

use ovsdb::frame::Scanner;
use ovsdb::message::Message;
use ovsdb::transport::{Connecting, Connector, Sockets, Stream};
use ovsdb::{ConnectionError, Endpoint};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// A network that can be cut and mended.
#[derive(Clone)]
pub(crate) struct Cable {
    whole: Arc<watch::Sender<bool>>,
}

impl Cable {
    pub(crate) fn new() -> Self {
        Cable { whole: Arc::new(watch::Sender::new(true)) }
    }

    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

impl Connector for Cable {
    fn connect(&self, endpoint: &Endpoint) -> Connecting {
        let mut whole = self.whole.subscribe();
        let connecting = Sockets::default().connect(endpoint);
        Box::pin(async move {
            if !*whole.borrow_and_update() {
                return Err(ConnectionError::Connect(io::ErrorKind::NetworkUnreachable.into()));
            }
            let mut server = connecting.await?;
            let (client, mut inner) = duplex(1 << 20);
            tokio::spawn(async move {
                tokio::select! {
                    _ = copy_bidirectional(&mut inner, &mut server) => {}
                    _ = whole.wait_for(|whole| !whole) => {}
                }
            });
            Ok(Box::new(client) as Box<dyn Stream>)
        })
    }
}

/// A server that refuses every connection; says when it was asked.
pub(crate) struct Refused(pub(crate) mpsc::UnboundedSender<Instant>);

impl Connector for Refused {
    fn connect(&self, _: &Endpoint) -> Connecting {
        _ = self.0.send(Instant::now());
        Box::pin(async { Err(ConnectionError::Connect(io::ErrorKind::ConnectionRefused.into())) })
    }
}

/// A network that hands over one byte at a time.
pub(crate) struct Trickle;

impl Connector for Trickle {
    fn connect(&self, endpoint: &Endpoint) -> Connecting {
        let connecting = Sockets::default().connect(endpoint);
        Box::pin(async move {
            let mut server = connecting.await?;
            let (client, mut inner) = duplex(1);
            tokio::spawn(async move { copy_bidirectional(&mut inner, &mut server).await });
            Ok(Box::new(client) as Box<dyn Stream>)
        })
    }
}

/// A real server that seems older than it is: it does not know some methods.
pub(crate) struct Older(pub(crate) &'static [&'static str]);

impl Connector for Older {
    fn connect(&self, endpoint: &Endpoint) -> Connecting {
        let connecting = Sockets::default().connect(endpoint);
        let unknown = self.0;
        Box::pin(async move {
            let server = connecting.await?;
            let (client, inner) = duplex(1 << 20);
            tokio::spawn(filter(inner, server, unknown));
            Ok(Box::new(client) as Box<dyn Stream>)
        })
    }
}

async fn filter(
    client: DuplexStream,
    server: Box<dyn Stream>,
    unknown: &'static [&'static str],
) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let (mut scanner, mut requests, mut answers) = (Scanner::new(1 << 20), Vec::new(), vec![0; 4096]);
    loop {
        while let Some(frame) = scanner.scan(&requests).expect("our own client sends messages") {
            let request: Vec<u8> = requests.drain(..frame.len).collect();
            match Message::parse(&frame, &request).expect("our own client sends messages") {
                Message::Request { id, method, .. } if unknown.contains(&&*method) => {
                    let refusal = format!(r#"{{"id":{id},"result":null,"error":"unknown method"}}"#);
                    to_client.write_all(refusal.as_bytes()).await?;
                }
                _ => to_server.write_all(&request).await?,
            }
        }
        tokio::select! {
            read = from_client.read_buf(&mut requests) => if read? == 0 { return Ok(()) },
            read = from_server.read(&mut answers) => match read? {
                0 => return Ok(()),
                count => to_client.write_all(&answers[..count]).await?,
            },
        }
    }
}
