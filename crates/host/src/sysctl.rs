//! Settings of the kernel under `/proc/sys`; those of the network are of the calling thread's namespace.

use std::net::IpAddr;
use std::path::Path;

use crate::error::{Result, Trying};
use crate::rtnetlink::Rtnetlink;

/// Gives a setting a value, unless it has that.
pub fn set(path: &str, value: &str) -> Result<()> {
    let is = std::fs::read_to_string(path).trying(|| format!("read {path}"))?;
    if is.trim() == value {
        return Ok(());
    }
    std::fs::write(path, value).trying(|| format!("write {value} to {path}"))
}

/// Gives a setting of IPv6 a value, where the kernel has IPv6.
pub fn set_of_ipv6(path: &str, value: &str) -> Result<()> {
    if Path::new(path).exists() { set(path, value) } else { Ok(()) }
}

/// Lets the node forward IPv6. A link that has its routes from router advertisements goes on taking them, which the kernel would end, and so
/// does one that has an address of the node's `own`, whose router may not have spoken yet; all others take none.
pub fn forward_ipv6(host: &mut Rtnetlink, own: &[IpAddr]) -> Result<()> {
    const FORWARDING: &str = "/proc/sys/net/ipv6/conf/all/forwarding";
    let is = std::fs::read_to_string(FORWARDING).trying(|| format!("read {FORWARDING}"))?;
    if is.trim() == "1" {
        return Ok(());
    }
    let mut advertised = host.links_with_advertised_routes()?;
    let addresses = host.all_addresses()?.into_iter();
    advertised.extend(addresses.filter(|one| own.contains(&one.address.addr())).map(|one| one.link));
    for link in host.links()?.into_iter().filter(|link| advertised.contains(&link.index)) {
        let path = format!("/proc/sys/net/ipv6/conf/{}/accept_ra", link.name);
        // A link may go meanwhile.
        if std::fs::read_to_string(&path).is_ok_and(|is| is.trim() == "1") {
            set(&path, "2")?;
        }
    }
    set(FORWARDING, "1")
}
