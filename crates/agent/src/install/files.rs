//! Files of a directory, written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The end of the names of files that are not whole yet. No runtime takes such a file for a configuration, and nobody calls it.
const UNFINISHED: &str = ".portolan-unfinished";

/// A directory that no other installation works on meanwhile.
#[derive(Debug)]
pub(super) struct Locked {
    directory: File,
    path: PathBuf,
}

impl Locked {
    /// Waits for other installations. The directory is made if it is not there.
    pub(super) fn made(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("make directory {}", path.display()))?;
        Self::existing(path)?.with_context(|| format!("directory {} was removed", path.display()))
    }

    /// The same, if the directory is there.
    pub(super) fn existing(path: &Path) -> anyhow::Result<Option<Self>> {
        let directory = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.with_context(|| format!("open directory {}", path.display()))?,
        };
        directory.lock().with_context(|| format!("lock directory {}", path.display()))?;
        let locked = Self { directory, path: path.to_owned() };
        // Whoever left these has ended: it does not hold the lock.
        for name in locked.names()?.iter().filter(|name| name.ends_with(UNFINISHED)) {
            locked.remove(name)?;
        }
        Ok(Some(locked))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all files. One that is not UTF-8 is nobody's here.
    pub(super) fn names(&self) -> anyhow::Result<Vec<String>> {
        let list = || -> io::Result<Vec<String>> {
            let names = fs::read_dir(&self.path)?.map(|entry| entry.map(|entry| entry.file_name()));
            let names = names.collect::<io::Result<Vec<_>>>()?;
            Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
        };
        list().with_context(|| format!("list directory {}", self.path.display()))
    }

    /// What is in a file; none if there is none, or it is a directory.
    pub(super) fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {
                Ok(None)
            }
            read => read.map(Some).with_context(|| format!("read {}", path.display())),
        }
    }

    /// Writes a file, in place of one of that name. Whoever reads it sees the old one or the new one, also after a crash of the machine.
    pub(super) fn write(&self, name: &str, contents: &[u8], mode: u32) -> anyhow::Result<()> {
        let unfinished = self.path.join(format!(".{name}{UNFINISHED}"));
        let path = self.path.join(name);
        let write = || -> io::Result<()> {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&unfinished)?;
            // Whatever the umask made of it.
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.write_all(contents)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            self.directory.sync_all()
        };
        write().with_context(|| format!("write {}", path.display()))
    }

    /// Removes a file. That there is none is no error.
    pub(super) fn remove(&self, name: &str) -> anyhow::Result<()> {
        let path = self.path.join(name);
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.directory.sync_all(),
        };
        removed.with_context(|| format!("remove {}", path.display()))
    }
}
