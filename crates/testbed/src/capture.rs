//! What arrives at a pod, seen at its own end: a packet that gets through one way only is answered by nobody, and yet it arrived.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with};

use crate::pod::Pod;

/// Every protocol, as `socket(AF_PACKET, …)` wants it: in network byte order.
const ETH_P_ALL: NonZeroU32 = NonZeroU32::new((0x0003_u16).to_be() as u32).expect("not zero");

/// How long the fence may take, and after which time another is sent: the first packets between two pods may be lost.
const PATIENCE: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(100);

/// The discard port.
const PORT: u16 = 9;

static NEXT_FENCE: AtomicU64 = AtomicU64::new(0);

/// Frames that arrive at a pod from another, from when this was made.
pub(crate) struct Capture<'a> {
    at: &'a Pod,
    fence: String,
    /// What arrived, once the fence has.
    done: mpsc::Receiver<Result<Vec<String>, String>>,
}

impl<'a> Capture<'a> {
    /// Begins to look, at `at`, for frames whose sender is one of the addresses of `from`.
    pub(crate) fn start(at: &'a Pod, from: &Pod) -> Result<Self, String> {
        let fence =
            format!("portolan-fence-{}-{}.", std::process::id(), NEXT_FENCE.fetch_add(1, Ordering::Relaxed));
        let (senders, mark) = (from.addresses().to_vec(), fence.clone().into_bytes());
        let socket = at.netns().run(packet_socket).map_err(|error| format!("cannot capture: {error}"))?;
        let (tell, done) = mpsc::channel();
        let look = move || {
            let _ = tell.send(frames_before(&socket, &senders, &mark));
        };
        std::thread::Builder::new().name("capture".into()).spawn(look).map_err(|error| error.to_string())?;
        Ok(Self { at, fence, done })
    }

    /// The frames that arrived before a datagram which `witness` sends now. Whatever was sent before has arrived by then, or was
    /// dropped. An error if the fence itself does not arrive: then nothing can be said.
    pub(crate) fn frames_until_fence(self, witness: &Pod) -> Result<Vec<String>, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.send_fence(witness)?;
            match self.done.recv_timeout(AGAIN) {
                Ok(frames) => return frames,
                Err(_) if Instant::now() < deadline => {}
                Err(_) => {
                    return Err(format!(
                        "{} cannot say what arrives at {}: its own packets do not",
                        witness.name(),
                        self.at.name()
                    ));
                }
            }
        }
    }

    fn send_fence(&self, witness: &Pod) -> Result<(), String> {
        let (to, text) = (self.at.address(), self.fence.clone());
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let send = move || UdpSocket::bind((any, 0))?.send_to(text.as_bytes(), (to, PORT));
        let sent = witness.netns().run(send).map(drop);
        sent.map_err(|error| format!("{} cannot send to {to}: {error}", witness.name()))
    }
}

fn packet_socket() -> rustix::io::Result<OwnedFd> {
    let protocol = Protocol::from_raw(ETH_P_ALL);
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE * 4))?;
    Ok(socket)
}

/// The frames of these senders that come before one with the mark.
fn frames_before(socket: &OwnedFd, senders: &[IpAddr], mark: &[u8]) -> Result<Vec<String>, String> {
    let (mut frame, mut found) = (vec![0; 1 << 16], Vec::new());
    loop {
        let (_, length) = recv(socket, &mut frame[..], RecvFlags::empty())
            .map_err(|error| format!("capturing ended before the fence: {error}"))?;
        let frame = &frame[..length];
        if frame.windows(mark.len()).any(|window| window == mark) {
            return Ok(found);
        }
        if let Some((protocol, sender)) = sender_of(frame).filter(|(_, sender)| senders.contains(sender)) {
            found.push(format!("{protocol} from {sender}, {length} bytes"));
        }
    }
}

/// The protocol and the sender of an Ethernet frame of ARP, IPv4 or IPv6.
fn sender_of(frame: &[u8]) -> Option<(&'static str, IpAddr)> {
    let v4 = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(frame.get(at..at + 4)?).ok()?));
    let v6 = |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(frame.get(at..at + 16)?).ok()?));
    match frame.get(12..14)? {
        [0x08, 0x00] => Some(("IPv4", v4(26)?)),
        [0x08, 0x06] => Some(("ARP", v4(28)?)),
        [0x86, 0xdd] => Some(("IPv6", v6(22)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: [u8; 2], at: usize, sender: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 64];
        frame[12..14].copy_from_slice(&ethertype);
        frame[at..at + sender.len()].copy_from_slice(sender);
        frame
    }

    #[test]
    fn senders_are_found_in_frames() {
        let address: IpAddr = "10.0.0.7".parse().expect("an address");
        let address6: Ipv6Addr = "fd00::7".parse().expect("an address");
        assert_eq!(sender_of(&frame([0x08, 0x00], 26, &[10, 0, 0, 7])), Some(("IPv4", address)));
        assert_eq!(sender_of(&frame([0x08, 0x06], 28, &[10, 0, 0, 7])), Some(("ARP", address)));
        assert_eq!(sender_of(&frame([0x86, 0xdd], 22, &address6.octets())), Some(("IPv6", address6.into())));
        assert_eq!(sender_of(&frame([0x88, 0xcc], 26, &[10, 0, 0, 7])), None);
        assert_eq!(sender_of(&[0; 13]), None);
    }
}
