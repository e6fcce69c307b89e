//! Decides about CertificateSigningRequests, and signs them. Every controller does: whoever is first has done it.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use portolan_authority::{Authority, SignError};
use portolan_model::node::CERTIFIED_CHASSIS_ANNOTATION;
use portolan_watch::{Change, Plain, Selection};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::authorities::{Authorities, Known};
use crate::judge::{self, Denial};
use crate::nodes::NodeFacts;
use crate::{Role, pauses};

/// Requests that are not settled, by name.
type Open = BTreeMap<String, CertificateSigningRequest>;

/// Decides about all requests for as long as it is polled, needing the API server alone: databases and nodes wait for this to begin.
/// `longest` is how long certificates are valid at most.
///
/// # Errors
/// When a part has ended, which is a bug.
pub async fn sign_requests(
    mut authorities: Authorities,
    longest: SignedDuration,
) -> Result<Infallible, portolan_watch::Error> {
    let signers = Role::ALL.map(|role| {
        let (open, observed) = watch::channel(Open::new());
        let selection = Selection::fields(format!("spec.signerName={}", role.signer()));
        authorities.followers().follow(selection, move |change| {
            open.send_if_modified(|open| note(open, role, change));
            std::future::ready(())
        });
        Signer {
            client: authorities.client().clone(),
            namespace: authorities.namespace().to_owned(),
            role,
            authority: authorities.of(role),
            longest,
            settled: HashSet::new(),
            observed,
        }
    });
    let [central, chassis] = signers;
    tokio::select! {
        never = central.run() => match never {},
        never = chassis.run() => match never {},
        error = authorities.ended() => Err(error),
    }
}

/// Takes a change over; true if there is something to decide.
fn note(open: &mut Open, role: Role, change: Change<CertificateSigningRequest>) -> bool {
    match change {
        Change::Applied(request) => insert(open, role, request),
        Change::Deleted(request) => {
            open.remove(&request.name_any());
            false
        }
        Change::Listed(listed) => {
            open.clear();
            let mut any = false;
            for request in listed.objects {
                any |= insert(open, role, request);
            }
            any
        }
        // Kubernetes keeps none that it cannot read itself.
        Change::Unreadable(_) => false,
    }
}

fn insert(open: &mut Open, role: Role, request: CertificateSigningRequest) -> bool {
    let is_open = request.spec.signer_name == role.signer() && is_open(&request);
    if is_open {
        open.insert(request.name_any(), request);
    } else {
        open.remove(&request.name_any());
    }
    is_open
}

fn is_open(request: &CertificateSigningRequest) -> bool {
    let has_certificate = request
        .status
        .as_ref()
        .and_then(|status| status.certificate.as_ref())
        .is_some_and(|pem| !pem.0.is_empty());
    !has_certificate && !has(request, "Denied") && !has(request, "Failed")
}

fn has(request: &CertificateSigningRequest, condition: &str) -> bool {
    conditions(request).any(|one| one.type_ == condition)
}

fn conditions(
    request: &CertificateSigningRequest,
) -> impl Iterator<Item = &CertificateSigningRequestCondition> {
    request.status.iter().flat_map(|status| status.conditions.iter().flatten())
}

struct Signer {
    client: Client,
    namespace: String,
    role: Role,
    authority: Known,
    longest: SignedDuration,
    /// What was settled here, by UID, until the watch shows it.
    settled: HashSet<String>,
    observed: watch::Receiver<Open>,
}

/// What becomes of a request.
enum Decision {
    Sign(String),
    Deny(Denial),
}

/// Who has settled a request.
enum Settled {
    /// This process, just now.
    Here,
    /// It was changed meanwhile, and the watch shows how: perhaps another controller has begun to settle it, and not ended.
    Overtaken,
}

impl Settled {
    fn if_written<T>(written: Option<&T>) -> Self {
        written.map_or(Settled::Overtaken, |_| Settled::Here)
    }
}

