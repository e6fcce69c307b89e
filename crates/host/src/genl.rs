//! Generic netlink: families by name.

use nix::libc::ENOENT;
use nix::sys::socket::SockProtocol;

use crate::error::{Error, Result};
use crate::netlink::{ACK, Attributes, Socket, attribute};

/// The family that knows the numbers of the others.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Whether the kernel has Open vSwitch's datapath. Asking loads its module, where there is one.
pub fn has_openvswitch() -> Result<bool> {
    let mut socket = Socket::open(SockProtocol::NetlinkGeneric)?;
    match family(&mut socket, "ovs_datapath") {
        Ok(_) => Ok(true),
        Err(error) if error.os_error() == Some(ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The number of a family.
pub(crate) fn family(socket: &mut Socket, name: &str) -> Result<u16> {
    let what = || format!("find the family {name}");
    let request = [vec![GET_FAMILY, 1, 0, 0], Attributes::default().text(FAMILY_NAME, name).0].concat();
    let answer = socket.ask(CONTROLLER, ACK, &request, what)?;
    let number = answer
        .iter()
        .find_map(|message| attribute(message.payload().get(4..)?, FAMILY_ID)?.first_chunk::<2>())
        .ok_or_else(|| Error::Answer { what: what(), reason: "it has no number".into() })?;
    Ok(u16::from_ne_bytes(*number))
}
