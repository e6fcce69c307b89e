//! Traffic between pods of a test: what must get through and what must not.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portolan_lab::Result;
use serde_json::Value;

use crate::capture::Capture;
use crate::pod::Pod;
use crate::testbed::Testbed;

/// The discard port.
const DISCARD: u16 = 9;

/// How long traffic that should get through is given, and how long is waited for an answer that should not come.
const PATIENCE: Duration = Duration::from_secs(15);
const SILENCE: Duration = Duration::from_secs(1);

/// How much is sent: many segments, many datagrams.
const STREAM: usize = 2 << 20;
const DATAGRAMS: u32 = 64;

/// Where traffic goes to.
#[derive(Clone, Debug)]
pub struct Destination<'a> {
    address: IpAddr,
    pod: Option<&'a Pod>,
}

impl<'a> From<&'a Pod> for Destination<'a> {
    fn from(pod: &'a Pod) -> Self {
        Self { address: pod.address(), pod: Some(pod) }
    }
}

impl From<IpAddr> for Destination<'_> {
    fn from(address: IpAddr) -> Self {
        Self { address, pod: None }
    }
}

impl Testbed {
    /// ICMP echoes from a pod to another, or to any address.
    pub fn ping<'a>(&self, from: &'a Pod, to: impl Into<Destination<'a>>) -> Ping<'a> {
        Ping { from, to: to.into(), patience: PATIENCE }
    }

    /// A TCP connection from a pod to another.
    pub fn tcp<'a>(&self, from: &'a Pod, to: &'a Pod) -> Tcp<'a> {
        Tcp { from, to, address: to.address() }
    }

    /// UDP datagrams from a pod to another and back.
    pub fn udp<'a>(&self, from: &'a Pod, to: &'a Pod) -> Udp<'a> {
        Udp { from, to, address: to.address() }
    }
}

/// ICMP echoes.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until it is said what should happen"]
pub struct Ping<'a> {
    from: &'a Pod,
    to: Destination<'a>,
    patience: Duration,
}

impl Ping<'_> {
    /// How long an answer that should come may take; 15 seconds unless set.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Both a small packet and one that fills the MTU, which no one may cut, are answered.
    ///
    /// # Panics
    /// When they are not: that is its purpose.
    #[track_caller]
    pub fn succeeds(&self) {
        let full = mtu(self.from, self.to.address).map(|mtu| mtu - headers(self.to.address));
        let sizes = full.map(|full| [56, full]);
        let sent = sizes.and_then(|sizes| sizes.iter().try_for_each(|size| self.send(*size)));
        if let Err(error) = sent {
            panic!("{} does not reach {}: {error}", self.from.name(), self.to.name());
        }
    }

    /// No packet is answered: ping sends, and hears nothing.
    ///
    /// # Panics
    /// When one is answered, and when ping cannot send.
    #[track_caller]
    pub fn is_unanswered(&self) {
        if let Err(why) = self.sent_in_vain() {
            panic!("ping from {} to {}: {why}", self.from.name(), self.to.name());
        }
    }

    /// No packet is answered, and none arrives. `witness` is a pod that reaches the destination: when a packet of its own has arrived, all
    /// that were sent before have, or were dropped.
    ///
    /// # Panics
    /// When one is answered or arrives, when ping cannot send, and when nothing arrives from the witness.
    #[track_caller]
    pub fn is_dropped(&self, witness: &Pod) {
        let Some(to) = self.to.pod else { panic!("{} is no pod: nobody can look there", self.to.name()) };
        if let Err(why) = dropped(self.from, to, witness, || self.sent_in_vain()) {
            panic!("ping from {} to {}: {why}", self.from.name(), self.to.name());
        }
    }

    /// There is no route to the destination, so that nothing is sent.
    ///
    /// # Panics
    /// When there is one.
    #[track_caller]
    pub fn has_no_route(&self) {
        let output = self.unreliably().map_err(|error| error.to_string());
        let said = output.as_ref().map(|output| String::from_utf8_lossy(&output.stderr));
        let is_so = matches!((&output, &said), (Ok(output), Ok(said))
            if output.status.code() == Some(2) && said.contains("Network is unreachable"));
        assert!(
            is_so,
            "ping from {} to {}: there should be no route: {output:?}",
            self.from.name(),
            self.to.name()
        );
    }

    /// Sends, and expects ping's status for "sent, and nothing came back". Every other one is an error of the test, or an answer.
    fn sent_in_vain(&self) -> Result<(), String> {
        let output = self.unreliably().map_err(|error| error.to_string())?;
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        match output.status.code() {
            Some(1) => Ok(()),
            Some(0) => Err(format!("it is answered, and should not be: {said}")),
            _ => Err(format!("it could not be sent ({}): {said}", output.status)),
        }
    }

    fn unreliably(&self) -> Result<std::process::Output> {
        self.from.command("ping").args(["-c3", "-i0.2", "-W1", &self.to.address.to_string()]).output()
    }

    fn send(&self, size: u16) -> Result<()> {
        let patience = format!("-w{}", self.patience.as_secs());
        let arguments = ["-c1", &patience, "-i0.1", "-Mdo", "-s", &size.to_string()];
        self.from.command("ping").args(arguments).arg(self.to.address.to_string()).read().map(drop)
    }
}

