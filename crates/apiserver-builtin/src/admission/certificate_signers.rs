//! Who may approve and sign certificates: Kubernetes' admission plug-ins CertificateApproval and CertificateSigning.

use std::sync::Arc;

use apimachinery::Status;
use apiserver::admission::{Admission, Attributes, Operation};
use apiserver::api::Api;
use apiserver::authn::UserInfo;
use apiserver::authz::{self, Authorizer, Decision, ResourceAttributes};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::Value;

use crate::value::{same, text};

const GROUP: &str = "certificates.k8s.io";

/// Lets only those approve or deny a CertificateSigningRequest, or write its certificate, who have the right `approve` or `sign`
/// on the resource `signers` of the name that the request asks for, or of `<domain>/*`.
#[derive(Clone, Debug)]
pub struct CertificateSigners {
    authorizer: Arc<dyn Authorizer>,
}

impl CertificateSigners {
    /// Asks this authorizer.
    pub fn new(authorizer: Arc<dyn Authorizer>) -> CertificateSigners {
        CertificateSigners { authorizer }
    }

    async fn check(&self, attributes: Attributes<'_>, verb: &str, signer: &str) -> Result<(), Status> {
        let user = &attributes.context.user;
        let domain = signer.split('/').next().unwrap_or_default();
        if self.allows(user, verb, signer).await || self.allows(user, verb, &format!("{domain}/*")).await {
            return Ok(());
        }
        let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
        Err(attributes.endpoint.resource.forbidden(attributes.name, &why))
    }

    async fn allows(&self, user: &UserInfo, verb: &str, name: &str) -> bool {
        let signers = ResourceAttributes {
            group: GROUP,
            version: "*",
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
        };
        let asked = authz::Attributes { user, verb, resource: Some(signers), path: "" };
        self.authorizer.authorize(asked).await == Decision::Allow
    }
}

impl Admission for CertificateSigners {
    fn name(&self) -> &'static str {
        "CertificateSigners"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Update
    }

    fn validate<'a>(
        &'a self,
        _api: &'a Api,
        attributes: Attributes<'a>,
        object: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let resource = &attributes.endpoint.resource;
        let (Some(new), Some(old)) = (object, attributes.old) else { return ready(Ok(())).boxed() };
        if resource.group != GROUP || resource.plural != "certificatesigningrequests" {
            return ready(Ok(())).boxed();
        }
        // What a request asks for does not change.
        let signer = text(&old["spec"]["signerName"]);
        match attributes.endpoint.subresource.as_str() {
            "approval" => self.check(attributes, "approve", signer).boxed(),
            "status" if is_signed_or_failed(new, old) => self.check(attributes, "sign", signer).boxed(),
            _ => ready(Ok(())).boxed(),
        }
    }
}

/// Whether a write of the status changes what a signer writes.
fn is_signed_or_failed(new: &Value, old: &Value) -> bool {
    ["certificate", "conditions"].iter().any(|field| !same(&new["status"][field], &old["status"][field]))
}

#[cfg(test)]
mod tests;
