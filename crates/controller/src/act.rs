//! Makes actions happen at the API server, and tells the engine how it went.

mod validated;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, ResourceExt};
use portolan_api::portolan::IPLock;
use portolan_ipam::Move;
use portolan_model::{Group, Requester};
use serde_json::json;
use tokio::sync::mpsc::Sender;

use crate::control::Message;
use crate::engine::{Action, Confirmation, Creation, Engine, Subject};
use crate::live;

/// Who makes actions happen.
#[derive(Clone)]
pub(crate) struct Actor {
    client: Client,
    engine: Sender<Message>,
    recorder: Recorder,
}

impl Actor {
    pub(crate) fn new(client: Client, engine: Sender<Message>) -> Self {
        let reporter = Reporter { controller: "portolan-controller".into(), instance: None };
        Actor { recorder: Recorder::new(client.clone(), reporter), client, engine }
    }

    /// Makes an action happen. Whatever fails is told, and tried again when the engine says so.
    pub(crate) async fn perform(self, action: Action) {
        match action {
            Action::CreateLock(lock) => self.create_lock(&lock).await,
            Action::MoveLock(moved) => self.move_lock(moved).await,
            Action::Confirm(release) => {
                let confirmation = live::read(&self.client, &release.reads()).await.unwrap_or_else(|error| {
                    tracing::warn!(lock = release.lock, %error, "cannot confirm that the lock may go");
                    Confirmation::Failed
                });
                self.tell(move |engine| engine.confirmed(&release, &confirmation)).await;
            }
            Action::DeleteLock { lock, uid, resource_version } => {
                self.delete_lock(lock, uid, resource_version).await;
            }
            Action::ConfirmOwner { unit, owner } => {
                let gone = live::owner_is_gone(&self.client, &unit, &owner).await.unwrap_or_else(|error| {
                    tracing::warn!(%unit, %error, "cannot find out whether the owner is gone");
                    false
                });
                self.tell(move |engine| engine.owner_gone(&unit, gone)).await;
            }
            Action::ValidateSubnets => self.validate_subnets().await,
            Action::Tell { subject, uid, reason, message } => {
                self.publish(&subject, uid, reason, message).await;
            }
        }
    }

    async fn tell(&self, message: impl FnOnce(&mut Engine) + Send + 'static) {
        // A loop that has ended needs no answers.
        drop(self.engine.send(Box::new(message)).await);
    }

    async fn create_lock(&self, lock: &IPLock) {
        let name = lock.name_any();
        let created = Api::<IPLock>::all(self.client.clone()).create(&PostParams::default(), lock).await;
        let creation = match created {
            Ok(_) => {
                let holder = &lock.spec.holder;
                tracing::info!(
                    lock = name,
                    holder = holder.name,
                    interface = holder.interface,
                    "took an address"
                );
                Creation::Exists
            }
            // Ours or another's: the watch shows which, and then it is decided again if need be.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Creation::Exists,
            Err(error) => {
                tracing::warn!(lock = name, %error, "cannot create the lock");
                Creation::Failed
            }
        };
        self.tell(move |engine| engine.created(&name, &creation)).await;
    }

    async fn move_lock(&self, moved: Move) {
        let version = known_version(moved.resource_version);
        let patch = json!({
            "metadata": {"uid": moved.uid, "resourceVersion": version},
            "spec": {
                "user": moved.user, "node": moved.node, "hostIP": moved.host_ip, "interfaces": moved.interfaces,
            },
        });
        let locks = Api::<IPLock>::all(self.client.clone());
        if let Err(error) = locks.patch(&moved.lock, &PatchParams::default(), &Patch::Merge(patch)).await {
            tracing::warn!(lock = moved.lock, %error, "cannot move the lock");
            self.tell(move |engine| engine.not_moved(&moved.lock, moved.requester)).await;
        }
    }

    async fn delete_lock(&self, lock: String, uid: String, resource_version: u64) {
        let resource_version = known_version(resource_version);
        let preconditions = Preconditions { uid: Some(uid), resource_version };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match Api::<IPLock>::all(self.client.clone()).delete(&lock, &parameters).await {
            Ok(_) => tracing::info!(lock, "gave an address back"),
            // It is gone, or another one has its name: the watch tells.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => {
                tracing::warn!(lock, %error, "cannot delete the lock");
                self.tell(move |engine| engine.not_deleted(&lock)).await;
            }
        }
    }

    async fn publish(&self, subject: &Subject, uid: String, reason: &str, message: String) {
        let reference = reference(subject, uid);
        tracing::info!(?subject, reason, message, "something stands in the way");
        let event = Event {
            type_: EventType::Warning,
            reason: reason.into(),
            note: Some(message),
            action: "Attach".into(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &reference).await {
            tracing::debug!(?subject, %error, "cannot write the Event");
        }
    }
}

/// A version that the API server can compare with; none if it was no number.
fn known_version(version: u64) -> Option<String> {
    (version != u64::MAX).then(|| version.to_string())
}

fn reference(subject: &Subject, uid: String) -> ObjectReference {
    let (version, kind, namespace, name) = match subject {
        Subject::Requester(Requester::Pod { namespace, name }) => ("v1", "Pod", Some(namespace), name),
        Subject::Requester(Requester::NetworkAttachment { namespace, name }) => {
            ("portolan.dev/v1alpha1", "NetworkAttachment", Some(namespace), name)
        }
        Subject::Requester(Requester::Node { name }) => ("v1", "Node", None, name),
        Subject::Subnet { group: Group::KubeOvn, name } => ("kubeovn.io/v1", "Subnet", None, name),
        Subject::Subnet { group: Group::Portolan, name } | Subject::Requester(Requester::Subnet { name }) => {
            ("portolan.dev/v1alpha1", "Subnet", None, name)
        }
        Subject::Requester(Requester::VirtualMachine { namespace, name }) => {
            ("kubevirt.io/v1", "VirtualMachine", Some(namespace), name)
        }
        Subject::Definition { namespace, name } => {
            ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", Some(namespace), name)
        }
        Subject::Vpc { group: Group::KubeOvn, name } => ("kubeovn.io/v1", "Vpc", None, name),
        Subject::Vpc { group: Group::Portolan, name } => ("portolan.dev/v1alpha1", "Vpc", None, name),
    };
    ObjectReference {
        api_version: Some(version.into()),
        kind: Some(kind.into()),
        namespace: namespace.cloned(),
        name: Some(name.clone()),
        uid: Some(uid),
        ..ObjectReference::default()
    }
}
