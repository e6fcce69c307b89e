//! The directory that holds a server's store and keys.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// What a server's directory holds, once it was started there.
const OWN_FILES: [&str; 3] = ["store.redb", "ca.key", "admin.kubeconfig"];

/// Makes the directory, accessible for its owner only. One that exists is made so too if it is empty or holds a server's files; any
/// other is left as it is, because it may be shared: all files in it that need it are private by themselves.
///
/// # Errors
/// When the directory cannot be made, read or changed.
pub fn prepare(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let metadata = std::fs::metadata(path)?;
    let is_private = metadata.mode() & 0o077 == 0;
    let is_mine = metadata.uid() == rustix::process::geteuid().as_raw();
    let is_empty = || std::fs::read_dir(path).map(|mut entries| entries.next().is_none());
    if !is_private && is_mine && (OWN_FILES.iter().any(|file| path.join(file).exists()) || is_empty()?) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    fn open_to_all(path: &Path) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_directory_is_private_whether_it_is_new_empty_or_of_an_earlier_version() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/data");
        prepare(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        open_to_all(&path);
        prepare(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        open_to_all(&path);
        std::fs::write(path.join("store.redb"), "").unwrap();
        prepare(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn a_directory_that_others_use_stays_as_it_is() {
        let parent = tempfile::tempdir().unwrap();
        open_to_all(parent.path());
        std::fs::write(parent.path().join("something"), "").unwrap();
        prepare(parent.path()).unwrap();
        assert_eq!(mode(parent.path()), 0o755);
    }
}
