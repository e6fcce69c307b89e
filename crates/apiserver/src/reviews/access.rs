//! Whether somebody may do something.

use apimachinery::Status;
use apimachinery::group::GroupKind;
use apischema::FieldError;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::AUTHORIZATION;
use crate::authn::UserInfo;
use crate::authz::{Attributes, Authorizer, Decision, ResourceAttributes};

/// About whom a review is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Whoever asks.
    Asker,
    /// Whom the review names.
    Given,
}

/// Whether a review can be answered. A local one is about one namespace.
pub(super) fn check(review: &Value, about: Subject, local: bool) -> Result<(), Status> {
    let (spec, metadata) = (&review["spec"], &review["metadata"]);
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = Vec::new();
    let mut invalid = |path: &str, value: &Value, detail: &str| {
        errors.push(FieldError::invalid(path, value.clone(), detail));
    };
    if resource.is_object() && other.is_object() {
        let detail = "cannot be specified in combination with resourceAttributes";
        invalid("spec.nonResourceAttributes", other, detail);
    }
    if !resource.is_object() && !other.is_object() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        invalid("spec.resourceAttributes", &Value::Null, detail);
    }
    let names_nobody = text(spec, "user").is_empty() && spec["groups"].as_array().is_none_or(Vec::is_empty);
    if about == Subject::Given && names_nobody {
        invalid("spec.user", &"".into(), "at least one of user or group must be specified");
    }
    for field in ["fieldSelector", "labelSelector"] {
        let selector = &resource[field];
        if !selector.is_object() {
            continue;
        }
        let path = format!("spec.resourceAttributes.{field}");
        let raw = !text(selector, "rawSelector").is_empty();
        let requirements = selector["requirements"].as_array().is_some_and(|all| !all.is_empty());
        if raw && requirements {
            let detail = "may not specified at the same time as requirements";
            invalid(&format!("{path}.rawSelector"), &selector["rawSelector"], detail);
        }
        if !raw && !requirements {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(format!("{path}.requirements"), detail));
            break;
        }
    }
    let says = |(field, value): (&String, &Value)| {
        !is_zero(value) && field != "managedFields" && !(local && field == "namespace")
    };
    if metadata.as_object().is_some_and(|fields| fields.iter().any(says)) {
        let detail = if local { "must be empty except for namespace" } else { "must be empty" };
        errors.push(FieldError::invalid("metadata", metadata.clone(), detail));
    }
    if local && resource.is_object() && text(resource, "namespace") != text(metadata, "namespace") {
        let path = "spec.resourceAttributes.namespace";
        errors.push(FieldError::invalid(path, text(resource, "namespace"), "must match metadata.namespace"));
    }
    if local && other.is_object() {
        let detail = "disallowed on this kind of request";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", other.clone(), detail));
    }
    // The kind is left out, as kube-apiserver does.
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(&GroupKind::new(AUTHORIZATION, ""), "", &errors))
    }
}

/// Whether a value says no more than a field that is left out. Clients written in Go send `creationTimestamp: null`.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Whom a review names.
pub(super) fn subject(review: &Value) -> UserInfo {
    let spec = &review["spec"];
    UserInfo {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: Vec::deserialize(&spec["groups"]).unwrap_or_default(),
        extra: std::collections::BTreeMap::deserialize(&spec["extra"]).unwrap_or_default(),
    }
}

/// The status of a review about a user.
pub(super) async fn decide(review: &Value, user: &UserInfo, authorizer: &dyn Authorizer) -> Value {
    let spec = &review["spec"];
    let of = &spec["resourceAttributes"];
    let attributes = if of.is_object() {
        let resource = ResourceAttributes {
            group: text(of, "group"),
            version: Some(text(of, "version")).filter(|version| !version.is_empty()).unwrap_or("*"),
            resource: text(of, "resource"),
            subresource: text(of, "subresource"),
            namespace: text(of, "namespace"),
            name: text(of, "name"),
        };
        Attributes { user, verb: text(of, "verb"), resource: Some(resource), path: "" }
    } else {
        let of = &spec["nonResourceAttributes"];
        Attributes { user, verb: text(of, "verb"), resource: None, path: text(of, "path") }
    };
    let mut status = Map::new();
    match authorizer.authorize(attributes).await {
        Decision::Allow => {
            status.insert("allowed".into(), true.into());
            let reason = authorizer.why_allowed(attributes).await;
            if !reason.is_empty() {
                status.insert("reason".into(), reason.into());
            }
        }
        Decision::Deny(reason) => {
            status.insert("allowed".into(), false.into());
            if !reason.is_empty() {
                status.insert("reason".into(), reason.into());
            }
        }
    }
    Value::Object(status)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
    fn told(review: Value, about: Subject, local: bool) -> String {
        check(&review, about, local).err().map(|status| status.message).unwrap_or_default()
    }

    #[test]
    fn a_review_is_about_one_thing_and_somebody() {
        let spec = json!({"resourceAttributes": {"verb": "get"}});
        assert_eq!(told(json!({"spec": spec, "metadata": {}}), Subject::Asker, false), "");
        let empty = json!({"creationTimestamp": null, "name": "", "labels": {}});
        assert_eq!(told(json!({"spec": spec, "metadata": empty}), Subject::Asker, false), "");
        assert_eq!(
            told(json!({"spec": spec, "metadata": {}}), Subject::Given, false),
            ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be specified"
        );
        assert_eq!(
            told(json!({"spec": {}, "metadata": {"name": "x"}}), Subject::Asker, false),
            ".authorization.k8s.io \"\" is invalid: [spec.resourceAttributes: Invalid value: null: exactly one of \
             nonResourceAttributes or resourceAttributes must be specified, metadata: Invalid value: {\"name\":\"x\"}: must be empty]"
        );
    }

    #[test]
    fn a_local_review_is_about_its_namespace() {
        let review = |namespace: &str| json!({"metadata": {"namespace": "default"}, "spec": {"user": "a", "resourceAttributes": {"namespace": namespace}}});
        assert_eq!(told(review("default"), Subject::Given, true), "");
        assert_eq!(
            told(review("x"), Subject::Given, true),
            ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"x\": must match \
             metadata.namespace"
        );
    }
}
