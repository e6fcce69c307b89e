//! `portolan support-bundle`: collects what a bug report needs into one file, without secrets.
//!
//! ```text
//!  doctor          findings, facts, and what nodes collected  ─┐
//!  objects, logs   what the API server has                    ─┼─▶ redact (pure) ─▶ archive
//! ```
//!
//! Nothing gets into the archive but by [`archive::Archive::add`], which redacts all of it. What could not be collected is listed with the reason.

mod archive;
mod logs;
mod objects;
mod redact;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portolan_manifests::Extent;
use tokio::time::Instant;

use self::archive::Archive;
use crate::cluster::{Cluster, Which};
use crate::doctor::facts::Known;
use crate::doctor::{Scope, known, report};
use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::output::{now, print};
use crate::waiting::Waiting;

/// How long objects and logs may take, after nodes.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug, Args)]
#[command(after_help = format!("Examples:
  portolan support-bundle                 a file in this directory, named by the time
  portolan support-bundle -o bundle.tgz
  tar -xzOf bundle.tgz '*/README.txt'     what is in it

It has names, addresses, objects and logs of your cluster, and no data of Secrets, no tokens, no keys and no values of environment
variables. Look through it before you send it.

{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// Where to write it. A file that is there already is not overwritten.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn run(arguments: Arguments, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let cluster = arguments.which.find().await?;
    let name = archive::name(now());
    let path = arguments.output.unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let mut archive = Archive::create(&path, name)?;
    let mut stop = std::pin::pin!(stop);
    let outcome = async {
        let known = known(&cluster, &arguments.scope, Extent::Everything, &mut stop).await?;
        tokio::select! {
            outcome = fill(&cluster, &known, &mut archive) => outcome,
            () = &mut stop => Err(Failure::with(Exit::Failed, "stopped")),
        }
    };
    if let Err(error) = outcome.await {
        archive.discard();
        return Err(error);
    }
    let (files, missing) = archive.finish()?;
    print(&format!(
        "{}: {files} files; {missing} things could not be collected, and not-collected.txt in it says why. Look through it before you send it.\n",
        path.display()
    ))
}

async fn fill(cluster: &Cluster, known: &Known, archive: &mut Archive) -> anyhow::Result<()> {
    let _waiting = Waiting::start("collecting objects and logs");
    let deadline = Instant::now() + PATIENCE;
    let (text, json) = report(known)?;
    archive.add("README.txt", README.as_bytes())?;
    archive.add("versions.txt", versions(known).as_bytes())?;
    archive.add("doctor.txt", text.as_bytes())?;
    archive.add("doctor.json", json.as_bytes())?;
    archive.add("facts.json", serde_json::to_string_pretty(&known.cluster)?.as_bytes())?;
    of_nodes(known, archive)?;
    objects::collect(cluster, &known.cluster.namespace, deadline, archive).await?;
    logs::collect(cluster, &known.cluster.namespace, deadline, archive).await
}

fn of_nodes(known: &Known, archive: &mut Archive) -> anyhow::Result<()> {
    let Some(nodes) = &known.nodes else {
        archive.missing("nodes", "--no-nodes was given");
        return Ok(());
    };
    for (node, examined) in nodes {
        archive
            .add(&format!("nodes/{node}/facts.json"), serde_json::to_string_pretty(examined)?.as_bytes())?;
        for (name, content) in &examined.files {
            archive.add(&format!("nodes/{node}/{name}"), content)?;
        }
        for (name, reason) in &examined.missing {
            archive.missing(&format!("nodes/{node}/{name}"), reason);
        }
        if let Some(problem) = &examined.problem {
            archive.missing(&format!("nodes/{node}"), problem);
        }
    }
    Ok(())
}

fn versions(known: &Known) -> String {
    let facts = &known.cluster;
    let kubernetes = match (facts.version.found(), facts.version.unknown()) {
        (Some(version), _) => version.text.clone(),
        (None, why) => format!("unknown: {}", why.unwrap_or_default()),
    };
    let image = facts.installed().map_or("not installed", |installed| installed.image.as_str());
    let mut text = format!(
        "portolan, this program: {}\nPortolan on the cluster: {image}\nKubernetes: {kubernetes}\n",
        env!("CARGO_PKG_VERSION")
    );
    for (node, examined) in known.nodes.iter().flatten() {
        if let Some(found) = &examined.facts {
            let switch =
                found.switch.found().and_then(Option::as_ref).and_then(|switch| switch.version.as_deref());
            text += &format!(
                "node {node}: Linux {}, Open vSwitch {}\n",
                found.kernel.release,
                switch.unwrap_or("not found")
            );
        }
    }
    text
}

const README: &str = "\
This is what `portolan support-bundle` collected from a cluster, for a bug report.

  doctor.txt           what `portolan doctor` found, with what to do
  doctor.json          the same, for programs
  versions.txt         versions of everything
  facts.json           what the API server said
  objects/             objects of Portolan, Nodes, Pods that have its networks, Events, and what is installed
  logs/                logs of Portolan's pods: current, and of the containers before
  nodes/NODE/          what was found on a node: facts.json; health, metrics and state of agent and controller; the databases of OVN and
                       Open vSwitch as they keep them: a line for each change
  not-collected.txt    what could not be had, and why

Replaced by (redacted): data of Secrets, data of ConfigMaps that are not Portolan's, values of environment variables, commands of pods that
are not Portolan's, annotations that say nothing about networks, private keys, tokens, and whatever is named like a password. Names of
objects, addresses of pods and nodes, and labels are as they are.
";
