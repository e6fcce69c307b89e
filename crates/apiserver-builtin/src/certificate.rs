//! CertificateSigningRequests. Nothing here approves or signs them.

use std::sync::Arc;

use apimachinery::Status;
use apimachinery::apply::FieldSet;
use apischema::FieldError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::errors::Errors;
use super::format::{dns1123_label, dns1123_subdomain};
use super::kind::{KindExt as _, kind_of, metadata_errors, reset_with_status, set_defaults};
use super::table::{age, columns, name, or};
use super::value::{
    field_mut, fields_mut, is_set, items, items_mut, object_mut, same, set, size, text, texts, time,
};
use apischema::Path;
use apiserver::api::Api;
use apiserver::endpoint::Endpoint;
use apiserver::registry::{
    Action, NameRule, Resource, Scope, Strategy, Subresource, SubresourceHandler, SubresourceKind,
    SubresourceRequest, human_duration, keep_all_but,
};
use apiserver::request::Verb;
use apiserver::selection::SelectableField;
use apiserver::verbs::{Answer, Content};

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) fn resource() -> Resource {
    let approval = Subresource {
        name: "approval".into(),
        kind: SubresourceKind::Custom {
            group: "certificates.k8s.io".into(),
            version: "v1".into(),
            kind: "CertificateSigningRequest".into(),
            handler: Arc::new(Approval),
        },
        verbs: vec![Verb::Get, Verb::Update],
    };
    kind_of("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest", Scope::Cluster)
        .short_names(&["csr"])
        .name_rule(NameRule::PathSegment)
        .selectable([SelectableField::at("spec.signerName")])
        .strategy_with(|empty| RequestStrategy { empty })
        .shown(columns(
            &["Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"],
            |request, now| {
                let spec = &request["spec"];
                let lasting = spec["expirationSeconds"].as_i64().map(human_duration);
                vec![
                    name(request),
                    age(request, now),
                    or(&spec["signerName"], "<none>").into(),
                    text(&spec["username"]).into(),
                    lasting.unwrap_or_else(|| "<none>".into()).into(),
                    state(&request["status"]).into(),
                ]
            },
        ))
        .with(approval)
        .with_status()
}

fn state(status: &Value) -> String {
    let has =
        |kind: &str| items(&status["conditions"]).iter().any(|condition| text(&condition["type"]) == kind);
    let mut state = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    state
}

/// How requests behave. What they ask for does not change; who asks is the server's to say.
#[derive(Clone, Debug)]
struct RequestStrategy {
    empty: Value,
}

impl Strategy for RequestStrategy {
    fn prepare_for_create(&self, request: &mut Value, action: Action<'_>) {
        let user = action.user;
        let spec = object_mut(request, "spec");
        spec.insert("username".into(), user.name.as_str().into());
        set(spec, "uid", Some(user.uid.as_str()).filter(|uid| !uid.is_empty()).map(Value::from));
        set(spec, "groups", Some(user.groups.clone()).filter(|groups| !groups.is_empty()).map(Value::from));
        set(spec, "extra", Some(json!(user.extra)).filter(|_| !user.extra.is_empty()));
        fields_mut(request).insert("status".into(), json!({}));
    }

    fn prepare_for_update(&self, request: &mut Value, old: &Value, action: Action<'_>) {
        set(fields_mut(request), "spec", old.get("spec").cloned());
        if action.subresource == "approval" {
            let certificate = old["status"].get("certificate").cloned();
            set(object_mut(request, "status"), "certificate", certificate);
            stamp_conditions(request, old, action.now);
        } else {
            set(fields_mut(request), "status", old.get("status").cloned());
        }
    }

    fn prepare_for_status_update(&self, request: &mut Value, old: &Value, action: Action<'_>) {
        keep_all_but(request, old, &["status", "metadata"]);
        stamp_conditions(request, old, action.now);
    }

    fn validate(&self, request: &Value, _action: Action<'_>) -> Vec<FieldError> {
        let mut errors = metadata_errors(request);
        check(&mut errors, request);
        errors.into_vec()
    }

    fn validate_update(&self, request: &Value, old: &Value, action: Action<'_>) -> Vec<FieldError> {
        let mut errors = metadata_errors(request);
        check(&mut errors, request);
        check_change(&mut errors, request, old, action.subresource);
        errors.into_vec()
    }

