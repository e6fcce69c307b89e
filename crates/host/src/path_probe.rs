//! What passes on the way to another host: the largest packet, by echo requests that may not be fragmented, and packets to a UDP port that
//! something else has.
//!
//! Tunnels have their port for themselves. So packets to it are seen by a raw socket, which gets a copy once the host's firewall has let them
//! in, and are answered from that port, as a firewall that keeps state expects. They are no packets of geneve, by their version: tunnels drop
//! them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::libc;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto, socket_with};

use crate::error::{Result, Trying};

/// What became of an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// It was answered.
    Answered,
    /// It was not.
    Silent,
    /// The link on this host does not take a packet of this size.
    TooLarge,
}

/// Asks another host for echoes.
#[derive(Debug)]
pub struct EchoSocket {
    socket: UdpSocket,
    to: IpAddr,
    identifier: u16,
    sequence: u16,
}

const ICMP_HEADER: usize = 8;
const UDP_HEADER: usize = 8;

impl EchoSocket {
    /// Opens one. `identifier` tells its requests from those of others on this host.
    pub fn open(to: IpAddr, identifier: u16) -> Result<Self> {
        let what = || format!("open a socket for echo requests to {to}");
        let socket = match to {
            IpAddr::V4(_) => {
                let socket = raw(AddressFamily::INET, ipproto::ICMP).trying(what)?;
                // Neither fragmented on the way, nor held to what the kernel remembers of the way.
                set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE).trying(what)?;
                socket
            }
            IpAddr::V6(_) => {
                let socket = raw(AddressFamily::INET6, ipproto::ICMPV6).trying(what)?;
                set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE).trying(what)?;
                socket
            }
        };
        Ok(Self { socket, to, identifier, sequence: 0 })
    }

    /// Sends a packet of that size, its IP header included, and waits for its echo.
    pub fn ask(&mut self, size: u32, patience: Duration) -> Result<Echo> {
        let what = || format!("ask {} for an echo of {size} bytes", self.to);
        self.sequence = self.sequence.wrapping_add(1);
        let header = if self.to.is_ipv4() { 20 } else { 40 };
        let mut request = vec![0; (size as usize).saturating_sub(header).max(ICMP_HEADER)];
        request[0] = if self.to.is_ipv4() { 8 } else { 128 };
        request[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        request[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        if self.to.is_ipv4() {
            // The kernel does it for IPv6 by itself.
            let sum = checksum(&[&request]);
            request[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        match self.socket.send_to(&request, SocketAddr::new(self.to, 0)) {
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(Echo::TooLarge),
            // The neighbour does not answer, or a firewall of this host is in the way: no echo comes.
            Err(error) if is_of_the_way(&error) => return Ok(Echo::Silent),
            sent => sent.trying(what)?,
        };
        let end = Instant::now() + patience;
        let mut answer = vec![0; request.len() + 128];
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.socket.set_read_timeout(Some(left)).trying(what)?;
            match self.socket.recv_from(&mut answer) {
                Ok((length, from))
                    if from.ip() == self.to && self.is_answer(&answer[..length], request.len()) =>
                {
                    return Ok(Echo::Answered);
                }
                Ok(_) => {}
                Err(error) if is_of_the_way(&error) || is_timeout(&error) => {}
                Err(error) => return Err(error).trying(what),
            }
        }
        Ok(Echo::Silent)
    }

    fn is_answer(&self, packet: &[u8], length: usize) -> bool {
        let (icmp, kind) = match self.to {
            IpAddr::V4(_) => {
                let header = packet.first().map_or(0, |first| usize::from(first & 0xf) * 4);
                (packet.get(header..).unwrap_or_default(), 0)
            }
            IpAddr::V6(_) => (packet, 129),
        };
        icmp.len() == length
            && icmp[0] == kind
            && icmp[4..6] == self.identifier.to_be_bytes()
            && icmp[6..8] == self.sequence.to_be_bytes()
    }
}

/// How often a size is asked for: packets are lost, and the first ones while the neighbour is looked for.
const TRIES: u32 = 3;
const FIRST_TRIES: u32 = 6;

/// The largest size between `least` and `most` that is answered; none if not even the least is.
pub fn largest(least: u32, most: u32, mut ask: impl FnMut(u32) -> Result<Echo>) -> Result<Option<u32>> {
    let mut is_answered = |size: u32, tries: u32| -> Result<bool> {
        for _ in 0..tries {
            match ask(size)? {
                Echo::Answered => return Ok(true),
                Echo::TooLarge => return Ok(false),
                Echo::Silent => {}
            }
        }
        Ok(false)
    };
    let least = least.min(most);
    if !is_answered(least, FIRST_TRIES)? {
        return Ok(None);
    }
    if is_answered(most, TRIES)? {
        return Ok(Some(most));
    }
    let (mut passes, mut fails) = (least, most);
    while passes + 1 < fails {
        let middle = passes + (fails - passes) / 2;
        if is_answered(middle, TRIES)? {
            passes = middle;
        } else {
            fails = middle;
        }
    }
    Ok(Some(passes))
}

/// No version that geneve has or had, and options longer than the packet.
const NO_GENEVE: u8 = 0xff;
const MARK: &[u8] = b"\xffportolan";
const ASK: u8 = 1;
const ANSWER: u8 = 2;

/// Sends packets to a UDP port of another host until one is answered there by a [`Doorkeeper`].
pub fn knock(to: SocketAddr, nonce: u64, every: Duration, patience: Duration) -> Result<bool> {
    let what = || format!("send packets to UDP port {} of {}", to.port(), to.ip());
    let any = match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any).trying(what)?;
    let end = Instant::now() + patience;
    let mut answer = [0; 64];
    loop {
        match socket.send_to(&message(nonce, ASK), to) {
            Err(error) if !is_of_the_way(&error) => return Err(error).trying(what),
            _ => {}
        }
        let next = Instant::now() + every;
        while let Some(left) = next.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            socket.set_read_timeout(Some(left)).trying(what)?;
            match socket.recv_from(&mut answer) {
                Ok((length, from)) if from.ip() == to.ip() && answer[..length] == message(nonce, ANSWER) => {
                    return Ok(true);
                }
                Ok(_) => {}
                Err(error) if is_of_the_way(&error) || is_timeout(&error) => {}
                Err(error) => return Err(error).trying(what),
            }
        }
        if Instant::now() >= end {
            return Ok(false);
        }
    }
}

