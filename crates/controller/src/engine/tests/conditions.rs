//! Which conditions are written.

use portolan_api::condition::{READY, SUPPORTED};
use portolan_model::FirstInterface;

use super::*;

/// The conditions to be written now, as `object Type=Status reason`.
fn written(engine: &mut Engine) -> Vec<String> {
    let updates = engine.actions().into_iter().filter_map(|action| match action {
        Action::SetConditions(update) => Some(update),
        _ => None,
    });
    let lines = updates.flat_map(|update| {
        let name = update.name.clone();
        update.conditions.into_iter().map(move |condition| match condition.says {
            Some(says) => format!("{name} {}={} {}", condition.type_, says.status, says.reason),
            None => format!("{name} {} removed", condition.type_),
        })
    });
    lines.collect()
}

fn kubeovn_subnet(nat: bool) -> kubeovn::Subnet {
    let spec = serde_json::json!({
        "cidrBlock": "10.7.0.0/16", "vpc": "blue", "provider": "web.default.ovn", "natOutgoing": nat,
    });
    let mut subnet = kubeovn::Subnet::new("nat", serde_json::from_value(spec).unwrap());
    subnet.metadata.uid = Some("uid-nat".into());
    subnet.metadata.generation = Some(1);
    subnet
}

fn with_condition(mut subnet: kubeovn::Subnet, type_: &str, status: bool) -> kubeovn::Subnet {
    let update = portolan_api::condition::ConditionUpdate {
        type_,
        status: status.into(),
        reason: "Earlier",
        message: "",
        generation: subnet.metadata.generation,
    };
    let now = serde_json::from_value("2026-01-01T00:00:00Z".into()).unwrap();
    let conditions = &mut subnet.status.get_or_insert_default().conditions;
    kubeovn::set_condition(conditions.get_or_insert_default(), update, &now);
    subnet
}

#[test]
fn a_field_without_effect_is_named_by_a_condition_and_an_event() {
    let mut scene = Scene::new();
    scene.engine.feed(&Change::Applied(kubeovn_subnet(true)));
    let actions = scene.engine.actions();
    let update = actions.iter().find_map(|action| match action {
        Action::SetConditions(update) => Some(update),
        _ => None,
    });
    let condition = &update.unwrap().conditions[0];
    let says = condition.says.as_ref().unwrap();
    assert_eq!((condition.type_, says.status), (SUPPORTED, false.into()));
    assert!(says.message.starts_with("spec.natOutgoing: has no effect here"), "{says:?}");
    let reported =
        actions.iter().any(|action| matches!(action, Action::Report { reason: "UnsupportedFields", .. }));
    assert!(reported, "{actions:?}");
}

#[test]
fn nat_outgoing_is_supported_in_the_vpc_of_the_primary_network_alone() {
    let reports = |first_interface, vpc| {
        let mut scene = Scene::unlisted_with(MemDb::new(NB_SCHEMA).unwrap(), Settings { first_interface });
        scene.list_all(vec![mk_vpc("blue")], Vec::new(), Vec::new());
        let mut subnet = kubeovn_subnet(true);
        (subnet.spec.vpc, subnet.spec.provider) = (vpc, None);
        scene.engine.feed(&Change::Applied(subnet));
        written(&mut scene.engine).iter().any(|condition| condition.contains("Supported=False"))
    };
    for vpc in [None, Some("ovn-cluster".to_owned())] {
        assert!(!reports(FirstInterface::Portolan, vpc.clone()));
        assert!(reports(FirstInterface::Other, vpc));
    }
    assert!(reports(FirstInterface::Portolan, Some("blue".to_owned())));
}

#[test]
fn an_object_whose_fields_all_act_gets_no_condition_about_it() {
    let mut scene = Scene::new();
    scene.engine.feed(&Change::Applied(kubeovn_subnet(false)));
    assert_eq!(written(&mut scene.engine), [""; 0]);
    // One that once said otherwise does.
    scene.engine.feed(&Change::Applied(with_condition(kubeovn_subnet(false), SUPPORTED, false)));
    assert_eq!(written(&mut scene.engine), ["nat Supported=True AllFieldsSupported"]);
}

#[test]
fn a_subnet_without_its_vpc_is_not_ready_until_it_comes() {
    let mut scene = Scene::new();
    let mut subnet = kubeovn_subnet(false);
    subnet.spec.vpc = Some("green".into());
    scene.engine.feed(&Change::Applied(with_condition(
        subnet.clone(),
        portolan_api::condition::VALIDATED,
        true,
    )));
    assert_eq!(written(&mut scene.engine), ["nat Ready=False VpcNotFound"]);
    let not_ready =
        with_condition(with_condition(subnet, portolan_api::condition::VALIDATED, true), READY, false);
    scene.engine.feed(&Change::Applied(not_ready));
    written(&mut scene.engine);
    scene.engine.feed(&Change::Applied(mk_vpc("green")));
    assert_eq!(written(&mut scene.engine), [""; 0], "whether OVN has it is not known");
    scene.engine.northbound_role(NorthboundRole::Writer);
    written(&mut scene.engine);
    scene.engine.compare_deferred_status();
    assert_eq!(written(&mut scene.engine), [""; 0], "it may have begun just now");
    scene.engine.compare_deferred_status();
    assert!(written(&mut scene.engine).contains(&"nat Ready=False Pending".to_owned()));
}