    fn reset_fields(&self, subresource: &str) -> Option<&FieldSet<'static>> {
        reset_with_status(subresource)
    }

    fn empty(&self) -> Option<&Value> {
        Some(&self.empty)
    }

    fn set_defaults(&self, object: &mut Value) {
        set_defaults(object);
    }
}

/// Conditions that say not when they were set were set now.
fn stamp_conditions(request: &mut Value, old: &Value, now: Timestamp) {
    for condition in items_mut(field_mut(request, "status"), "conditions") {
        let before = items(&old["status"]["conditions"])
            .iter()
            .find(|before| before["type"] == condition["type"] && before["status"] == condition["status"]);
        let transition =
            before.map(|before| &before["lastTransitionTime"]).filter(|time| is_set(time)).cloned();
        for (field, stamp) in [("lastUpdateTime", None), ("lastTransitionTime", transition)] {
            if !is_set(&condition[field]) {
                fields_mut(condition).insert(field.into(), stamp.unwrap_or_else(|| time(now)));
            }
        }
    }
}

fn check(errors: &mut Errors, request: &Value) {
    let (spec, path) = (&request["spec"], Path::root("spec"));
    if !is_request(text(&spec["request"])) {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        errors.invalid(path.field("request"), spec["request"].clone(), detail);
    }
    let usages = path.field("usages");
    if size(&spec["usages"]) == 0 {
        errors.required(usages, "");
    }
    let mut seen = Vec::new();
    for (index, usage) in texts(&spec["usages"]).enumerate() {
        if !USAGES.contains(&usage) {
            errors.not_supported(usages.index(index), usage, &USAGES);
        }
        if seen.contains(&usage) {
            errors.duplicate(usages.index(index), usage);
        }
        seen.push(usage);
    }
    let signer = text(&spec["signerName"]);
    if signer == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.invalid(path.field("signerName"), signer, detail);
    } else {
        check_signer(errors, path.field("signerName"), signer);
    }
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|seconds| *seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(path.field("expirationSeconds"), seconds, detail);
    }
    check_conditions(errors, request);
}

/// Whether a text in base64 is a request in PEM.
fn is_request(encoded: &str) -> bool {
    let Ok(pem) = STANDARD.decode(encoded) else { return false };
    let pem = String::from_utf8_lossy(&pem);
    let mut lines = pem.lines().map(str::trim_end);
    lines.find(|line| line.starts_with("-----BEGIN ")) == Some("-----BEGIN CERTIFICATE REQUEST-----")
        && lines.any(|line| line == "-----END CERTIFICATE REQUEST-----")
}

