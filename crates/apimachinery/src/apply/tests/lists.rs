use serde_json::json;

use super::*;

#[test]
fn elements_are_known_by_their_keys() {
    let object =
        stored(apply_by(None, "a", &json!({"ports": [{"port": 80, "name": "x"}, {"port": 81}]})).unwrap());
    assert_eq!(
        owned_by(&object, "a")["f:spec"]["f:ports"],
        json!({
            "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:name": {}},
            "k:{\"port\":81,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}
        }),
        "a key that is left out has its default"
    );
    let object = apply_by(Some(&object), "b", &json!({"ports": [{"port": 80, "protocol": "UDP"}]})).unwrap();
    assert_eq!(object["spec"]["ports"].as_array().unwrap().len(), 3);
}

#[test]
fn an_element_goes_when_nobody_owns_any_of_it() {
    let object = stored(apply_by(None, "a", &json!({"ports": [{"port": 80, "name": "x"}]})).unwrap());
    let object =
        stored(apply_by(Some(&object), "b", &json!({"ports": [{"port": 80}], "name": "n"})).unwrap());
    let object = stored(apply_by(Some(&object), "a", &json!({"name": "n"})).unwrap());
    assert_eq!(object["spec"]["ports"], json!([{"port": 80}]));
    let object = apply_by(Some(&object), "b", &json!({"name": "n"})).unwrap();
    assert_eq!(object["spec"], json!({"name": "n"}));
}

#[test]
fn a_set_has_an_owner_for_each_value() {
    let object = stored(apply_by(None, "a", &json!({"hosts": ["x", "z"]})).unwrap());
    let object = stored(apply_by(Some(&object), "b", &json!({"hosts": ["w", "z"]})).unwrap());
    assert_eq!(object["spec"]["hosts"], json!(["x", "w", "z"]));
    let object = apply_by(Some(&object), "a", &json!({"hosts": []})).unwrap();
    assert_eq!(object["spec"]["hosts"], json!(["w", "z"]));
}

#[test]
fn what_is_applied_says_the_order() {
    let hosts = |live: &[&str], applied: &[&str]| {
        let live = create_by("u", &json!({"hosts": live}));
        apply_by(Some(&live), "a", &json!({"hosts": applied})).unwrap()["spec"]["hosts"].clone()
    };
    assert_eq!(hosts(&["1", "2", "3"], &["3", "1"]), json!(["2", "3", "1"]));
    assert_eq!(hosts(&["1", "2", "3"], &["4"]), json!(["1", "2", "3", "4"]));
    assert_eq!(hosts(&["1", "2", "3"], &["2", "4"]), json!(["1", "2", "3", "4"]));
    assert_eq!(hosts(&["1", "2", "3"], &["4", "3"]), json!(["1", "2", "4", "3"]));
}

#[test]
fn an_atomic_list_has_one_owner() {
    let object = stored(apply_by(None, "a", &json!({"args": ["x"]})).unwrap());
    assert_eq!(owned_by(&object, "a"), json!({"f:spec": {"f:args": {}}}));
    assert!(apply_by(Some(&object), "b", &json!({"args": ["x", "z"]})).is_err());
}

#[test]
fn elements_that_cannot_be_told_apart_are_one_field() {
    let object = create_by("u", &json!({"hosts": ["x", "x", "z"]}));
    assert_eq!(owned_by(&object, "u")["f:spec"]["f:hosts"], json!({".": {}, "v:\"x\"": {}, "v:\"z\"": {}}));
    let object = stored(apply_by(Some(&object), "a", &json!({"hosts": ["z"]})).unwrap());
    assert_eq!(object["spec"]["hosts"], json!(["x", "x", "z"]), "they stay as long as nobody touches them");
    let object = force_by(&object, "a", &json!({"hosts": ["x"]}));
    assert_eq!(object["spec"]["hosts"], json!(["x", "z"]));
}

#[test]
fn long_lists_are_merged_in_time() {
    let many = |range: std::ops::Range<u32>| -> Value {
        range.rev().map(|number| json!(format!("h{number}"))).collect()
    };
    let ports = |range: std::ops::Range<u32>| -> Value { range.map(|port| json!({"port": port})).collect() };
    let object = stored(apply_by(None, "a", &json!({"hosts": many(0..100_000), "name": "n"})).unwrap());
    let object = stored(apply_by(Some(&object), "b", &json!({"hosts": many(50_000..150_000)})).unwrap());
    assert_eq!(object["spec"]["hosts"].as_array().unwrap().len(), 150_000);
    let object = update_by(&object, "u", |object| object["spec"] = json!({"hosts": many(100_000..200_000)}));
    assert_eq!(owned_by(&object, "u")["f:spec"]["f:hosts"].as_object().unwrap().len(), 50_000);

    let object = stored(apply_by(None, "a", &json!({"ports": ports(0..20_000), "name": "n"})).unwrap());
    let object = stored(apply_by(Some(&object), "b", &json!({"ports": ports(10_000..30_000)})).unwrap());
    let object = apply_by(Some(&object), "a", &json!({"name": "n"})).unwrap();
    assert_eq!(object["spec"]["ports"].as_array().unwrap().len(), 20_000);
}
