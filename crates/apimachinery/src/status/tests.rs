use apischema::FieldError;
use serde_json::json;

use super::failures::{Access, Accessed};
use super::*;
use crate::group::{GroupKind, GroupResource};

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

fn deployments() -> GroupResource {
    GroupResource::new("apps", "deployments")
}

#[test]
fn what_goes_over_the_wire_is_what_kubernetes_sends() {
    let sent = |status: Status| serde_json::to_value(status).unwrap();
    assert_eq!(
        sent(Status::not_found(&pods(), "x")),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "pods \"x\" not found", "reason": "NotFound",
            "details": {"name": "x", "kind": "pods"}, "code": 404
        })
    );
    assert_eq!(
        sent(Status::already_exists(&deployments(), "x")),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "deployments.apps \"x\" already exists", "reason": "AlreadyExists",
            "details": {"name": "x", "group": "apps", "kind": "deployments"}, "code": 409
        })
    );
    assert_eq!(
        sent(Status::deleted(&deployments(), "x", "u")),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "x", "group": "apps", "kind": "deployments", "uid": "u"}
        })
    );
    assert_eq!(
        sent(Status::unprocessable()),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "the server rejected our request due to an error in our request",
            "reason": "Invalid", "details": {}, "code": 422
        })
    );
    assert_eq!(
        sent(Status::unexpected("oops")),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "oops",
            "code": 400
        })
    );
    assert_eq!(sent(Status::expired_continue("old", "token"))["metadata"], json!({"continue": "token"}));
}

#[test]
fn fields_come_in_the_order_of_kubernetes() {
    assert_eq!(
        serde_json::to_string(&Status::bad_request("no")).unwrap(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"BadRequest","code":400}"#
    );
}

#[test]
fn a_status_survives_the_wire() {
    let statuses = [
        Status::not_found(&pods(), "x"),
        Status::internal_error("oops"),
        Status::too_many_requests("later", 3),
        Status::too_large_resource_version(9, 5),
        Status::deleted(&pods(), "x", "u"),
        Status {
            reason: Reason::Other("Teapot".to_owned()),
            code: 418,
            ..Status::bad_request("short and stout")
        },
    ];
    for status in statuses {
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
    }
    let sparse: Status = serde_json::from_str(r#"{"status":"Failure","reason":"Gone"}"#).unwrap();
    assert_eq!((sparse.reason, sparse.code), (Reason::Gone, 0));
    for reason in Reason::KNOWN {
        assert_eq!(Reason::from(reason.as_str()), reason);
    }
}

#[test]
fn messages_are_those_of_kubernetes() {
    let cases = [
        (
            Status::modified(&deployments(), "x"),
            409,
            "Operation cannot be fulfilled on deployments.apps \"x\": the object has been modified; please apply your \
             changes to the latest version and try again",
        ),
        (
            Status::generated_name_exists(&pods(), "x"),
            409,
            "pods \"x\" already exists, the server was not able to generate a unique name for the object",
        ),
        (Status::forbidden(&pods(), "x", "no"), 403, "pods \"x\" is forbidden: no"),
        (Status::forbidden(&pods(), "", "no"), 403, "pods is forbidden: no"),
        (Status::forbidden(&GroupResource::default(), "", "no"), 403, "forbidden: no"),
        (Status::unauthorized(), 401, "Unauthorized"),
        (
            Status::method_not_supported(&pods(), "patch"),
            405,
            "patch is not supported on resources of kind \"pods\"",
        ),
        (
            Status::not_acceptable(&["application/json", "application/yaml"]),
            406,
            "only the following media types are accepted: application/json, application/yaml",
        ),
        (
            Status::unsupported_media_type(&["a/b"]),
            415,
            "the body of the request was in an unknown format - accepted media types include: a/b",
        ),
        (Status::expired("too old resource version: 1 (5)"), 410, "too old resource version: 1 (5)"),
        (Status::gone("gone"), 410, "gone"),
        (Status::timeout("slow", 2), 504, "Timeout: slow"),
        (
            Status::server_timeout(&pods(), "list", 2),
            500,
            "The list operation against pods could not be completed at this time, please try again.",
        ),
        (Status::too_large_resource_version(9, 5), 504, "Timeout: Too large resource version: 9, current: 5"),
        (Status::request_entity_too_large("limit is 1"), 413, "Request entity too large: limit is 1"),
        (Status::internal_error("oops"), 500, "Internal error occurred: oops"),
        (Status::service_unavailable("soon"), 503, "soon"),
        (Status::no_such_resource(), 404, "the server could not find the requested resource"),
        (
            Status::method_not_allowed(),
            405,
            "the server does not allow this method on the requested resource",
        ),
    ];
    for (status, code, message) in cases {
        assert_eq!((status.code, status.to_string().as_str()), (code, message));
    }
}

#[test]
fn invalid_objects_are_told_field_by_field() {
    let kind = GroupKind::new("", "Pod");
    let required = FieldError::required("spec.containers", "");
    let invalid = FieldError::invalid("metadata.name", "X", "no");
    let one = Status::invalid(&kind, "x", std::slice::from_ref(&required));
    assert_eq!(one.message, "Pod \"x\" is invalid: spec.containers: Required value");
    let two = Status::invalid(&GroupKind::new("g.io", "Foo"), "x", &[required.clone(), invalid, required]);
    assert_eq!(
        two.message,
        "Foo.g.io \"x\" is invalid: [spec.containers: Required value, metadata.name: Invalid value: \"X\": no]",
        "each message once"
    );
    let details = two.details.unwrap();
    assert_eq!((details.group.as_str(), details.kind.as_str(), details.name.as_str()), ("g.io", "Foo", "x"));
    let causes: Vec<_> =
        details.causes.iter().map(|cause| (&*cause.reason, &*cause.message, &*cause.field)).collect();
    assert_eq!(
        causes,
        [
            ("FieldValueRequired", "Required value", "spec.containers"),
            ("FieldValueInvalid", "Invalid value: \"X\": no", "metadata.name"),
            ("FieldValueRequired", "Required value", "spec.containers"),
        ],
        "but every cause"
    );
    assert_eq!(Status::invalid(&kind, "", &[]).message, "Pod \"\" is invalid");
}

#[test]
fn denied_access_says_who_and_what() {
    let pod = |name, namespace, subresource| Access {
        user: "jane",
        verb: "get",
        of: Accessed::Resource { group: "", resource: "pods", subresource, namespace, name },
    };
    let cases = [
        (
            pod("", "", ""),
            "pods is forbidden: User \"jane\" cannot get resource \"pods\" in API group \"\" at the cluster scope",
        ),
        (
            pod("x", "ns", "log"),
            "pods \"x\" is forbidden: User \"jane\" cannot get resource \"pods/log\" in API group \"\" in the \
             namespace \"ns\"",
        ),
        (
            Access { user: "<b>&", verb: "get", of: Accessed::Path("/metrics") },
            "forbidden: User \"&lt;b&gt;&amp;\" cannot get path \"/metrics\"",
        ),
    ];
    for (access, message) in cases {
        let status = Status::access_denied(&access, "");
        assert_eq!((status.code, status.message.as_str()), (403, message));
    }
    assert!(Status::access_denied(&pod("", "", ""), "because").message.ends_with("cluster scope: because"));
}
