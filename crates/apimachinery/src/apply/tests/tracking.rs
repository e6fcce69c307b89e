use serde_json::json;

use super::*;

fn entry<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = meta::managed_fields(object).unwrap();
    entries.iter().find(|entry| entry["manager"] == manager).unwrap()
}

#[test]
fn who_creates_owns_everything() {
    let object = create_by("m", &json!({"name": "x", "nested": {"b": {"c": "1"}}, "args": ["1"]}));
    assert_eq!(
        meta::managed_fields(&object).unwrap()[0],
        json!({
            "manager": "m", "operation": "Update", "apiVersion": "example.com/v1", "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {
                ".": {}, "f:name": {}, "f:args": {}, "f:nested": {".": {}, "f:b": {".": {}, "f:c": {}}}
            }}
        })
    );
}

#[test]
fn structs_that_are_always_there_are_not_set_by_who_creates() {
    let schema = apischema::core::schema("apps", "v1", "Deployment").unwrap();
    let form = crate::normal_form::NormalForm::of(&schema);
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    });
    form.complete(&mut object);
    let write = Write { api_version: "apps/v1", empty: Some(form.empty()), ..by("m") };
    track_update(None, &mut object, &schema, &write);
    assert_eq!(
        owned_by(&object, "m"),
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}}
        }}}}})
    );
}

#[test]
fn who_updates_a_field_takes_it() {
    let object = create_by("a", &json!({"name": "x", "replicas": 1}));
    let object = update_by(&object, "b", |object| object["spec"]["name"] = json!("z"));
    assert_eq!(owned_by(&object, "a"), json!({"f:spec": {".": {}, "f:replicas": {}}}));
    assert_eq!(owned_by(&object, "b"), json!({"f:spec": {"f:name": {}}}));
    let object = update_by(&object, "b", |object| object["spec"]["replicas"] = json!(2));
    assert_eq!(
        owned_by(&object, "b"),
        json!({"f:spec": {"f:name": {}, "f:replicas": {}}}),
        "beside what it had"
    );
    let object = update_by(&object, "c", |object| {
        object["spec"] = json!({});
    });
    assert_eq!(owned_by(&object, "b"), Value::Null, "who owns nothing is forgotten");
}

#[test]
fn the_time_changes_with_the_fields() {
    let object = create_by("a", &json!({"name": "x"}));
    let later = Write { now: "2024-06-01T00:00:00Z", ..by("a") };
    let mut same = object.clone();
    track_update(Some(&object), &mut same, &SCHEMA, &later);
    assert_eq!(same, object);
    let mut changed = object.clone();
    changed["spec"]["name"] = json!("z");
    track_update(Some(&object), &mut changed, &SCHEMA, &later);
    assert_eq!(entry(&changed, "a")["time"], "2024-06-01T00:00:00Z");
}

#[test]
fn entries_have_the_order_of_operation_time_and_name() {
    let object = create_by("z", &json!({"name": "x", "replicas": 1}));
    let object = update_by(&object, "b", |object| object["spec"]["name"] = json!("1"));
    let object = apply_by(Some(&object), "m", &json!({"labels": {"l": "1"}})).unwrap();
    let names: Vec<_> = meta::managed_fields(&object)
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["m", "b", "z"]);
}

#[test]
fn a_subresource_is_another_manager_and_does_not_touch_the_rest() {
    let object = create_by("a", &json!({"name": "x"}));
    let reset = FieldSet::of([Path::of_fields(&["spec"]), Path::of_fields(&["metadata"])]);
    let status = Write { subresource: "status", reset_fields: Some(&reset), ..by("a") };
    let mut new = object.clone();
    new["status"] = json!({"phase": "p"});
    new["spec"]["name"] = json!("ignored");
    new["metadata"]["managedFields"] = json!([]);
    track_update(Some(&object), &mut new, &SCHEMA, &status);
    let entries = meta::managed_fields(&new).unwrap();
    let fields: Vec<_> = entries.iter().map(|entry| (&entry["subresource"], &entry["fieldsV1"])).collect();
    assert_eq!(
        fields,
        [
            (&Value::Null, &json!({"f:spec": {".": {}, "f:name": {}}})),
            (&json!("status"), &json!({"f:status": {".": {}, "f:phase": {}}})),
        ]
    );
}

