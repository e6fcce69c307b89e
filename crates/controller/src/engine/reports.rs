//! What users are told by Events: each problem once, and once more when it is over.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};
use portolan_api::nad::{NadConfig, NetworkAttachmentDefinition};
use portolan_api::{FieldErrors, kubeovn, portolan};
use portolan_model::validate::validate;
use portolan_model::{Needs, Requester, Settings, World, doors};
use portolan_watch::{Change, Listed, Unreadable};

use super::feed::Pages;
use super::{Action, Engine, HasKind, Kind, Observed};

/// The object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Subject {
    /// An object.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Subject {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: object.namespace(),
            name: object.name_any(),
        }
    }

    /// A Service.
    pub(super) fn of_service(namespace: &str, name: &str) -> Self {
        let (namespace, name) = (Some(namespace.to_owned()), name.to_owned());
        Subject { api_version: "v1".to_owned(), kind: "Service".to_owned(), namespace, name }
    }

    fn is_of<K: Resource<DynamicType = ()>>(&self) -> bool {
        self.kind == K::kind(&()) && self.api_version == K::api_version(&())
    }

    fn is_in(&self, pages: &Pages, kind: Kind) -> bool {
        pages.have(kind, &(self.namespace.clone().unwrap_or_default(), self.name.clone()))
    }
}

impl From<&Requester> for Subject {
    fn from(requester: &Requester) -> Self {
        let (api_version, kind, namespace, name) = match requester {
            Requester::Pod { namespace, name } => ("v1", "Pod", Some(namespace), name),
            Requester::Node { name } => ("v1", "Node", None, name),
            Requester::Subnet { name } => ("portolan.dev/v1alpha1", "Subnet", None, name),
            Requester::Vip { name } => ("kubeovn.io/v1", "Vip", None, name),
            Requester::NetworkAttachment { namespace, name } => {
                ("portolan.dev/v1alpha1", "NetworkAttachment", Some(namespace), name)
            }
            Requester::VirtualMachine { namespace, name } => {
                ("kubevirt.io/v1", "VirtualMachine", Some(namespace), name)
            }
        };
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        Subject { api_version, kind, namespace: namespace.cloned(), name: name.clone() }
    }
}

/// Whether an Event is about something wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something stands in the way.
    Warning,
    /// It no longer does.
    Normal,
}

/// What a problem is about. Problems of one topic replace each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// Whether it can be read.
    Content,
    /// The object by itself.
    Object,
    /// Annotations without effect, by what else there is.
    Annotations,
    /// What its conditions say.
    Conditions,
    /// What it asks for.
    Request,
    /// What became of it in OVN's northbound database.
    Northbound,
    /// Whether its finalizer can be written.
    Finalizer,
    /// Whether the prefixes of its pods can be used.
    Prefixes,
    /// Whether those prefixes are in use beside a Subnet that overlaps them.
    Clash,
    /// Whether its addresses are believed.
    Addresses,
    /// What it is to the pods of namespaces.
    Tenants,
    /// What its agent says.
    Agent,
    /// Whether its ports are bound where they are to be.
    Binding,
    /// Whether it is reached by its addresses.
    Frontends,
}

