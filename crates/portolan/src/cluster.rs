//! Which cluster a command asks, and how to reach its API server.

mod snapshot;
mod unreadable;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use http::HeaderValue;
use kube::config::{KubeConfigOptions, Kubeconfig};

pub(crate) use snapshot::{
    Condition, Described, Kinds, Labelled, Lists, Scope, Snapshot, created, last_seen,
};
pub(crate) use unreadable::{UnreadableObject, Warned};

use crate::exit::{Exit, Failure};
use crate::lab::{Lab, labs_that_are_up};
use crate::output::plain;

/// How long the API server may take to answer a person.
const DEADLINE: Duration = Duration::from_secs(15);
/// A watch may be silent for longer: the API server ends it before this.
const WATCH_SILENCE: Duration = Duration::from_secs(300);

/// Says in each request whose it is: audit logs and the managers of fields show it.
pub(crate) fn named(mut config: kube::Config, component: &str) -> kube::Config {
    let agent = format!("{component}/{}", env!("CARGO_PKG_VERSION"));
    let agent =
        HeaderValue::from_str(&agent).expect("invariant: a name and a version are letters and digits");
    config.headers.push((http::header::USER_AGENT, agent));
    config
}

/// Which cluster a command asks.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Which {
    /// The kubeconfig file. Without it, as for kubectl: $KUBECONFIG, then ~/.kube/config, then the cluster that this runs in; and
    /// where there is none of these, the lab that is up.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; its current one unless given.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The lab of this name on this machine.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["kubeconfig", "context"])]
    lab: Option<String>,
}

/// A cluster that a person asks.
pub(crate) struct Cluster {
    pub(crate) client: kube::Client,
    config: kube::Config,
    pub(crate) url: String,
    /// The namespace of objects that are named without one.
    pub(crate) namespace: String,
    /// The lab that it is, if it is one of this machine.
    pub(crate) lab: Option<Lab>,
}

/// Where the configuration of a cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// In this file.
    File(PathBuf),
    /// In the files of `$KUBECONFIG`.
    Environment,
    /// In the pod that this runs in.
    Pod,
}

/// What there is to choose from, besides the command line.
struct Machine<'a> {
    environment: Option<PathBuf>,
    own_file: Option<PathBuf>,
    in_pod: bool,
    labs: &'a [Lab],
}

impl Which {
    /// Finds the cluster. Nothing is asked of it yet.
    pub(crate) async fn find(&self) -> anyhow::Result<Cluster> {
        let machine = Machine {
            environment: std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty()).map(PathBuf::from),
            own_file: std::env::home_dir().map(|home| home.join(".kube/config")).filter(|file| file.exists()),
            in_pod: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
            labs: &labs_that_are_up(),
        };
        let (origin, lab) = self.choose(&machine)?;
        let mut config = self.read(&origin).await?;
        config.connect_timeout = Some(DEADLINE);
        config.read_timeout = Some(DEADLINE);
        let (url, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let client = client(config.clone())?;
        Ok(Cluster { client, config, url, namespace, lab })
    }

