//! How to reach the API server.

mod snapshot;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};

#[cfg(test)]
pub(crate) use snapshot::Lists;
pub(crate) use snapshot::{Condition, Described, Snapshot, created, last_seen};

use crate::lab::{Lab, labs_that_are_up};

/// How long the API server may take to answer a person.
const PATIENCE: Duration = Duration::from_secs(15);

/// As the file says; without one, as the cluster that this runs in or the user's own kubeconfig says.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Config> {
    let Some(path) = kubeconfig else {
        return kube::Config::infer().await.context("no cluster to talk to; give --kubeconfig");
    };
    let file = Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

/// Which cluster a person means.
#[derive(Clone, Debug, Args)]
pub(crate) struct Which {
    /// How to reach the API server. Without it: $KUBECONFIG; the lab, if exactly one is up; the user's own kubeconfig.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// A cluster that a person looks at.
pub(crate) struct Cluster {
    client: kube::Client,
    url: String,
    /// The namespace of those who name none.
    pub(crate) namespace: String,
    /// The lab that it is, if it is one.
    pub(crate) lab: Option<Lab>,
}

impl Which {
    /// Finds the cluster. Nothing is asked of it yet.
    pub(crate) async fn find(&self) -> anyhow::Result<Cluster> {
        let environment = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
        let has_own = || Kubeconfig::read().is_ok();
        let (path, lab) =
            choose(self.kubeconfig.clone(), environment.map(PathBuf::from), &labs_that_are_up(), has_own)?;
        let mut config = match &path {
            Some(path) => read(path).await?,
            None => kube::Config::infer().await.map_err(|_| {
                anyhow::anyhow!(
                    "there is no cluster to talk to: no lab is up, and there is no kubeconfig; \
                     `portolan lab up` raises a lab, --kubeconfig names a cluster"
                )
            })?,
        };
        config.connect_timeout = Some(PATIENCE);
        config.read_timeout = Some(PATIENCE);
        let (url, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let client = kube::Client::try_from(config)
            .map_err(|error| anyhow::anyhow!("the kubeconfig cannot be used: {}", innermost(&error)))?;
        Ok(Cluster { client, url, namespace, lab })
    }
}

/// The kubeconfig to use, if not the one that clients find by themselves, and the lab that is meant.
fn choose(
    argument: Option<PathBuf>,
    environment: Option<PathBuf>,
    labs: &[Lab],
    has_own: impl FnOnce() -> bool,
) -> anyhow::Result<(Option<PathBuf>, Option<Lab>)> {
    let same = |a: &Path, b: &Path| {
        a == b || a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a))
    };
    let lab_of = |path: &Path| labs.iter().find(|lab| same(&lab.kubeconfig(), path)).cloned();
    match (argument, environment, labs) {
        (Some(path), _, _) => {
            let lab = lab_of(&path);
            Ok((Some(path), lab))
        }
        // Clients read the variable by themselves: it may name several files.
        (None, Some(path), _) => Ok((None, lab_of(&path))),
        (None, None, [only]) => {
            eprintln!("using lab {:?}: no KUBECONFIG is set, and it is the only lab", only.name());
            Ok((Some(only.kubeconfig()), Some(only.clone())))
        }
        (None, None, several) if several.len() > 1 && !has_own() => {
            let export = |lab: &Lab| format!("\n  export KUBECONFIG={}", lab.kubeconfig().display());
            bail!("several labs are up; say which:{}", several.iter().map(export).collect::<String>());
        }
        (None, None, _) => Ok((None, None)),
    }
}

async fn read(path: &Path) -> anyhow::Result<kube::Config> {
    let unusable = |why: String| anyhow::anyhow!("cannot use {} as a kubeconfig: {why}", path.display());
    let file = Kubeconfig::read_from(path).map_err(|error| unusable(innermost(&error)))?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    config.map_err(|error| unusable(innermost(&error)))
}

/// What lies at the bottom of an error, in one line: what is above says the same in more words.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    crate::output::plain(last.to_string().trim())
}

impl Cluster {
    /// What went wrong with a question to the API server, in plain words.
    fn complain(&self, what: &str, error: &kube::Error) -> anyhow::Error {
        let url = &self.url;
        match error {
            kube::Error::Api(status) if status.code == 401 => anyhow::anyhow!(
                "the API server at {url} does not know who asks: the kubeconfig's credentials are wrong or out of date"
            ),
            kube::Error::Api(status) if status.code == 403 => {
                anyhow::anyhow!("the API server at {url} does not allow to read {what}: {}", status.message)
            }
            kube::Error::Api(status) => {
                let said = crate::output::plain(&status.message);
                anyhow::anyhow!("the API server at {url} cannot give {what}: {said}")
            }
            kube::Error::SerdeError(error) => anyhow::anyhow!(
                "{what} of the API server at {url} cannot be understood: {error}; are the definitions of another version?"
            ),
            error => anyhow::anyhow!("the API server at {url} does not answer: {}", innermost(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_who_says_nothing_means_the_only_lab() {
        let directory = tempfile::tempdir().unwrap();
        let lab = |name: &str| Lab::for_test(directory.path(), name);
        let (blue, green) = (lab("blue"), lab("green"));
        let file = |lab: &Lab| Some(lab.kubeconfig());
        let name = |lab: Option<Lab>| lab.map(|lab| lab.name().to_owned());
        let both = [blue.clone(), green.clone()];
        let chosen = |argument, environment, labs: &[Lab], own: bool| {
            choose(argument, environment, labs, || own).map(|(path, lab)| (path, name(lab)))
        };
        let blue_file = || (file(&blue), Some("blue".to_owned()));
        assert_eq!(chosen(None, None, &both[..1], true).unwrap(), blue_file());
        assert_eq!(chosen(None, None, &[], true).unwrap(), (None, None));
        assert_eq!(chosen(None, None, &both, true).unwrap(), (None, None), "the user's own");
        let said = chosen(None, None, &both, false).unwrap_err().to_string();
        assert!(said.contains(&format!("\n  export KUBECONFIG={}", green.kubeconfig().display())), "{said}");
        // Named ones come first, and may be those of a lab.
        assert_eq!(chosen(file(&blue), file(&green), &both, false).unwrap(), blue_file());
        assert_eq!(chosen(None, file(&green), &both, false).unwrap(), (None, Some("green".into())));
        assert_eq!(chosen(None, Some("/other".into()), &both, false).unwrap(), (None, None));
    }
}
