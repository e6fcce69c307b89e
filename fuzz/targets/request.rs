//! Any path and query: reading what a request is about, and what it asks for besides, never panics, and a selector that was
//! read is refused or understood, never half of each.
#![no_main]

use apimachinery::{FieldSelector, LabelSelector};
use apiserver::options::{DeleteOptions, ListOptions, OptionsKind, WriteOptions};
use apiserver::request::{Query, Target};
use http::Method;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|uri: &str| {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let target = Target::parse(path);
    let Ok(query) = Query::parse(query) else { return };
    if let Ok(Target::Resource(target)) = target {
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::TRACE] {
            let _ = target.verb(&method, &query);
        }
    }
    for watch in [false, true] {
        let Ok(options) = ListOptions::parse(&query, watch) else { continue };
        if let Ok(selector) = LabelSelector::parse(&options.label_selector) {
            selector.matches_object(&json!({"metadata": {"labels": {"a": "1", "app": "web"}}}));
        }
        if let Ok(selector) = FieldSelector::parse(&options.field_selector) {
            // Kubernetes, too, refuses a field without a name only when it looks for the field.
            let known = |path: &str| path == "metadata.name";
            let all_known = selector.requirements().iter().all(|requirement| known(&requirement.path));
            assert_eq!(selector.check(known).is_ok(), all_known, "{:?}", options.field_selector);
        }
    }
    for kind in [OptionsKind::Create, OptionsKind::Update, OptionsKind::Patch, OptionsKind::Apply] {
        let _ = WriteOptions::parse(&query, kind);
    }
    let _ = DeleteOptions::parse(&query, None);
});
