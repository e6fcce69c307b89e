//! `portolan get`: what there is, as tables, JSON or YAML. Both API groups are one model, and are shown as one.

pub(crate) mod attachments;
pub(crate) mod locks;
mod readiness;
pub(crate) mod subnets;
pub(crate) mod vpcs;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde::{Serialize, Serializer};

pub(crate) use readiness::{NAME_TAKEN, Readiness};

use crate::cluster::Which;
use crate::near;
use crate::output::{self, print, table, trimmed};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  portolan get subnets                 addresses used and free, and what is wrong
  portolan get attachments -A -o wide  every interface, with what it waits for
  portolan get locks 10.0.0.7          who has an address
  portolan get vpcs blue -o yaml       one, as the model has it")]
pub(crate) struct Arguments {
    /// What to show.
    #[arg(value_name = "KIND", hide_possible_values = true)]
    #[arg(
        help = "What to show: vpcs, subnets, attachments (interfaces of pods), locks (addresses that are taken)"
    )]
    kind: Kind,
    /// One of them only. Of attachments, the pod; of locks, the address will do.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    namespaces: Namespaces,
    /// How to show it: table, wide, json or yaml.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true,
        hide_default_value = true
    )]
    output: Output,
    #[command(flatten)]
    which: Which,
}

/// Whose. VPCs and subnets belong to no namespace.
#[derive(Clone, Debug, Args)]
struct Namespaces {
    /// Attachments and locks of this namespace; that of the kubeconfig unless given.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Attachments of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    #[value(alias = "vpc")]
    Vpcs,
    #[value(alias = "subnet")]
    Subnets,
    #[value(aliases = ["attachment", "interfaces", "interface"])]
    Attachments,
    #[value(aliases = ["lock", "iplock", "iplocks"])]
    Locks,
}

/// How something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Wide,
    Json,
    Yaml,
}

/// What a table shows a line of.
pub(crate) trait Row: Serialize {
    /// What it is, for who asks for one that is not there.
    const WHAT: &'static str;
    /// The names of its columns.
    fn columns(format: Format) -> Vec<&'static str>;
    /// Its cells, as many as there are columns.
    fn cells(&self, format: Format) -> Vec<String>;
    /// The names by which it can be asked for.
    fn names(&self) -> Vec<&str>;
}

/// What a table is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) wide: bool,
    /// Rows are of several namespaces.
    pub(crate) namespaces: bool,
    /// Now, in seconds since 1970.
    pub(crate) now: i64,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let cluster = arguments.which.find().await?;
    let snapshot = cluster.snapshot().await?;
    let Namespaces { namespace, all_namespaces } = &arguments.namespaces;
    // A lock belongs to no namespace, its owner does: only who asks for one gets one.
    let own = if *all_namespaces { None } else { namespace.as_deref().or(Some(&cluster.namespace)) };
    let text = match arguments.kind {
        Kind::Vpcs => arguments.show(vpcs::rows(&snapshot), *all_namespaces),
        Kind::Subnets => arguments.show(subnets::rows(&snapshot), *all_namespaces),
        Kind::Attachments => arguments.show(attachments::rows(&snapshot, own), *all_namespaces),
        Kind::Locks => arguments.show(locks::rows(&snapshot, namespace.as_deref()), *all_namespaces),
    }?;
    if text.is_empty() {
        let what = arguments.kind.to_possible_value().map(|value| value.get_name().to_owned());
        let of = own.filter(|_| arguments.kind == Kind::Attachments).or(namespace.as_deref());
        let of =
            of.map(|namespace| format!(" in namespace {}", output::plain(namespace))).unwrap_or_default();
        eprintln!("There are no {}{of}.", what.unwrap_or_default());
        return Ok(());
    }
    print(&text)
}

impl Arguments {
    fn show<R: Row>(&self, rows: Vec<R>, namespaces: bool) -> anyhow::Result<String> {
        let rows = match &self.name {
            Some(name) => named(rows, name)?,
            None => rows,
        };
        let format = Format { wide: self.output == Output::Wide, namespaces, now: output::now() };
        Ok(match self.output {
            Output::Table | Output::Wide if rows.is_empty() => String::new(),
            Output::Table | Output::Wide => format!("{}\n", tabulate(&rows, format)),
            Output::Json => format!("{}\n", serde_json::to_string_pretty(&rows)?),
            Output::Yaml if rows.is_empty() => "[]\n".into(),
            Output::Yaml => serde_saphyr::to_string(&rows)?,
        })
    }
}

/// The rows of this name, of which there must be one at least.
fn named<R: Row>(rows: Vec<R>, name: &str) -> anyhow::Result<Vec<R>> {
    let is_named = |row: &R| row.names().contains(&name);
    if !rows.iter().any(is_named) {
        let names = rows.iter().flat_map(|row| row.names());
        bail!("there is no {} {name:?}{}", R::WHAT, near::suggest(name, names));
    }
    Ok(rows.into_iter().filter(is_named).collect())
}

/// Rows as a table.
pub(crate) fn tabulate<R: Row>(rows: &[R], format: Format) -> String {
    let mut table = table(R::columns(format));
    for row in rows {
        table.add_row(
            row.cells(format)
                .into_iter()
                .map(|cell| if cell.is_empty() { "-".to_owned() } else { output::plain(&cell) }),
        );
    }
    trimmed(&table)
}

/// A time in seconds since 1970, as Kubernetes writes it.
fn timestamp<S: Serializer>(seconds: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    let time = seconds.and_then(|seconds| k8s_openapi::jiff::Timestamp::from_second(seconds).ok());
    time.map(|time| time.to_string()).serialize(serializer)
}

#[cfg(test)]
mod tests;
