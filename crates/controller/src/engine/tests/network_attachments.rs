//! What NetworkAttachments say about their addresses.

use portolan_api::condition::{ConditionUpdate, set_condition};
use portolan_model::fixtures::mk_network_attachment;

use super::*;

impl Scene {
    fn asked(&mut self, name: &str, address: Option<&str>) {
        let mut object = mk_network_attachment("default", name, "web");
        object.spec.address = address.map(str::to_owned);
        object.metadata.generation = Some(1);
        self.network_attachments.insert(name.to_owned(), object.clone());
        self.engine.feed(&Change::Applied(object));
    }

    /// Does everything, and answers the statuses that were written.
    fn attachment_statuses(&mut self) -> Vec<StatusUpdate> {
        self.written(Kind::NetworkAttachment)
    }
}

#[test]
fn a_network_attachment_says_which_addresses_it_has_in_one_write() {
    let mut scene = Scene::new();
    scene.settle();
    scene.asked("uplink", Some("10.0.0.9"));
    let [status] = scene.attachment_statuses().try_into().unwrap();
    assert_eq!((status.name.as_str(), status.uid.as_str()), ("default/uplink", "attachment-default-uplink"));
    assert_eq!(status.conditions.len(), 1);
    assert_eq!(status.conditions[0].to_string(), "Addressed=True");
    let expected = serde_json::json!({ "address": "10.0.0.9", "mac": "0a:58:0a:00:00:09" });
    assert_eq!(serde_json::Value::Object(status.fields.into_json()), expected);
    scene.engine.compare_deferred_status();
    assert_eq!(scene.attachment_statuses(), []);
}

#[test]
fn what_the_agent_writes_is_neither_answered_nor_touched() {
    let mut scene = Scene::new();
    scene.settle();
    scene.asked("uplink", None);
    scene.attachment_statuses();
    let object = scene.network_attachments.get_mut("uplink").unwrap();
    let status = object.status.as_mut().unwrap();
    status.interface = Some("pn0123456789ab".into());
    let now = serde_json::from_value("2026-01-01T00:00:00Z".into()).unwrap();
    let ready = ConditionUpdate {
        type_: "Ready",
        status: true.into(),
        reason: "InEffect",
        message: "",
        generation: Some(1),
    };
    assert!(set_condition(&mut status.conditions, ready, &now));
    let object = object.clone();
    scene.engine.feed(&Change::Applied(object.clone()));
    scene.engine.compare_deferred_status();
    assert_eq!(scene.attachment_statuses(), []);
    // Somebody changes what is the controller's: that alone is written again.
    let mut changed = object;
    changed.status.as_mut().unwrap().address = Some("10.0.0.77".into());
    scene.network_attachments.insert("uplink".into(), changed.clone());
    scene.engine.feed(&Change::Applied(changed));
    scene.engine.compare_deferred_status();
    let [status] = scene.attachment_statuses().try_into().unwrap();
    assert_eq!(status.conditions, []);
    let stored = scene.network_attachments["uplink"].status.clone().unwrap();
    assert_eq!((stored.interface.as_deref(), stored.conditions.len()), (Some("pn0123456789ab"), 2));
    assert_ne!(stored.address.as_deref(), Some("10.0.0.77"));
}

#[test]
fn one_without_an_address_says_why_and_has_none_in_its_status() {
    let mut scene = Scene::new();
    scene.settle();
    scene.asked("first", Some("10.0.0.9"));
    scene.attachment_statuses();
    scene.asked("second", Some("10.0.0.9"));
    let [status] = scene.attachment_statuses().try_into().unwrap();
    let says = status.conditions[0].says.clone().unwrap();
    assert_eq!((says.status, says.reason), (false.into(), "AddressTaken"));
    assert!(says.message.contains("is taken by NetworkAttachment default/first"), "{}", says.message);
    assert!(scene.network_attachments["second"].status.as_ref().unwrap().address.is_none());
    // It is told by an Event as well, once.
    scene.settle();
    assert_eq!(scene.reasons().iter().filter(|reason| **reason == "AddressTaken").count(), 1);
    // The first goes, and the second has it.
    let first = scene.network_attachments.remove("first").unwrap();
    scene.engine.feed(&Change::deleted(&first));
    scene.settle();
    let statuses = scene.conditions.iter().filter(|update| update.name == "default/second");
    let says = statuses.last().unwrap().conditions[0].says.clone().unwrap();
    assert_eq!((says.status, says.reason), (true.into(), "Addressed"));
}

#[test]
fn mistakes_in_one_are_said_on_it() {
    let mut scene = Scene::new();
    scene.settle();
    scene.asked("uplink", Some("10.0.0.300"));
    let [status] = scene.attachment_statuses().try_into().unwrap();
    let says = status.conditions[0].says.clone().unwrap();
    assert_eq!((says.status, says.reason), (false.into(), "InvalidRequest"));
    assert!(says.message.contains("spec.address: \"10.0.0.300\" is not an IP address"), "{}", says.message);
}