impl Destination<'_> {
    fn name(&self) -> String {
        self.pod.map_or_else(
            || self.address.to_string(),
            |pod| format!("{} ({} on {})", pod.name(), self.address, pod.node()),
        )
    }
}

/// A TCP connection.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until it is said what should happen"]
pub struct Tcp<'a> {
    from: &'a Pod,
    to: &'a Pod,
    address: IpAddr,
}

impl Tcp<'_> {
    /// Megabytes in full segments arrive as they were sent.
    ///
    /// # Panics
    /// When they do not.
    #[track_caller]
    pub fn succeeds(&self) {
        match self.transfer() {
            Ok(true) => {}
            Ok(false) => {
                panic!("what {} received is not what {} sent", self.to.name(), self.from.name())
            }
            Err(error) => panic!("no TCP from {} to {}: {error}", self.from.name(), self.to.name()),
        }
    }

    /// No connection is made, and nothing arrives. `witness` is a pod that reaches the destination: when a packet of its own has
    /// arrived, all that were sent before have, or were dropped.
    ///
    /// # Panics
    /// When one is made or something arrives, when nothing can be sent, and when nothing arrives from the witness.
    #[track_caller]
    pub fn is_dropped(&self, witness: &Pod) {
        self.expect_failure(witness, |error| {
            matches!(error, ErrorKind::TimedOut | ErrorKind::HostUnreachable)
        });
    }

    /// Another who has the same address, and does not listen, refuses the connection; nothing arrives at this one. `witness` is a pod
    /// that reaches this one.
    ///
    /// # Panics
    /// When a connection is made or something arrives here, when nobody refuses it, and when nothing arrives from the witness.
    #[track_caller]
    pub fn arrives_elsewhere(&self, witness: &Pod) {
        self.expect_failure(witness, |error| error == ErrorKind::ConnectionRefused);
    }

    #[track_caller]
    fn expect_failure(&self, witness: &Pod, is_expected: impl Fn(ErrorKind) -> bool) {
        let attempt = || {
            let (listener, to) = self.listen()?;
            let connected = finish_io(spawn(self.from, move || TcpStream::connect_timeout(&to, SILENCE))?);
            drop(listener);
            match connected {
                Ok(_) => Err("a connection is made, and should not be".into()),
                Err(error) if is_expected(error.kind()) => Ok(()),
                Err(error) => Err(format!("connecting fails in another way than it should: {error}")),
            }
        };
        if let Err(why) = dropped(self.from, self.to, witness, attempt) {
            panic!("TCP from {} to {}: {why}", self.from.name(), self.to.name());
        }
    }

    fn listen(&self) -> Result<(TcpListener, SocketAddr), String> {
        let address = self.address;
        let bound = self.to.netns().run(move || TcpListener::bind((address, 0)));
        let listener = bound.map_err(|error| error.to_string())?;
        let to = listener.local_addr().map_err(|error| error.to_string())?;
        Ok((listener, to))
    }

    fn transfer(&self) -> Result<bool, String> {
        let (listener, to) = self.listen()?;
        let sent: Vec<u8> = (0..STREAM).map(|at| (at * 31 + at / 251) as u8).collect();
        let to_send = sent.clone();
        let sender = spawn(self.from, move || {
            let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.write_all(&to_send)
        })?;
        let receiver = spawn(self.to, move || {
            let mut received = Vec::with_capacity(STREAM);
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.read_to_end(&mut received)?;
            Ok(received)
        })?;
        if let Err(error) = finish(sender) {
            // So that the one who waits for the connection goes on.
            let _ = self.to.netns().run(move || TcpStream::connect(to));
            let _ = finish(receiver);
            return Err(error);
        }
        finish(receiver).map(|received| received == sent)
    }
}

/// UDP datagrams and their echoes.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until it is said what should happen"]
pub struct Udp<'a> {
    from: &'a Pod,
    to: &'a Pod,
    address: IpAddr,
}

