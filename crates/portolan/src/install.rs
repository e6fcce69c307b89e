//! `portolan install`: installs Portolan on a cluster, or brings an installation to this version, which `portolan upgrade` does alone.
//!
//! Everything is applied by server-side apply, so that doing it again changes nothing but what differs, and what the installation does not have
//! any more is removed: an upgrade is an installation.

pub(crate) mod apply;
pub(crate) mod cluster_facts;
mod cluster_networks;
pub(crate) mod namespace;
pub(crate) mod nat_outgoing;
mod options;
mod prune;
pub(crate) mod rollout;

use std::time::Duration;

use clap::Args;
use portolan_manifests::{Installation, Mode, Object, manifest, objects, workloads};

use self::apply::{Applied, Applier, Trial};
use self::options::Options;
use self::prune::{Stage, prune};
use crate::cluster::{Cluster, Which};
use crate::exit::{EXIT_CODES, Failure};
use crate::output::print;

#[derive(Debug, Args)]
#[command(after_help = format!("Examples:
  portolan install --mode secondary            beside the cluster's network
  portolan install --mode primary --dry-run    show what would change
  portolan install --mode secondary --print    print the manifest, and ask no cluster

An installation that is there keeps its options unless others are given, and loses what it does not have any more.

{EXIT_CODES}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    apply: Apply,
    /// Print the manifest, and ask no cluster.
    #[arg(long, conflicts_with_all = ["dry_run", "kubeconfig", "context", "lab"])]
    print: bool,
}

#[derive(Debug, Args)]
#[command(after_help = format!("Examples:
  portolan upgrade --image registry.example/portolan:2 --dry-run    show what would change
  portolan upgrade --image registry.example/portolan:2

Options that are not given stay as they are.

{EXIT_CODES}"))]
pub(crate) struct UpgradeArguments {
    #[command(flatten)]
    apply: Apply,
}

/// What installing and upgrading have in common.
#[derive(Debug, Args)]
struct Apply {
    #[command(flatten)]
    options: Options,
    /// Show what would change. The API server checks everything and stores nothing.
    #[arg(long)]
    dry_run: bool,
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
    let apply = arguments.apply;
    if arguments.print {
        let installation = apply.options.installation(&Options::default())?;
        return print(&manifest(&installation).map_err(|error| Failure::usage(error.to_string()))?);
    }
    let cluster = apply.which.find().await?;
    cluster_facts::refuse_beside_kube_ovn(&cluster).await?;
    apply.run(&cluster).await
}

/// `portolan upgrade`: the same over an installation, which there must be.
pub(crate) async fn upgrade(arguments: UpgradeArguments) -> anyhow::Result<()> {
    let apply = arguments.apply;
    let cluster = apply.which.find().await?;
    namespace::refuse_another(&cluster, &apply.options.namespace).await?;
    namespace::refuse_absent(&cluster, &apply.options.namespace).await?;
    cluster_facts::refuse_beside_kube_ovn(&cluster).await?;
    apply.run(&cluster).await
}

impl Apply {
    async fn run(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let (installation, options) = cluster_facts::complete(cluster, &self.options).await?;
        let namespace = &installation.namespace;
        namespace::refuse_another(cluster, namespace).await?;
        namespace::refuse_others(cluster, namespace).await?;
        if installation.mode == Mode::Primary {
            nat_outgoing::warn(cluster).await?;
        }
        let mut objects = objects(&installation).map_err(|error| Failure::usage(error.to_string()))?;
        options.note(&mut objects);
        let trial = if self.dry_run { Trial::DryRun } else { Trial::Real };
        apply_all(&Applier::new(cluster, trial), &objects).await?;
        prune(cluster, namespace, &objects, Stage::Before, trial).await?;
        if !self.dry_run && !self.no_wait {
            let patience = Duration::from_secs(self.timeout.into());
            rollout::wait(cluster, &workloads(&objects), patience).await?;
        }
        prune(cluster, namespace, &objects, Stage::After, trial).await?;
        if self.dry_run || self.no_wait {
            return Ok(());
        }
        next_steps(&installation)
    }
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
