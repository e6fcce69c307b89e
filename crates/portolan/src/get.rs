//! `portolan get`: what there is, as tables, JSON, YAML or names. Both API groups are one model and are shown as one.

pub(crate) mod attachments;
pub(crate) mod locks;
mod readiness;
pub(crate) mod services;
pub(crate) mod subnets;
pub(crate) mod vpcs;

use std::collections::BTreeMap;

use apimachinery::selector::LabelSelector;
use clap::{Args, ValueEnum};
use serde::{Serialize, Serializer};

pub(crate) use readiness::{NAME_TAKEN, Readiness, Ready};

use crate::cluster::{Cluster, Kinds, Labelled, Scope, Snapshot, Warned, Which};
use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::near;
use crate::output::{self, print, table, trimmed};

#[derive(Debug, Args)]
#[command(after_help = format!("Examples:
  portolan get subnets                 addresses used and free, and what is wrong
  portolan get attachments -A -o wide  every interface, with what it waits for
  portolan get attachments -l app=web  the interfaces of pods with this label
  portolan get locks 10.0.0.7          the holder of an address
  portolan get services -A             how many of their endpoints get traffic, and what is wrong
  portolan get vpcs blue -o yaml       one, as the model has it

{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// What to show: vpcs, subnets, attachments (interfaces of pods), locks (addresses that are taken) or services.
    #[arg(value_name = "KIND", hide_possible_values = true)]
    kind: Kind,
    /// Only this one. Of attachments, the pod; of locks, the name or the address.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    namespaces: Namespaces,
    /// Only objects with these labels, as kubectl has it; of attachments, the labels of their pods.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = LabelSelector::parse)]
    selector: Option<LabelSelector>,
    /// Go on with what changes.
    #[arg(short, long)]
    watch: bool,
    /// Output format: table, wide, json, yaml or name.
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
    /// Attachments, locks and services of this namespace; attachments and services are of the kubeconfig's namespace unless given.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Attachments and services of all namespaces.
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
    #[value(aliases = ["service", "svc"])]
    Services,
}

/// How something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

/// A line of a table.
pub(crate) trait Row: Serialize + Clone + PartialEq {
    /// What it is, in messages.
    const WHAT: &'static str;
    /// The names of its columns.
    fn columns(format: Format) -> Vec<&'static str>;
    /// Its cells, as many as there are columns.
    fn cells(&self, format: Format) -> Vec<String>;
    /// The names by which it can be asked for.
    fn names(&self) -> Vec<&str>;
    /// What no other row of the kind is called: what `-o name` prints.
    fn full_name(&self) -> String;
    /// The UID of the object whose labels count.
    fn uid(&self) -> Option<&str>;
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
    let own = arguments.own_namespace(&cluster);
    let holders = arguments.namespaces.namespace.clone();
    match arguments.kind {
        Kind::Vpcs => arguments.show(&cluster, Kinds::networks(), Labelled::Vpcs, vpcs::rows).await,
        Kind::Subnets => arguments.show(&cluster, Kinds::addresses(), Labelled::Subnets, subnets::rows).await,
        Kind::Attachments => {
            let scope = own.clone().map_or(Scope::Cluster, Scope::Namespace);
            let rows = move |snapshot: &Snapshot| attachments::rows(snapshot, own.as_deref());
            arguments.show(&cluster, Kinds::interfaces(scope), Labelled::Pods, rows).await
        }
        Kind::Locks => {
            // A lock belongs to no namespace, its holder does: only on request.
            let rows = move |snapshot: &Snapshot| locks::rows(snapshot, holders.as_deref());
            arguments.show(&cluster, Kinds::locks(), Labelled::Locks, rows).await
        }
        Kind::Services => {
            let scope = own.clone().map_or(Scope::Cluster, Scope::Namespace);
            let rows = move |snapshot: &Snapshot| services::rows(snapshot, own.as_deref());
            arguments.show(&cluster, Kinds::services(scope), Labelled::Services, rows).await
        }
    }
}

impl Arguments {
    /// The namespace of attachments and services; none for all.
    fn own_namespace(&self, cluster: &Cluster) -> Option<String> {
        let Namespaces { namespace, all_namespaces } = &self.namespaces;
        (!all_namespaces).then(|| namespace.clone().unwrap_or_else(|| cluster.namespace.clone()))
    }