impl Udp<'_> {
    /// Datagrams that fill the MTU come back as they were sent. One that is lost is sent again: UDP may lose.
    ///
    /// # Panics
    /// When they do not.
    #[track_caller]
    pub fn succeeds(&self) {
        if let Err(error) = self.exchange() {
            panic!("no UDP between {} and {}: {error}", self.from.name(), self.to.name());
        }
    }

    /// Datagrams are sent, and none arrives. `witness` is a pod that reaches the destination: when a packet of its own has arrived, all
    /// that were sent before have, or were dropped.
    ///
    /// # Panics
    /// When one arrives, when nothing can be sent, and when nothing arrives from the witness.
    #[track_caller]
    pub fn is_dropped(&self, witness: &Pod) {
        let address = self.address;
        let attempt = || {
            let sender = spawn(self.from, move || {
                let socket = UdpSocket::bind((any_of(address), 0))?;
                for _ in 0..3 {
                    match socket.send_to(b"nothing that should arrive", (address, DISCARD)) {
                        // What an earlier one was answered: the next hop does not answer.
                        Err(error) if error.kind() == ErrorKind::HostUnreachable => {}
                        sent => drop(sent?),
                    }
                }
                Ok(())
            })?;
            finish(sender)?;
            // The witness sends by another port of the switch, and could overtake. What waits in vain for an answer gives them time.
            Ping { from: self.from, to: self.to.into(), patience: PATIENCE }.sent_in_vain()
        };
        if let Err(why) = dropped(self.from, self.to, witness, attempt) {
            panic!("UDP from {} to {}: {why}", self.from.name(), self.to.name());
        }
    }

    fn exchange(&self) -> Result<(), String> {
        let address = self.address;
        let length = full_datagram(self.from, address)?;
        let bound = self.to.netns().run(move || UdpSocket::bind((address, 0)));
        let server = bound.map_err(|error| error.to_string())?;
        let to = server.local_addr().map_err(|error| error.to_string())?;
        let echo = spawn(self.to, move || {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let (length, from) = server.recv_from(&mut buffer)?;
                if length == 0 {
                    return Ok(());
                }
                server.send_to(&buffer[..length], from)?;
            }
        })?;
        let client = spawn(self.from, move || {
            let socket = UdpSocket::bind((any_of(to.ip()), 0))?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(Duration::from_millis(200)))?;
            let deadline = Instant::now() + PATIENCE;
            (0..DATAGRAMS).try_for_each(|number| exchange_one(&socket, number, length, deadline))
        })?;
        let exchanged = finish(client);
        // An empty datagram ends the echo.
        let _ = self.to.netns().run(move || UdpSocket::bind((to.ip(), 0))?.send_to(&[], to));
        let _ = finish(echo);
        exchanged
    }
}

/// Sends a datagram until its echo comes.
fn exchange_one(socket: &UdpSocket, number: u32, length: usize, deadline: Instant) -> std::io::Result<()> {
    let mut datagram: Vec<u8> = (0..length).map(|at| (at * 7 + number as usize) as u8).collect();
    datagram[..4].copy_from_slice(&number.to_be_bytes());
    let mut answer = vec![0; length + 1];
    loop {
        socket.send(&datagram)?;
        loop {
            match socket.recv(&mut answer) {
                Ok(received) if answer[..received] == datagram => return Ok(()),
                // The echo of an earlier one that was taken for lost.
                Ok(_) => {}
                Err(_) if Instant::now() < deadline => break,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Nothing of what `attempt` sends arrives at `to`, as seen there. What it returns is its own judgement of what came back.
fn dropped(
    from: &Pod,
    to: &Pod,
    witness: &Pod,
    attempt: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let capture = Capture::start(to, from)?;
    attempt()?;
    let arrived = capture.frames_until_fence(witness)?;
    if arrived.is_empty() {
        Ok(())
    } else {
        Err(format!("it arrives, and should not: {}", arrived.join("; ")))
    }
}

fn any_of(address: IpAddr) -> IpAddr {
    if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

pub(crate) fn spawn<T: Send + 'static>(
    pod: &Pod,
    body: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<JoinHandle<std::io::Result<T>>, String> {
    pod.netns().spawn_thread("traffic", body).map_err(|error| error.to_string())
}

pub(crate) fn finish<T>(thread: JoinHandle<std::io::Result<T>>) -> Result<T, String> {
    finish_io(thread).map_err(|error| error.to_string())
}

fn finish_io<T>(thread: JoinHandle<std::io::Result<T>>) -> std::io::Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// How much fits into a datagram to an address.
pub(crate) fn full_datagram(from: &Pod, to: IpAddr) -> Result<usize, String> {
    let mtu = mtu(from, to).map_err(|error| error.to_string())?;
    Ok(usize::from(mtu - headers(to)))
}

/// The MTU of the interface by which a pod reaches an address.
fn mtu(from: &Pod, to: IpAddr) -> Result<u16> {
    let read = |arguments: &[&str]| from.command("ip").arg("-j").args(arguments).read();
    let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap_or_default();
    let route = parse(read(&["route", "get", &to.to_string()])?);
    let link = route[0]["dev"].as_str().unwrap_or("lo").to_owned();
    let link = parse(read(&["link", "show", "dev", &link])?);
    Ok(link[0]["mtu"].as_u64().and_then(|mtu| u16::try_from(mtu).ok()).unwrap_or(1500))
}

/// What the headers of IP and of ICMP or UDP take.
fn headers(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}
