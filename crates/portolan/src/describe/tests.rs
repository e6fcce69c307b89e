use super::*;
use crate::scene::{Scene, harbour};

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
