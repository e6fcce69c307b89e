//! Of what is installed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodSpec};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use portolan_agent::examine::facts::Outcome;
use portolan_manifests::{ADDRESSES, EXAMINATION, Installation, Mode, objects};
use serde_json::json;

use super::super::facts::{
    Certificate, Definition, DefinitionState, Installed, Lease, Member, Webhook, Workload,
};
use super::{Ask, certificates};
use crate::install::apply::{MANAGER, PART_OF, api};
use crate::install::rollout::why_not_ready;

/// What there always is.
const PARTS: [(&str, &str); 4] = [
    ("DaemonSet", "ovn-controller"),
    ("DaemonSet", "portolan-agent"),
    ("Deployment", "portolan-controller"),
    ("StatefulSet", "ovn-central"),
];
const WEBHOOK: &str = "portolan-webhook";

type Found = (
    Outcome<Option<Installed>>,
    Outcome<Vec<Definition>>,
    Outcome<Vec<Member>>,
    Outcome<Vec<Certificate>>,
    Outcome<Webhook>,
    Outcome<Option<Lease>>,
);

pub(super) async fn all(ask: &Ask<'_>) -> Found {
    let installation = Outcome::of(installed(ask).await);
    let is_there = installation.found().is_some_and(Option::is_some);
    let definitions = Outcome::of(definitions(ask).await);
    if !is_there {
        let nothing = || Outcome::Unknown("Portolan is not installed".to_owned());
        return (
            installation,
            definitions,
            Outcome::Found(Vec::new()),
            Outcome::Found(Vec::new()),
            nothing(),
            Outcome::Found(None),
        );
    }
    let (members, certificates, webhook, lease) =
        futures::join!(members(ask), certificates::all(ask), webhook(ask), lease(ask));
    (
        installation,
        definitions,
        Outcome::of(members),
        Outcome::of(certificates),
        Outcome::of(webhook),
        Outcome::of(lease),
    )
}

/// What differs between the kinds of workloads.
struct Seen {
    kind: &'static str,
    name: String,
    wanted: i32,
    ready: i32,
    updated: i32,
    on_delete: bool,
    pod: Option<PodSpec>,
}

async fn installed(ask: &Ask<'_>) -> anyhow::Result<Option<Installed>> {
    let client = || ask.cluster.client.clone();
    let ours = ListParams::default().labels(&format!("{PART_OF}=portolan"));
    let in_namespace = |what: &str| format!("the list of {what} in namespace {}", ask.namespace);
    let daemon_sets: Api<DaemonSet> = Api::namespaced(client(), ask.namespace);
    let deployments: Api<Deployment> = Api::namespaced(client(), ask.namespace);
    let stateful_sets: Api<StatefulSet> = Api::namespaced(client(), ask.namespace);
    let pods: Api<Pod> = Api::namespaced(client(), ask.namespace);
    let mut seen = Vec::new();
    for one in ask.list(&daemon_sets, &in_namespace("DaemonSets"), &ours).await? {
        let (spec, status) = (one.spec.clone().unwrap_or_default(), one.status.clone().unwrap_or_default());
        seen.push(Seen {
            kind: "DaemonSet",
            name: one.name_any(),
            wanted: status.desired_number_scheduled,
            ready: status.number_ready,
            updated: status.updated_number_scheduled.unwrap_or_default(),
            on_delete: spec.update_strategy.and_then(|one| one.type_).is_some_and(|kind| kind == "OnDelete"),
            pod: spec.template.spec,
        });
    }
    for one in ask.list(&deployments, &in_namespace("Deployments"), &ours).await? {
        let (spec, status) = (one.spec.clone().unwrap_or_default(), one.status.clone().unwrap_or_default());
        seen.push(Seen {
            kind: "Deployment",
            name: one.name_any(),
            wanted: spec.replicas.unwrap_or(1),
            ready: status.ready_replicas.unwrap_or_default(),
            updated: status.updated_replicas.unwrap_or_default(),
            on_delete: false,
            pod: spec.template.spec,
        });
    }
    for one in ask.list(&stateful_sets, &in_namespace("StatefulSets"), &ours).await? {
        let (spec, status) = (one.spec.clone().unwrap_or_default(), one.status.clone().unwrap_or_default());
        seen.push(Seen {
            kind: "StatefulSet",
            name: one.name_any(),
            wanted: spec.replicas.unwrap_or(1),
            ready: status.ready_replicas.unwrap_or_default(),
            updated: status.updated_replicas.unwrap_or_default(),
            on_delete: false,
            pod: spec.template.spec,
        });
    }
    seen.retain(|one| one.name != EXAMINATION);
    let agent = seen.iter().find(|one| one.name == "portolan-agent");
    let any = agent.or_else(|| seen.iter().find(|one| one.name == "portolan-controller"));
    let Some(pod) = any.and_then(|one| one.pod.clone()) else { return Ok(None) };
    let volume = |name: &str| {
        let volume = pod.volumes.iter().flatten().find(|volume| volume.name == name)?;
        volume.host_path.as_ref().map(|host| host.path.clone())
    };
    let directories = volume("cni-configurations").zip(volume("cni-programs"));
    let container = pod.containers.into_iter().next().unwrap_or_default();
    let arguments = container.args.unwrap_or_default();
    let networks = arguments.iter().filter_map(|one| one.strip_prefix("--cluster-network=")?.parse().ok());
    let pods = ask.list(&pods, &in_namespace("Pods"), &ListParams::default()).await?;
    let mut workloads: Vec<Workload> = seen.into_iter().map(|one| workload(ask, one, &pods)).collect();
    let there: BTreeSet<String> = workloads.iter().map(|one| one.name.clone()).collect();
    for (kind, name) in PARTS.iter().filter(|(_, name)| !there.contains(*name)) {
        workloads.push(workload(
            ask,
            Seen {
                kind,
                name: (*name).to_owned(),
                wanted: 0,
                ready: 0,
                updated: 0,
                on_delete: false,
                pod: None,
            },
            &pods,
        ));
    }
    Ok(Some(Installed {
        is_primary: arguments.iter().any(|one| one == "--primary"),
        image: container.image.unwrap_or_default(),
        cluster_networks: networks.collect(),
        directories: directories.map(|(configurations, programs)| [configurations, programs]),
        workloads,
    }))
}

