//! `portolan doctor`: checks a cluster and its nodes, before an installation or after it, and says what to do.
//!
//! ```text
//!  collect      what the API server says                       ─┐
//!  examination  what nodes say, by pods that last for seconds   ├─▶ facts ─▶ checks (pure) ─▶ findings ─▶ show
//!               and the ways between them                      ─┘
//! ```
//!
//! What cannot be found out is a finding of its own, and hides nothing else. Start reading at [`facts`] and [`checks`].

mod checks;
mod collect;
mod examination;
pub(crate) mod facts;
mod finding;
mod show;

use std::time::Duration;

use clap::{Args, ValueEnum};
use portolan_manifests::Extent;

use self::facts::Known;
use self::finding::{Finding, Level};
use crate::cluster::{Cluster, Which};
use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::output::print;

#[derive(Debug, Args)]
#[command(after_help = format!("Examples:
  portolan doctor              check everything; a pod runs on each node for a few seconds
  portolan doctor --no-nodes   ask the API server alone, and start nothing
  portolan doctor -o json      the same, for programs

Nothing is changed. docs/doctor.md says what each check means.

{EXIT_CODES}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    scope: Scope,
    /// How the result is printed.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    which: Which,
}

/// What is looked at.
#[derive(Clone, Debug, Args)]
pub(crate) struct Scope {
    /// Ask the API server alone: no pods are started on nodes, so what is wrong with a node itself does not show.
    #[arg(long)]
    pub(crate) no_nodes: bool,
    /// The image to examine nodes with; that of the agents, or of this version, unless given.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// How long nodes may take to answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) timeout: u32,
    /// The namespace of the installation.
    #[arg(long, value_name = "NAMESPACE", default_value = "portolan-system")]
    pub(crate) namespace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// A list of findings.
    Json,
}

pub(crate) async fn run(arguments: Arguments, stop: impl Future<Output = ()>) -> anyhow::Result<Exit> {
    let cluster = arguments.which.find().await?;
    let known = known(&cluster, &arguments.scope, Extent::Checks, stop).await?;
    let findings = checks::findings(&known);
    match arguments.output {
        Format::Text => print(&show::text(&findings))?,
        Format::Json => print(&show::json(&findings)?)?,
    }
    let is_wrong = findings.iter().any(|finding| finding.level == Level::Error);
    Ok(if is_wrong { Exit::ProblemsFound } else { Exit::Success })
}

/// All that can be known. Ends with an error only if the API server cannot be asked at all, or somebody stops it.
pub(crate) async fn known(
    cluster: &Cluster,
    scope: &Scope,
    extent: Extent,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Known> {
    let mut stop = std::pin::pin!(stop);
    let facts = tokio::select! {
        facts = collect::facts(cluster, &scope.namespace) => facts?,
        () = &mut stop => return Err(Failure::with(Exit::Failed, "stopped")),
    };
    if scope.no_nodes {
        return Ok(Known { cluster: facts, nodes: None });
    }
    let patience = Duration::from_secs(scope.timeout.into());
    let nodes = examination::examine(cluster, &facts, scope.image.as_deref(), extent, patience, stop).await?;
    Ok(Known { cluster: facts, nodes: Some(nodes) })
}

/// The findings, as people read them and as programs do.
pub(crate) fn report(known: &Known) -> anyhow::Result<(String, String)> {
    let findings: Vec<Finding> = checks::findings(known);
    Ok((show::text(&findings), show::json(&findings)?))
}
