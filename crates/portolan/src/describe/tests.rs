use super::*;
use crate::scene::{Scene, harbour, market};

fn text(descriptions: Vec<Description>, width: Option<usize>) -> String {
    let text = descriptions.into_iter().map(|one| one.sheet.text(width)).collect::<Vec<_>>().join("\n");
    // The only thing that changes with the clock.
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("Age:"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_vpc_in_full() {
    let snapshot = harbour().snapshot();
    insta::assert_snapshot!("vpc", text(vpc::describe(&snapshot, "blue").unwrap(), None));
    insta::assert_snapshot!("vpc_wrong", text(vpc::describe(&snapshot, "wrong").unwrap(), None));
}

#[test]
fn a_subnet_in_full() {
    let snapshot = harbour().snapshot();
    insta::assert_snapshot!("subnet", text(subnet::describe(&snapshot, "far").unwrap(), None));
    insta::assert_snapshot!("subnet_wrong", text(subnet::describe(&snapshot, "clash").unwrap(), Some(80)));
    insta::assert_snapshot!("subnet_twice", text(subnet::describe(&snapshot, "web").unwrap(), None));
}

#[test]
fn a_subnet_of_the_primary_network_says_how_pods_leave_the_cluster() {
    let leaves = |nat: &str, is_primary: bool| {
        let mut scene = Scene::of(&format!(
            "apiVersion: kubeovn.io/v1\nkind: Subnet\nmetadata: {{name: shop}}\nspec: {{cidrBlock: 10.50.0.0/24{nat}}}"
        ));
        if is_primary {
            scene.is_primary();
        }
        let text = text(subnet::describe(&scene.snapshot(), "shop").unwrap(), None);
        text.lines().find_map(|line| Some(line.trim_start().strip_prefix("NAT outgoing:")?.trim().to_owned()))
    };
    let own = "no (the pod's own address; outside needs routes)";
    assert_eq!(leaves("", true).as_deref(), Some(own));
    assert_eq!(leaves(", natOutgoing: true", true).as_deref(), Some("yes (the node's address)"));
    assert_eq!(leaves(", natOutgoing: true", false), None);
}

#[test]
fn a_pod_and_its_interfaces_in_full() {
    let snapshot = harbour().snapshot();
    let pod = |name: &str| text(vec![pod::describe(&snapshot, name, "default").unwrap()], None);
    insta::assert_snapshot!("pod", pod("two"));
    insta::assert_snapshot!("pod_waiting", pod("waits"));
    let attachment = |name: &str| attachment::describe(&snapshot, name, "default");
    insta::assert_snapshot!("attachment", text(attachment("two/net2").unwrap(), None));
    assert_eq!(attachment("two").unwrap().len(), 2);
}

#[test]
fn a_lock_in_full() {
    let snapshot = harbour().snapshot();
    // Two domains have the address.
    insta::assert_snapshot!("lock", text(lock::describe(&snapshot, "10.0.0.5", 0).unwrap(), None));
}

#[test]
fn a_service_in_full() {
    let snapshot = market().snapshot();
    for name in [
        "web",
        "local",
        "shop",
        "old",
        "zoned",
        "stuck",
        "named",
        "empty",
        "unmade",
        "manual",
        "headless",
        "elsewhere",
    ] {
        let described = service::describe(&snapshot, name, "default").unwrap();
        insta::assert_snapshot!(format!("service_{name}"), text(vec![described], None));
    }
}

#[test]
fn a_service_says_who_serves_it() {
    let served_by = |annotations: serde_json::Value| {
        let mut scene = market();
        let metadata = serde_json::json!({"name": "n1", "annotations": annotations});
        scene.add(serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}));
        let text = text(vec![service::describe(&scene.snapshot(), "old", "default").unwrap()], None);
        text.lines().find_map(|line| Some(line.trim().strip_prefix("Served by:")?.trim().to_owned())).unwrap()
    };
    assert!(served_by(serde_json::json!({"portolan.dev/primary": "true"})).starts_with("Portolan, if"));
    assert!(served_by(serde_json::json!({"portolan.dev/primary": "false"})).starts_with("another proxy"));
}

#[test]
fn a_service_of_many_nodes_and_endpoints_stays_readable() {
    let mut scene = market();
    let node = |number: usize| serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number:03}")}});
    (0..500).for_each(|number| scene.add(node(number)));
    let text = text(vec![service::describe(&scene.snapshot(), "local", "default").unwrap()], None);
    assert!(text.contains("and 497 more"), "{text}");
    assert!(text.lines().count() < 40, "{text}");
}

#[test]
fn a_missing_service_is_named_with_a_suggestion() {
    let snapshot = market().snapshot();
    let said = |name: &str, namespace: &str| {
        service::describe(&snapshot, name, namespace).err().unwrap().to_string()
    };
    assert_eq!(said("wbe", "default"), "service \"default/wbe\" does not exist; did you mean web?");
    assert_eq!(
        said("backoffice/web", "default"),
        "service \"backoffice/web\" does not exist; did you mean default/web?"
    );
    assert_eq!(
        said("api", "default"),
        "service \"default/api\" does not exist; did you mean backoffice/api?"
    );
    assert_eq!(
        said("ap", "back"),
        "service \"back/ap\" does not exist; namespace \"back\" has no Services; did you mean backoffice?"
    );
    for wrong in ["", "/", "web/", "/web", "a/b/c"] {
        let message = said(wrong, "default");
        assert_eq!(message, format!("{wrong:?} is no Service; write NAME or NAMESPACE/NAME"));
    }
}

#[test]
fn missing_things_are_named_with_a_suggestion() {
    let snapshot = harbour().snapshot();
    let said = |result: anyhow::Result<Vec<Description>>| result.err().unwrap().to_string();
    assert_eq!(said(vpc::describe(&snapshot, "bleu")), "VPC \"bleu\" does not exist; did you mean blue?");
    assert_eq!(
        said(lock::describe(&snapshot, "10.0.0.99", 0)),
        "lock \"10.0.0.99\" does not exist: the address is not taken; did you mean 10.0.0.5 or 10.0.0.6 or 10.0.0.7?"
    );
    let attachment = |name: &str| said(attachment::describe(&snapshot, name, "default"));
    assert_eq!(attachment("a/net9"), "pod \"a\" has no interface \"net9\" of Portolan's; did you mean net1?");
    assert_eq!(
        attachment("a/b/c/d"),
        "\"a/b/c/d\" is no interface; write POD, POD/INTERFACE or NAMESPACE/POD/INTERFACE"
    );
    let pod = |name: &str| pod::describe(&snapshot, name, "default").err().unwrap().to_string();
    assert_eq!(pod("wait"), "pod default/wait does not exist; did you mean waits?");
    assert_eq!(pod("shop/a"), "pod shop/a does not exist; did you mean default/a?");
}
