//! nft, by its JSON interface.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Error, Result, Trying};

/// How long nft may take. It is killed then: whoever waits for it tries again.
const NFT_DEADLINE: Duration = Duration::from_secs(5);

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