    /// What kubectl would use; and where it would find nothing, the only lab.
    fn choose(&self, machine: &Machine<'_>) -> anyhow::Result<(Origin, Option<Lab>)> {
        let labs = machine.labs;
        let same = |a: &Path, b: &Path| {
            a == b || a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a))
        };
        let lab_of = |path: &Path| labs.iter().find(|lab| same(&lab.kubeconfig(), path)).cloned();
        let of_lab = |lab: &Lab| (Origin::File(lab.kubeconfig()), Some(lab.clone()));
        if let Some(name) = &self.lab {
            let found = labs.iter().find(|lab| lab.name() == name);
            return found.map(of_lab).ok_or_else(|| {
                let names: Vec<_> = labs.iter().map(Lab::name).collect();
                let up = if names.is_empty() { "none is".to_owned() } else { names.join(", ") };
                Failure::not_found(format!("lab {name:?} is not up; up: {up}"))
            });
        }
        if let Some(path) = &self.kubeconfig {
            return Ok((Origin::File(path.clone()), lab_of(path)));
        }
        if let Some(path) = &machine.environment {
            return Ok((Origin::Environment, lab_of(path)));
        }
        if let Some(path) = &machine.own_file {
            return Ok((Origin::File(path.clone()), lab_of(path)));
        }
        if machine.in_pod {
            return Ok((Origin::Pod, None));
        }
        match labs {
            [] => Err(Failure::with(
                Exit::Unreachable,
                "no cluster is configured: there is no kubeconfig, and no lab is up; give --kubeconfig, or start a lab with \
                 `portolan lab up`",
            )),
            [only] => {
                eprintln!("using lab {:?}: there is no kubeconfig, and it is the only lab", only.name());
                Ok(of_lab(only))
            }
            several => {
                let option = |lab: &Lab| format!("\n  --lab {}", lab.name());
                let options: String = several.iter().map(option).collect();
                Err(Failure::usage(format!(
                    "there is no kubeconfig, and several labs are up; choose one:{options}"
                )))
            }
        }
    }

    async fn read(&self, origin: &Origin) -> anyhow::Result<kube::Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let (file, name) = match origin {
            Origin::Pod => {
                return kube::Config::incluster().map_err(|error| {
                    Failure::with(
                        Exit::Unreachable,
                        format!("the pod's service account cannot be used: {}", innermost(&error)),
                    )
                });
            }
            Origin::File(path) => (Kubeconfig::read_from(path), path.display().to_string()),
            Origin::Environment => {
                let file = Kubeconfig::from_env().map(Option::unwrap_or_default);
                (file, "the file of $KUBECONFIG".to_owned())
            }
        };
        let unusable = |error: &(dyn std::error::Error + 'static)| {
            Failure::with(
                Exit::Unreachable,
                format!("cannot use {name} as a kubeconfig: {}", innermost(error)),
            )
        };
        let file = file.map_err(|error| unusable(&error))?;
        if let Some(context) = &self.context
            && !file.contexts.iter().any(|one| one.name == *context)
        {
            let names = file.contexts.iter().map(|one| one.name.as_str());
            let hint = crate::near::suggest(context, names);
            return Err(Failure::not_found(format!("context {context:?} is not in {name}{hint}")));
        }
        kube::Config::from_custom_kubeconfig(file, &options).await.map_err(|error| unusable(&error))
    }
}

fn client(config: kube::Config) -> anyhow::Result<kube::Client> {
    kube::Client::try_from(named(config, "portolan")).map_err(|error| {
        Failure::with(Exit::Unreachable, format!("the kubeconfig cannot be used: {}", innermost(&error)))
    })
}

/// What lies at the bottom of an error, in one line: what is above says the same in more words.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    plain(last.to_string().trim())
}

impl Cluster {
    /// A client that waits so long for each answer, and does not ask again by itself when the answer is that there will be none.
    pub(crate) fn patient_client(&self, patience: Duration) -> anyhow::Result<kube::Client> {
        let mut config = self.config.clone();
        config.read_timeout = Some(patience);
        config.default_retry = false;
        client(config)
    }

