//! The CNI plugin as it is installed on nodes: one small file that needs nothing of the node.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

/// The largest size of the binary, in bytes. It is copied to every node and read for every call.
const LARGEST: u64 = 2 << 20;

/// Builds it and checks what it is. Returns where it is.
pub(crate) fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let target = host()?;
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["build", "--locked", "--profile", "cni", "--package", "portolan-cni", "--target", &target])
        // For this target alone: build scripts and macros are programs of the machine that builds.
        .args(["--config", &format!("target.{target}.rustflags=['-C', 'target-feature=+crt-static']")])
        .status()
        .context("run cargo")?;
    ensure!(status.success(), "the plugin cannot be built");
    let directory = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let binary = directory.join(target).join("cni/portolan-cni");
    let contents = std::fs::read(&binary).with_context(|| format!("read {}", binary.display()))?;
    let size = contents.len() as u64;
    ensure!(size <= LARGEST, "{} has {size} bytes; {LARGEST} are allowed", binary.display());
    let needs = needs(&contents).with_context(|| format!("read {}", binary.display()))?;
    ensure!(needs.is_empty(), "{} is not static: it needs {}", binary.display(), needs.join(" and "));
    println!("{}: {size} bytes, static", binary.display());
    Ok(binary)
}

/// The target that programs of this machine are built for.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("run rustc")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

/// What a program needs from the machine that it is started on.
fn needs(elf: &[u8]) -> anyhow::Result<Vec<&'static str>> {
    const INTERPRETER: u64 = 3;
    const DYNAMIC: u64 = 2;
    const LIBRARY: u64 = 1;
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        bail!("it is not a program for a 64-bit machine with the low byte first");
    }
    let (table, size, count) = (number(elf, 32, 8)?, number(elf, 54, 2)?, number(elf, 56, 2)?);
    let mut needs = Vec::new();
    for header in (0..count).map(|at| table + at * size) {
        match number(elf, header, 4)? {
            INTERPRETER => needs.push("an interpreter"),
            DYNAMIC => {
                let (begin, length) = (number(elf, header + 8, 8)?, number(elf, header + 32, 8)?);
                let tags = (begin..begin + length).step_by(16).map(|at| number(elf, at, 8));
                if tags.collect::<Result<Vec<_>, _>>()?.contains(&LIBRARY) {
                    needs.push("shared libraries");
                }
            }
            _ => {}
        }
    }
    Ok(needs)
}

fn number(bytes: &[u8], at: u64, length: usize) -> anyhow::Result<u64> {
    let at = usize::try_from(at)?;
    let field = bytes.get(at..at + length).context("it is cut off")?;
    Ok(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_static_is_told() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut found = needs(&this).unwrap();
        found.sort_unstable();
        assert_eq!(found, ["an interpreter", "shared libraries"]);
        assert!(needs(b"#!/bin/sh").is_err());
        assert!(needs(&this[..80]).is_err());
    }
}