fn workload(ask: &Ask<'_>, seen: Seen, pods: &[Pod]) -> Workload {
    let number = |value: i32| u64::try_from(value).unwrap_or_default();
    let own = pods.iter().filter(|pod| pod.labels().get("app") == Some(&seen.name));
    let not_ready: BTreeMap<String, String> =
        own.filter_map(|pod| Some((pod.name_any(), why_not_ready(pod)?))).collect();
    Workload {
        title: format!("{} {}/{}", seen.kind, ask.namespace, seen.name),
        name: seen.name,
        wanted: number(seen.wanted),
        ready: number(seen.ready),
        updated: number(seen.updated),
        on_delete: seen.on_delete,
        not_ready,
    }
}

/// Whether definitions are as this version would make them: the API server says what would become of them, and stores nothing.
async fn definitions(ask: &Ask<'_>) -> anyhow::Result<Vec<Definition>> {
    let mut found = Vec::new();
    let all = objects(&Installation::new(Mode::Secondary))?;
    for object in all.iter().filter(|object| object.kind().kind == "CustomResourceDefinition") {
        let (what, api) = (object.description(), api(ask.cluster, object));
        let explain = |error: &kube::Error| ask.cluster.explain(&what, error);
        let before = api.get_opt(object.name()).await.map_err(|error| explain(&error))?;
        let state = match before {
            None => DefinitionState::Missing,
            Some(before) => {
                let mut parameters = PatchParams::apply(MANAGER).force();
                parameters.dry_run = true;
                let after = api.patch(object.name(), &parameters, &Patch::Apply(object.value())).await;
                let after = after.map_err(|error| explain(&error))?;
                let is_others = !object.name().ends_with(".portolan.dev")
                    && before.labels().get(PART_OF).is_none_or(|part_of| part_of != "portolan");
                match after.data["spec"] == before.data["spec"] {
                    true => DefinitionState::Current,
                    false if is_others => DefinitionState::SomebodyElses,
                    false => DefinitionState::Differs,
                }
            }
        };
        found.push(Definition { name: object.name().to_owned(), state });
    }
    Ok(found)
}

async fn members(ask: &Ask<'_>) -> anyhow::Result<Vec<Member>> {
    let maps: Api<ConfigMap> = Api::namespaced(ask.cluster.client.clone(), ask.namespace);
    let found = maps.get_opt(ADDRESSES).await;
    let found = found.map_err(|error| ask.cluster.explain(&format!("ConfigMap {ADDRESSES}"), &error))?;
    let data = found.and_then(|map| map.data).unwrap_or_default();
    Ok(data.into_iter().map(|(name, address)| Member { name, address: address.trim().to_owned() }).collect())
}

async fn lease(ask: &Ask<'_>) -> anyhow::Result<Option<Lease>> {
    let leases: Api<LeaseObject> = Api::namespaced(ask.cluster.client.clone(), ask.namespace);
    let found = leases.get_opt("portolan-controller").await;
    let found = found.map_err(|error| ask.cluster.explain("Lease portolan-controller", &error))?;
    Ok(found.and_then(|lease| lease.spec).map(|spec| Lease {
        holder: spec.holder_identity,
        renewed: spec.renew_time.map(|time| time.0.as_second()),
        duration: spec.lease_duration_seconds.unwrap_or(15).into(),
    }))
}

/// Asks the API server to create, as a trial, what the webhook refuses: its failures are ignored otherwise, and nobody would see them.
async fn webhook(ask: &Ask<'_>) -> anyhow::Result<Webhook> {
    let configurations = ask.all::<ValidatingWebhookConfiguration>();
    let found = configurations.get_metadata_opt(WEBHOOK).await;
    let found = found
        .map_err(|error| ask.cluster.explain(&format!("ValidatingWebhookConfiguration {WEBHOOK}"), &error))?;
    if found.is_none() {
        return Ok(Webhook::Absent);
    }
    let mut vpc = kube::api::DynamicObject::new(
        "portolan-doctor-trial",
        &kube::api::ApiResource::from_gvk_with_plural(
            &kube::api::GroupVersionKind::gvk("portolan.dev", "v1alpha1", "Vpc"),
            "vpcs",
        ),
    );
    vpc.data =
        json!({"spec": {"policyRoutes": [{"priority": 1, "match": "this is no match", "action": "drop"}]}});
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let vpcs = ask.dynamic("portolan.dev", "v1alpha1", "Vpc", "vpcs");
    match vpcs.create(&parameters, &vpc).await {
        Ok(_) => Ok(Webhook::DoesNotAnswer),
        Err(kube::Error::Api(status)) if status.message.contains("failed calling webhook") => {
            Ok(Webhook::Fails(status.message.clone()))
        }
        Err(kube::Error::Api(status)) if status.message.contains("validate.portolan.dev") => {
            Ok(Webhook::Answers)
        }
        Err(error) => Err(ask.cluster.explain("a trial of what the webhook refuses", &error)),
    }
}