    /// What went wrong with a request for something.
    pub(crate) fn explain(&self, what: &str, error: &kube::Error) -> anyhow::Error {
        let url = &self.url;
        match error {
            kube::Error::Api(status) => {
                let message = plain(status.message.trim());
                match status.code {
                    401 => Failure::with(
                        Exit::Forbidden,
                        format!(
                            "the API server at {url} rejected the credentials in the kubeconfig (401): {message}"
                        ),
                    ),
                    403 => Failure::with(
                        Exit::Forbidden,
                        format!("the API server at {url} refused {what} (403): {message}"),
                    ),
                    404 => Failure::not_found(message),
                    400 | 422 => Failure::usage(message),
                    429 => Failure::with(
                        Exit::Unreachable,
                        format!("the API server at {url} is too busy to serve {what} (429): {message}"),
                    ),
                    504 => Failure::with(
                        Exit::Unreachable,
                        format!(
                            "the API server at {url} did not serve {what} in time (504): {message}; try again"
                        ),
                    ),
                    503 => Failure::with(
                        Exit::Unreachable,
                        format!("the API server at {url} cannot serve {what} (503): {message}"),
                    ),
                    code => Failure::with(
                        Exit::Failed,
                        format!("the API server at {url} failed to serve {what} ({code}): {message}"),
                    ),
                }
            }
            kube::Error::SerdeError(error) => Failure::with(
                Exit::Failed,
                format!(
                    "{what} of the API server at {url} cannot be read: {error}; are the CRDs of another version?"
                ),
            ),
            error => Failure::with(
                Exit::Unreachable,
                format!("the API server at {url} does not answer: {}", innermost(error)),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Home {
        directory: tempfile::TempDir,
        labs: Vec<Lab>,
    }

    impl Home {
        fn new(names: &[&str]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let labs = names.iter().map(|name| Lab::for_test(directory.path(), name)).collect();
            Self { directory, labs }
        }

        fn choose(
            &self,
            which: &Which,
            environment: Option<PathBuf>,
            own_file: bool,
            in_pod: bool,
        ) -> anyhow::Result<(Origin, Option<String>)> {
            let own_file = own_file.then(|| self.own_file());
            let machine = Machine { environment, own_file, in_pod, labs: &self.labs };
            which.choose(&machine).map(|(origin, lab)| (origin, lab.map(|lab| lab.name().to_owned())))
        }

        fn own_file(&self) -> PathBuf {
            self.directory.path().join("config")
        }

        fn of_lab(&self, number: usize) -> (Origin, Option<String>) {
            let lab = &self.labs[number];
            (Origin::File(lab.kubeconfig()), Some(lab.name().to_owned()))
        }
    }

    fn which(kubeconfig: Option<PathBuf>, lab: Option<&str>) -> Which {
        Which { kubeconfig, context: None, lab: lab.map(str::to_owned) }
    }

    #[test]
    fn the_cluster_is_the_one_that_kubectl_would_use() {
        let home = Home::new(&["blue"]);
        let none = which(None, None);
        let own = (Origin::File(home.own_file()), None);
        assert_eq!(home.choose(&none, None, true, false).unwrap(), own, "a lab does not beat ~/.kube/config");
        assert_eq!(home.choose(&none, None, true, true).unwrap(), own);
        assert_eq!(home.choose(&none, None, false, true).unwrap(), (Origin::Pod, None));
        assert_eq!(home.choose(&none, Some("/x".into()), true, false).unwrap(), (Origin::Environment, None));
        let file = which(Some("/y".into()), None);
        assert_eq!(
            home.choose(&file, Some("/x".into()), true, false).unwrap(),
            (Origin::File("/y".into()), None)
        );
    }

    #[test]
    fn a_lab_is_used_when_it_is_named_or_when_there_is_nothing_else() {
        let home = Home::new(&["blue", "green"]);
        let named = |name: &str| home.choose(&which(None, Some(name)), Some("/x".into()), true, false);
        assert_eq!(named("green").unwrap(), home.of_lab(1));
        let error = named("red").unwrap_err();
        assert_eq!(
            (Exit::of(&error), error.to_string()),
            (Exit::NotFound, "lab \"red\" is not up; up: blue, green".into())
        );
        let by_file = which(Some(home.labs[0].kubeconfig()), None);
        assert_eq!(home.choose(&by_file, None, true, false).unwrap(), home.of_lab(0));
        let by_variable = home.choose(&which(None, None), Some(home.labs[1].kubeconfig()), true, false);
        assert_eq!(by_variable.unwrap(), (Origin::Environment, Some("green".into())));
        let error = home.choose(&which(None, None), None, false, false).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Usage);
        assert!(error.to_string().ends_with("\n  --lab blue\n  --lab green"), "{error}");
        let one = Home::new(&["blue"]);
        assert_eq!(one.choose(&which(None, None), None, false, false).unwrap(), one.of_lab(0));
        let nothing = Home::new(&[]).choose(&which(None, None), None, false, false).unwrap_err();
        assert_eq!(Exit::of(&nothing), Exit::Unreachable);
    }
}
