//! Where the programs and schemas are that `make setup` installs.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The schema of OVN's northbound database.
pub const OVN_NB_SCHEMA: &str = "/usr/share/ovn/ovn-nb.ovsschema";
/// The schema of OVN's southbound database.
pub const OVN_SB_SCHEMA: &str = "/usr/share/ovn/ovn-sb.ovsschema";
/// The schema of a node's Open vSwitch database.
pub const OPEN_VSWITCH_SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Finds a program as a shell would. System programs are found also when the caller's PATH has no `sbin`.
pub(crate) fn program(name: &OsStr) -> Result<PathBuf> {
    let found = if name.as_encoded_bytes().contains(&b'/') {
        Some(PathBuf::from(name)).filter(|path| is_executable(path))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
            .map(|directory| directory.join(name))
            .find(|path| is_executable(path))
    };
    found.ok_or_else(|| Error::NotInstalled { program: name.to_string_lossy().into_owned() })
}

/// A program that `scripts/build-kubernetes` has built.
pub fn built_program(name: &str) -> Result<PathBuf> {
    program(cache().join("bin").join(name).as_os_str())
}

/// What scripts keep outside of the tree: programs that were built, and what was fetched.
pub fn cache() -> PathBuf {
    std::env::var_os("PORTOLAN_CACHE").unwrap_or_else(|| "/var/cache/portolan".into()).into()
}

/// A program that the machine may have, or else `scripts/build-kubernetes` has built.
pub fn program_or_built(name: &str) -> Result<PathBuf> {
    program(name.as_ref()).or_else(|_| built_program(name))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
