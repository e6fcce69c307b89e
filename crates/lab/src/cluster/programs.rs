//! Where Portolan's own binaries are.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result, Trying};

/// Portolan's own binaries.
#[derive(Clone, Debug)]
pub struct Programs {
    portolan: PathBuf,
    plugin: PathBuf,
}

impl Programs {
    /// Those that were built together with the program that runs: beside it or, beside a test, one directory above.
    pub fn built() -> Result<Self> {
        let own = std::env::current_exe().trying(|| "find the program that runs".into())?;
        let mut directories = own.ancestors().skip(1).take(2);
        let found = directories.find_map(|directory| {
            let programs = Self::in_directory(directory);
            programs.portolan.is_file().then_some(programs)
        });
        let found = found.ok_or_else(|| missing("portolan", &own))?;
        if found.plugin.is_file() { Ok(found) } else { Err(missing("portolan-cni", &own)) }
    }

    /// Those of a directory.
    pub fn in_directory(directory: &Path) -> Self {
        Self { portolan: directory.join("portolan"), plugin: directory.join("portolan-cni") }
    }

    /// The server and command-line binary.
    pub fn portolan(&self) -> &Path {
        &self.portolan
    }

    /// The CNI plugin.
    pub fn plugin(&self) -> &Path {
        &self.plugin
    }
}

fn missing(program: &str, beside: &Path) -> Error {
    Error::NotBuilt { program: program.into(), directory: beside.parent().unwrap_or(beside).into() }
}
