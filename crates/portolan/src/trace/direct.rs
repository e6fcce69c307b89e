//! Answers a trace in this process, with direct access to OVN's databases.

use std::collections::BTreeSet;

use ovsdb::Endpoint;
use portolan_model::World;
use portolan_trace::api::{Trace, TraceStatus};
use portolan_trace::{Databases, Error, NotAvailable, PodName, Question, Tracer, Worlds};

use super::Direct;
use crate::cluster::{Cluster, Kinds, Labelled, Snapshot, Warned};
use crate::exit::{Exit, Failure};
use crate::lab::Lab;
use crate::near;
use crate::waiting::Waiting;

impl Direct {
    pub(super) fn databases(&self) -> Databases {
        Databases {
            northbound: self.ovn_nb.clone().into(),
            southbound: self.ovn_sb.clone().into(),
            tls: self.tls.files(),
        }
    }
}

/// Where a lab has its databases.
pub(super) fn databases_of(lab: &Lab) -> anyhow::Result<Databases> {
    let (northbound, southbound) = lab.databases()?;
    let parse = |endpoints: &str| {
        Endpoint::parse_list(endpoints).map_err(|error| Failure::with(Exit::Failed, error.to_string()))
    };
    Ok(Databases {
        northbound: parse(&northbound)?.into(),
        southbound: parse(&southbound)?.into(),
        tls: None,
    })
}

pub(super) async fn answer(
    databases: Databases,
    mtu: Option<u16>,
    cluster: &Cluster,
    trace: &Trace,
) -> anyhow::Result<TraceStatus> {
    let snapshot = cluster.snapshot(Kinds::all()).await?;
    Warned::default().of(&snapshot.lists.unreadable);
    let question = Question::of(&trace.metadata.namespace, &trace.spec)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let _waiting = Waiting::start("asking OVN");
    let tracer = Tracer::connect(&databases, portolan_plan::Settings { mtu, ..Default::default() });
    // Whoever has access to OVN and to all objects may see all names.
    let visible: BTreeSet<String> =
        snapshot.lists.pods.iter().filter_map(|pod| pod.metadata.namespace.clone()).collect();
    match tracer.answer(&Frozen(&snapshot), &question, visible).await {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(error)) => Err(explain(&snapshot, &error)),
        Err(NotAvailable) => unreachable!("a snapshot is always available"),
    }
}

/// A World that does not change.
struct Frozen<'a>(&'a Snapshot);

impl Worlds for Frozen<'_> {
    async fn read<T: Send + 'static>(
        &self,
        reader: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Result<T, NotAvailable> {
        Ok(reader(&self.0.world))
    }
}

/// What went wrong, with names that may have been meant.
fn explain(snapshot: &Snapshot, error: &Error) -> anyhow::Error {
    match error {
        Error::NoPod(pod) => missing_pod(snapshot, pod),
        Error::NoInterface { .. } => Failure::not_found(error.to_string()),
        Error::Invalid { .. } => Failure::usage(error.to_string()),
    }
}

/// There is no such pod; and which may have been meant.
pub(crate) fn missing_pod(snapshot: &Snapshot, pod: &PodName) -> anyhow::Error {
    use kube::ResourceExt;
    let unreadable = snapshot.lists.unreadable_called(Labelled::Pods, Some(&pod.namespace), &pod.name).next();
    if let Some(object) = unreadable {
        let (problem, to_do) = (object.problem(), object.what_to_do());
        let message = format!("pod {pod} exists and cannot be read: {problem}; {to_do}");
        return Failure::with(Exit::Failed, message);
    }
    let pods = &snapshot.lists.pods;
    let elsewhere =
        pods.iter().filter(|other| other.name_any() == pod.name).filter_map(ResourceExt::namespace);
    let elsewhere: Vec<_> = elsewhere.map(|namespace| format!("{namespace}/{}", pod.name)).collect();
    let hint = if elsewhere.is_empty() {
        let here = pods.iter().filter(|other| other.namespace().as_deref() == Some(&pod.namespace));
        let names: Vec<_> = here.map(ResourceExt::name_any).collect();
        near::suggest(&pod.name, names.iter().map(String::as_str))
    } else {
        format!("; did you mean {}?", elsewhere.join(" or "))
    };
    Failure::not_found(format!("pod {pod} does not exist{hint}"))
}
