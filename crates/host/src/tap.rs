//! Taps: links whose other end is a process that opens them, such as a hypervisor.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::libc;

use crate::error::{Error, Result, Trying};
use crate::rtnetlink::{LinkSettings, Rtnetlink};

const DEVICE: &str = "/dev/net/tun";
/// Those of `linux/if_tun.h` that nix does not name.
const TUN_SET_IFF: libc::c_ulong = 0x4004_54ca;
const TUN_SET_PERSIST: libc::c_ulong = 0x4004_54cb;
const TUN_SET_OWNER: libc::c_ulong = 0x4004_54cc;
const TUN_SET_GROUP: libc::c_ulong = 0x4004_54ce;
/// A tap without a header of its own before each frame.
const TAP: libc::c_int = libc::IFF_TAP | libc::IFF_NO_PI;

/// A tap to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tap<'a> {
    /// Its name.
    pub name: &'a str,
    /// The user who may open it besides root.
    pub user: Option<u32>,
    /// The group whose members may open it. With a user too, the user has to be a member.
    pub group: Option<u32>,
    /// Its largest packet.
    pub mtu: u32,
}

/// Makes a tap in the calling thread's network namespace, down, which stays when nobody has it open. Root alone may open it unless a user
/// or a group is named. Whatever ends this before it is done ends the tap too.
pub fn add(tap: &Tap<'_>) -> Result<()> {
    let what = || format!("make tap {}", tap.name);
    let device = File::options().read(true).write(true).open(DEVICE).trying(what)?;
    request(&device, tap.name).trying(what)?;
    // A tap that belongs to nobody may be opened by anybody.
    let user = tap.user.or_else(|| tap.group.is_none().then_some(0));
    for (setting, value) in [(TUN_SET_OWNER, user), (TUN_SET_GROUP, tap.group)] {
        if let Some(value) = value {
            set(&device, setting, value).trying(what)?;
        }
    }
    Rtnetlink::open()?.set_link(tap.name, LinkSettings { mtu: Some(tap.mtu), ..LinkSettings::default() })?;
    // Last: up to here the kernel removes it with the descriptor.
    set(&device, TUN_SET_PERSIST, 1).trying(what)
}

/// Opens a tap: frames are read from the file and written to it.
pub fn open(name: &str) -> Result<File> {
    let what = || format!("open tap {name}");
    let device = File::options().read(true).write(true).open(DEVICE).trying(what)?;
    if nix::net::if_::if_nametoindex(name).is_err() {
        // It would be made.
        return Err(Error::NoLink(name.into()));
    }
    request(&device, name).trying(what)?;
    Ok(device)
}

/// Relates an open device to the tap of a name.
fn request(device: &File, name: &str) -> io::Result<()> {
    let mut name: Vec<libc::c_char> = name.bytes().map(|byte| libc::c_char::from_ne_bytes([byte])).collect();
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    name.resize(libc::IFNAMSIZ, 0);
    let mut ifr_name = [0; libc::IFNAMSIZ];
    ifr_name.copy_from_slice(&name);
    let flags = libc::c_short::try_from(TAP).map_err(io::Error::other)?;
    let request = libc::ifreq { ifr_name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags } };
    #[allow(unsafe_code, reason = "nix has no other way to do it")]
    // SAFETY: the kernel reads and writes one `ifreq` at the pointer, which lives until the call returns; the descriptor is open.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), TUN_SET_IFF, &raw const request) };
    nix::errno::Errno::result(answer).map(drop).map_err(Into::into)
}

/// Sets something of a tap that takes a number.
fn set(device: &File, setting: libc::c_ulong, value: u32) -> io::Result<()> {
    #[allow(unsafe_code, reason = "nix has no other way to do it")]
    // SAFETY: these requests take the number itself and touch no memory of ours; the descriptor is open.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), setting, libc::c_ulong::from(value)) };
    nix::errno::Errno::result(answer).map(drop).map_err(Into::into)
}
