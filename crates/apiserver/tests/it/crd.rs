//! Custom resources: definitions come and go, and objects are what they say.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::crd_server::{DEFINITIONS, ExtensionServer, FOOS, condition, definition, foo, reason};

const ANYTHING: fn() -> Value =
    || json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});

fn path(name: &str) -> String {
    format!("{FOOS}/{name}")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_established_kind_is_served_at_once_and_no_longer_when_its_definition_is_deleted() {
    let server = ExtensionServer::start().await;
    let made = server.client.create(DEFINITIONS, &definition(ANYTHING())).await.created();
    assert_eq!(
        made["status"],
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]})
    );
    assert_eq!(made["spec"]["names"]["listKind"], "FooList");
    assert_eq!(
        (&made["spec"]["names"]["singular"], &made["spec"]["conversion"]),
        (&json!("foo"), &json!({"strategy": "None"}))
    );
    let established = server
        .wait_for_definition("foos.ex.io", |definition| condition(definition, "Established") == "True")
        .await;
    assert_eq!(established["status"]["acceptedNames"], made["spec"]["names"]);
    assert_eq!(
        (reason(&established, "NamesAccepted"), reason(&established, "Established")),
        ("NoConflicts", "InitialNamesAccepted")
    );
    assert_eq!(established["metadata"]["generation"], 1);

    let foo = server.client.create(FOOS, &foo("a", json!({"x": 1}))).await.created();
    assert_eq!((&foo["spec"], &foo["metadata"]["generation"]), (&json!({"x": 1}), &json!(1)));
    let resources = server.client.get("/apis/ex.io/v1").await.ok();
    assert_eq!(resources["resources"][0]["shortNames"], json!(["fo"]));

    let going = server.client.delete(&format!("{DEFINITIONS}/foos.ex.io")).await.ok();
    assert_eq!(reason(&going, "Terminating"), "InstanceDeletionPending");
    assert_eq!(going["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(
        (&going["metadata"]["generation"], going["metadata"].get("deletionGracePeriodSeconds")),
        (&json!(1), None)
    );
    server.wait_until_gone("foos.ex.io").await;
    assert_eq!(server.client.get(&path("a")).await.code, StatusCode::NOT_FOUND);

    // Nothing is left for the next definition of that name.
    server.define(&definition(ANYTHING())).await;
    assert_eq!(server.client.get(FOOS).await.ok()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_waits_for_its_objects_across_a_restart() {
    let server = ExtensionServer::start().await;
    server.define(&definition(ANYTHING())).await;
    let mut held = foo("held", json!({}));
    held["metadata"]["finalizers"] = json!(["ex.io/wait"]);
    server.client.create(FOOS, &held).await.created();
    server.client.create(FOOS, &foo("free", json!({}))).await.created();
    server.client.delete(&format!("{DEFINITIONS}/foos.ex.io")).await.ok();
    server
        .wait_for_definition("foos.ex.io", |definition| {
            reason(definition, "Terminating") == "InstanceDeletionInProgress"
        })
        .await;
    let refused = server.client.create(FOOS, &foo("late", json!({}))).await.refused();
    assert_eq!(
        (refused.0, refused.2.as_str()),
        (
            403,
            "foos.ex.io \"late\" is forbidden: create not allowed while custom resource definition is terminating"
        )
    );

    let server = server.restart().await;
    assert_eq!(server.client.create(FOOS, &foo("late", json!({}))).await.code, StatusCode::FORBIDDEN);
    let patch = [("content-type", "application/merge-patch+json")];
    let body = json!({"metadata": {"finalizers": null}}).to_string().into();
    server.client.request(Method::PATCH, &path("held"), &patch, body).await.ok();
    server.wait_until_gone("foos.ex.io").await;
    assert_eq!(server.client.get(FOOS).await.code, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_serves_what_the_last_one_did() {
    let server = ExtensionServer::start().await;
    server.define(&definition(ANYTHING())).await;
    let made = server.client.create(FOOS, &foo("a", json!({"x": [1, {"y": null}]}))).await.created();
    let server = server.restart().await;
    assert_eq!(server.client.get(&path("a")).await.ok(), made);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_accepted_for_one_definition_and_for_the_next_when_that_is_deleted() {
    let server = ExtensionServer::start().await;
    server.define(&definition(ANYTHING())).await;
    let mut second = definition(ANYTHING());
    second["metadata"]["name"] = "bars.ex.io".into();
    second["spec"]["names"] = json!({"plural": "bars", "singular": "foo", "kind": "Bar"});
    server.client.create(DEFINITIONS, &second).await.created();
    let waiting = server
        .wait_for_definition("bars.ex.io", |definition| condition(definition, "NamesAccepted") == "False")
        .await;
    assert_eq!(
        (reason(&waiting, "NamesAccepted"), reason(&waiting, "Established")),
        ("SingularConflict", "NotAccepted")
    );
    assert_eq!(waiting["status"]["conditions"][0]["message"], "\"foo\" is already in use");
    assert_eq!(server.client.get("/apis/ex.io/v1/bars").await.code, StatusCode::NOT_FOUND);

    server.client.delete(&format!("{DEFINITIONS}/foos.ex.io")).await.ok();
    server
        .wait_for_definition("bars.ex.io", |definition| condition(definition, "Established") == "True")
        .await;
    server.client.get("/apis/ex.io/v1/bars").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_pruned_defaulted_and_checked() {
    let server = ExtensionServer::start().await;
    let spec = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 5},
        "size": {"type": "integer", "default": 3},
        "list": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }, "x-kubernetes-validations": [
        {"rule": "self.size < 10", "message": "too big"},
        {"rule": "self.name == oldSelf.name", "message": "the name stays"},
    ]});
    server.define(&definition(json!({"spec": spec}))).await;
    let made = server.client.create(FOOS, &foo("a", json!({"name": "x", "typo": 1}))).await;
    assert_eq!(made.headers.get("warning").unwrap(), "299 - \"unknown field \\\"spec.typo\\\"\"");
    let made = made.created();
    assert_eq!(made["spec"], json!({"name": "x", "size": 3}));

    let strict = server
        .client
        .create(&format!("{FOOS}?fieldValidation=Strict"), &foo("b", json!({"name": "x", "typo": 1})))
        .await
        .refused();
    assert_eq!((strict.0, strict.1.as_str()), (400, "BadRequest"));
    assert!(strict.2.ends_with("strict decoding error: unknown field \"spec.typo\""), "{}", strict.2);

    let refusals = [
        (json!({"name": "x", "size": 10}), "Foo.ex.io \"b\" is invalid: spec: Invalid value: too big"),
        (json!({}), "spec.name: Required value"),
        (json!({"name": "abcdef"}), "spec.name: Too long: may not be more than 5 bytes"),
        (json!({"name": "x", "list": ["a", "a"]}), "spec.list[1]: Duplicate value: \"a\""),
        (
            json!({"name": 1}),
            "spec.name: Invalid value: \"integer\": spec.name in body must be of type string: \"integer\"",
        ),
    ];
    for (spec, message) in refusals {
        let (code, reason, told) = server.client.create(FOOS, &foo("b", spec)).await.refused();
        assert_eq!((code, reason.as_str()), (422, "Invalid"));
        let message =
            message.replace("spec: Invalid value: too big", "spec: Invalid value: \"object\": too big");
        assert!(told.contains(&message), "{told}");
    }
    let mut changed = made;
    changed["spec"]["name"] = "y".into();
    let (code, _, told) = server.client.update(&path("a"), &changed).await.refused();
    assert_eq!(
        (code, told.as_str()),
        (422, "Foo.ex.io \"a\" is invalid: spec: Invalid value: \"object\": the name stays")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_stored_before_a_schema_change_are_read_by_the_new_schema() {
    let server = ExtensionServer::start().await;
    let properties = |more: Value| {
        let mut properties = json!({"old": {"type": "string"}, "both": {"type": "string"}});
        properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"spec": {"type": "object", "properties": properties}})
    };
    server.define(&definition(properties(json!({})))).await;
    let before = server.client.create(FOOS, &foo("a", json!({"old": "o", "both": "b"}))).await.created();
    let mut changed = definition(properties(json!({"new": {"type": "string", "default": "n"}})));
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    changed.pointer_mut(schema).unwrap().as_object_mut().unwrap().remove("old");
    server.redefine(&changed).await;

    let now = json!({"both": "b", "new": "n"});
    let read = server.client.get(&path("a")).await.ok();
    assert_eq!(read["spec"], now);
    assert_eq!(
        read["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"],
        "nothing was written"
    );
    let listed = server.client.get(FOOS).await.ok();
    assert_eq!(listed["items"][0]["spec"], now);
    let mut events = server.client.watch(&format!("{FOOS}?watch=1")).await;
    assert_eq!(events.next().await.unwrap()["object"]["spec"], now);
    // A write of something else stores what was shown.
    let patch = [("content-type", "application/merge-patch+json")];
    let body = json!({"metadata": {"labels": {"a": "b"}}}).to_string().into();
    let patched = server.client.request(Method::PATCH, &path("a"), &patch, body).await.ok();
    assert_eq!((&patched["spec"], &patched["metadata"]["generation"]), (&now, &json!(1)));
    assert_eq!(events.next().await.unwrap()["object"]["spec"], now);
    let server = server.restart().await;
    assert_eq!(server.client.get(&path("a")).await.ok()["spec"], now);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_is_written_by_itself_and_generations_tell_of_the_rest() {
    let server = ExtensionServer::start().await;
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut with_status = definition(json!({"spec": any, "status": any}));
    with_status["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    server.define(&with_status).await;
    let mut object = foo("a", json!({"n": 1}));
    object["status"] = json!({"ready": true});
    let mut object = server.client.create(FOOS, &object).await.created();
    assert_eq!(object.get("status"), None);

    object["status"] = json!({"ready": true});
    object["spec"]["n"] = 2.into();
    let status = server.client.update(&format!("{}/status", path("a")), &object).await.ok();
    assert_eq!((&status["spec"]["n"], &status["status"]["ready"]), (&json!(1), &json!(true)));
    assert_eq!(status["metadata"]["generation"], 1);

    let mut changed = status;
    changed["spec"]["n"] = 3.into();
    changed["status"]["ready"] = false.into();
    let mut changed = server.client.update(&path("a"), &changed).await.ok();
    assert_eq!((&changed["status"]["ready"], &changed["metadata"]["generation"]), (&json!(true), &json!(2)));
    changed["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(server.client.update(&path("a"), &changed).await.ok()["metadata"]["generation"], 2);
    changed["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let (code, _, told) = server.client.update(&path("a"), &changed).await.refused();
    assert_eq!(
        (code, told.as_str()),
        (
            422,
            "foos.ex.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_read_and_written_as_a_scale() {
    let server = ExtensionServer::start().await;
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut scaled = definition(json!({"spec": any, "status": any}));
    scaled["spec"]["versions"][0]["subresources"] = json!({"scale": {"specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}});
    server.define(&scaled).await;
    let mut object = foo("a", json!({"size": 2}));
    object["status"] = json!({"size": 1, "selector": "a=b"});
    server.client.create(FOOS, &object).await.created();
    let mut scale = server.client.get(&format!("{}/scale", path("a"))).await.ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 2}), &json!({"replicas": 1, "selector": "a=b"}))
    );
    scale["spec"]["replicas"] = 5.into();
    server.client.update(&format!("{}/scale", path("a")), &scale).await.ok();
    let object = server.client.get(&path("a")).await.ok();
    assert_eq!((&object["spec"]["size"], &object["metadata"]["generation"]), (&json!(5), &json!(2)));
    let (code, _, told) = server.client.create(FOOS, &foo("b", json!({"size": -1}))).await.refused();
    assert_eq!(
        (code, told.as_str()),
        (422, "Foo.ex.io \"b\" is invalid: .spec.size: Invalid value: -1: should be a non-negative integer")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_selected_by_the_fields_that_a_definition_names() {
    let server = ExtensionServer::start().await;
    let spec =
        json!({"type": "object", "properties": {"color": {"type": "string"}, "n": {"type": "integer"}}});
    let mut selectable = definition(json!({"spec": spec}));
    selectable["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.n"}]);
    server.define(&selectable).await;
    for (name, color, n) in [("a", "red", 1), ("b", "blue", 2), ("c", "red", 2)] {
        server.client.create(FOOS, &foo(name, json!({"color": color, "n": n}))).await.created();
    }
    let names = |list: Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().into())
            .collect()
    };
    let listed = async |selector: &str| server.client.get(&format!("{FOOS}?fieldSelector={selector}")).await;
    assert_eq!(names(listed("spec.color=red").await.ok()), ["a", "c"]);
    assert_eq!(names(listed("spec.color!=red").await.ok()), ["b"]);
    assert_eq!(names(listed("spec.color=red,spec.n=2").await.ok()), ["c"]);
    let (code, _, told) = listed("spec.other=x").await.refused();
    assert_eq!((code, told.as_str()), (400, "field label not supported: spec.other"));

    let mut reds = server.client.watch(&format!("{FOOS}?watch=1&fieldSelector=spec.color=red")).await;
    assert_eq!((reds.expect().await.1, reds.expect().await.1), ("a".into(), "c".into()));
    let mut c = server.client.get(&path("c")).await.ok();
    c["spec"]["color"] = "blue".into();
    server.client.update(&path("c"), &c).await.ok();
    let (kind, name, _) = reds.expect().await;
    assert_eq!((kind.as_str(), name.as_str()), ("DELETED", "c"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_has_the_columns_that_a_definition_asks_for() {
    let server = ExtensionServer::start().await;
    let mut columns = definition(ANYTHING());
    columns["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        {"name": "First", "type": "string", "jsonPath": ".spec.items[0].name", "description": "the first"},
    ]);
    server.define(&columns).await;
    server.client.create(FOOS, &foo("a", json!({"size": 3, "items": [{"name": "x"}]}))).await.created();
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = server.client.request(Method::GET, FOOS, &accept, Vec::new()).await.ok();
    let headings = table["columnDefinitions"].as_array().unwrap();
    let shown: Vec<_> =
        headings.iter().map(|heading| (&heading["name"], &heading["type"], &heading["priority"])).collect();
    let (name, size, first) = (json!("Name"), json!("Size"), json!("First"));
    let (text, whole, zero, one) = (json!("string"), json!("integer"), json!(0), json!(1));
    assert_eq!(shown, [(&name, &text, &zero), (&size, &whole, &one), (&first, &text, &zero)]);
    assert_eq!(headings[2]["description"], "the first");
    assert_eq!(table["rows"][0]["cells"], json!(["a", 3, "x"]));

    let definitions = server.client.request(Method::GET, DEFINITIONS, &accept, Vec::new()).await.ok();
    let headings: Vec<_> = definitions["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|heading| heading["name"].as_str().unwrap())
        .collect();
    assert_eq!(headings, ["Name", "Created At"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_shown_in_each_served_version() {
    let server = ExtensionServer::start().await;
    let mut versions = definition(
        json!({"spec": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}}),
    );
    let mut old = versions["spec"]["versions"][0].clone();
    old["name"] = "v1beta1".into();
    old["storage"] = false.into();
    old["deprecated"] = true.into();
    old["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}});
    versions["spec"]["versions"].as_array_mut().unwrap().push(old);
    server.define(&versions).await;
    server.client.create(FOOS, &foo("x", json!({"a": "1", "b": "2"}))).await.created();
    let beta = server.client.get("/apis/ex.io/v1beta1/namespaces/default/foos/x").await;
    assert_eq!(
        beta.headers.get("warning").unwrap(),
        "299 - \"ex.io/v1beta1 Foo is deprecated; use ex.io/v1 Foo\""
    );
    let beta = beta.ok();
    assert_eq!((&beta["apiVersion"], &beta["spec"]), (&json!("ex.io/v1beta1"), &json!({"a": "1"})));
    let written =
        json!({"apiVersion": "ex.io/v1beta1", "kind": "Foo", "metadata": {"name": "y"}, "spec": {"a": "3"}});
    server.client.create("/apis/ex.io/v1beta1/namespaces/default/foos", &written).await.created();
    let read = server.client.get(&path("y")).await.ok();
    assert_eq!((&read["apiVersion"], &read["spec"]), (&json!("ex.io/v1"), &json!({"a": "3"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_wrong_is_refused_with_all_that_is_wrong() {
    let server = ExtensionServer::start().await;
    let mut wrong = definition(ANYTHING());
    wrong["metadata"]["name"] = "other.ex.io".into();
    wrong["spec"]["scope"] = "World".into();
    let (code, reason, told) = server.client.create(DEFINITIONS, &wrong).await.refused();
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert_eq!(
        told,
        "CustomResourceDefinition.apiextensions.k8s.io \"other.ex.io\" is invalid: [metadata.name: Invalid value: \"other.ex.io\": \
         must be spec.names.plural+\".\"+spec.group, spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \
         \"Namespaced\"]"
    );
    let mut rule = definition(
        json!({"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "self.nothing == 1"}]}}),
    );
    rule["spec"]["conversion"] =
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}});
    let (_, _, told) = server.client.create(DEFINITIONS, &rule).await.refused();
    assert!(told.contains("spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.nothing == 1\""), "{told}");
    assert!(told.contains("spec.conversion.strategy: Invalid value: \"Webhook\": conversion by webhook is not available in this server"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_custom_resources_are_not_merged() {
    let server = ExtensionServer::start().await;
    server.define(&definition(ANYTHING())).await;
    server.client.create(FOOS, &foo("a", json!({}))).await.created();
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let refused =
        server.client.request(Method::PATCH, &path("a"), &strategic, b"{}".to_vec()).await.refused();
    assert_eq!((refused.0, refused.1.as_str()), (415, "UnsupportedMediaType"));
    let apply = [("content-type", "application/apply-patch+yaml")];
    let body = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "spec": {"x": 1}}).to_string().into();
    let applied = server
        .client
        .request(Method::PATCH, &format!("{}?fieldManager=m", path("a")), &apply, body)
        .await
        .ok();
    assert_eq!(applied["spec"], json!({"x": 1}));
}