/// Answers those who knock at a UDP port of this host, whoever has the port.
#[derive(Debug)]
pub struct Doorkeeper {
    socket: UdpSocket,
    port: u16,
    nonce: u64,
    is_ipv4: bool,
}

impl Doorkeeper {
    /// Begins to see packets to the port, at addresses of the family of `own`.
    pub fn open(own: IpAddr, port: u16, nonce: u64) -> Result<Self> {
        let what = || format!("open a socket for packets to UDP port {port}");
        let family = if own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = raw(family, ipproto::UDP).trying(what)?;
        only_ours(&socket, own.is_ipv4(), port).trying(what)?;
        Ok(Self { socket, port, nonce, is_ipv4: own.is_ipv4() })
    }

    /// Answers, until something fails.
    pub fn answer(&self) -> Result<std::convert::Infallible> {
        let what = || format!("answer packets to UDP port {}", self.port);
        self.socket.set_read_timeout(None).trying(what)?;
        let mut packet = [0; 256];
        loop {
            let (length, from) = match self.socket.recv_from(&mut packet) {
                Ok(received) => received,
                Err(error) if is_of_the_way(&error) => continue,
                Err(error) => return Err(error).trying(what),
            };
            let Some(peer_port) = self.asked_by(&packet[..length]) else { continue };
            let mut answer = [&self.port.to_be_bytes()[..], &peer_port.to_be_bytes()].concat();
            let payload = message(self.nonce, ANSWER);
            let whole = u16::try_from(UDP_HEADER + payload.len()).unwrap_or_default();
            answer.extend(whole.to_be_bytes());
            answer.extend([0, 0]);
            answer.extend(payload);
            // Without a checksum only IPv4 is taken.
            if let IpAddr::V6(peer) = from.ip() {
                let Ok(own) = own_address(peer) else { continue };
                let sum = udp_checksum(own, peer, &answer);
                answer[6..8].copy_from_slice(&sum.to_be_bytes());
            }
            // One that is lost is asked for again.
            let _ = self.socket.send_to(&answer, SocketAddr::new(from.ip(), 0));
        }
    }

    /// The port of who knocks.
    fn asked_by(&self, packet: &[u8]) -> Option<u16> {
        let header = if self.is_ipv4 { usize::from(packet.first()? & 0xf) * 4 } else { 0 };
        let udp = packet.get(header..)?;
        let (head, payload) = udp.split_at_checked(UDP_HEADER)?;
        let is_for_us = head[2..4] == self.port.to_be_bytes() && payload == message(self.nonce, ASK);
        is_for_us.then(|| u16::from_be_bytes([head[0], head[1]]))
    }
}

fn message(nonce: u64, kind: u8) -> Vec<u8> {
    [MARK, &nonce.to_be_bytes(), &[kind]].concat()
}

fn raw(family: AddressFamily, protocol: Protocol) -> io::Result<UdpSocket> {
    let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol))?;
    // What the standard library does with one is right for any socket with addresses of IP.
    Ok(UdpSocket::from(socket))
}

