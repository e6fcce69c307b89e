//! What is collected for a bug report: pages that processes of this node serve on its loopback address, and ends of files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::report::{Line, Report};
use crate::blocking::blocking;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of a page, and of a file, is collected: the beginning of the one, the end of the other.
const PAGE: u64 = 8 << 20;
const FILE: u64 = 24 << 20;

/// Something to collect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What it is called in the report.
    pub name: String,
    /// Where it is.
    pub source: Source,
}

/// Where something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Served over plain HTTP at this address and path.
    Http(SocketAddr, String),
    /// A file. One that is not there is none to be collected.
    File(PathBuf),
}

impl FromStr for Page {
    type Err = String;

    /// `NAME=http://ADDRESS:PORT/PATH` or `NAME=/PATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: write NAME=http://ADDRESS:PORT/PATH or NAME=/PATH");
        let (name, source) = text.split_once('=').ok_or_else(wrong)?;
        let source = match source.strip_prefix("http://") {
            Some(rest) => {
                let at = rest.find('/').ok_or_else(wrong)?;
                let address = rest[..at].parse().map_err(|_| wrong())?;
                Source::Http(address, rest[at..].to_owned())
            }
            None if source.starts_with('/') => Source::File(source.into()),
            None => return Err(wrong()),
        };
        Ok(Self { name: name.to_owned(), source })
    }
}

/// Collects one, and reports it or why it could not be had.
pub(super) async fn collect(page: Page, report: &Report) -> anyhow::Result<()> {
    let content = match page.source.clone() {
        Source::Http(address, path) => {
            let served = tokio::time::timeout(PATIENCE, get(address, &path)).await;
            match served.with_context(|| format!("http://{address}{path} was not served within {PATIENCE:?}"))
            {
                // Nothing of this kind runs on this node.
                Ok(Err(error)) if is_nobody_there(&error) => return Ok(()),
                Ok(served) => served.with_context(|| format!("http://{address}{path}")),
                Err(late) => Err(late),
            }
        }
        Source::File(path) => match blocking(move || end_of(&path)).await {
            Ok(None) => return Ok(()),
            Ok(Some(content)) => Ok(content),
            Err(error) => Err(error),
        },
    };
    match content.and_then(|content| compressed(&content)) {
        Ok(compressed) => report.send_file(&page.name, &compressed),
        Err(error) => report.send(&Line::Missing { name: page.name, reason: format!("{error:#}") }),
    }
}

fn is_nobody_there(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

async fn get(address: SocketAddr, path: &str) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(PAGE).read_to_end(&mut answer).await?;
    body(&answer).map(<[u8]>::to_vec)
}

/// The body of an answer, whose server closes the connection after it.
fn body(answer: &[u8]) -> anyhow::Result<&[u8]> {
    let end = memchr::memmem::find(answer, b"\r\n\r\n").context("the answer is not HTTP")?;
    let status = String::from_utf8_lossy(&answer[..end]);
    let status = status.lines().next().unwrap_or_default();
    // A check that fails says why in its body.
    if !status.contains(" 200 ") && !status.contains(" 503 ") {
        bail!("{status}");
    }
    Ok(&answer[end + 4..])
}

/// The end of a file, from the beginning of a line; all of it, if it is not too long.
fn end_of(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.with_context(|| format!("open {}", path.display()))?,
    };
    let reading = || format!("read {}", path.display());
    let length = file.metadata().with_context(reading)?.len();
    let mut content = Vec::new();
    if length > FILE {
        file.seek(SeekFrom::Start(length - FILE)).with_context(reading)?;
    }
    file.take(FILE).read_to_end(&mut content).with_context(reading)?;
    if length > FILE {
        let line = memchr::memchr(b'\n', &content).map_or(0, |at| at + 1);
        content.drain(..line);
        let note = format!("(the last part of {length} bytes)\n");
        content.splice(0..0, note.into_bytes());
    }
    Ok(Some(content))
}

fn compressed(content: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    #[test]
    fn pages_are_named_with_what_they_are() {
        let page: Page = "agent/metrics.txt=http://127.0.0.1:10691/metrics".parse().unwrap();
        assert_eq!(page.name, "agent/metrics.txt");
        assert_eq!(page.source, Source::Http("127.0.0.1:10691".parse().unwrap(), "/metrics".into()));
        let file: Page = "nb.db=/host/ovn/ovnnb_db.db".parse().unwrap();
        assert_eq!(file.source, Source::File("/host/ovn/ovnnb_db.db".into()));
        for wrong in ["", "a", "a=b", "a=http://x/", "a=http://127.0.0.1:1"] {
            assert!(wrong.parse::<Page>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_body_is_taken_from_a_good_answer_alone() {
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nhello\r\n\r\n").unwrap(), b"hello\r\n\r\n");
        assert_eq!(body(b"HTTP/1.1 503 Service Unavailable\r\n\r\nwhy").unwrap(), b"why");
        assert!(body(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().to_string().contains("404"));
        assert!(body(b"nothing").is_err());
    }

    #[test]
    fn a_file_that_is_too_long_is_cut_at_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        assert_eq!(end_of(&path).unwrap(), None);
        std::fs::write(&path, "short\n").unwrap();
        assert_eq!(end_of(&path).unwrap().unwrap(), b"short\n");
        let line = format!("{}\n", "x".repeat(99));
        std::fs::write(&path, line.repeat(usize::try_from(FILE).unwrap() / 100 + 2)).unwrap();
        let end = end_of(&path).unwrap().unwrap();
        let lines: Vec<&[u8]> = end.split(|byte| *byte == b'\n').collect();
        assert!(lines[0].starts_with(b"(the last part of "));
        assert!(lines[1..lines.len() - 1].iter().all(|line| line.len() == 99));
    }
}
