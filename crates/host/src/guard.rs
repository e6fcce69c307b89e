//! Keeps what comes out of a pod away from the host's own stack.
//!
//! Open vSwitch's userspace datapath reads frames by packet sockets, and the kernel goes on to process its own copy of each. Without a
//! guard a pod could reach the host's own addresses and services through the link that should lead to Open vSwitch only.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::error::{Error, Result, Trying};

const FAMILY: &str = "netdev";
const TABLE: &str = "portolan";
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

/// Drops all frames that come in by a link before the kernel's own stack sees them. Packet sockets still get their copy.
pub fn drop_ingress(link: &str) -> Result<()> {
    let chain = json!({ "family": FAMILY, "table": TABLE, "name": link, "type": "filter", "hook": "ingress", "dev": link,
        "prio": PRIORITY, "policy": "drop" });
    let table = json!({ "add": { "table": { "family": FAMILY, "name": TABLE } } });
    nft(&[table, json!({ "add": { "chain": chain } })], || format!("guard link {link}")).map(drop)
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

/// The links that have guards, whether or not the links exist.
pub fn guarded() -> Result<Vec<String>> {
    let list = json!({ "list": { "chains": { "family": FAMILY } } });
    let answer = nft(&[list], || "list the guards of links".into())?;
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let objects = answer["nftables"].as_array().cloned().unwrap_or_default();
    let chains = objects.into_iter().filter_map(|object| object.get("chain").cloned());
    let ours = chains.filter(|chain| chain["family"] == FAMILY && chain["table"] == TABLE);
    Ok(ours.filter_map(|chain| chain["name"].as_str().map(str::to_owned)).collect())
}

fn nft(commands: &[Value], what: impl Fn() -> String) -> Result<Vec<u8>> {
    let mut child = Command::new("nft")
        .args(["-j", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .trying(|| format!("start nft to {}", what()))?;
    if let Some(mut stdin) = child.stdin.take() {
        let batch = json!({ "nftables": commands });
        // If nft does not read its input, its exit code and error output say why.
        let _ = stdin.write_all(batch.to_string().as_bytes());
    }
    let output = child.wait_with_output().trying(|| format!("wait for nft to {}", what()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Error::Nft { what: what(), said: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}
