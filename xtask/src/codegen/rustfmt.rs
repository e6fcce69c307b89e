//! Formats generated code as the rest of the workspace is formatted.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::Generated;

/// Runs the workspace's rustfmt over the files, all at once: starting it takes longer than formatting.
pub(super) fn format(root: &Path, files: &mut [Generated]) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let mut paths = Vec::with_capacity(files.len());
    for file in &*files {
        let path = scratch.path().join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or(scratch.path()))?;
        fs::write(&path, &file.content)?;
        paths.push(path);
    }
    // In the workspace's root rustup picks the workspace's toolchain.
    let status = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(root.join("rustfmt.toml"))
        .args(&paths)
        .current_dir(root)
        .status()
        .context("rustfmt cannot be started: `rustup component add rustfmt` installs it")?;
    ensure!(status.success(), "rustfmt failed on generated code");
    for (file, path) in files.iter_mut().zip(paths) {
        file.content = fs::read_to_string(path)?;
    }
    Ok(())
}
