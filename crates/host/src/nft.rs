//! nft, by its JSON interface.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Error, Result, Trying};

/// How long nft may take. It is killed then: whoever waits for it tries again.
const NFT_DEADLINE: Duration = Duration::from_secs(5);

/// A family of addresses, as nft has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ip {
    V4,
    V6,
}

impl Ip {
    pub(crate) const BOTH: [Ip; 2] = [Ip::V4, Ip::V6];

    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Ip::V4 } else { Ip::V6 }
    }

    /// As a protocol.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ip::V4 => "ip",
            Ip::V6 => "ip6",
        }
    }

    /// The type of an address in a set.
    pub(crate) fn address_type(self) -> &'static str {
        match self {
            Ip::V4 => "ipv4_addr",
            Ip::V6 => "ipv6_addr",
        }
    }

    /// A field of its header.
    pub(crate) fn field(self, field: &str) -> Value {
        json!({ "payload": { "protocol": self.name(), "field": field } })
    }
}

/// What a table of family `inet` has, as nft lists it; none if it is not there. Two listings of the same table are equal.
pub(crate) fn list_table(name: &str) -> Result<Option<Vec<Value>>> {
    let what = || format!("list the table inet {name}");
    let list = json!({ "list": { "table": { "family": "inet", "name": name } } });
    let answer = match nft(&[list], what) {
        Err(Error::Nft { said, .. }) if said.contains("No such file or directory") => return Ok(None),
        answer => answer?,
    };
    let listed = serde_json::from_slice::<Value>(&answer);
    let mut listed = listed.map_err(|error| Error::Answer { what: what(), reason: error.to_string() })?;
    let mut objects = match listed["nftables"].take() {
        Value::Array(objects) => objects,
        _ => Vec::new(),
    };
    // Numbers that the kernel gives.
    for object in objects.iter_mut().filter_map(Value::as_object_mut).flat_map(|object| object.values_mut()) {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("handle");
        }
    }
    Ok(Some(objects))
}

/// Removes a table of family `inet`, if it is there.
pub(crate) fn remove_table(name: &str) -> Result<()> {
    let table = json!({ "family": "inet", "name": name });
    // One that is not there cannot be deleted.
    let commands = [json!({ "add": { "table": table } }), json!({ "delete": { "table": table } })];
    nft(&commands, || format!("remove the table inet {name}")).map(drop)
}

/// Runs commands of nft as one batch, all of them or none, and answers what it prints.
pub(crate) fn nft(commands: &[Value], what: impl Fn() -> String) -> Result<Vec<u8>> {
    let mut child = Command::new("nft")
        .args(["-j", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .trying(|| format!("start nft to {}", what()))?;
    // Each pipe has a thread of its own, so that nft is waited for no longer than it may take.
    let batch = json!({ "nftables": commands }).to_string();
    if let Some(mut stdin) = child.stdin.take() {
        // If nft does not read its input, its exit code and error output say why.
        thread::spawn(move || stdin.write_all(batch.as_bytes()));
    }
    let (stdout, stderr) = (read_to_end(child.stdout.take()), read_to_end(child.stderr.take()));
    // It closes them when it ends.
    let said =
        stderr.recv_timeout(NFT_DEADLINE).and_then(|said| Ok((said, stdout.recv_timeout(NFT_DEADLINE)?)));
    let Ok((said, answer)) = said else {
        // Of a process that cannot be killed now, what is left is taken away whenever it ends.
        let _ = child.kill();
        thread::spawn(move || child.wait());
        let said = format!("it had not ended after {NFT_DEADLINE:?}, and was killed");
        return Err(Error::Nft { what: what(), said });
    };
    if child.wait().trying(|| format!("wait for nft to {}", what()))?.success() {
        return Ok(answer);
    }
    Err(Error::Nft { what: what(), said: String::from_utf8_lossy(&said).trim().to_owned() })
}

/// Answers all that a pipe has, once its other end is closed.
fn read_to_end(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut read = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut read);
        }
        // Whoever asked may have stopped waiting.
        let _ = sender.send(read);
    });
    receiver
}
