//! The plugin's binary, under every name that a network configuration calls it by.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use portolan_cni::{BINARY_MARK, PLUGIN_TYPE, PLUGIN_TYPES};

use super::files::Locked;

/// Who has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// Portolan, with this very binary.
    Current,
    /// Portolan, with another version.
    Other,
    /// Another program.
    Foreign,
}

/// Puts the plugin into a directory. A program of others is never overwritten: under the plugin's own name it is an error.
pub(super) fn install(directory: &Path, plugin: &Path) -> anyhow::Result<()> {
    let contents = std::fs::read(plugin).with_context(|| format!("read the plugin, {}", plugin.display()))?;
    if !is_ours(&contents) {
        bail!("{} is not the CNI plugin of Portolan", plugin.display());
    }
    let directory = Locked::made(directory)?;
    for &name in PLUGIN_TYPES {
        let path = directory.path().join(name);
        match owner(&directory, name, &contents)? {
            Owner::Current => {}
            Owner::Nobody | Owner::Other => {
                directory.write(name, &contents, 0o755)?;
                tracing::info!(file = %path.display(), "CNI plugin written");
            }
            Owner::Foreign if name == PLUGIN_TYPE => {
                bail!("{} is not Portolan's, so it is not overwritten: remove or rename it", path.display());
            }
            Owner::Foreign => tracing::warn!(
                "{} is not Portolan's and stays as it is. Network attachment definitions of type {name} are not served by Portolan on this node under Multus; \
                 remove the file if nothing else needs it, and install again",
                path.display()
            ),
        }
    }
    Ok(())
}

/// Removes the plugin under all its names, and says which these were.
pub(super) fn uninstall(directory: &Locked) -> anyhow::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for name in PLUGIN_TYPES {
        if matches!(owner(directory, name, &[])?, Owner::Current | Owner::Other) {
            directory.remove(name)?;
            removed.push(directory.path().join(name));
        }
    }
    Ok(removed)
}

fn owner(directory: &Locked, name: &str, current: &[u8]) -> anyhow::Result<Owner> {
    let path = directory.path().join(name);
    let is_there = std::fs::symlink_metadata(&path).is_ok();
    Ok(match directory.read(name)? {
        Some(contents) if contents == current => Owner::Current,
        Some(contents) if is_ours(&contents) => Owner::Other,
        Some(_) => Owner::Foreign,
        // A directory, or a link to nothing.
        None if is_there => Owner::Foreign,
        None => Owner::Nobody,
    })
}

pub(super) fn is_ours(contents: &[u8]) -> bool {
    memchr::memmem::find(contents, BINARY_MARK.to_lowercase().as_bytes()).is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    fn plugin(directory: &Path, version: &str) -> PathBuf {
        let path = directory.join("built");
        std::fs::write(&path, format!("\x7fELF {version} {}", BINARY_MARK.to_lowercase())).unwrap();
        path
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names = Locked::made(directory).unwrap().names().unwrap();
        names.sort();
        names
    }

    #[test]
    fn the_plugin_is_there_under_all_its_names_and_replaced_by_another_version() {
        let place = tempfile::tempdir().unwrap();
        let bin = place.path().join("bin");
        for version in ["1", "2"] {
            install(&bin, &plugin(place.path(), version)).unwrap();
            assert_eq!(names(&bin), ["kube-ovn", "ovn4nfvk8s-cni", "portolan", "portolan-cni"]);
            for name in names(&bin) {
                let text = std::fs::read_to_string(bin.join(&name)).unwrap();
                assert!(text.starts_with(&format!("\x7fELF {version} ")), "{name}: {text}");
            }
        }
        let removed = uninstall(&Locked::made(&bin).unwrap()).unwrap();
        assert_eq!((removed.len(), names(&bin).len()), (4, 0));
    }

    #[test]
    fn a_program_of_others_is_neither_overwritten_nor_removed() {
        let place = tempfile::tempdir().unwrap();
        let bin = place.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("kube-ovn"), "another program").unwrap();
        std::os::unix::fs::symlink("/nowhere", bin.join("ovn4nfvk8s-cni")).unwrap();
        install(&bin, &plugin(place.path(), "1")).unwrap();
        uninstall(&Locked::made(&bin).unwrap()).unwrap();
        assert_eq!(names(&bin), ["kube-ovn", "ovn4nfvk8s-cni"]);
        assert_eq!(std::fs::read_to_string(bin.join("kube-ovn")).unwrap(), "another program");

        std::fs::write(bin.join("portolan-cni"), "another program").unwrap();
        let error = install(&bin, &plugin(place.path(), "1")).unwrap_err().to_string();
        assert!(error.contains("portolan-cni is not Portolan's"), "{error}");
    }

    #[test]
    fn what_is_not_the_plugin_is_not_installed_as_one() {
        let place = tempfile::tempdir().unwrap();
        let wrong = place.path().join("wrong");
        std::fs::write(&wrong, "something else").unwrap();
        let error = install(&place.path().join("bin"), &wrong).unwrap_err().to_string();
        assert!(error.ends_with("wrong is not the CNI plugin of Portolan"), "{error}");
    }

    #[test]
    fn what_a_killed_installation_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let bin = place.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join(".portolan-cni.portolan-unfinished"), "half").unwrap();
        install(&bin, &plugin(place.path(), "1")).unwrap();
        assert_eq!(names(&bin), ["kube-ovn", "ovn4nfvk8s-cni", "portolan", "portolan-cni"]);
    }
}