#[test]
fn a_client_may_bring_forget_or_drop_managers() {
    let object = create_by("a", &json!({"name": "x"}));
    let sent = |entries: Value| {
        update_by(&object, "b", |object| {
            object["spec"]["replicas"] = json!(1);
            object["metadata"]["managedFields"] = entries;
        })
    };
    assert_eq!(owned_by(&sent(json!(null)), "a"), owned_by(&object, "a"), "by accident nobody is dropped");
    for reset in [json!([]), json!([{}])] {
        assert_eq!(meta::managed_fields(&sent(reset)), None, "all are forgotten");
    }
    let own = json!([{
        "manager": "c", "operation": "Apply", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:name": {}}}
    }]);
    let brought = sent(own);
    assert_eq!(owned_by(&brought, "a"), Value::Null);
    assert_eq!(owned_by(&brought, "c"), json!({"f:spec": {"f:name": {}}}));
    let nonsense = sent(json!([{"manager": "c"}]));
    assert_eq!(owned_by(&nonsense, "a"), owned_by(&object, "a"), "what cannot be read counts as not sent");
}

#[test]
fn an_object_that_nobody_manages_is_managed_from_the_first_apply_on() {
    let object = stored(foo(&json!({"name": "x", "replicas": 1})));
    let updated = update_by(&object, "u", |object| object["spec"]["name"] = json!("z"));
    assert_eq!(meta::managed_fields(&updated), None);
    let error = apply_by(Some(&updated), "a", &json!({"replicas": 2})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using example.com/v1: .spec.replicas"
    );
    let applied = apply_by(Some(&updated), "a", &json!({"labels": {"l": "1"}})).unwrap();
    assert_eq!(
        owned_by(&applied, "before-first-apply"),
        json!({"f:spec": {".": {}, "f:name": {}, "f:replicas": {}}})
    );
}

#[test]
fn too_many_updaters_become_one() {
    let mut object = create_by("first", &json!({"name": "x"}));
    for number in 0..15 {
        let manager = format!("m{number:02}");
        let now = format!("2024-01-01T00:01:{number:02}Z");
        let mut new = object.clone();
        new["spec"]["labels"][&manager] = json!("1");
        track_update(Some(&object), &mut new, &SCHEMA, &Write { now: &now, ..by(&manager) });
        object = new;
    }
    let entries = meta::managed_fields(&object).unwrap();
    assert_eq!(entries.len(), 10);
    let ancient = entry(&object, "ancient-changes");
    assert_eq!(
        ancient["fieldsV1"]["f:spec"]["f:labels"].as_object().unwrap().len(),
        7,
        "six and the map itself"
    );
    assert_eq!(ancient["time"], "2024-01-01T00:01:05Z", "the latest of those");
    let total: usize =
        entries.iter().map(|entry| FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap().len()).sum();
    assert_eq!(total, 2 + 1 + 15, "nothing is lost");
}

#[test]
fn managed_fields_that_a_webhook_broke_are_noticed() {
    let object = create_by("a", &json!({"name": "x"}));
    assert_eq!(validate_managed_fields(&object), Ok(()));
    assert_eq!(validate_managed_fields(&json!({})), Ok(()));
    let mut broken = object.clone();
    broken["metadata"]["managedFields"][0]["fieldsType"] = json!("V2");
    assert_eq!(
        validate_managed_fields(&broken),
        Err("invalid fieldsType \"V2\" in managed fields entry 0".to_owned())
    );
    let error = apply_by(Some(&broken), "b", &json!({})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to decode managed fields: invalid fieldsType \"V2\" in managed fields entry 0"
    );
}
