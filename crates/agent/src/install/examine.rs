//! What the container runtime finds, for those who examine a node. Nothing is written, and no lock is taken.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use portolan_cni::PLUGIN_TYPE;

use super::conflist::{self, File, Mode, Node};
use super::{Places, programs, socket_of};
use crate::examine::facts::{Configurations, First, Outcome, Plugin};

/// What a runtime reads and calls. `plugin` is the plugin of this version; `mode` how Portolan is installed, if it is.
pub fn examine(places: &Places, plugin: Option<&Path>, mode: Option<Mode>) -> anyhow::Result<Configurations> {
    let mut files = read(&places.configurations)?;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let first = files.first().map(|file| match conflist::called(file) {
        Ok((name, plugins)) => Outcome::Found(First { name, plugins }),
        Err(reason) => Outcome::Unknown(reason),
    });
    let has_portmap = places.programs.join(conflist::PORTMAP).exists();
    let node = Node { socket: socket_of(&places.socket), has_portmap };
    let plan = mode.map(|mode| conflist::plan(&files, mode, &node));
    Ok(Configurations {
        ours: conflist::ours(&files),
        first,
        outdated: plan.as_ref().is_some_and(|plan| !plan.changes.is_empty()),
        problem: plan
            .and_then(|plan| plan.problem)
            .filter(super::Problem::is_failure)
            .map(|problem| problem.to_string()),
        plugin: plugin_of(&places.programs.join(PLUGIN_TYPE), plugin)?,
        files: files.into_iter().map(|file| file.name).collect(),
    })
}

fn read(directory: &Path) -> anyhow::Result<Vec<File>> {
    let what = || format!("list directory {}", directory.display());
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.with_context(what)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.with_context(what)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !conflist::is_configuration(&name) {
            continue;
        }
        match std::fs::read(entry.path()) {
            Ok(text) => files.push(File { name, text }),
            // It went meanwhile, or is a directory, which no runtime reads.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {}
            Err(error) => return Err(error).with_context(|| format!("read {}", entry.path().display())),
        }
    }
    Ok(files)
}

fn plugin_of(installed: &Path, current: Option<&Path>) -> anyhow::Result<Plugin> {
    let contents = match std::fs::read(installed) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Plugin::Missing),
        read => read.with_context(|| format!("read {}", installed.display()))?,
    };
    if !programs::is_ours(&contents) {
        return Ok(Plugin::Foreign);
    }
    Ok(match current.map(std::fs::read) {
        Some(Ok(current)) if current == contents => Plugin::Current,
        Some(Ok(_)) => Plugin::Other,
        Some(Err(_)) | None => Plugin::Present,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use portolan_cni::BINARY_MARK;

    use super::*;

    const BRIDGE: &str = r#"{"cniVersion": "1.0.0", "name": "cluster", "plugins": [{"type": "bridge"}]}"#;

    fn places(root: &Path) -> Places {
        let places =
            Places { configurations: root.join("net.d"), programs: root.join("bin"), ..Places::default() };
        std::fs::create_dir_all(&places.configurations).unwrap();
        std::fs::create_dir_all(&places.programs).unwrap();
        places
    }

    #[test]
    fn the_first_configuration_is_told_with_what_it_calls() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let none = examine(&places, None, None).unwrap();
        assert_eq!((none.files.len(), none.first, none.plugin), (0, None, Plugin::Missing));
        std::fs::write(places.configurations.join("10-bridge.conflist"), BRIDGE).unwrap();
        std::fs::write(places.configurations.join("05-broken.conf"), "{").unwrap();
        std::fs::write(places.configurations.join("notes.txt"), "").unwrap();
        let found = examine(&places, None, None).unwrap();
        assert_eq!(found.files, ["05-broken.conf", "10-bridge.conflist"]);
        assert!(found.first.unwrap().unknown().is_some());
        std::fs::remove_file(places.configurations.join("05-broken.conf")).unwrap();
        let found = examine(&places, None, Some(Mode::Chained)).unwrap();
        let first = First { name: "cluster".into(), plugins: vec!["bridge".into()] };
        assert_eq!(found.first, Some(Outcome::Found(first)));
        assert!(found.outdated && found.problem.is_none(), "ours is to be written");
    }

    #[test]
    fn a_file_that_no_name_of_ours_comes_before_is_a_problem() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        std::fs::write(places.configurations.join("!a.conflist"), BRIDGE).unwrap();
        let found = examine(&places, None, Some(Mode::Chained)).unwrap();
        assert!(found.problem.unwrap().contains("!a.conflist"));
    }

    #[test]
    fn the_plugin_is_compared_with_that_of_this_version() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let (installed, current) = (places.programs.join(PLUGIN_TYPE), root.path().join("current"));
        let ours = |version: &str| format!("{version} {}", BINARY_MARK.to_lowercase());
        std::fs::write(&current, ours("2")).unwrap();
        for (contents, plugin) in
            [(ours("2"), Plugin::Current), (ours("1"), Plugin::Other), ("else".to_owned(), Plugin::Foreign)]
        {
            std::fs::write(&installed, contents).unwrap();
            assert_eq!(examine(&places, Some(&current), None).unwrap().plugin, plugin);
        }
        std::fs::write(&installed, ours("2")).unwrap();
        let missing = root.path().join("missing");
        assert_eq!(examine(&places, Some(&missing), None).unwrap().plugin, Plugin::Present);
    }
}
