//! Traffic between pods.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::cluster::Pod;

/// What a subnet's MTU leaves for a ping's payload, behind the headers of IPv4 and ICMP.
const FULL: &str = "1372";

/// One small packet and one that fills the MTU, which no one may cut.
pub(crate) fn ping(from: &Pod, to: &str) {
    for size in ["56", FULL] {
        from.netns.command("ping").args(["-c1", "-w10", "-i0.05", "-Mdo", "-s", size, to]).read().unwrap();
    }
}

/// Sends what takes many full segments, and compares what arrives with what was sent.
pub(crate) fn transfer(from: &Pod, to: &Pod, address: &str) {
    const LENGTH: usize = 16 << 20;
    let address: SocketAddr = format!("{address}:7000").parse().unwrap();
    let sent: Vec<u8> = (0..LENGTH).map(|at| (at * 31 + at / 251) as u8).collect();
    let listener = to.netns.run(move || TcpListener::bind(address)).unwrap();
    let to_send = sent.clone();
    let sender = from.netns.spawn_thread("sender", move || {
        TcpStream::connect(address).unwrap().write_all(&to_send).unwrap();
    });
    let mut received = Vec::with_capacity(LENGTH);
    listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
    sender.unwrap().join().unwrap();
    assert!(received == sent, "{} of {LENGTH} bytes arrived, or not the same", received.len());
}
