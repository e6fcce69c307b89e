//! `portolan describe`: one thing in full: what it is, what uses it, what is wrong and what to do about it, its Events.

mod attachment;
mod lock;
mod pod;
mod service;
mod sheet;
mod subnet;
mod unreadable;
mod vpc;

use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::Event;

use self::sheet::Sheet;
use crate::cluster::{Cluster, Kinds, Labelled, Scope, Snapshot, UnreadableObject, Warned, Which, last_seen};
use crate::exit::{EXIT_CODES, Failure};
use crate::get::Ready;
use crate::near;
use crate::output::{self, age, print};

#[derive(Debug, Args)]
#[command(after_help = format!("Examples:
  portolan describe subnet web             its addresses, who uses them, what is wrong
  portolan describe pod vm1                its interfaces, or why it has none
  portolan describe attachment vm1/net1    one interface
  portolan describe lock 10.0.0.7          the holder of an address
  portolan describe service web            its endpoints, and why some get no traffic

{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// What it is: vpc, subnet, attachment, lock, pod or service.
    #[arg(value_name = "KIND", hide_possible_values = true)]
    kind: Kind,
    /// Its name. Of an attachment POD or POD/INTERFACE; of a lock the name or the address.
    #[arg(value_name = "NAME")]
    name: String,
    /// The namespace of a pod, attachment or service; the kubeconfig's unless given.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    #[value(alias = "vpcs")]
    Vpc,
    #[value(alias = "subnets")]
    Subnet,
    #[value(aliases = ["attachments", "interface", "interfaces"])]
    Attachment,
    #[value(aliases = ["locks", "iplock", "iplocks"])]
    Lock,
    #[value(aliases = ["pods", "po"])]
    Pod,
    #[value(aliases = ["services", "svc"])]
    Service,
}

/// A description, and the object whose Events belong to it.
pub(crate) struct Description {
    sheet: Sheet,
    uid: Option<String>,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let cluster = arguments.which.find().await?;
    let namespace = arguments.namespace.as_deref().unwrap_or(&cluster.namespace);
    let name = arguments.name.as_str();
    // A name may bring its own namespace.
    let (own, object) = match (arguments.kind, name.split('/').collect::<Vec<_>>().as_slice()) {
        (Kind::Attachment, [own, pod, _]) | (Kind::Pod, [own, pod]) => (*own, *pod),
        (Kind::Service, [own, service]) => (*own, *service),
        (Kind::Attachment, [pod, _]) => (namespace, *pod),
        _ => (namespace, name),
    };
    let (kinds, labelled) = match arguments.kind {
        Kind::Vpc => (Kinds::networks(), Labelled::Vpcs),
        Kind::Subnet => (Kinds::all(), Labelled::Subnets),
        Kind::Lock => (Kinds::all(), Labelled::Locks),
        Kind::Attachment | Kind::Pod => (Kinds::interfaces(Scope::Namespace(own.to_owned())), Labelled::Pods),
        Kind::Service => (Kinds::services(Scope::Namespace(own.to_owned())), Labelled::Services),
    };
    let snapshot = cluster.snapshot(kinds).await?;
    let unreadable: Vec<_> = snapshot.lists.unreadable_called(labelled, Some(own), object).collect();
    let is_other =
        |one: &&UnreadableObject| !unreadable.iter().any(|described| std::ptr::eq(*described, *one));
    Warned::default().of(snapshot.lists.unreadable.iter().filter(is_other));
    let descriptions = match arguments.kind {
        Kind::Vpc => vpc::describe(&snapshot, name),
        Kind::Subnet => subnet::describe(&snapshot, name),
        Kind::Attachment => attachment::describe(&snapshot, name, namespace),
        Kind::Lock => lock::describe(&snapshot, name, output::now()),
        Kind::Pod => pod::describe(&snapshot, name, namespace).map(|pod| vec![pod]),
        Kind::Service => service::describe(&snapshot, name, namespace).map(|service| vec![service]),
    };
    let describe_unreadable = |object| unreadable::describe(object, output::now());
    let unreadable: Vec<_> = unreadable.into_iter().map(describe_unreadable).collect();
    let descriptions = match descriptions {
        // It is there: what cannot be read is all there is of it.
        Err(_) if !unreadable.is_empty() => unreadable,
        descriptions => descriptions?.into_iter().chain(unreadable).collect(),
    };
    let mut texts = Vec::new();
    for Description { mut sheet, uid } in descriptions {
        add_events(&cluster, &mut sheet, uid.as_deref()).await;
        texts.push(sheet.text(output::width()));
    }
    print(&texts.join("\n"))
}

