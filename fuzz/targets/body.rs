//! Any bytes as a request's body, in each format: reading them never panics, and what was read can be written as JSON and is
//! read as the same again.
#![no_main]

use std::sync::{Arc, LazyLock};

use apimachinery::fieldvalidation::{decode_json, decode_json_as, decode_yaml};
use apimachinery::protobuf;
use apischema::Schema;
use apiserver::options::DeleteOptions;
use apiserver::request::Query;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static POD: LazyLock<Arc<Schema>> =
    LazyLock::new(|| apischema::core::schema("", "v1", "Pod").expect("a core kind"));

fuzz_target!(|input: (u8, &[u8])| {
    let (format, body) = input;
    let value = match format % 4 {
        0 => decode_json(body).ok().map(|decoded| decoded.value),
        1 => decode_json_as(body, &POD).ok().map(|decoded| decoded.value),
        2 => decode_yaml(body).ok().map(|decoded| decoded.value),
        _ => protobuf::decode(body).ok(),
    };
    let Some(value) = value else { return };
    let written = serde_json::to_vec(&value).expect("a value that was read can be written");
    // YAML and protobuf may nest deeper than JSON is read.
    if let Ok(again) = decode_json(&written) {
        assert_eq!(again.value, value);
    } else {
        assert!(format % 4 >= 2, "JSON that was read is read again");
    }
    let _ = apischema::core::decode_error("", "v1", "Pod", &value);
    let mut object = value.clone();
    if object.is_object() && apischema::core::decode_error("", "v1", "Pod", &object).is_none() {
        apischema::core::default("", "Pod", &mut object);
    }
    if let (Ok(query), Value::Object(_)) = (Query::parse(""), &value) {
        let _ = DeleteOptions::parse(&query, Some(value));
    }
});
