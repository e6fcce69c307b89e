//! Settings of the kernel under `/proc/sys`; those of the network are of the calling thread's namespace.

use crate::error::{Result, Trying};

/// Gives a setting a value, unless it has that.
pub fn set(path: &str, value: &str) -> Result<()> {
    let is = std::fs::read_to_string(path).trying(|| format!("read {path}"))?;
    if is.trim() == value {
        return Ok(());
    }
    std::fs::write(path, value).trying(|| format!("write {value} to {path}"))
}

/// Lets the node forward IPv6. A link that takes its routes from router advertisements goes on doing so, which the kernel would end.
pub fn forward_ipv6() -> Result<()> {
    const LINKS: &str = "/proc/sys/net/ipv6/conf";
    const FORWARDING: &str = "/proc/sys/net/ipv6/conf/all/forwarding";
    let is = std::fs::read_to_string(FORWARDING).trying(|| format!("read {FORWARDING}"))?;
    if is.trim() == "1" {
        return Ok(());
    }
    for link in std::fs::read_dir(LINKS).trying(|| format!("list {LINKS}"))? {
        let path = link.trying(|| format!("list {LINKS}"))?.path().join("accept_ra");
        // A link may go meanwhile.
        if std::fs::read_to_string(&path).is_ok_and(|is| is.trim() == "1") {
            set(&path.to_string_lossy(), "2")?;
        }
    }
    set(FORWARDING, "1")
}
