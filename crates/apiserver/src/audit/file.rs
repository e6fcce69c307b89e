//! The file of the audit log, and those that it is moved to when it is large.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// When a log is moved away, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// A file that would grow beyond this becomes `<file>.1`, what was that `<file>.2`, and so on. 0: that is left to others, as
    /// logrotate.
    pub max_bytes: u64,
    /// How many of those are kept; at least one. Files of higher numbers are not touched: somebody else may have put them there.
    pub backups: u32,
}

impl Default for Rotation {
    fn default() -> Self {
        Rotation { max_bytes: 100 << 20, backups: 10 }
    }
}

/// A file that lines are appended to, readable for its owner only.
#[derive(Debug)]
pub struct AuditLog {
    /// Without symbolic links if it is ours.
    path: PathBuf,
    rotation: Rotation,
    file: File,
    /// Whether it is a regular file that was opened by its name. All else is written to and left as it is: standard output, pipes,
    /// terminals, and what is under `/dev` and `/proc`.
    is_ours: bool,
    /// Whether the file ends within a line.
    torn: bool,
    rotation_fails: bool,
}

impl AuditLog {
    /// Appends to this file, which is made if it is not there, or to standard output, which is `-`. If the file ends within a
    /// line, as after a power failure, that line is ended.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: impl Into<PathBuf>, rotation: Rotation) -> io::Result<AuditLog> {
        let mut path = path.into();
        let (mut is_ours, mut torn) = (false, false);
        let file = if path == Path::new("-") {
            File::from(io::stdout().as_fd().try_clone_to_owned()?)
        } else if leads_through_devices(&path)? {
            OpenOptions::new().append(true).open(&path)?
        } else {
            let file;
            (file, is_ours) = open(&path)?;
            if is_ours {
                path = fs::canonicalize(path)?;
                torn = ends_within_line(&path)?;
            }
            file
        };
        Ok(AuditLog { path, rotation, file, is_ours, torn, rotation_fails: false })
    }

    /// Appends lines. If that fails, none of them is there: what was written of them is taken back.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if !self.is_ours {
            return self.file.write_all(lines);
        }
        self.follow_path()?;
        let mut length = self.file.metadata()?.len();
        let max_bytes = self.rotation.max_bytes;
        if max_bytes > 0 && length > 0 && length.saturating_add(lines.len() as u64) > max_bytes {
            self.rotate_or_go_on();
            length = self.file.metadata()?.len();
        }
        let written = if self.torn { self.file.write_all(b"\n") } else { Ok(()) };
        let written = written.and_then(|()| self.file.write_all(lines));
        self.torn = match &written {
            Ok(()) => false,
            Err(_) => self.torn || self.file.set_len(length).is_err(),
        };
        written
    }

    /// Somebody else may move the file away, as logrotate does, or remove it: lines belong to whatever has its name.
    fn follow_path(&mut self) -> io::Result<()> {
        let is_same = match (fs::metadata(&self.path), self.file.metadata()?) {
            (Ok(named), open) => (named.dev(), named.ino()) == (open.dev(), open.ino()),
            (Err(_), _) => false,
        };
        if !is_same {
            self.reopen()?;
        }
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        let (file, is_regular) = open(&self.path)?;
        self.torn = is_regular && ends_within_line(&self.path)?;
        (self.file, self.is_ours) = (file, is_regular);
        Ok(())
    }

    /// A log that cannot be moved away grows: that is better than to lose lines.
    fn rotate_or_go_on(&mut self) {
        let rotated = self.rotate();
        if let Err(error) = &rotated
            && !self.rotation_fails
        {
            let file = self.path.display();
            tracing::error!(%error, %file, "the audit log is full and cannot be moved away: it grows");
        }
        self.rotation_fails = rotated.is_err();
    }

    /// Invariant: after every step each line is in one file, and newer lines in files of lower numbers. A crash in between leaves a
    /// number out, which the next rotation fills. The log of the last number is replaced by the one before it; nothing else is
    /// removed.
    fn rotate(&mut self) -> io::Result<()> {
        if !fs::symlink_metadata(&self.path)?.is_file() {
            return Err(io::Error::other("a symbolic link has been put in its place"));
        }
        let last = self.rotation.backups.max(1);
        let free = (1..last).find(|number| !self.backup(*number).exists()).unwrap_or(last);
        for number in (1..free).rev() {
            fs::rename(self.backup(number), self.backup(number + 1))?;
        }
        fs::rename(&self.path, self.backup(1))?;
        self.reopen()
    }

    fn backup(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

/// Whether a path names what a process has open already, as `/dev/stdout` does, or a device; directly or by symbolic links.
fn leads_through_devices(path: &Path) -> io::Result<bool> {
    /// How many symbolic links Linux follows.
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = fs::canonicalize(parent.unwrap_or(Path::new(".")))?;
        if ["/dev", "/proc"].iter().any(|devices| directory.starts_with(devices)) {
            return Ok(true);
        }
        match fs::read_link(&path) {
            Ok(target) => path = directory.join(target),
            Err(_) => return Ok(false),
        }
    }
    Ok(false)
}

