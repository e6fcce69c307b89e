#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeMap;

use super::*;

const BRIDGE: &str =
    r#"{"cniVersion": "1.0.0", "name": "cluster", "plugins": [{"type": "bridge"}, {"type": "portmap"}]}"#;
const OTHER: &str = r#"{"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "ptp"}]}"#;

/// A directory by names and texts.
fn directory(files: &[(&str, &str)]) -> Vec<File> {
    files.iter().map(|(name, text)| File { name: (*name).into(), text: (*text).into() }).collect()
}

fn apply(directory: &mut Vec<File>, plan: &Plan) {
    for change in &plan.changes {
        directory.retain(|file| file.name != change.file());
        if let Change::Write { file, text } = change {
            directory.push(File { name: file.clone(), text: text.clone().into_bytes() });
        }
    }
}

/// What a directory becomes, and what is in the way. Planning again changes nothing.
fn settled(files: &[(&str, &str)], mode: Mode) -> (BTreeMap<String, Value>, Option<Problem>) {
    let mut directory = directory(files);
    let first = plan(&directory, mode, &Node::default());
    apply(&mut directory, &first);
    let again = plan(&directory, mode, &Node::default());
    assert_eq!((&again.changes, &again.problem), (&Vec::new(), &first.problem), "the second plan");
    let value = |file: File| (file.name, serde_json::from_slice(&file.text).unwrap_or(Value::Null));
    (directory.into_iter().map(value).collect(), first.problem)
}

fn chained(files: &[(&str, &str)]) -> (BTreeMap<String, Value>, Option<Problem>) {
    settled(files, Mode::Chained)
}

