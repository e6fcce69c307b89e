//! Key, certificate and whom to trust as files, for programs that read them when they change.
//!
//! All three change at one instant: `current` is a link to a directory, and is replaced. Programs of Open vSwitch look at the times of key
//! and certificate one after the other, and would take a key and the certificate of another one otherwise.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

const CURRENT: &str = "current";
const KEY: &str = "tls.key";
const CERTIFICATE: &str = "tls.crt";
const TRUSTED: &str = "ca.crt";

/// A directory with such files. It should be in memory, as there are private keys in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    directory: PathBuf,
}

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The private key.
    pub private_key: PathBuf,
    /// Its certificate.
    pub certificate: PathBuf,
    /// The certificates of the authorities that the other side's must be of.
    pub trusted: PathBuf,
}

/// A private key and its certificate, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) private_key: String,
    pub(crate) certificate: String,
}

impl Files {
    /// Files in this directory, which is made when they are written.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Where they are.
    pub fn paths(&self) -> Paths {
        let current = self.directory.join(CURRENT);
        Paths {
            private_key: current.join(KEY),
            certificate: current.join(CERTIFICATE),
            trusted: current.join(TRUSTED),
        }
    }

    /// What was written last, if it is there.
    pub(crate) fn read(&self) -> Option<Pair> {
        let paths = self.paths();
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        Some(Pair { private_key: read(&paths.private_key)?, certificate: read(&paths.certificate)? })
    }

    /// Writes them. Killed at any point, what was there before is there, whole, or this is.
    pub(crate) fn write(&self, pair: &Pair, trusted: &str) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let current = std::fs::read_link(self.directory.join(CURRENT)).ok();
        let number = current.as_deref().and_then(Path::to_str).and_then(|name| name.parse::<u64>().ok());
        let next = number.unwrap_or(0).wrapping_add(1).to_string();
        let directory = self.directory.join(&next);
        remove(&directory)?;
        std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
        for (name, text) in [(KEY, &*pair.private_key), (CERTIFICATE, &*pair.certificate), (TRUSTED, trusted)]
        {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(directory.join(name))?;
            file.write_all(text.as_bytes())?;
        }
        let link = self.directory.join("next");
        match std::fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => symlink(&next, &link)?,
        }
        std::fs::rename(&link, self.directory.join(CURRENT))?;
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() && entry.file_name() != *next {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn pair(text: &str) -> Pair {
        Pair { private_key: format!("key {text}"), certificate: format!("certificate {text}") }
    }

    #[test]
    fn files_are_replaced_together_and_nobody_else_reads_them() {
        let place = tempfile::tempdir().unwrap();
        let files = Files::new(place.path().join("tls"));
        assert!(files.read().is_none());
        for text in ["one", "two", "three"] {
            files.write(&pair(text), "trusted").unwrap();
            assert!(files.read() == Some(pair(text)));
            assert_eq!(std::fs::read_to_string(files.paths().trusted).unwrap(), "trusted");
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&files.paths().private_key), 0o600);
        assert_eq!(mode(&files.directory), 0o700);
        // The link and one directory.
        assert_eq!(std::fs::read_dir(&files.directory).unwrap().count(), 2);
    }

    #[test]
    fn what_was_interrupted_is_done_the_next_time() {
        let place = tempfile::tempdir().unwrap();
        let files = Files::new(place.path());
        files.write(&pair("one"), "").unwrap();
        // Killed after the directory was made and begun, and with a link that was not renamed.
        std::fs::create_dir(place.path().join("2")).unwrap();
        std::fs::write(place.path().join("2/tls.key"), "half").unwrap();
        symlink("2", place.path().join("next")).unwrap();
        assert!(files.read() == Some(pair("one")));
        files.write(&pair("two"), "").unwrap();
        assert!(files.read() == Some(pair("two")));
    }
}
