//! Keeps what comes out of a pod away from the host's own stack.
//!
//! Open vSwitch's userspace datapath reads frames by packet sockets, and the kernel goes on to process its own copy of each. Without a
//! guard a pod could speak to the host's addresses and services by the link that is meant to lead to Open vSwitch only.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::error::{Error, Result, Trying};

const FAMILY: &str = "netdev";
const TABLE: &str = "portolan";
/// Before anything else that looks at what comes in.
const PRIORITY: i32 = -500;

/// Makes a link of the calling thread's namespace speak no IPv6, before it is set up.
pub fn ipv6_off(link: &str) -> Result<()> {
    let path = format!("/proc/sys/net/ipv6/conf/{link}/disable_ipv6");
    match std::fs::write(&path, "1") {
        // A host without IPv6.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result.trying(|| format!("write {path}")),
    }
}

/// Drops whatever the kernel itself would make of what comes in by a link. Packet sockets have had their copy by then.
pub fn drop_ingress(link: &str) -> Result<()> {
    let chain = json!({ "family": FAMILY, "table": TABLE, "name": link, "type": "filter", "hook": "ingress", "dev": link,
        "prio": PRIORITY, "policy": "drop" });
    let table = json!({ "add": { "table": { "family": FAMILY, "name": TABLE } } });
    nft(&[table, json!({ "add": { "chain": chain } })], || format!("guard link {link}"))
}

/// Takes the guard of a link away; to be called before the link is removed. It is no error if there is none.
pub fn release_ingress(link: &str) -> Result<()> {
    let chain = json!({ "delete": { "chain": { "family": FAMILY, "table": TABLE, "name": link } } });
    match nft(&[chain], || format!("take the guard of link {link} away")) {
        Err(Error::Nft { said, .. }) if said.contains("No such file or directory") => Ok(()),
        result => result,
    }
}

fn nft(commands: &[Value], what: impl Fn() -> String) -> Result<()> {
    let mut child = Command::new("nft")
        .args(["-j", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .trying(|| format!("start nft to {}", what()))?;
    if let Some(mut stdin) = child.stdin.take() {
        let batch = json!({ "nftables": commands });
        // If it does not read, it says why.
        let _ = stdin.write_all(batch.to_string().as_bytes());
    }
    let output = child.wait_with_output().trying(|| format!("wait for nft to {}", what()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Nft { what: what(), said: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}
