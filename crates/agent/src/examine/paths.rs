//! What passes on the way to other nodes.

use std::net::{IpAddr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use portolan_host::path_probe::{Doorkeeper, EchoSocket, knock, largest};

use super::Examination;
use super::facts::{Outcome, Path};

/// The port of geneve.
const TUNNELS: u16 = 6081;
/// What every link must carry, of either family.
const LEAST: [u32; 2] = [576, 1280];
/// How long an echo may take, and how often is knocked.
const ECHO: Duration = Duration::from_millis(400);
const KNOCK: Duration = Duration::from_millis(250);

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub node: String,
    /// The address at which its tunnels end.
    pub address: IpAddr,
}

/// Answers other nodes for as long as the process lives.
pub(super) fn answer(examination: &Examination) -> Option<JoinHandle<()>> {
    let (own, nonce) = (examination.address?, examination.nonce);
    let keeper = match Doorkeeper::open(own, TUNNELS, nonce) {
        Ok(keeper) => keeper,
        Err(error) => {
            tracing::warn!(
                error = format!("{:#}", anyhow::Error::from(error)),
                "other nodes are not answered"
            );
            return None;
        }
    };
    // Waits in the kernel for as long as the process lives.
    Some(std::thread::spawn(move || {
        let Err(error) = keeper.answer();
        tracing::warn!(
            error = format!("{:#}", anyhow::Error::from(error)),
            "other nodes are not answered any more"
        );
    }))
}

/// Tries the ways to all peers at once.
pub(super) fn probe(examination: &Examination) -> Vec<Path> {
    std::thread::scope(|scope| {
        let ways: Vec<_> = examination
            .peers
            .iter()
            .enumerate()
            .map(|(number, peer)| scope.spawn(move || way(examination, peer, number)))
            .collect();
        ways.into_iter().filter_map(|way| way.join().ok()).collect()
    })
}

fn way(examination: &Examination, peer: &Peer, number: usize) -> Path {
    let wanted = examination.packet.unwrap_or(1500);
    let least = LEAST[usize::from(peer.address.is_ipv6())].min(wanted);
    // Requests of two ways must not be taken for each other's.
    let identifier = u16::try_from((examination.nonce as usize + number) & 0xffff).unwrap_or_default();
    let largest = EchoSocket::open(peer.address, identifier)
        .and_then(|mut socket| largest(least, wanted, |size| socket.ask(size, ECHO)));
    let door = SocketAddr::new(peer.address, TUNNELS);
    Path {
        to: peer.node.clone(),
        address: peer.address,
        wanted,
        largest: Outcome::of(largest),
        tunnel_port: Outcome::of(knock(door, examination.nonce, KNOCK, examination.patience)),
    }
}