/// A problem: a reason of one word, and what is wrong and how to fix it.
pub(super) type Problem = (&'static str, String);

/// The problems that were reported, by subject and topic, with the subject's UID.
#[derive(Debug, Default)]
pub(super) struct Reports {
    told: BTreeMap<(Subject, Topic), (String, BTreeSet<Problem>)>,
    /// Objects that are being deleted, with their UIDs: nothing about them is resolved by that.
    terminating: BTreeMap<Subject, String>,
}

impl Reports {
    /// What only a decision finds out is not known any more.
    pub(super) fn forget_decisions(&mut self) {
        self.told.retain(|(_, topic), _| match topic {
            Topic::Content
            | Topic::Object
            | Topic::Annotations
            | Topic::Clash
            | Topic::Addresses
            | Topic::Tenants
            | Topic::Frontends
            | Topic::Agent => true,
            Topic::Conditions
            | Topic::Request
            | Topic::Northbound
            | Topic::Finalizer
            | Topic::Prefixes
            | Topic::Binding => false,
        });
    }

    /// The problems of an object in a topic.
    pub(super) fn of(&self, subject: &Subject, uid: &str, topic: Topic) -> impl Iterator<Item = &Problem> {
        let told = self.told.get(&(subject.clone(), topic)).filter(|(of, _)| of == uid);
        told.into_iter().flat_map(|(_, problems)| problems)
    }

    /// Notes whether an object is being deleted.
    fn observe<K: Resource<DynamicType = ()>>(&mut self, object: &K) {
        if object.meta().deletion_timestamp.is_some() {
            self.terminating.insert(Subject::of(object), object.uid().unwrap_or_default());
        } else if !self.terminating.is_empty() {
            self.terminating.remove(&Subject::of(object));
        }
    }

    fn is_terminating(&self, subject: &Subject, uid: &str) -> bool {
        self.terminating.get(subject).is_some_and(|of| of == uid)
    }

    /// All problems that there are.
    pub(super) fn all(&self) -> Vec<(Subject, String, Problem)> {
        let each = self.told.iter().flat_map(|((subject, _), (uid, problems))| {
            problems.iter().map(move |problem| (subject.clone(), uid.clone(), problem.clone()))
        });
        each.collect()
    }
}

/// A kind that is checked by itself.
pub(super) trait Checked: HasKind + Resource<DynamicType = ()> {
    /// What is wrong with it, and what in it has no effect.
    fn problems(&self) -> Vec<Problem>;
}

impl Checked for NetworkAttachmentDefinition {
    fn problems(&self) -> Vec<Problem> {
        match self.parse() {
            Err(errors) => vec![("InvalidDefinition", errors.to_string())],
            Ok(NadConfig::Portolan(nad)) => without_effect(nad.warnings.iter()),
            Ok(_) => Vec::new(),
        }
    }
}

impl Checked for portolan::Vpc {
    fn problems(&self) -> Vec<Problem> {
        invalid_vpc(doors::portolan::vpc(self).err())
    }
}

impl Checked for kubeovn::Vpc {
    fn problems(&self) -> Vec<Problem> {
        invalid_vpc(doors::kubeovn::vpc(self).err())
    }
}

impl Checked for Pod {
    fn problems(&self) -> Vec<Problem> {
        // What is wrong in its annotations is reported with its request.
        if self.annotations().is_empty() {
            return Vec::new();
        }
        let nothing = World::new(Settings::default());
        without_effect(validate(self, &nothing).warnings.iter())
    }
}

fn invalid_vpc(errors: Option<FieldErrors>) -> Vec<Problem> {
    errors.map(|errors| ("InvalidSpec", errors.to_string())).into_iter().collect()
}

fn without_effect(warnings: impl Iterator<Item = impl ToString>) -> Vec<Problem> {
    warnings.map(|warning| ("NoEffect", warning.to_string())).collect()
}

impl Engine {
    /// Reports objects that cannot be read, and that they can be again.
    pub(super) fn report_unreadable<K: Observed>(&mut self, change: &Change<K>) {
        match change {
            Change::Applied(object) => self.report_content(object),
            Change::Unreadable(unreadable) => self.report_unreadable_object(unreadable),
            Change::Deleted(object) => {
                let subject = Subject::of(object);
                self.unreadable.remove(&subject);
                self.forget_reports(&subject);
            }
            Change::Listed(Listed { objects, unreadable }) => {
                // Those that are still being deleted are among the listed.
                let pages = &self.pages;
                self.reports
                    .terminating
                    .retain(|subject, _| !subject.is_of::<K>() || subject.is_in(pages, K::KIND));
                objects.iter().for_each(|object| self.report_content(object));
                unreadable.iter().for_each(|unreadable| self.report_unreadable_object(unreadable));
            }
        }
    }

    /// Reports whether an object that can be decoded can be read.
    fn report_content<K: Observed>(&mut self, object: &K) {
        self.reports.observe(object);
        if let Some(problem) = object.unreadable(self) {
            let uid = object.uid().unwrap_or_default();
            self.is_unreadable(Subject::of(object), uid, &problem);
        } else if !self.unreadable.is_empty() {
            let subject = Subject::of(object);
            if let Some(uid) = self.unreadable.remove(&subject) {
                self.report(subject, uid, Topic::Content, Vec::new());
            }
        }
    }

    fn report_unreadable_object<K: Observed>(&mut self, unreadable: &Unreadable<K>) {
        let object = &unreadable.object;
        self.reports.observe(object);
        self.is_unreadable(Subject::of(object), object.uid().unwrap_or_default(), &unreadable.to_string());
    }

    fn is_unreadable(&mut self, subject: Subject, uid: String, problem: &str) {
        self.unreadable.insert(subject.clone(), uid.clone());
        let message =
            format!("{problem}; until this is corrected, what was made of the object stays as it is");
        self.report(subject, uid, Topic::Content, vec![("Unreadable", message)]);
    }

    /// Checks objects by themselves, and reports what is new.
    pub(super) fn check<K: Checked>(&mut self, change: &Change<K>) {
        match change {
            Change::Applied(object) => self.check_object(object),
            // What cannot be read cannot be checked; a deleted object's reports are forgotten already.
            Change::Unreadable(_) | Change::Deleted(_) => {}
            Change::Listed(Listed { objects, unreadable }) => {
                let unreadable = unreadable.iter().map(|unreadable| Subject::of(&unreadable.object));
                let listed: BTreeSet<Subject> = objects.iter().map(Subject::of).chain(unreadable).collect();
                let pages = &self.pages;
                let is_listed = |subject: &Subject| listed.contains(subject) || subject.is_in(pages, K::KIND);
                self.reports.told.retain(|(subject, _), _| !subject.is_of::<K>() || is_listed(subject));
                objects.iter().for_each(|object| self.check_object(object));
            }
        }
    }

    fn check_object<K: Checked>(&mut self, object: &K) {
        let uid = object.uid().unwrap_or_default();
        self.report(Subject::of(object), uid, Topic::Object, object.problems());
    }

    /// Reports annotations without effect of all pods that have some of Kube-OVN's. What a pod asks for is not known before everything was
    /// listed.
    pub(super) fn report_all_annotations(&mut self) {
        let pods = self.world.pods().filter(|pod| pod.has_kube_ovn_annotations());
        let names: Vec<_> = pods.map(|pod| (pod.namespace.clone(), pod.name.clone())).collect();
        for (namespace, name) in names {
            self.report_annotations(&namespace, &name);
        }
    }

    /// Reports annotations of a pod that have no effect. While something is missing that it asks for nobody knows, and what was
    /// said stays.
    pub(super) fn report_annotations(&mut self, namespace: &str, name: &str) {
        let Some(pod) = self.world.pod(namespace, name).filter(|pod| !pod.finished) else { return };
        let (requester, uid) = (Requester::pod(namespace, name), pod.uid.to_string());
        let subject = Subject::from(&requester);
        let was_told = self.reports.of(&subject, &uid, Topic::Annotations).next().is_some();
        if !self.is_synced() || !(was_told || pod.has_kube_ovn_annotations()) {
            return;
        }
        let warnings = match self.world.needs(&requester) {
            Needs::Interfaces(request) if request.is_ready() => request.warnings,
            Needs::Nothing { warnings } => warnings,
            Needs::Interfaces(_) | Needs::Unknown => return,
        };
        let mut problems = without_effect(warnings.iter());
        // What the pod alone shows was said already.
        problems
            .retain(|problem| !self.reports.of(&subject, &uid, Topic::Object).any(|told| told == problem));
        self.report(subject, uid, Topic::Annotations, problems);
    }

    /// Reports the problems of a topic that are new, or that there are none any more.
    pub(super) fn report(&mut self, subject: Subject, uid: String, topic: Topic, problems: Vec<Problem>) {
        let key = (subject, topic);
        let before = match self.reports.told.get(&key) {
            Some((of, before)) if *of == uid => before.clone(),
            _ => BTreeSet::new(),
        };
        let subject = key.0.clone();
        let problems: BTreeSet<Problem> = problems.into_iter().collect();
        let event = |severity, (reason, message): Problem| Action::Report {
            subject: subject.clone(),
            uid: uid.clone(),
            severity,
            reason,
            message,
        };
        for problem in problems.difference(&before) {
            self.actions.push(event(Severity::Warning, problem.clone()));
        }
        if problems.is_empty() {
            if let Some((reason, _)) = before.first()
                && !self.reports.is_terminating(&subject, &uid)
            {
                let message = format!("{reason} is resolved");
                self.actions.push(event(Severity::Normal, ("Resolved", message)));
            }
            self.reports.told.remove(&key);
        } else {
            self.reports.told.insert(key, (uid, problems));
        }
    }

    fn forget_reports(&mut self, subject: &Subject) {
        let topics = [
            Topic::Content,
            Topic::Object,
            Topic::Annotations,
            Topic::Conditions,
            Topic::Request,
            Topic::Northbound,
            Topic::Finalizer,
            Topic::Prefixes,
            Topic::Clash,
            Topic::Addresses,
            Topic::Tenants,
            Topic::Agent,
            Topic::Binding,
        ];
        for topic in topics {
            self.reports.told.remove(&(subject.clone(), topic));
        }
        self.reports.terminating.remove(subject);
    }
}