async fn add_events(cluster: &Cluster, sheet: &mut Sheet, uid: Option<&str>) {
    let events = match uid.filter(|uid| !uid.is_empty()) {
        Some(uid) => cluster.events(uid).await,
        None => Ok(Vec::new()),
    };
    match events {
        Ok(events) => sheet.events(&events, output::now()),
        // Without the right to read Events, the rest is still shown.
        Err(error) => sheet.lines("Events", [format!("{error:#}")]),
    }
}

/// The things of this name, of which there must be one at least.
fn found<T>(what: &str, wanted: &str, all: Vec<(String, T)>) -> anyhow::Result<Vec<T>> {
    if !all.iter().any(|(name, _)| name == wanted) {
        let names = all.iter().map(|(name, _)| name.as_str());
        return Err(Failure::not_found(format!(
            "{what} {wanted:?} does not exist{}",
            near::suggest(wanted, names)
        )));
    }
    Ok(all.into_iter().filter(|(name, _)| name == wanted).map(|(_, one)| one).collect())
}

impl Sheet {
    fn events(&mut self, events: &[Event], now: i64) {
        let rows: Vec<_> = events
            .iter()
            .map(|event| {
                let of = |text: &Option<String>| text.clone().unwrap_or_default();
                [age(last_seen(event), now), of(&event.type_), of(&event.reason), of(&event.message)]
            })
            .collect();
        if rows.is_empty() {
            self.lines("Events", ["none".to_owned()]);
        } else {
            self.table("Events", ["AGE", "TYPE", "REASON", "MESSAGE"], rows);
        }
    }

    /// Everything that is wrong with a Vpc or Subnet, and what has no effect.
    fn findings(&mut self, described: &crate::cluster::Described, readiness: &crate::get::Readiness) {
        let mut problems: Vec<_> = described.findings.errors.iter().map(ToString::to_string).collect();
        if readiness.ready != Ready::Yes
            && !problems.contains(&readiness.message)
            && problems.join("; ") != readiness.message
        {
            problems.insert(0, readiness.message.clone());
        }
        problems.retain(|problem| !problem.is_empty());
        if !problems.is_empty() {
            self.lines("Problems", problems);
        }
        let warnings: Vec<_> = described.findings.warnings.iter().map(ToString::to_string).collect();
        if !warnings.is_empty() {
            self.lines("Warnings", warnings);
        }
        let conditions = described.conditions.iter().map(|condition| {
            let late = condition.observed_generation.is_some()
                && condition.observed_generation != described.generation;
            let status = if late {
                format!("{} (of an earlier version)", condition.status)
            } else {
                condition.status.clone()
            };
            [condition.kind.clone(), status, condition.reason.clone(), condition.message.clone()]
        });
        let conditions: Vec<_> = conditions.collect();
        if !conditions.is_empty() {
            self.table("Conditions", ["TYPE", "STATUS", "REASON", "MESSAGE"], conditions);
        }
    }
}

/// The interfaces on a subnet, or of a pod, as a section.
fn interfaces(sheet: &mut Sheet, title: &str, rows: &[crate::get::attachments::AttachmentRow]) {
    if rows.is_empty() {
        sheet.lines(title, ["no interface".to_owned()]);
        return;
    }
    let of = |value: &Option<String>| value.clone().unwrap_or_default();
    let rows = rows.iter().map(|row| {
        let namespace = row.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        [
            format!("{namespace}{}", row.pod),
            of(&row.interface),
            row.addresses.join(","),
            of(&row.node),
            row.readiness.word(),
        ]
    });
    sheet.table(title, ["POD", "INTERFACE", "ADDRESSES", "NODE", "READY"], rows.collect());
}

/// The interfaces on a subnet.
fn on_subnet(snapshot: &Snapshot, subnet: &str) -> Vec<crate::get::attachments::AttachmentRow> {
    let rows = crate::get::attachments::rows(snapshot, None).into_iter();
    rows.filter(|row| row.subnet.as_deref() == Some(subnet)).collect()
}

#[cfg(test)]
mod tests;
