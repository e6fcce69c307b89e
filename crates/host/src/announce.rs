//! Tells a network who has an address now: gratuitous ARP, and unsolicited neighbour advertisements.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::thread;

use nix::libc;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, sendto, socket};

use crate::error::{Result, Trying};
use crate::rtnetlink::Link;
use crate::{MacAddress, netns};

const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;

/// Announces addresses on a link of a network namespace, whose both ends are up if it is one of a pair. Without a carrier there is nobody to be told.
pub fn announce(netns: BorrowedFd<'_>, link: &Link, mac: MacAddress, addresses: &[IpAddr]) -> Result<()> {
    let socket = netns::within(netns, || {
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)
            .trying(|| "open a packet socket".into())
    })?;
    bypass_queue(&socket).trying(|| "have announcements bypass the queue of a link".into())?;
    for address in addresses {
        let what = || format!("announce {address} on {}", link.name);
        let (frame, protocol) = match address {
            IpAddr::V4(v4) => (gratuitous_arp(mac, *v4), ARP),
            IpAddr::V6(v6) => (neighbour_advertisement(mac, *v6), IPV6),
        };
        let to = link_address(link, protocol).ok_or(io::ErrorKind::InvalidInput).trying(what)?;
        match sendto(socket.as_raw_fd(), &frame, &to, MsgFlags::empty()) {
            Ok(_) | Err(nix::Error::ENOBUFS) => {}
            Err(error) => return Err(error).trying(what),
        }
    }
    // The kernel closes a packet socket only after every processor is known not to use it, which takes it ten milliseconds or more.
    thread::spawn(move || drop(socket));
    Ok(())
}

/// The end of a pair has its carrier as soon as both are up. Where the other one was set up last, the kernel begins to use the queue some time
/// later, and throws away silently what is put there before.
#[allow(unsafe_code, reason = "nix has no other way to do it")]
fn bypass_queue(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let (level, option) = (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS);
    let length = size_of_val(&on).try_into().expect("the size of an int fits into a socklen_t");
    // SAFETY: the value lives for the call, and its length is its own.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn link_address(link: &Link, protocol: u16) -> Option<LinkAddr> {
    let address = libc::sockaddr_ll {
        sll_family: u16::try_from(libc::AF_PACKET).ok()?,
        sll_protocol: protocol.to_be(),
        sll_ifindex: i32::try_from(link.index).ok()?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0xff; 8],
    };
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).ok()?;
    #[allow(unsafe_code, reason = "nix has no other way to make one")]
    // SAFETY: the pointer is to a whole `sockaddr_ll` that lives until the call returns, and the length is its own. `from_raw` copies
    // it after it has checked family and length.
    unsafe {
        LinkAddr::from_raw((&raw const address).cast(), Some(length))
    }
}

/// A request for the sender's own address: everyone who hears it takes note of the sender.
fn gratuitous_arp(mac: MacAddress, address: Ipv4Addr) -> Vec<u8> {
    let ethernet = [&[0xff; 6][..], &mac, &ARP.to_be_bytes()].concat();
    let ethernet_ipv4_request = [0, 1, 8, 0, 6, 4, 0, 1];
    let (sender, target) =
        ([&mac[..], &address.octets()].concat(), [&[0; 6][..], &address.octets()].concat());
    [ethernet, ethernet_ipv4_request.to_vec(), sender, target].concat()
}

/// To all nodes, overriding what they knew.
fn neighbour_advertisement(mac: MacAddress, address: Ipv6Addr) -> Vec<u8> {
    let all_nodes: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let ethernet = [&[0x33, 0x33, 0, 0, 0, 1][..], &mac, &IPV6.to_be_bytes()].concat();
    let (advertisement, override_flag, target_mac) = (136, 0x20, [2, 1]);
    let mut icmp = [&[advertisement, 0, 0, 0, override_flag, 0, 0, 0][..], &address.octets()].concat();
    icmp.extend(target_mac.iter().chain(&mac));
    let checksum = icmpv6_checksum(address, all_nodes, &icmp);
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    let length = u16::try_from(icmp.len()).expect("an advertisement has 32 bytes").to_be_bytes();
    let ip = [&[0x60, 0, 0, 0, length[0], length[1], 58, 255][..], &address.octets(), &all_nodes.octets()];
    [ethernet, ip.concat(), icmp].concat()
}

fn icmpv6_checksum(source: Ipv6Addr, destination: Ipv6Addr, icmp: &[u8]) -> u16 {
    let length = u32::try_from(icmp.len()).unwrap_or_default().to_be_bytes();
    let pseudo = [&source.octets()[..], &destination.octets(), &length, &[0, 0, 0, 58]].concat();
    let words = pseudo.chunks(2).chain(icmp.chunks(2));
    let mut sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w.get(1).copied().unwrap_or(0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded to sixteen bits")
}
