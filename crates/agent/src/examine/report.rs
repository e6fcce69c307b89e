//! What an examination says, line by line, on standard output. The API server hands it on as the log of the pod; whatever else is in the log is
//! told from it by how these lines begin.

use std::io::Write as _;
use std::sync::Mutex;

use anyhow::Context as _;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};

use super::facts::{NodeFacts, Path};

/// How each line begins.
const MARK: &str = "portolan-examination ";
/// How much of a file is in one line. Runtimes cut lines of logs at 16 KiB.
const CHUNK: usize = 9 << 10;
/// How much of files there is in all: a kubelet begins a new log after 10 MiB, and the API server hands on the last one alone.
const MOST: usize = 5 << 20;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// What the node has.
    Facts(Box<NodeFacts>),
    /// What passes on the way to others.
    Paths(Vec<Path>),
    /// A part of a file, compressed by gzip and in base64.
    Part {
        /// The file's name.
        name: String,
        /// The part.
        data: String,
    },
    /// Something could not be collected.
    Missing {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// That was all.
    End {},
}

impl Line {
    /// Reads a line of a log; none if it is something else.
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line.trim_end().strip_prefix(MARK)?).ok()
    }

    /// The bytes of a part.
    pub fn decode(data: &str) -> Option<Vec<u8>> {
        BASE64_STANDARD.decode(data).ok()
    }
}

/// Where lines go.
#[derive(Debug, Default)]
pub(super) struct Report {
    sent: Mutex<usize>,
}

impl Report {
    pub(super) fn send(&self, line: &Line) -> anyhow::Result<()> {
        let text = serde_json::to_string(line).context("write what was found as JSON")?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{MARK}{text}").and_then(|()| out.flush()).context("write to standard output")
    }

    /// Sends a compressed file, if there is still room for it.
    pub(super) fn send_file(&self, name: &str, compressed: &[u8]) -> anyhow::Result<()> {
        {
            let mut sent = self.sent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if *sent + compressed.len() > MOST {
                let reason = format!(
                    "it has {} bytes compressed, and what is collected from one node may have {MOST} in all",
                    compressed.len()
                );
                return self.send(&Line::Missing { name: name.to_owned(), reason });
            }
            *sent += compressed.len();
        }
        for part in compressed.chunks(CHUNK) {
            self.send(&Line::Part { name: name.to_owned(), data: BASE64_STANDARD.encode(part) })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written_and_others_are_not_taken_for_them() {
        let line = Line::Missing { name: "a".into(), reason: "b\nc".into() };
        let text = format!("{MARK}{}", serde_json::to_string(&line).expect("it is JSON"));
        assert!(!text.contains('\n'));
        assert_eq!(Line::parse(&text), Some(line));
        for other in ["", "WARN something", "portolan-examination", "portolan-examination {\"other\":{}}"] {
            assert_eq!(Line::parse(other), None, "{other}");
        }
    }
}
