//! Keeps what comes out of a pod away from the host's own stack.
//!
//! Open vSwitch's userspace datapath reads frames by packet sockets, and the kernel goes on to process its own copy of each. Without a
//! guard a pod could reach the host's own addresses and services through the link that should lead to Open vSwitch only.
//!
//! A link by which the host itself is on a tenant's network is meant to bring frames to the host's stack, which delivers by address: one that
//! came in anywhere reaches any of the host's addresses, and any other network that the host forwards to. The guard of such a link admits
//! what is for an address of that link alone.

use nix::libc::ENOENT;

use crate::error::{Result, Trying};
use crate::nf_tables::{Chain, Expression, Lister, Transaction};

pub(crate) const TABLE: &str = "portolan";
/// Before anything else that looks at what comes in.
const PRIORITY: i32 = -500;
/// The numbers of protocols in Ethernet headers.
const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;

/// Disables IPv6 on a link of the calling thread's namespace; to be called before the link is set up.
pub fn ipv6_off(link: &str) -> Result<()> {
    let path = format!("/proc/sys/net/ipv6/conf/{link}/disable_ipv6");
    match std::fs::write(&path, "1") {
        // A host without IPv6.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result.trying(|| format!("write {path}")),
    }
}

/// Sets IPv6 on a link of the calling thread's namespace to what new links have.
pub fn ipv6_as_new(link: &str) -> Result<()> {
    let default = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
    let path = format!("/proc/sys/net/ipv6/conf/{link}/disable_ipv6");
    match std::fs::read(default).and_then(|value| std::fs::write(&path, value)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result.trying(|| format!("write {path}")),
    }
}

/// Turns IPv6 off on a link of the calling thread's namespace, and lets it answer ARP for its own addresses only, and ask in the name of
/// these. To be called before the link is set up. [`Link::is_strict`](crate::Link::is_strict) says whether it is so.
pub fn make_strict(link: &str) -> Result<()> {
    ipv6_off(link)?;
    for (setting, value) in
        [("arp_ignore", "1"), ("arp_announce", "2"), ("proxy_arp", "0"), ("accept_redirects", "0")]
    {
        let path = format!("/proc/sys/net/ipv4/conf/{link}/{setting}");
        std::fs::write(&path, value).trying(|| format!("write {path}"))?;
    }
    Ok(())
}

/// What a guard lets through to the host's own stack. Packet sockets get their copy of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admits {
    /// Nothing: somebody else reads the link by packet sockets, or forwards what comes in.
    Nothing,
    /// IPv4 for an address of that very link, and ARP.
    OwnAddresses,
}

impl Admits {
    /// The rules of a guard. Whether the link answers ARP is the kernel's settings' business.
    fn rules(self) -> &'static [&'static [Expression]] {
        match self {
            Admits::Nothing => &[],
            Admits::OwnAddresses => &[
                &[Expression::Protocol(ARP), Expression::Accept],
                &[Expression::Protocol(IPV4), Expression::ForThatLink, Expression::Accept],
            ],
        }
    }

    /// What a chain lets through, if it is a guard.
    pub(crate) fn of(chain: &Chain) -> Option<Self> {
        let is = |admits: &Self| {
            let rules = admits.rules().iter().map(|rule| Some(*rule));
            chain.drops && rules.eq(chain.rules.iter().map(Option::as_deref))
        };
        [Admits::Nothing, Admits::OwnAddresses].into_iter().find(is)
    }
}

/// Guards a link: drops what comes in by it before the kernel's own stack sees it, but for what is admitted.
pub fn guard(link: &str, admits: Admits) -> Result<()> {
    let guard = Transaction::default().add_table(TABLE).add_dropping_chain(TABLE, link, link, PRIORITY);
    // Rules add up: what an earlier guard left, or somebody added, goes.
    let guard = guard.flush(TABLE, link);
    let guard = admits.rules().iter().fold(guard, |guard, rule| guard.add_rule(TABLE, link, rule));
    guard.commit(|| format!("guard link {link}"))
}

/// Removes the guard of a link; to be called after the link was removed, so that no frame reaches the host's stack in between. Some
/// kernels remove it with the link: it is no error if there is none.
pub fn release_ingress(link: &str) -> Result<()> {
    let removal = Transaction::default().delete_chain(TABLE, link);
    is_there(removal.commit(|| format!("remove the guard of link {link}"))).map(drop)
}

/// Removes the table of all guards; false if there is none.
pub fn remove_table() -> Result<bool> {
    is_there(Transaction::default().delete_table(TABLE).commit(|| "remove the table of guards".into()))
}

/// Whether there was something to be removed.
fn is_there(removed: Result<()>) -> Result<bool> {
    match removed {
        Err(error) if error.os_error() == Some(ENOENT) => Ok(false),
        outcome => outcome.map(|()| true),
    }
}

/// The links that have guards, whether or not the links exist, and what these let through. A chain with other rules is no guard.
pub fn guarded() -> Result<Vec<(String, Admits)>> {
    let chains = Lister::open()?.chains(TABLE, || "list the guards of links".into())?;
    let guard = |chain: Chain| Admits::of(&chain).map(|admits| (chain.name, admits));
    Ok(chains.into_iter().filter_map(guard).collect())
}
