use proptest::prelude::*;
use serde_json::json;

use super::*;

/// An untyped object.
fn raw() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!([1]))];
    leaf.prop_recursive(2, 6, 2, |inner| {
        proptest::collection::btree_map("[a-c]", inner, 1..3).prop_map(|fields| json!(fields))
    })
    .prop_map(|inner| json!({"r": inner}))
}

/// A spec of the kind. Nothing in it is empty: what loses everything that was applied becomes null, and an empty value that is
/// applied over null is a change, so applying it again would not be the same.
fn spec() -> impl Strategy<Value = Value> {
    let text = || prop_oneof![Just("1"), Just("2")];
    let port =
        (80..82, proptest::option::of(prop_oneof![Just("TCP"), Just("UDP")]), proptest::option::of(text()));
    let map = || proptest::collection::btree_map("[ab]", text(), 1..3);
    (
        0..2,
        proptest::option::of(map()),
        proptest::option::of(map()),
        proptest::option::of(proptest::collection::vec(port, 1..3)),
        proptest::option::of(proptest::sample::subsequence(vec!["h1", "h2", "h3"], 1..4).prop_shuffle()),
        proptest::option::of(proptest::collection::vec(text(), 1..2)),
        proptest::option::of(raw()),
    )
        .prop_map(|(replicas, labels, selector, ports, hosts, args, raw)| {
            let mut spec = json!({});
            let mut set = |name: &str, value: Option<Value>| {
                if let Some(value) = value {
                    spec[name] = value;
                }
            };
            set("replicas", Some(json!(replicas)));
            set("labels", labels.map(|labels| json!(labels)));
            set("selector", selector.map(|selector| json!(selector)));
            set("hosts", hosts.map(|hosts| json!(hosts)));
            set("args", args.map(|args| json!(args)));
            set("raw", raw);
            set(
                "ports",
                ports.map(|ports| {
                    let mut seen = std::collections::BTreeSet::new();
                    let ports = ports
                        .into_iter()
                        .filter(|(port, protocol, _)| seen.insert((*port, protocol.unwrap_or("TCP"))));
                    ports
                        .map(|(port, protocol, name)| {
                            let mut item = json!({"port": port});
                            item.as_object_mut()
                                .unwrap()
                                .extend(protocol.map(|it| ("protocol".to_owned(), json!(it))));
                            item.as_object_mut()
                                .unwrap()
                                .extend(name.map(|it| ("name".to_owned(), json!(it))));
                            item
                        })
                        .collect()
                }),
            );
            spec
        })
}

/// An object that several managers wrote.
fn history() -> impl Strategy<Value = Value> {
    let write = (any::<bool>(), prop_oneof![Just("a"), Just("b"), Just("u")], spec());
    proptest::collection::vec(write, 1..4).prop_map(|writes| {
        let mut live: Option<Value> = None;
        for (is_apply, manager, spec) in writes {
            let next = match (&live, is_apply) {
                (Some(live), true) => force_by(live, manager, &spec),
                (Some(live), false) => update_by(live, manager, |object| object["spec"] = spec),
                (None, true) => apply_by(None, manager, &spec).unwrap(),
                (None, false) => create_by(manager, &spec),
            };
            live = Some(stored(next));
        }
        live.unwrap()
    })
}

/// The managers and what they own, without the times.
fn owners(object: &Value) -> Vec<(String, String)> {
    let entries = meta::managed_fields(object).into_iter().flatten();
    entries
        .map(|entry| (format!("{}{}", entry["manager"], entry["operation"]), entry["fieldsV1"].to_string()))
        .collect()
}

proptest! {
    #[test]
    fn applying_the_same_again_changes_nothing(live in history(), spec in spec()) {
        let once = force_by(&live, "a", &spec);
        let mut again = apply_by(Some(&once), "a", &spec).unwrap();
        prop_assert_eq!(owners(&again), owners(&once));
        keep_times_of_no_op(&once, &mut again);
        prop_assert_eq!(again, once);
    }

    #[test]
    fn what_is_applied_is_there_and_owned(live in history(), spec in spec()) {
        let applied = force_by(&live, "a", &spec);
        let config = foo(&spec);
        let kind = super::super::types::Type::Object(&SCHEMA);
        let fields = super::super::to_set::applied_fields(&config, kind);
        let there = super::super::to_set::whole(&applied, kind).children;
        prop_assert_eq!(fields.clone().difference(&there), FieldSet::new());
        let unowned = ["apiVersion", "kind", "metadata"].map(|name| Path::of_fields(&[name]));
        let fields = fields.recursive_difference(&FieldSet::of(unowned));
        let entries = meta::managed_fields(&applied).cloned().unwrap_or_default();
        let own = entries.iter().find(|entry| entry["manager"] == "a" && entry["operation"] == "Apply");
        let own = own.map(|entry| FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap()).unwrap_or_default();
        prop_assert_eq!(own, fields);
    }

    #[test]
    fn who_applies_nothing_leaves_only_what_others_own(live in history()) {
        let applied = stored(apply_by(Some(&live), "new", &json!({"labels": {"mine": "1"}})).unwrap());
        let gone = apply_by(Some(&applied), "new", &json!({})).unwrap();
        let labels = gone["spec"].get("labels").cloned().unwrap_or_default();
        let before = live["spec"].get("labels").filter(|it| it.as_object().is_some_and(|it| !it.is_empty())).cloned();
        prop_assert_eq!(labels, before.unwrap_or_default());
    }

    #[test]
    fn an_update_that_changes_nothing_changes_no_owner(live in history()) {
        let updated = update_by(&live, "someone", |_| ());
        prop_assert_eq!(updated, live);
    }

    #[test]
    fn only_fields_that_are_there_are_owned(live in history(), spec in spec()) {
        let updated = update_by(&live, "u", |object| object["spec"] = spec);
        let kind = super::super::types::Type::Object(&SCHEMA);
        let there = super::super::to_set::whole(&updated, kind).children;
        for entry in meta::managed_fields(&updated).into_iter().flatten() {
            let owned = FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap();
            prop_assert_eq!(owned.difference(&there), FieldSet::new());
        }
    }

    #[test]
    fn without_force_nothing_of_others_changes(live in history(), spec in spec()) {
        prop_assume!(meta::managed_fields(&live).is_some());
        if let Ok(applied) = apply_by(Some(&live), "new", &spec) {
            let before = owners(&live);
            let after: Vec<_> = owners(&applied).into_iter().filter(|(name, _)| !name.contains("new")).collect();
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn nothing_that_is_sent_stops_it(live in crate::test_values::fields(), sent in crate::test_values::fields()) {
        let mut object = foo(&sent);
        object["metadata"]["managedFields"] = live.clone();
        let mut odd = foo(&live);
        odd["metadata"]["managedFields"] = json!([live, sent]);
        track_update(Some(&odd), &mut object, &SCHEMA, &by("m"));
        let _ = apply_by(Some(&odd), "m", &sent);
        let _ = apply_by(Some(&foo(&live)), "m", &sent);
    }
}
