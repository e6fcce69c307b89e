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
        let labs = labs_that_are_up();
        let named = self.kubeconfig.clone().or_else(|| environment.clone().map(PathBuf::from));
        let (path, lab) = match (named, labs.as_slice()) {
            (Some(path), labs) => {
                let lab = labs.iter().find(|lab| lab.kubeconfig() == path).cloned();
                // Several files in the variable are joined by the client.
                let path = Some(path).filter(|_| self.kubeconfig.is_some());
                (path, lab)
            }
            (None, [only]) => {
                eprintln!("using lab {:?}: no KUBECONFIG is set, and it is the only lab", only.name());
                (Some(only.kubeconfig()), Some(only.clone()))
            }
            (None, []) => (None, None),
            (None, several) if kube::config::Kubeconfig::read().is_err() => {
                let exports: Vec<_> = several
                    .iter()
                    .map(|lab| format!("\n  export KUBECONFIG={}", lab.kubeconfig().display()))
                    .collect();
                bail!("several labs are up; say which by one of these:{}", exports.concat());
            }
            (None, _) => (None, None),
        };
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
