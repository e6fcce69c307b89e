//! The manifests that install Portolan.

use std::path::Path;

use portolan_manifests::{Installation, Mode, manifest};

use super::Generated;

pub(super) fn generate(_: &Path) -> anyhow::Result<Vec<Generated>> {
    let file = |path: &str, mode| {
        anyhow::Ok(Generated { path: path.into(), content: manifest(&Installation::new(mode))? })
    };
    Ok(vec![
        file("deploy/portolan.yaml", Mode::Secondary)?,
        file("deploy/portolan-primary.yaml", Mode::Primary)?,
    ])
}
