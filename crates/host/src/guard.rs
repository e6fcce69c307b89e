//! Keeps what comes out of a pod away from the host's own stack.
//!
//! Open vSwitch's userspace datapath reads frames by packet sockets, and the kernel goes on to process its own copy of each. Without a
//! guard a pod could reach the host's own addresses and services through the link that should lead to Open vSwitch only.
//!
//! A link by which the host itself is on a tenant's network is meant to bring frames to the host's stack, which delivers by address: one that
//! came in anywhere reaches any of the host's addresses, and any other network that the host forwards to. The guard of such a link admits
//! what is for an address of that link alone.

use serde_json::{Value, json};

use crate::error::{Error, Result, Trying};
use crate::nft::nft;

const FAMILY: &str = "netdev";
pub(crate) const TABLE: &str = "portolan";
/// Before anything else that looks at what comes in.
const PRIORITY: i32 = -500;

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

/// Guards a link: drops what comes in by it before the kernel's own stack sees it.
pub fn guard(link: &str, admits: Admits) -> Result<()> {
    guard_all(&[(link, admits)])
}

/// Guards several links, all of them or none.
pub fn guard_all(links: &[(&str, Admits)]) -> Result<()> {
    let mut commands = vec![json!({ "add": { "table": { "family": FAMILY, "name": TABLE } } })];
    for (link, admits) in links {
        let chain = json!({ "family": FAMILY, "table": TABLE, "name": link });
        commands.push(
            json!({ "add": { "chain": { "family": FAMILY, "table": TABLE, "name": link, "type": "filter",
            "hook": "ingress", "dev": link, "prio": PRIORITY, "policy": "drop" } } }),
        );
        if *admits == Admits::OwnAddresses {
            // Rules add up: what an earlier guard left goes.
            commands.push(json!({ "flush": { "chain": chain } }));
            commands.extend(own_addresses().map(|expressions| {
                json!({ "add": { "rule": { "family": FAMILY, "table": TABLE, "chain": link, "expr": expressions } } })
            }));
        }
    }
    let what = || match links {
        [(link, _)] => format!("guard link {link}"),
        links => format!("guard {} links", links.len()),
    };
    nft(&commands, what).map(drop)
}

/// The rules that admit what is for an address of the link itself. Whether it answers ARP is the kernel's settings' business.
fn own_addresses() -> [Value; 2] {
    let protocol = |name: &str| json!({ "match": { "op": "==", "left": { "meta": { "key": "protocol" } }, "right": name } });
    let own = json!({ "match": { "op": "==", "left": { "fib": { "result": "type", "flags": ["daddr", "iif"] } },
        "right": "local" } });
    let accept = json!({ "accept": null });
    [json!([protocol("arp"), accept]), json!([protocol("ip"), own, accept])]
}

/// Removes the guard of a link; to be called after the link was removed, so that no frame reaches the host's stack in between. Some
/// kernels remove it with the link: it is no error if there is none.
pub fn release_ingress(link: &str) -> Result<()> {
    let chain = json!({ "delete": { "chain": { "family": FAMILY, "table": TABLE, "name": link } } });
    match nft(&[chain], || format!("remove the guard of link {link}")) {
        Err(Error::Nft { said, .. }) if said.contains("No such file or directory") => Ok(()),
        result => result.map(drop),
    }
}

/// Removes the table of all guards; false if there is none.
pub fn remove_table() -> Result<bool> {
    let table = json!({ "delete": { "table": { "family": FAMILY, "name": TABLE } } });
    match nft(&[table], || "remove the table of guards".into()) {
        Err(Error::Nft { said, .. }) if said.contains("No such file or directory") => Ok(false),
        result => result.map(|_| true),
    }
}

/// The links that have guards, whether or not the links exist.
pub fn guarded() -> Result<Vec<String>> {
    let list = json!({ "list": { "chains": { "family": FAMILY } } });
    let answer = nft(&[list], || "list the guards of links".into())?;
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let objects = answer["nftables"].as_array().cloned().unwrap_or_default();
    let chains = objects.into_iter().filter_map(|object| object.get("chain").cloned());
    let drops = |chain: &Value| chain["policy"] == "drop";
    let ours = chains.filter(|chain| chain["family"] == FAMILY && chain["table"] == TABLE && drops(chain));
    Ok(ours.filter_map(|chain| chain["name"].as_str().map(str::to_owned)).collect())
}
