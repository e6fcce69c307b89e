//! Any patch on a Pod: it is refused or applied, never a panic; what comes out can be stored and read; merging the same again, and
//! applying the same again, changes nothing.
#![no_main]

use std::sync::{Arc, LazyLock};

use apimachinery::apply::{self, Force, Write};
use apimachinery::fieldvalidation::decode_yaml;
use apimachinery::options::FieldValidation;
use apimachinery::patch;
use apischema::Schema;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

static POD: LazyLock<Arc<Schema>> =
    LazyLock::new(|| apischema::core::schema("", "v1", "Pod").expect("a core kind"));
static OBJECT: LazyLock<Value> = LazyLock::new(|| {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "b", "labels": {"app": "web"}, "finalizers": ["x.y/z"]},
        "spec": {"nodeName": "n", "tolerations": [{"key": "k", "operator": "Exists"}],
            "containers": [{"name": "one", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                {"name": "two", "image": "j", "env": [{"name": "A", "value": "1"}]}]},
        "status": {"phase": "Running"}})
});

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, body) = input;
    let patched = match kind % 4 {
        0 => patch::json(&OBJECT, body).ok(),
        1 => merge(body),
        2 => patch::decode_strategic_patch(body)
            .and_then(|decoded| patch::strategic(&OBJECT, decoded.value, &POD))
            .ok(),
        _ => applied(body),
    };
    if let Some(patched) = patched {
        let written = serde_json::to_vec(&patched).expect("an object can be written");
        assert_eq!(serde_json::from_slice::<Value>(&written).expect("and read"), patched);
    }
});

fn merge(body: &[u8]) -> Option<Value> {
    let patch = patch::decode_merge_patch(body, FieldValidation::Strict).ok()?.value;
    let once = patch::merge(&OBJECT, patch.clone()).ok()?;
    assert_eq!(patch::merge(&once, patch).ok().as_ref(), Some(&once));
    Some(once)
}

fn applied(body: &[u8]) -> Option<Value> {
    let configuration = decode_yaml(body).ok()?.value;
    let write = Write {
        manager: "fuzz",
        api_version: "v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
        reset_fields: None,
        versions: None,
        empty: None,
    };
    let apply = |live: &Value| apply::apply(Some(live), &configuration, &POD, "Pod", &write, Force::Yes);
    let once = apply(&OBJECT).ok()?;
    let twice = apply(&once).expect("what was applied can be applied again");
    assert_eq!(twice, once);
    Some(once)
}
