//! The manifests of our API kinds, and the page that says which fields of Kube-OVN's are acted on.

use std::path::{Path, PathBuf};

use super::Generated;

pub(super) fn manifests(_: &Path) -> anyhow::Result<Vec<Generated>> {
    let file = |(name, content)| Generated { path: PathBuf::from("deploy/crds").join(name), content };
    Ok(portolan_api::crd_yaml().into_iter().map(file).collect())
}

pub(super) fn pages(_: &Path) -> anyhow::Result<Vec<Generated>> {
    let path = PathBuf::from("docs/kubeovn-fields.md");
    Ok(vec![Generated { path, content: portolan_api::kubeovn_support_markdown() }])
}
