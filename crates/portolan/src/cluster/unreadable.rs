//! Objects that exist and cannot be decoded. They are told of, and hide no other.

use std::collections::BTreeSet;
use std::fmt;

use kube::Resource;
use kube::core::ObjectMeta;
use portolan_watch::Unreadable;
use serde_json::Value;

use super::snapshot::{Labelled, Lists};
use crate::output::plain;

/// An object of any kind that exists and cannot be decoded. Shown as the line that warns of it.
#[derive(Clone, Debug)]
pub(crate) struct UnreadableObject {
    /// The list of [`Lists`] that lacks it.
    list: &'static str,
    /// With its group, as in `Subnet.kubeovn.io`.
    kind: String,
    /// As kubectl calls the kind: `subnets.kubeovn.io`.
    resource: String,
    pub(crate) metadata: ObjectMeta,
    content: Value,
    field: String,
    problem: String,
}

impl UnreadableObject {
    pub(super) fn of<K: Resource<DynamicType = ()>>(list: &'static str, unreadable: Unreadable<K>) -> Self {
        let with_group = |name: &str| match &*K::group(&()) {
            "" => name.to_owned(),
            group => format!("{name}.{group}"),
        };
        let Unreadable { object, content, field, problem } = unreadable;
        Self {
            list,
            kind: with_group(&K::kind(&())),
            resource: with_group(&K::plural(&())),
            metadata: object.metadata,
            content,
            field,
            problem,
        }
    }

    pub(super) fn is_of(&self, list: &str) -> bool {
        self.list == list
    }

    /// As the model has it.
    pub(super) fn in_model(&self) -> portolan_model::Unreadable<'_> {
        let Self { metadata, content, field, problem, .. } = self;
        portolan_model::Unreadable { metadata, content, field, problem }
    }

    /// Its kind and name, as in `Subnet.kubeovn.io web`.
    pub(crate) fn title(&self) -> String {
        let name = self.name();
        match &self.metadata.namespace {
            Some(namespace) => format!("{} {}/{name}", self.kind, plain(namespace)),
            None => format!("{} {name}", self.kind),
        }
    }

    /// The field that cannot be decoded, and why.
    pub(crate) fn problem(&self) -> String {
        match self.field.as_str() {
            "" => plain(&self.problem),
            field => format!("{}: {}", plain(field), plain(&self.problem)),
        }
    }

    pub(crate) fn what_to_do(&self) -> String {
        let namespace = self.metadata.namespace.as_deref();
        let namespace = namespace.map(|namespace| format!(" -n {}", plain(namespace))).unwrap_or_default();
        format!("correct it with `kubectl edit {} {}{namespace}`, or delete it", self.resource, self.name())
    }

    fn name(&self) -> String {
        plain(self.metadata.name.as_deref().unwrap_or_default())
    }

    /// Whether it is what a user calls so: by its name; a lock also by its address.
    fn is_called(&self, name: &str) -> bool {
        let address = || self.content.pointer("/spec/address").and_then(Value::as_str);
        self.metadata.name.as_deref() == Some(name) || (self.is_of("locks") && address() == Some(name))
    }
}

impl fmt::Display for UnreadableObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, problem) = (self.title(), self.problem());
        write!(f, "{title} cannot be read and is left out: {problem}; {}", self.what_to_do())
    }
}

impl Lists {
    /// The objects that would be among these if they could be decoded.
    pub(crate) fn unreadable_among(&self, kind: Labelled) -> impl Iterator<Item = &UnreadableObject> {
        let lists: &[&str] = match kind {
            Labelled::Vpcs => &["vpcs", "kubeovn_vpcs"],
            Labelled::Subnets => &["subnets", "kubeovn_subnets"],
            Labelled::Pods => &["pods"],
            Labelled::Locks => &["locks"],
            Labelled::Services => &["services"],
        };
        self.unreadable.iter().filter(|object| lists.contains(&object.list))
    }

    /// Those that a user calls so. Objects without a namespace are in every one.
    pub(crate) fn unreadable_called<'a>(
        &'a self,
        kind: Labelled,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> impl Iterator<Item = &'a UnreadableObject> {
        self.unreadable_among(kind).filter(move |object| {
            let own = object.metadata.namespace.as_deref();
            object.is_called(name) && (namespace.is_none() || own.is_none() || own == namespace)
        })
    }
}

/// What the user was warned of.
#[derive(Debug, Default)]
pub(crate) struct Warned(BTreeSet<String>);

impl Warned {
    /// Warns of the objects that cannot be decoded: once, until that changes.
    pub(crate) fn of<'a>(&mut self, unreadable: impl IntoIterator<Item = &'a UnreadableObject>) {
        let lines: BTreeSet<String> = unreadable.into_iter().map(ToString::to_string).collect();
        for line in lines.difference(&self.0) {
            eprintln!("warning: {line}");
        }
        self.0 = lines;
    }
}
