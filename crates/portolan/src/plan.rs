//! `portolan plan`: what would change in OVN if a manifest were applied.
//!
//! ```text
//!  objects of a cluster, or of a directory ─▶ World ──plan──▶ rows ─┐
//!        └── with those of the manifest ────▶ World' ─plan──▶ rows ─┴─▶ what differs, and who would wait
//! ```
//!
//! Nothing is written anywhere. Which addresses pods get is the controller's decision and not predicted.

mod apply;
mod fields;
mod manifest;
mod outcome;
mod schema;

use std::path::PathBuf;

use clap::Args;

use self::apply::Objects;
use self::outcome::Outcome;
use crate::cluster::{Kinds, Which};
use crate::exit::{EXIT_CODES, Exit};
use crate::output::print;

#[derive(Debug, Args)]
#[command(after_help = format!("Examples:
  portolan plan -f subnet.yaml                  against the cluster's objects
  portolan plan -f subnet.yaml --from-file dir  against the objects in a directory, without a cluster
  kubectl kustomize . | portolan plan -f -      what comes from standard input

{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// The manifest: a file of YAML or JSON documents, a directory of them, or `-` for standard input. May be given several times.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    manifests: Vec<PathBuf>,
    /// Take what is there from the files of this directory instead of a cluster. Subnets in it that say nothing else are valid.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context", "lab"])]
    from_file: Option<PathBuf>,
    /// The namespace of objects in the manifest that name none.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The MTU of pods on subnets that set none, if the controller was given one.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,
    #[command(flatten)]
    which: Which,
}

/// Compares and prints.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    // What cannot be read is said before a cluster is asked.
    let mut documents = Vec::new();
    for path in &arguments.manifests {
        documents.extend(manifest::read(path)?);
    }
    let (objects, namespace) = match &arguments.from_file {
        Some(directory) => (Objects::of_files(manifest::read(directory)?)?, None),
        None => {
            let cluster = arguments.which.find().await?;
            let snapshot = cluster.snapshot(Kinds::requesters()).await?;
            (Objects::of_cluster(snapshot.lists), Some(cluster.namespace))
        }
    };
    let namespace = arguments.namespace.or(namespace).unwrap_or_else(|| "default".to_owned());
    let settings = portolan_plan::Settings { mtu: arguments.mtu, ..Default::default() };
    let outcome = Outcome::of(objects, documents, &namespace, &settings)?;
    print(&without_control_characters(&outcome.to_string()))?;
    Ok(if outcome.is_nothing() { Exit::Success } else { Exit::WouldChange })
}

/// Names and texts of others reach the terminal as text, not as orders to it.
fn without_control_characters(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => plain.push(character),
            _ if character.is_control() => plain.extend(character.escape_default()),
            _ => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
