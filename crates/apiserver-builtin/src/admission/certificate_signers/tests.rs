//! Rights that are checked beyond those on the resource itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::Status;
use apiserver::Server;
use apiserver::authn::UserInfo;
use apiserver::authz::{AlwaysAllow, Attributes, Authorizer, Decision};
use apiserver::context::Context;
use apiserver::endpoint::Endpoint;
use apiserver::options::WriteOptions;
use apiserver::verbs::Content;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::CertificateSigners;
use crate::resources;

/// Allows `verb name` on signers.
#[derive(Debug)]
struct Signers(BTreeSet<&'static str>);

impl Authorizer for Signers {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let resource = attributes.resource.unwrap();
        assert_eq!((resource.group, resource.resource), ("certificates.k8s.io", "signers"));
        let asked = format!("{} {}", attributes.verb, resource.name);
        let decision =
            if self.0.contains(asked.as_str()) { Decision::Allow } else { Decision::Deny(String::new()) };
        ready(decision).boxed()
    }
}

/// What becomes of an update of a request by somebody with these rights.
async fn update(rights: &[&'static str], subresource: &str, status: Value) -> Result<Value, Status> {
    let directory = TempDir::new().unwrap();
    let store =
        apistore::Redb::open(directory.path().join("store.redb"), apistore::Options::default()).unwrap();
    let server = Server::builder(store)
        .resources(resources())
        .authorizer(AlwaysAllow)
        .admission(CertificateSigners::new(Arc::new(Signers(rights.iter().copied().collect()))))
        .build()
        .await
        .unwrap();
    let (api, context) = (server.api(), Context::new(UserInfo::new("ann", []), "test"));
    let registry = api.registry().snapshot();
    let resource = registry.resource("certificates.k8s.io", "certificatesigningrequests").unwrap();
    let pem = "-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n";
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "c"},
        "spec": {"request": STANDARD.encode(pem), "signerName": "example.com/s", "usages": ["client auth"]},
    });
    let options = WriteOptions::default();
    let mut object = request.clone();
    api.create(&Endpoint::collection(resource.clone(), ""), &context, request, &options).await.unwrap();
    object["status"] = status;
    let endpoint =
        Endpoint { subresource: subresource.into(), ..Endpoint::object(resource.clone(), "", "c") };
    let answer = api.update(&endpoint, &context, object, &options).await?;
    match answer.content {
        Content::Stored(stored) => Ok(stored.to_value().unwrap()),
        Content::Object(object) => Ok(object),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_who_has_the_right_for_the_signer_approves() {
    let approved = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]});
    let refused = update(&["approve example.com/other"], "approval", approved.clone()).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            403,
            "certificatesigningrequests.certificates.k8s.io \"c\" is forbidden: user not permitted to approve requests with \
             signerName \"example.com/s\""
        )
    );
    for right in ["approve example.com/s", "approve example.com/*"] {
        let written = update(&[right], "approval", approved.clone()).await.unwrap();
        assert_eq!(written["status"]["conditions"][0]["type"], "Approved", "{right}");
    }
}

#[tokio::test]
async fn only_who_has_the_right_for_the_signer_signs() {
    let failed = json!({"conditions": [{"type": "Failed", "status": "True", "reason": "r"}]});
    let refused = update(&["approve example.com/s"], "status", failed.clone()).await.unwrap_err();
    assert!(refused.message.contains("not permitted to sign"), "{}", refused.message);
    update(&["sign example.com/s"], "status", failed).await.unwrap();
}
