//! The file: a compressed tar archive. All that is in it was redacted here, and its size has a bound.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

use super::redact;
use crate::exit::Failure;
use crate::output::now;

/// What all files may have, before they are compressed.
const MOST: usize = 512 << 20;
/// What one may have.
const MOST_OF_ONE: usize = 64 << 20;

/// A bundle that is being written.
pub(super) struct Archive {
    path: PathBuf,
    /// The directory that everything in it is in.
    name: String,
    builder: Builder<GzEncoder<File>>,
    files: usize,
    bytes: usize,
    missing: Vec<(String, String)>,
}

/// The name of a bundle that is made at that time, in seconds since 1970.
pub(super) fn name(now: i64) -> String {
    let time = jiff::Timestamp::from_second(now).unwrap_or_default();
    format!("portolan-support-{}", time.strftime("%Y%m%d-%H%M%S"))
}

impl Archive {
    /// Only its owner can read it.
    pub(super) fn create(path: &Path, name: String) -> anyhow::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Failure::usage(format!("{} is there already; give another name with -o", path.display()))
            }
            _ => Failure::usage(format!("{} cannot be written: {error}", path.display())),
        })?;
        let builder = Builder::new(GzEncoder::new(file, Compression::default()));
        Ok(Self { path: path.to_owned(), name, builder, files: 0, bytes: 0, missing: Vec::new() })
    }

    /// Adds a file of text, without what is secret in it.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        if content.len() > MOST_OF_ONE || self.bytes + content.len() > MOST {
            self.missing(name, &format!("it has {} bytes, more than there is room for", content.len()));
            return Ok(());
        }
        let text = redact::text(&String::from_utf8_lossy(content));
        self.bytes += text.len();
        self.files += 1;
        self.append(name, text.as_bytes())
    }

    /// Notes that something could not be collected.
    pub(super) fn missing(&mut self, name: &str, reason: &str) {
        self.missing.push((name.to_owned(), redact::text(reason)));
    }

    fn append(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(u64::try_from(now()).unwrap_or_default());
        let path = format!("{}/{}", self.name, safe(name));
        self.builder
            .append_data(&mut header, path, content)
            .with_context(|| format!("write {}", self.path.display()))
    }

    /// Ends it, and answers how many files it has and how many things are missing.
    pub(super) fn finish(mut self) -> anyhow::Result<(usize, usize)> {
        let list: String = self.missing.iter().map(|(name, reason)| format!("{name}: {reason}\n")).collect();
        let list = if list.is_empty() { "everything was collected\n".to_owned() } else { list };
        self.append("not-collected.txt", list.as_bytes())?;
        let (files, missing) = (self.files + 1, self.missing.len());
        let writing = || format!("write {}", self.path.display());
        let file = self.builder.into_inner().and_then(GzEncoder::finish).with_context(writing)?;
        file.sync_all().with_context(writing)?;
        Ok((files, missing))
    }

    /// Removes what was written.
    pub(super) fn discard(self) {
        // Whoever wanted it is told of the failure already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A path in the archive that no name from a cluster leads out of.
fn safe(name: &str) -> String {
    let parts = name.split('/').filter(|part| !part.is_empty() && *part != "." && *part != "..");
    let fits = |c: char| if c.is_control() { '_' } else { c };
    parts.map(|part| part.chars().map(fits).collect::<String>()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn what_is_added_is_redacted_and_only_its_owner_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bundle.tar.gz");
        let mut archive = Archive::create(&path, "bundle".into()).unwrap();
        archive.add("logs/../../a.log", b"password=hunter2\nall is well\n").unwrap();
        archive.missing("logs/b.log", "token=abcdefgh is refused");
        archive.add("large", &vec![b'x'; MOST_OF_ONE + 1]).unwrap();
        assert_eq!(archive.finish().unwrap(), (2, 2));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut unpacked = tar::Archive::new(GzDecoder::new(File::open(&path).unwrap()));
        let mut all = String::new();
        for entry in unpacked.entries().unwrap() {
            let mut entry = entry.unwrap();
            all += &format!("{}\n", entry.path().unwrap().display());
            entry.read_to_string(&mut all).unwrap();
        }
        assert!(all.starts_with("bundle/logs/a.log\n") && all.contains("all is well"), "{all}");
        assert!(!all.contains("hunter2") && !all.contains("abcdefgh"), "{all}");
        assert!(all.contains("large: it has"), "{all}");
        let error = Archive::create(&path, "bundle".into()).err().unwrap().to_string();
        assert!(error.contains("is there already"), "{error}");
    }

    #[test]
    fn names_have_the_time() {
        assert_eq!(name(1_800_000_000), "portolan-support-20270115-080000");
    }
}
