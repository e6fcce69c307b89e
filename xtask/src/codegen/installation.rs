//! The manifests that install Portolan.

use std::path::Path;

use portolan_manifests::{Installation, Mode, chart, harvester_addon, manifest};

use super::Generated;

pub(super) fn generate(_: &Path) -> anyhow::Result<Vec<Generated>> {
    let file = |path: &str, mode| {
        anyhow::Ok(Generated { path: path.into(), content: manifest(&Installation::new(mode))? })
    };
    let addon = Generated { path: "deploy/harvester/portolan.yaml".into(), content: harvester_addon() };
    let mut files = vec![
        file("deploy/portolan.yaml", Mode::Secondary)?,
        file("deploy/portolan-primary.yaml", Mode::Primary)?,
        addon,
    ];
    let in_chart =
        |(path, content)| Generated { path: Path::new("deploy/helm/portolan").join(path), content };
    files.extend(chart()?.into_iter().map(in_chart));
    Ok(files)
}