    async fn show<R: Row>(
        &self,
        cluster: &Cluster,
        kinds: Kinds,
        labelled: Labelled,
        rows: impl Fn(&Snapshot) -> Vec<R>,
    ) -> anyhow::Result<()> {
        if self.watch {
            return self.follow(cluster, &kinds, labelled, rows).await;
        }
        let snapshot = cluster.snapshot(kinds).await?;
        let rows = self.chosen(labelled, &snapshot, rows(&snapshot), Missing::IsAnError)?;
        Warned::default().of(&snapshot.lists.unreadable);
        if rows.is_empty() && matches!(self.output, Output::Table | Output::Wide) {
            let kind = self.kind.to_possible_value().map(|value| value.get_name().to_owned());
            let has_own = matches!(self.kind, Kind::Attachments | Kind::Services);
            let namespace = self.own_namespace(cluster).filter(|_| has_own);
            let namespace = namespace.or_else(|| self.namespaces.namespace.clone());
            let of = namespace.map(|namespace| format!(" in namespace {}", output::plain(&namespace)));
            let all =
                if snapshot.lists.unreadable_among(labelled).next().is_some() { "readable " } else { "" };
            eprintln!("No {all}{} found{}.", kind.unwrap_or_default(), of.unwrap_or_default());
            return Ok(());
        }
        print(&self.text(&rows)?)
    }

    /// The rows of the given name and labels.
    fn chosen<R: Row>(
        &self,
        labelled: Labelled,
        snapshot: &Snapshot,
        mut rows: Vec<R>,
        missing: Missing,
    ) -> anyhow::Result<Vec<R>> {
        if let Some(name) = &self.name {
            match missing {
                Missing::IsAnError => {
                    let unreadable = snapshot.lists.unreadable_called(labelled, None, name).next();
                    rows = named(rows, name).map_err(|missing| match unreadable {
                        Some(object) => {
                            let (problem, to_do) = (object.problem(), object.what_to_do());
                            let message =
                                format!("{} {name:?} exists and cannot be read: {problem}; {to_do}", R::WHAT);
                            Failure::with(Exit::Failed, message)
                        }
                        None => missing,
                    })?;
                }
                Missing::MayCome => rows.retain(|row| row.names().contains(&name.as_str())),
            }
        }
        if let Some(selector) = &self.selector {
            let selected = snapshot.lists.selected(labelled, selector);
            rows.retain(|row| row.uid().is_some_and(|uid| selected.contains(uid)));
        }
        Ok(rows)
    }

    /// Prints rows, and again those that change, until the user ends it or nobody reads it any more.
    async fn follow<R: Row>(
        &self,
        cluster: &Cluster,
        kinds: &Kinds,
        labelled: Labelled,
        rows: impl Fn(&Snapshot) -> Vec<R>,
    ) -> anyhow::Result<()> {
        let mut watched = cluster.watch(kinds).await?;
        let mut printed: Option<BTreeMap<String, R>> = None;
        let mut warned = Warned::default();
        let mut reader_gone = std::pin::pin!(output::reader_gone());
        loop {
            let snapshot = tokio::select! {
                snapshot = watched.next() => snapshot?,
                () = &mut reader_gone => return Ok(()),
            };
            // As kubectl: what is not there at first is an error; what goes later may come again, and what cannot be read may be
            // corrected.
            let name = self.name.as_deref().unwrap_or_default();
            let exists = snapshot.lists.unreadable_called(labelled, None, name).next().is_some();
            let missing = if printed.is_none() && !exists { Missing::IsAnError } else { Missing::MayCome };
            let rows = self.chosen(labelled, &snapshot, rows(&snapshot), missing)?;
            warned.of(&snapshot.lists.unreadable);
            let known = printed.as_ref();
            let is_new = |row: &&R| known.is_none_or(|known| known.get(&row.full_name()) != Some(*row));
            let changed: Vec<R> = rows.iter().filter(is_new).cloned().collect();
            match (known, self.output) {
                // What was printed has its header already.
                (Some(_), Output::Table | Output::Wide) if !changed.is_empty() => {
                    let text = self.text(&changed)?;
                    print(text.split_once('\n').map_or("", |(_, rows)| rows))?;
                }
                _ if changed.is_empty() => {}
                _ => print(&self.text(&changed)?)?,
            }
            printed = Some(rows.into_iter().map(|row| (row.full_name(), row)).collect());
        }
    }

    fn text<R: Row>(&self, rows: &[R]) -> anyhow::Result<String> {
        let format = Format {
            wide: self.output == Output::Wide,
            namespaces: self.namespaces.all_namespaces,
            now: output::now(),
        };
        Ok(match self.output {
            Output::Table | Output::Wide => format!("{}\n", tabulate(rows, format)),
            Output::Json => format!("{}\n", serde_json::to_string_pretty(rows)?),
            Output::Yaml if rows.is_empty() => "[]\n".into(),
            Output::Yaml => serde_saphyr::to_string(&rows)?,
            Output::Name => rows.iter().map(|row| format!("{}\n", output::plain(&row.full_name()))).collect(),
        })
    }
}

/// What it means that there is nothing of the given name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    IsAnError,
    MayCome,
}

/// The rows of this name, of which there must be one at least.
fn named<R: Row>(rows: Vec<R>, name: &str) -> anyhow::Result<Vec<R>> {
    let is_named = |row: &R| row.names().contains(&name);
    if !rows.iter().any(is_named) {
        let names = rows.iter().flat_map(|row| row.names());
        return Err(Failure::not_found(format!(
            "{} {name:?} does not exist{}",
            R::WHAT,
            near::suggest(name, names)
        )));
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
