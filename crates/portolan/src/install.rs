//! `portolan install`: installs Portolan on a cluster, or brings an installation to this version.
//!
//! Everything is applied by server-side apply, so that doing it again changes nothing but what differs: an upgrade is an installation.

pub(crate) mod apply;
pub(crate) mod cluster_facts;
mod cluster_networks;
pub(crate) mod namespace;
mod options;
pub(crate) mod rollout;

use std::time::Duration;

use clap::Args;
use portolan_manifests::{Installation, Object, manifest, objects, workloads};

use self::apply::{Applied, Applier, Trial};
use self::options::Options;
use crate::cluster::Which;
use crate::exit::{EXIT_CODES, Failure};
use crate::output::print;

#[derive(Debug, Args)]
#[command(after_help = format!("Examples:
  portolan install --mode secondary            beside the cluster's network
  portolan install --mode primary --dry-run    show what would change
  portolan install --mode secondary --print    print the manifest, and ask no cluster

An installation that is there keeps its options unless others are given.

{EXIT_CODES}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Show what would change. The API server checks everything and stores nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the manifest, and ask no cluster.
    #[arg(long, conflicts_with_all = ["dry_run", "kubeconfig", "context", "lab"])]
    print: bool,
    /// Do not wait until everything runs.
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
    /// How long to wait, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout: u32,
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    if arguments.print {
        let installation = arguments.options.installation(&Options::default())?;
        return print(&manifest(&installation).map_err(|error| Failure::usage(error.to_string()))?);
    }
    let cluster = arguments.which.find().await?;
    cluster_facts::refuse_beside_kube_ovn(&cluster).await?;
    let (installation, options) = cluster_facts::complete(&cluster, &arguments.options).await?;
    namespace::refuse_another(&cluster, &installation.namespace).await?;
    namespace::refuse_others(&cluster, &installation.namespace).await?;
    let mut objects = objects(&installation).map_err(|error| Failure::usage(error.to_string()))?;
    options.note(&mut objects);
    let trial = if arguments.dry_run { Trial::DryRun } else { Trial::Real };
    apply_all(&Applier::new(&cluster, trial), &objects).await?;
    if arguments.dry_run || arguments.no_wait {
        return Ok(());
    }
    let patience = Duration::from_secs(arguments.timeout.into());
    rollout::wait(&cluster, &workloads(&objects), patience).await?;
    next_steps(&installation)
}

/// Applies one after the other, and says of each what became of it.
async fn apply_all(applier: &Applier<'_>, objects: &[Object]) -> anyhow::Result<()> {
    for object in objects {
        let outcome = applier.apply(object).await?;
        if outcome != Applied::Unchanged {
            print(&format!("{} {}\n", object.description(), applier.describe(outcome)))?;
        }
    }
    Ok(())
}

fn next_steps(installation: &Installation) -> anyhow::Result<()> {
    print(&format!(
        "Portolan runs in namespace {}. `portolan get subnets` shows its networks; examples/ has some to begin with.\n",
        installation.namespace
    ))
}