/// The kernel is to wake this process for our packets alone: tunnels have many others.
fn only_ours(socket: &UdpSocket, is_ipv4: bool, port: u16) -> io::Result<()> {
    let load_half = |at: u32| if is_ipv4 { (0x48, at) } else { (0x28, at) };
    let load_byte = |at: u32| if is_ipv4 { (0x50, at) } else { (0x30, at) };
    let mut program = Vec::new();
    let mut step =
        |(code, k): (u16, u32), jt: u8, jf: u8| program.push(libc::sock_filter { code, jt, jf, k });
    // X = length of the IP header, which only sockets of IPv4 see.
    step((0xb1, 0), 0, 0);
    step(load_half(2), 0, 0);
    step((0x15, u32::from(port)), 0, 3);
    step(load_byte(8), 0, 0);
    step((0x15, u32::from(NO_GENEVE)), 0, 1);
    step((0x06, u32::MAX), 0, 0);
    step((0x06, 0), 0, 0);
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).expect("invariant: it has seven steps"),
        filter: program.as_mut_ptr(),
    };
    let length = libc::socklen_t::try_from(size_of::<libc::sock_fprog>()).expect("invariant: it is small");
    #[allow(unsafe_code, reason = "no crate that is linked has a safe way to set a filter")]
    // SAFETY: the kernel copies `length` bytes of the program's description and the program, both of which live until the call returns.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            length,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The address by which this host reaches another.
fn own_address(peer: Ipv6Addr) -> io::Result<Ipv6Addr> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
    socket.connect((peer, 9))?;
    match socket.local_addr()?.ip() {
        IpAddr::V6(own) => Ok(own),
        IpAddr::V4(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn udp_checksum(from: Ipv6Addr, to: Ipv6Addr, udp: &[u8]) -> u16 {
    let length = u32::try_from(udp.len()).unwrap_or_default().to_be_bytes();
    match checksum(&[&from.octets(), &to.octets(), &length, &[0, 0, 0, 17], udp]) {
        // None means that there is no checksum.
        0 => u16::MAX,
        sum => sum,
    }
}

/// The checksum of the internet protocols. All parts but the last have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w.get(1).copied().unwrap_or(0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("invariant: folded to sixteen bits")
}

/// Errors that speak of the way to the other host, not of this socket.
fn is_of_the_way(error: &io::Error) -> bool {
    let codes = [
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::EHOSTDOWN,
        libc::EPERM,
        libc::EMSGSIZE,
        libc::ENOBUFS,
        libc::EINTR,
    ];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(limit: u32, most: u32) -> (Option<u32>, u32) {
        let mut asked = 0;
        let found = largest(576, most, |size| {
            asked += 1;
            Ok(if size <= limit { Echo::Answered } else { Echo::Silent })
        });
        (found.expect("nothing fails"), asked)
    }

    #[test]
    fn the_largest_packet_is_found_with_few_requests() {
        assert_eq!(search(9000, 1500), (Some(1500), 2), "what is wanted passes");
        for limit in [576, 577, 1280, 1399, 1400, 1499] {
            let (found, asked) = search(limit, 1500);
            assert_eq!(found, Some(limit));
            assert!(asked <= 1 + TRIES * 11, "{asked}");
        }
        assert_eq!(search(100, 1500), (None, FIRST_TRIES), "nothing passes");
        assert_eq!(search(9000, 400), (Some(400), 2), "less is wanted than every link carries");
    }

    #[test]
    fn packets_that_are_lost_are_no_limit() {
        let mut lost = [5, 2].into_iter().cycle();
        let (mut left, mut last) = (0, 0);
        // The first of each size.
        let found = largest(576, 1500, |size| {
            if size != last {
                (last, left) = (size, lost.next().unwrap_or_default());
            }
            let is_lost = left > 0;
            left -= i32::from(is_lost);
            Ok(if is_lost { Echo::Silent } else { Echo::Answered })
        });
        assert_eq!(found.expect("nothing fails"), Some(1500));
    }

    #[test]
    fn checksums_are_those_of_the_protocols() {
        // An echo request of `ping -c1 -s0`, whose checksum is known.
        assert_eq!(checksum(&[&[8, 0, 0, 0, 0, 1, 0, 1]]), 0xf7fd);
        let udp = [0x17, 0xc1, 0x9c, 0x40, 0, 9, 0, 0, 1];
        let sum = udp_checksum(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, &udp);
        let mut whole = udp.to_vec();
        whole[6..8].copy_from_slice(&sum.to_be_bytes());
        let length = [0, 0, 0, 9];
        let (one, other) = (Ipv6Addr::LOCALHOST.octets(), Ipv6Addr::LOCALHOST.octets());
        assert_eq!(checksum(&[&one, &other, &length, &[0, 0, 0, 17], &whole]), 0, "it checks");
    }

    #[test]
    fn only_our_questions_are_answered() {
        let nonce = 7;
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let keeper = Doorkeeper { socket, port: 6081, nonce, is_ipv4: true };
        let packet = |port: u16, payload: &[u8]| {
            let mut packet = vec![0x45; 20];
            packet.extend(4000_u16.to_be_bytes());
            packet.extend(port.to_be_bytes());
            packet.extend([0; 4]);
            packet.extend(payload);
            packet
        };
        assert_eq!(keeper.asked_by(&packet(6081, &message(nonce, ASK))), Some(4000));
        for other in [
            packet(6082, &message(nonce, ASK)),
            packet(6081, &message(8, ASK)),
            packet(6081, &message(nonce, ANSWER)),
            packet(6081, &[0; 8]),
            vec![0x4f; 10],
            Vec::new(),
        ] {
            assert_eq!(keeper.asked_by(&other), None, "{other:?}");
        }
    }
}