/// Our list as it would be made from these files.
fn ours_of(files: &[(&str, &str)]) -> String {
    match plan(&directory(files), Mode::Chained, &Node::default()).changes.as_slice() {
        [Change::Write { text, .. }] => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn types(list: &Value) -> Vec<&str> {
    list["plugins"].as_array().unwrap().iter().map(|plugin| plugin["type"].as_str().unwrap()).collect()
}

#[test]
fn chained_the_list_is_the_primarys_with_the_plugin_after_all_others() {
    let text = r#"{"cniVersion": "0.4.0", "name": "cluster", "disableCheck": true, "x": [1],
        "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "portmap"}]}"#;
    let (files, problem) = chained(&[("10-cluster.conflist", text)]);
    assert_eq!(problem, None);
    let list = &files["00-portolan.conflist"];
    assert_eq!(types(list), ["bridge", "portmap", "portolan-cni"]);
    assert_eq!(list["plugins"][0]["ipam"]["type"], "host-local");
    assert_eq!(
        list["plugins"][2],
        json!({"type": "portolan-cni", "interfaces": "further", "capabilities": {annotations::CAPABILITY: true}})
    );
    assert_eq!(
        (&list["cniVersion"], &list["name"], &list["disableCheck"], &list["x"]),
        (&json!("0.4.0"), &json!("cluster"), &json!(true), &json!([1]))
    );
    assert_eq!(files.len(), 2, "the primary's own file stays");
}

#[test]
fn check_is_left_out_where_the_primarys_would_fail_unless_the_primarys_list_says_otherwise() {
    for (kind, more, expected) in [
        ("bridge", "", json!(true)),
        ("ptp", "", json!(true)),
        ("bridge", "\"disableCheck\": false,", json!(false)),
        ("calico", "", Value::Null),
        ("calico", "\"disableCheck\": true,", json!(true)),
    ] {
        let text = format!(
            r#"{{"cniVersion": "1.0.0", "name": "cluster", {more} "plugins": [{{"type": "{kind}"}}, {{"type": "portmap"}}]}}"#
        );
        let list = &chained(&[("10-cluster.conflist", &text)]).0["00-portolan.conflist"];
        assert_eq!(list["disableCheck"], expected, "{text}");
    }
}

#[test]
fn a_single_configuration_becomes_a_list_of_one() {
    for name in ["10-bridge.conf", "10-bridge.json"] {
        let text = r#"{"cniVersion": "0.3.1", "name": "cluster", "type": "bridge", "mtu": 1400}"#;
        let list = &chained(&[(name, text)]).0["00-portolan.conflist"];
        assert_eq!(types(list), ["bridge", "portolan-cni"]);
        assert_eq!((&list["cniVersion"], &list["name"]), (&json!("0.3.1"), &json!("cluster")));
        assert_eq!(list["plugins"][0]["mtu"], 1400);
    }
}

#[test]
fn the_primary_is_the_first_file_by_name_and_ours_sorts_before_it() {
    for (first, ours) in [
        ("10-a.conflist", "00-portolan.conflist"),
        ("calico.conflist", "00-portolan.conflist"),
        ("00-a.conflist", "0-portolan.conflist"),
        ("000-a.conflist", "00-portolan.conflist"),
        ("0-a.conflist", "!portolan.conflist"),
        ("+.conflist", "!portolan.conflist"),
    ] {
        let (files, problem) = chained(&[("zz-other.conflist", OTHER), (first, BRIDGE)]);
        assert_eq!(problem, None, "{first}");
        assert_eq!(files.keys().next().unwrap(), ours, "{first}");
        assert_eq!(files[ours]["name"], "cluster", "{first}");
    }
}

#[test]
fn a_name_that_nothing_of_ours_can_precede_is_a_problem() {
    let (files, problem) = chained(&[(" a.conflist", BRIDGE)]);
    assert_eq!(problem, Some(Problem::SortsFirst { file: " a.conflist".into() }));
    assert_eq!(files.len(), 1);
}

#[test]
fn ours_follows_the_primary_to_another_name_and_is_never_missing_meanwhile() {
    let old = ours_of(&[("10-a.conflist", BRIDGE)]);
    let mut files = directory(&[("00-portolan.conflist", &old), ("00-a.conflist", BRIDGE)]);
    let plan = plan(&files, Mode::Chained, &Node::default());
    assert!(
        matches!(plan.changes.as_slice(), [Change::Write { file, .. }, Change::Remove { file: old }]
            if file == "0-portolan.conflist" && old == "00-portolan.conflist"),
        "{plan:?}"
    );
    apply(&mut files, &plan);
    assert_eq!(files.len(), 2);
}

#[test]
fn ours_is_written_anew_when_the_primary_changes() {
    let old = ours_of(&[("10-a.conflist", BRIDGE)]);
    let (files, _) = chained(&[("00-portolan.conflist", &old), ("10-a.conflist", OTHER)]);
    assert_eq!(types(&files["00-portolan.conflist"]), ["ptp", "portolan-cni"]);
}

#[test]
fn ours_goes_with_the_primary() {
    let old = ours_of(&[("10-a.conflist", BRIDGE)]);
    let (files, problem) = chained(&[("00-portolan.conflist", &old)]);
    assert_eq!((files.len(), problem), (0, Some(Problem::NoPrimary)));
    let (files, _) = chained(&[("00-portolan.conflist", &old), ("20-b.conflist", OTHER)]);
    assert_eq!(
        types(&files["00-portolan.conflist"]),
        ["ptp", "portolan-cni"],
        "the next one by name is the primary"
    );
}

#[test]
fn a_primary_that_cannot_be_read_leaves_ours_as_it_is() {
    let old = ours_of(&[("10-a.conflist", BRIDGE)]);
    for (text, reason) in [
        ("", "EOF while parsing"),
        (r#"{"cniVersion": "1.0.0", "name": "clu"#, "EOF while parsing"),
        ("[]", "it is not a JSON object"),
        (r#"{"cniVersion": "1.0.0", "plugins": [{"type": "x"}]}"#, "name is missing"),
        (r#"{"cniVersion": "1.0.0", "name": "x"}"#, "plugins is missing"),
        (r#"{"cniVersion": "1.0.0", "name": "x", "plugins": []}"#, "plugins is empty"),
        (
            r#"{"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "x"}, {}]}"#,
            "plugins[1].type is missing",
        ),
    ] {
        // The next one by name must not take its place for a moment.
        let files = [("00-portolan.conflist", &*old), ("10-a.conflist", text), ("20-b.conflist", OTHER)];
        let plan = plan(&directory(&files), Mode::Chained, &Node::default());
        assert_eq!(plan.changes, [], "{text}");
        let Some(Problem::Unreadable { file, reason: said }) = plan.problem else { panic!("{text}") };
        assert!(file == "10-a.conflist" && said.starts_with(reason), "{text}: {said}");
        let plan = super::plan(&directory(&files[1..]), Mode::Chained, &Node::default());
        assert_eq!(plan.changes, [], "nothing is made from it either: {text}");
    }
    let (_, problem) = chained(&[("10-a.conf", r#"{"cniVersion": "1.0.0", "name": "x"}"#)]);
    let Some(Problem::Unreadable { reason, .. }) = problem else { panic!("{problem:?}") };
    assert_eq!(reason, "type is missing");
}

#[test]
fn a_version_that_has_no_chains_is_a_problem() {
    for (version, said) in [(r#""cniVersion": "0.2.0","#, "0.2.0"), ("", "not given")] {
        let text = format!(r#"{{{version} "name": "x", "type": "bridge"}}"#);
        let (files, problem) = chained(&[("10-a.conf", &text)]);
        assert_eq!(problem, Some(Problem::OtherVersion { file: "10-a.conf".into(), version: said.into() }));
        assert_eq!(files.len(), 1);
    }
}

#[test]
fn of_several_versions_those_that_the_plugin_speaks_are_kept() {
    let text = r#"{"cniVersion": "1.0.0", "cniVersions": ["0.2.0", "1.0.0", "1.1.0", "2.0.0"], "name": "x",
        "plugins": [{"type": "bridge"}]}"#;
    let list = &chained(&[("10-a.conflist", text)]).0["00-portolan.conflist"];
    assert_eq!(list["cniVersions"], json!(["1.0.0", "1.1.0"]));
}

#[test]
fn multus_and_chains_written_by_hand_call_portolan_already() {
    let old = ours_of(&[("10-a.conflist", BRIDGE)]);
    for kind in ["multus", "multus-shim"] {
        let multus = format!(r#"{{"cniVersion": "0.3.1", "name": "multus", "type": "{kind}"}}"#);
        let (files, problem) = chained(&[
            ("00-multus.conf", &multus),
            ("00-portolan.conflist", &old),
            ("10-a.conflist", BRIDGE),
        ]);
        assert_eq!(problem, Some(Problem::Multus { file: "00-multus.conf".into() }));
        assert_eq!(files.keys().collect::<Vec<_>>(), ["00-multus.conf", "10-a.conflist"]);
    }
    let by_hand =
        r#"{"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "bridge"}, {"type": "portolan-cni"}]}"#;
    for name in ["10-a.conflist", "00-portolan.conflist"] {
        let (files, problem) = chained(&[(name, by_hand)]);
        assert_eq!(problem, Some(Problem::ChainedAlready { file: name.into() }));
        assert_eq!(files.keys().collect::<Vec<_>>(), [name], "what others wrote stays");
    }
}

#[test]
fn a_file_of_others_under_our_name_is_a_primary_like_any_other() {
    let (files, problem) = chained(&[("00-portolan.conflist", BRIDGE)]);
    assert_eq!(problem, None);
    assert_eq!(files["00-portolan.conflist"]["plugins"].as_array().unwrap().len(), 2, "it stays as it is");
    assert_eq!(types(&files["0-portolan.conflist"]), ["bridge", "portmap", "portolan-cni"]);
}

#[test]
fn a_file_of_ours_that_cannot_be_read_is_replaced() {
    let (files, problem) = chained(&[("00-portolan.conflist", "{"), ("10-a.conflist", BRIDGE)]);
    assert_eq!(problem, None);
    assert_eq!(types(&files["00-portolan.conflist"]), ["bridge", "portmap", "portolan-cni"]);
}

#[test]
fn alone_the_plugin_makes_every_interface_whatever_else_is_there() {
    for others in [&[][..], &[("10-a.conflist", BRIDGE)], &[("10-a.conflist", "{")]] {
        let (files, problem) = settled(others, Mode::Alone);
        assert_eq!(problem, None);
        let list = &files["00-portolan.conflist"];
        assert_eq!((types(list), &list["plugins"][0]["interfaces"]), (vec!["portolan-cni"], &json!("all")));
        assert_eq!(list["cniVersions"], json!(["1.0.0", "1.1.0"]));
    }
    let was_chained = ours_of(&[("10-a.conflist", BRIDGE)]);
    let (files, _) =
        settled(&[("00-portolan.conflist", &was_chained), ("10-a.conflist", BRIDGE)], Mode::Alone);
    assert_eq!(types(&files["00-portolan.conflist"]), ["portolan-cni"]);
}

#[test]
fn a_delegate_has_no_configuration() {
    let old = ours_of(&[("10-a.conflist", BRIDGE)]);
    let (files, problem) =
        settled(&[("00-portolan.conflist", &old), ("10-a.conflist", BRIDGE)], Mode::Delegate);
    assert_eq!(files.into_keys().collect::<Vec<_>>(), ["10-a.conflist"]);
    assert_eq!(problem, None);
}

#[test]
fn another_socket_is_named() {
    let plan = plan(
        &directory(&[("10-a.conflist", BRIDGE)]),
        Mode::Chained,
        &Node { socket: Some("/run/x.sock".into()), ..Node::default() },
    );
    let [Change::Write { text, .. }] = plan.changes.as_slice() else { panic!("{plan:?}") };
    let list: Value = serde_json::from_str(text).unwrap();
    assert_eq!(list["plugins"][2]["socket"], "/run/x.sock");
}

#[test]
fn only_files_that_runtimes_look_at_count() {
    for (name, counts) in [
        ("10-a.conflist", true),
        ("10-a.conf", true),
        ("10-a.json", true),
        ("10-a.conflist.cilium_bak", false),
        (".00-portolan.conflist.portolan-unfinished", false),
        ("README", false),
    ] {
        assert_eq!(is_configuration(name), counts, "{name}");
    }
}

#[test]
fn alone_host_ports_are_served_where_the_node_has_a_plugin_for_them() {
    let list = |has_portmap| {
        let node = Node { has_portmap, ..Node::default() };
        match plan(&[], Mode::Alone, &node).changes.as_slice() {
            [Change::Write { text, .. }] => serde_json::from_str::<Value>(text).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(types(&list(false)), ["portolan-cni"]);
    assert_eq!(list(false)["cniVersions"], json!(["1.0.0", "1.1.0"]));
    let with = list(true);
    assert_eq!(types(&with), ["portolan-cni", "portmap"]);
    assert_eq!(with["plugins"][1]["capabilities"], json!({"portMappings": true}));
    assert_eq!(
        with["cniVersions"],
        json!(["1.0.0"]),
        "a runtime takes the newest: all plugins must speak it"
    );
}
