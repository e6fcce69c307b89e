use serde_json::{Value, json};

use super::*;
use crate::authn::UserInfo;
use crate::registry::Action;

#[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
fn made(versions: Value) -> Resource {
    let names = json!({"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList", "shortNames": ["fo"], "categories": ["all"]});
    let definition = json!({
        "metadata": {"name": "foos.ex.io"},
        "spec": {"group": "ex.io", "scope": "Namespaced", "names": names, "versions": versions},
        "status": {"acceptedNames": names},
    });
    resource(&Definition::read(&definition).unwrap()).unwrap()
}

#[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
fn version(name: &str, storage: bool, schema: Value, more: Value) -> Value {
    let mut version = json!({"name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": schema}}});
    for (field, value) in more.as_object().unwrap() {
        version[field] = value.clone();
    }
    version
}

fn with_action<T>(subresource: &str, act: impl FnOnce(Action<'_>) -> T) -> T {
    let user = UserInfo::new("jane", []);
    act(Action { user: &user, subresource, now: jiff::Timestamp::UNIX_EPOCH })
}

fn told(errors: &[apischema::FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_resource_is_called_as_its_definition_says() {
    let resource = made(json!([
        version("v1beta1", false, json!({}), json!({"deprecated": true})),
        version("v1", true, json!({}), json!({"selectableFields": [{"jsonPath": ".spec.color"}]})),
        version("v2alpha1", false, json!({}), json!({"deprecated": true, "deprecationWarning": "go away"})),
    ]));
    assert_eq!(
        (resource.plural.as_str(), resource.kind.as_str(), resource.scope),
        ("foos", "Foo", Scope::Namespaced)
    );
    assert_eq!(
        (resource.short_names.as_slice(), resource.categories.as_slice()),
        (&["fo".to_owned()][..], &["all".to_owned()][..])
    );
    let names: Vec<&str> = resource.versions.iter().map(|version| version.name.as_str()).collect();
    assert_eq!((names.as_slice(), resource.storage_version), (&["v1", "v1beta1", "v2alpha1"][..], 0));
    assert_eq!(resource.versions[0].deprecation_warning, None);
    assert_eq!(
        resource.versions[1].deprecation_warning.as_deref(),
        Some("ex.io/v1beta1 Foo is deprecated; use ex.io/v1 Foo")
    );
    assert_eq!(resource.versions[2].deprecation_warning.as_deref(), Some("go away"));
    let field = resource.selectable_field("spec.color").unwrap();
    assert_eq!(field.value(&json!({"spec": {"color": "red"}})), "red");
}

#[test]
fn status_and_scale_are_subresources_where_a_version_has_them() {
    let scale = json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"});
    let resource = made(json!([
        version("v1", true, json!({}), json!({"subresources": {"status": {}, "scale": scale}})),
        version("v2", false, json!({}), json!({})),
    ]));
    let of = |name: &str| resource.versions.iter().find(|version| version.name == name).unwrap();
    assert!(of("v1").has_status() && of("v1").find_subresource("scale").is_some());
    assert!(of("v2").subresources.is_empty());

    let mut object = json!({"apiVersion": "ex.io/v1", "spec": {}, "status": {"n": 1}});
    with_action("", |action| resource.strategy.prepare_for_create(&mut object, action));
    assert_eq!(object.get("status"), None, "a client does not set the status");
    let mut object = json!({"apiVersion": "ex.io/v2", "spec": {}, "status": {"n": 1}});
    with_action("", |action| resource.strategy.prepare_for_create(&mut object, action));
    assert_eq!(object["status"]["n"], 1, "where it is a field like others it does");
}

#[test]
fn a_write_of_the_status_changes_nothing_else() {
    let resource = made(json!([version("v1", true, json!({}), json!({"subresources": {"status": {}}}))]));
    let old = json!({"apiVersion": "ex.io/v1", "metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"a": 1}, "other": 1});
    let mut new = json!({"apiVersion": "ex.io/v1", "metadata": {"name": "a", "managedFields": [{"manager": "m"}]},
        "spec": {"a": 2}, "status": {"s": 1}});
    with_action("status", |action| resource.strategy.prepare_for_status_update(&mut new, &old, action));
    assert_eq!(
        new,
        json!({"apiVersion": "ex.io/v1", "metadata": {"name": "a", "labels": {"x": "1"}, "managedFields": [{"manager": "m"}]},
            "spec": {"a": 1}, "other": 1, "status": {"s": 1}})
    );
}

#[test]
fn objects_are_checked_by_schema_rules_and_scale() {
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "string", "maxLength": 3}},
        "x-kubernetes-validations": [{"rule": "!has(self.n) || self.n != 13", "message": "bad luck"}]});
    let scale = json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.l"});
    let resource = made(json!([version(
        "v1",
        true,
        json!({"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
        json!({"subresources": {"scale": scale}})
    )]));
    let wrong = |object: &Value| with_action("", |action| told(&resource.strategy.validate(object, action)));
    let object = |spec: Value| json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec});
    assert_eq!(wrong(&object(json!({"n": 3, "m": "abc"}))), [""; 0]);
    assert_eq!(wrong(&object(json!({"m": "abcd"}))).len(), 2, "too long, and rules are not checked then");
    assert_eq!(wrong(&object(json!({"n": 13}))), [r#"spec: Invalid value: "object": bad luck"#]);
    assert_eq!(
        wrong(&object(json!({"n": -1}))),
        [".spec.n: Invalid value: -1: should be a non-negative integer"]
    );
    assert_eq!(
        wrong(&object(json!({"n": 3_000_000_000_u64}))),
        [".spec.n: Invalid value: 3000000000: should be less than or equal to 2147483647"]
    );
    let mut status = object(json!({}));
    status["status"] = json!({"n": "x", "l": 1});
    assert_eq!(
        wrong(&status),
        [
            ".status.n: Invalid value: 0: .status.n accessor error: x is of the type string, expected int64",
            ".status.l: Invalid value: \"\": .status.l accessor error: 1 is of the type int64, expected string",
        ]
    );
}

#[test]
fn a_version_shows_what_it_has_and_fills_in_what_it_says() {
    let resource = made(json!([
        version(
            "v1",
            true,
            json!({"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}),
            json!({})
        ),
        version(
            "v2",
            false,
            json!({"spec": {"type": "object", "properties": {"b": {"type": "string", "default": "x"}}}}),
            json!({})
        ),
    ]));
    let mut object =
        json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "n"}, "spec": {"a": "1"}});
    resource.strategy.convert(&mut object, "ex.io/v2").unwrap();
    assert_eq!(
        object,
        json!({"apiVersion": "ex.io/v2", "kind": "Foo", "metadata": {"name": "n"}, "spec": {"b": "x"}})
    );
    assert_eq!(
        resource.strategy.convert(&mut object, "ex.io/v3").unwrap_err().message,
        "Internal error occurred: request to convert CR to an invalid group/version: ex.io/v3"
    );
}

#[test]
fn new_finalizers_without_a_domain_cause_warnings() {
    let resource = made(json!([version("v1", true, json!({}), json!({}))]));
    let object =
        |finalizers: Value| json!({"apiVersion": "ex.io/v1", "metadata": {"finalizers": finalizers}});
    let warnings = |new: Value, old: Option<&Value>| {
        with_action("", |action| resource.strategy.warnings(&object(new), old, action))
    };
    assert_eq!(warnings(json!(["ex.io/a", "orphan"]), None), [""; 0]);
    assert_eq!(
        warnings(json!(["mine", "ex.io"]), None),
        [
            r#"metadata.finalizers: "ex.io": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"#,
            r#"metadata.finalizers: "mine": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"#,
        ]
    );
    assert_eq!(warnings(json!(["mine"]), Some(&object(json!(["mine"])))), [""; 0]);
}