fn open(path: &Path) -> io::Result<(File, bool)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok((file, metadata.is_file()))
}

fn ends_within_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_large_log_is_moved_away_and_only_so_many_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let backup = |number: u32| directory.path().join(format!("audit.log.{number}"));
        let mut log = AuditLog::open(&path, Rotation { max_bytes: 10, backups: 2 }).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n", "sixth\n", "seventh\n"] {
            log.write(line.as_bytes()).unwrap();
        }
        assert_eq!(read(&path), "seventh\n");
        assert_eq!(read(&backup(1)), "sixth\n");
        assert_eq!(read(&backup(2)), "four\nfive\n");
        assert!(!backup(3).exists());
        for file in [path.clone(), backup(1), backup(2)] {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }

        drop(log);
        let mut log = AuditLog::open(&path, Rotation { max_bytes: 10, backups: 1 }).unwrap();
        log.write(b"eighth\n").unwrap();
        assert_eq!((read(&path).as_str(), read(&backup(1)).as_str()), ("eighth\n", "seventh\n"));
    }

    #[test]
    fn files_of_higher_numbers_are_not_ours_to_remove() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let backup = |number: u32| directory.path().join(format!("audit.log.{number}"));
        fs::write(backup(3), "third\n").unwrap();
        fs::write(backup(4), "fourth\n").unwrap();
        let mut log = AuditLog::open(&path, Rotation { max_bytes: 5, backups: 2 }).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            log.write(line.as_bytes()).unwrap();
        }
        let all = [read(&path), read(&backup(1)), read(&backup(2)), read(&backup(3)), read(&backup(4))];
        assert_eq!(all, ["four\n", "three\n", "two\n", "third\n", "fourth\n"]);
    }

    #[test]
    fn a_log_without_a_limit_is_left_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut log = AuditLog::open(&path, Rotation { max_bytes: 0, backups: 1 }).unwrap();
        log.write(b"one\n").unwrap();
        log.write(b"two\n").unwrap();
        assert_eq!(read(&path), "one\ntwo\n");
        fs::rename(&path, directory.path().join("audit.log.1")).unwrap();
        log.write(b"three\n").unwrap();
        assert_eq!(read(&path), "three\n");
    }

    #[test]
    fn a_symbolic_link_stays_and_the_file_that_it_leads_to_is_moved_away() {
        let directory = tempfile::tempdir().unwrap();
        let (link, path) = (directory.path().join("link"), directory.path().join("audit.log"));
        std::os::unix::fs::symlink("audit.log", &link).unwrap();
        let mut log = AuditLog::open(&link, Rotation { max_bytes: 5, backups: 1 }).unwrap();
        log.write(b"one\n").unwrap();
        log.write(b"two\n").unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("audit.log"));
        assert_eq!(read(&path), "two\n");
        assert_eq!(read(&directory.path().join("audit.log.1")), "one\n");
    }

    #[test]
    fn a_file_that_somebody_else_has_open_is_not_moved_away() {
        let directory = tempfile::tempdir().unwrap();
        let (link, path) = (directory.path().join("audit.log"), directory.path().join("out"));
        let redirected = File::create(&path).unwrap();
        // As /dev/stdout is, with the output of the process in a file.
        let descriptor = format!("/proc/self/fd/{}", redirected.as_raw_fd());
        std::os::unix::fs::symlink(&descriptor, &link).unwrap();
        let mut log = AuditLog::open(&link, Rotation { max_bytes: 5, backups: 1 }).unwrap();
        log.write(b"one\n").unwrap();
        log.write(b"two\n").unwrap();
        assert_eq!(read(&path), "one\ntwo\n");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(&descriptor));
    }

    #[test]
    fn a_hyphen_is_standard_output() {
        let mut log = AuditLog::open("-", Rotation { max_bytes: 1, backups: 1 }).unwrap();
        log.write(b"\n").unwrap();
        log.write(b"\n").unwrap();
        assert!(!Path::new("-").exists() && !Path::new("-.1").exists());
    }

    #[test]
    fn a_rotation_that_a_crash_cut_short_loses_no_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let backup = |number: u32| directory.path().join(format!("audit.log.{number}"));
        // The first was moved on, the log was not yet moved after it.
        fs::write(&path, "new\n").unwrap();
        fs::write(backup(2), "older\n").unwrap();
        fs::write(backup(3), "oldest\n").unwrap();
        let mut log = AuditLog::open(&path, Rotation { max_bytes: 5, backups: 3 }).unwrap();
        log.write(b"newer\n").unwrap();
        let all = [read(&path), read(&backup(1)), read(&backup(2)), read(&backup(3))];
        assert_eq!(all, ["newer\n", "new\n", "older\n", "oldest\n"]);
    }

    #[test]
    fn a_log_that_somebody_moved_away_or_removed_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("audit.log"), directory.path().join("moved"));
        let mut log = AuditLog::open(&path, Rotation::default()).unwrap();
        log.write(b"one\n").unwrap();
        fs::rename(&path, &moved).unwrap();
        log.write(b"two\n").unwrap();
        assert_eq!((read(&moved).as_str(), read(&path).as_str()), ("one\n", "two\n"));
        fs::remove_file(&path).unwrap();
        log.write(b"three\n").unwrap();
        assert_eq!((read(&path).as_str(), mode(&path)), ("three\n", 0o600));
    }

    #[test]
    fn a_torn_last_line_stays_alone_and_others_cannot_read_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        fs::write(&path, "whole\ntor").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut log = AuditLog::open(&path, Rotation::default()).unwrap();
        assert_eq!(mode(&path), 0o600);
        log.write(b"one\n").unwrap();
        log.write(b"two\n").unwrap();
        assert_eq!(read(&path), "whole\ntor\none\ntwo\n");
    }

    #[test]
    fn a_log_that_cannot_be_moved_away_grows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut log = AuditLog::open(&path, Rotation { max_bytes: 5, backups: 1 }).unwrap();
        log.write(b"one\n").unwrap();
        // Not even root can replace a directory by a file.
        fs::create_dir(directory.path().join("audit.log.1")).unwrap();
        log.write(b"two\n").unwrap();
        assert_eq!(read(&path), "one\ntwo\n");
        fs::remove_dir(directory.path().join("audit.log.1")).unwrap();
        log.write(b"three\n").unwrap();
        assert_eq!(read(&path), "three\n");
    }

    #[test]
    fn a_pipe_is_written_to_and_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || read(&path)
        });
        let mut log = AuditLog::open(&path, Rotation { max_bytes: 1, backups: 1 }).unwrap();
        log.write(b"one\n").unwrap();
        log.write(b"two\n").unwrap();
        drop(log);
        assert_eq!(reader.join().unwrap(), "one\ntwo\n");
        assert!(!directory.path().join("pipe.1").exists());
    }
}