/// A signer is a domain and a path.
fn check_signer(errors: &mut Errors, path: Path<'_>, signer: &str) {
    if signer.is_empty() {
        return errors.required(path, "");
    }
    let (domain, name) = match signer.split_once('/') {
        Some((domain, name)) if !name.contains('/') => (domain, name),
        _ => {
            let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            return errors.invalid(path, signer, detail);
        }
    };
    check_labels(errors, path, domain, dns1123_label);
    if !domain.contains('.') {
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    check_labels(errors, path, name, dns1123_subdomain);
}

/// Says what is wrong with the first label that is.
fn check_labels(errors: &mut Errors, path: Path<'_>, text: &str, check: fn(&str) -> Vec<String>) {
    let wrong = text.split('.').map(|label| (label, check(label))).find(|(_, wrong)| !wrong.is_empty());
    if let Some((label, messages)) = wrong {
        for message in messages {
            errors.invalid(path, text, format!("validating label {label:?}: {message}"));
        }
    }
}

fn check_conditions(errors: &mut Errors, request: &Value) {
    let status = Path::root("status");
    let path = status.field("conditions");
    let mut seen = Vec::new();
    for (index, condition) in items(&request["status"]["conditions"]).iter().enumerate() {
        let (at, kind, value) = (path.index(index), text(&condition["type"]), text(&condition["status"]));
        if kind.is_empty() {
            errors.required(at.field("type"), "");
        }
        let allowed: &[&str] = if ["Approved", "Denied", "Failed"].contains(&kind) {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        errors.one_of(at.field("status"), value, allowed);
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && seen.contains(&other) {
            errors.invalid(path, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if seen.contains(&kind) {
            errors.duplicate(at.field("type"), kind);
        }
        seen.push(kind);
    }
}

fn check_change(errors: &mut Errors, request: &Value, old: &Value, subresource: &str) {
    let status = Path::root("status");
    let conditions = |request: &Value, kind: &str| -> Vec<Value> {
        let all = items(&request["status"]["conditions"]).iter();
        all.filter(|condition| text(&condition["type"]) == kind).cloned().collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        let (new, before) = (conditions(request, kind), conditions(old, kind));
        if new.len() < before.len() {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.forbidden(status.field("conditions"), detail);
        }
        if subresource == "approval" || kind == "Failed" {
            continue;
        }
        if new.len() > before.len() {
            let detail = format!("updates may not add a condition of type {kind:?}");
            errors.forbidden(status.field("conditions"), detail);
        } else if new.len() == before.len() && new != before {
            let difference = super::diff::diff(&before.into(), &new.into());
            let detail = format!("updates may not modify a condition of type {kind:?}\n{difference}");
            errors.forbidden(status.field("conditions"), detail);
        }
    }
    let (new, before) = (&request["status"]["certificate"], &old["status"]["certificate"]);
    if same(new, before) {
        return;
    }
    if subresource != "status" {
        errors.forbidden(status.field("certificate"), "updates may not set certificate content");
    } else if !text(before).is_empty() {
        errors.forbidden(status.field("certificate"), "updates may not modify existing certificate content");
    }
}

/// `approval`: whether a request may be signed.
#[derive(Clone, Copy, Debug)]
struct Approval;

impl SubresourceHandler for Approval {
    fn handle<'a>(
        &'a self,
        api: &'a Api,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Answer, Status>> {
        async move {
            let endpoint = Endpoint { subresource: "approval".into(), ..request.endpoint.clone() };
            match request.verb {
                Verb::Get => Ok(Answer::ok(Content::Stored(api.read(&endpoint).await?))),
                _ => {
                    api.update(&endpoint, request.context, request.body.unwrap_or_default(), &request.options)
                        .await
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{action, cells, create, prepared, texts as errors_of};
    use super::*;

    fn request() -> Value {
        let pem = "-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n";
        json!({
            "metadata": {"name": "c"},
            "spec": {
                "request": STANDARD.encode(pem),
                "signerName": "example.com/s",
                "usages": ["client auth"],
                "username": "liar",
            },
        })
    }

    #[test]
    fn the_server_sets_the_requester() {
        let stored = prepared(&resource(), request());
        assert_eq!(stored["spec"]["username"], "tester");
        assert_eq!(stored["spec"]["groups"], json!(["testers", "system:authenticated"]));
        assert_eq!(create(&resource(), &stored), Vec::<String>::new());
        assert_eq!(
            create(&resource(), &json!({"spec": {"signerName": "x", "expirationSeconds": 1}})),
            [
                "spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST",
                "spec.usages: Required value",
                "spec.signerName: Invalid value: \"x\": must be a fully qualified domain and path of the form \
                 'example.com/signer-name'",
                "spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 600 seconds (10 minutes)"
            ]
        );
    }

    #[test]
    fn only_approval_approves() {
        let old = prepared(&resource(), request());
        let mut approved = old.clone();
        approved["status"]["conditions"] = json!([{"type": "Approved", "status": "True"}]);
        let strategy = resource().strategy;
        assert_eq!(
            errors_of(&strategy.validate_update(&approved, &old, action("status"))),
            ["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""]
        );
        strategy.prepare_for_update(&mut approved, &old, action("approval"));
        assert_eq!(approved["status"]["conditions"][0]["lastUpdateTime"], "1970-01-01T00:00:00Z");
        assert!(strategy.validate_update(&approved, &old, action("approval")).is_empty());
        assert_eq!(
            errors_of(&strategy.validate_update(&old, &approved, action("approval"))),
            ["status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""]
        );
        assert_eq!(cells(&resource(), &approved, "2024-01-01T00:00:00Z")[5], "Approved");
    }
}