impl Signer {
    async fn run(mut self) -> Infallible {
        let mut pauses = pauses();
        loop {
            let open = self.observed.borrow_and_update().clone();
            let is_known = |uid: &String| open.values().any(|request| request.uid().as_ref() == Some(uid));
            self.settled.retain(is_known);
            let mut failed = false;
            if let Some(authority) = self.authority.usable() {
                let open =
                    open.into_values().filter(|one| !self.settled.contains(&one.uid().unwrap_or_default()));
                for request in open.collect::<Vec<_>>() {
                    match self.settle(&request, &authority).await {
                        Ok(Settled::Here) => drop(self.settled.insert(request.uid().unwrap_or_default())),
                        Ok(Settled::Overtaken) => {}
                        Err(error) => {
                            failed = true;
                            tracing::warn!(
                                request = request.name_any(),
                                error,
                                "a request for a certificate of {} cannot be answered yet; trying again",
                                self.role
                            );
                        }
                    }
                }
            }
            let pause = if failed {
                Some(pauses.lengthen())
            } else {
                pauses.reset();
                None
            };
            tokio::select! {
                Ok(()) = self.observed.changed() => {}
                () = self.authority.changed() => {}
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Answers a request.
    async fn settle(
        &self,
        request: &CertificateSigningRequest,
        authority: &Authority,
    ) -> Result<Settled, String> {
        let name = request.name_any();
        match self.decide(request, authority).await? {
            Decision::Deny(Denial { reason, message }) => {
                tracing::warn!(request = name, reason, message, "denied a certificate of {}", self.role);
                // What somebody has approved cannot be denied any more.
                let (subresource, condition) =
                    if has(request, "Approved") { ("status", "Failed") } else { ("approval", "Denied") };
                let conditions = with(request, condition, reason, &message);
                let written = self.write(request, subresource, json!({"conditions": conditions})).await?;
                Ok(Settled::if_written(written.as_ref()))
            }
            Decision::Sign(certificate) => {
                let mut approved = request.clone();
                if !has(request, "Approved") {
                    let message = "the requester may have what it asks for";
                    let conditions = with(request, "Approved", "PortolanApproved", message);
                    match self.write(request, "approval", json!({"conditions": conditions})).await? {
                        Some(written) => approved = written,
                        None => return Ok(Settled::Overtaken),
                    }
                }
                let certificate = json!({"certificate": ByteString(certificate.into_bytes())});
                let written = self.write(&approved, "status", certificate).await?;
                if written.is_some() {
                    tracing::info!(request = name, "signed a certificate of {}", self.role);
                }
                Ok(Settled::if_written(written.as_ref()))
            }
        }
    }

    async fn decide(
        &self,
        request: &CertificateSigningRequest,
        authority: &Authority,
    ) -> Result<Decision, String> {
        let of_it = judge::requester(request, self.role, &self.namespace)
            .and_then(|requester| Ok((requester, judge::asked(request, self.role)?)));
        let (requester, asked) = match of_it {
            Ok(of_it) => of_it,
            Err(denial) => return Ok(Decision::Deny(denial)),
        };
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = portolan_watch::get(&self.client, &nodes, &requester.node).await;
        let node = node.map_err(|error| format!("node {}: {}", requester.node, Plain(&error)))?;
        let node = node.as_ref().map(NodeFacts::of);
        let node = match judge::of_node(&requester, node.as_ref()) {
            Ok(node) => node,
            Err(denial) => return Ok(Decision::Deny(denial)),
        };
        let mut others = Vec::new();
        if self.role == Role::Chassis && judge::may_clash(node) {
            let listed = portolan_watch::list::<Node>(&self.client).await;
            let listed = listed.map_err(|error| format!("nodes: {}", Plain(&error)))?;
            others.extend(listed.objects.iter().map(NodeFacts::of));
        }
        let life = judge::life(request, self.longest);
        let leaf = match judge::leaf(self.role, &asked, node, &others, life) {
            Ok(leaf) => leaf,
            Err(denial) => return Ok(Decision::Deny(denial)),
        };
        if self.role == Role::Chassis && judge::is_to_be_noted(node) {
            let annotations = json!({(CERTIFIED_CHASSIS_ANNOTATION): leaf.common_name});
            let patch = Patch::Merge(json!({"metadata": {"uid": node.uid, "annotations": annotations}}));
            let noted = nodes.patch_status(&node.name, &PatchParams::default(), &patch).await;
            noted.map_err(|error| format!("node {}: {}", node.name, Plain(&error)))?;
        }
        match authority.sign(&leaf, &asked.key, Timestamp::now()) {
            Ok(signed) => Ok(Decision::Sign(signed.pem)),
            Err(error @ SignError::Expired(_)) => Err(error.to_string()),
            Err(error @ SignError::Make(_)) => {
                Ok(Decision::Deny(Denial { reason: "InvalidRequest", message: error.to_string() }))
            }
        }
    }

    /// Writes a part of a request, over what was read; none if it has changed meanwhile or is gone: the watch shows it.
    async fn write(
        &self,
        request: &CertificateSigningRequest,
        subresource: &str,
        status: Value,
    ) -> Result<Option<CertificateSigningRequest>, String> {
        let api: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let metadata = json!({"resourceVersion": request.resource_version(), "uid": request.uid()});
        let patch = Patch::Merge(json!({"metadata": metadata, "status": status}));
        let name = request.name_any();
        match api.patch_subresource(subresource, &name, &PatchParams::default(), &patch).await {
            Ok(written) => Ok(Some(written)),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            Err(error) => Err(Plain(&error).to_string()),
        }
    }
}

/// The conditions of a request with another one.
fn with(
    request: &CertificateSigningRequest,
    condition: &str,
    reason: &str,
    message: &str,
) -> Vec<CertificateSigningRequestCondition> {
    let mut all: Vec<_> = conditions(request).cloned().collect();
    all.push(CertificateSigningRequestCondition {
        type_: condition.into(),
        status: "True".into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_update_time: Some(Time(Timestamp::now())),
        last_transition_time: None,
    });
    all
}
