//! Units that do not come about are reported on the objects that asked for them.

use super::*;

impl Scene {
    /// Has what is planned refused, unit by unit, without a word to the database.
    fn refuse(&mut self, error: &str) {
        for batch in self.engine.plan(&self.cache, 1) {
            self.engine.refused(&batch, error);
        }
    }

    fn reports(&mut self) -> Vec<(String, &'static str, String)> {
        let actions = self.engine.actions();
        let mut reports = Vec::new();
        for action in actions {
            match action {
                Action::Report { subject, reason, message, .. } => {
                    reports.push((format!("{} {}", subject.kind, subject.name), reason, message));
                }
                other => self.perform(other),
            }
        }
        reports
    }
}

#[test]
fn what_the_database_refuses_is_reported_in_its_own_words_once_and_so_is_the_end() {
    let mut scene = Scene::new();
    scene.pod("app", "web,db");
    scene.settle();
    // Its ports are written again, for another chassis.
    scene.nodes[0].metadata.annotations = Some([(CHASSIS_ANNOTATION.to_owned(), "other".to_owned())].into());
    scene.engine.feed(&Change::Applied(scene.nodes[0].clone()));
    scene.refuse("constraint violation: a reason of OVN");
    let reports = scene.reports();
    assert_eq!(reports.len(), 2, "one for each interface: {reports:?}");
    for (subject, reason, message) in &reports {
        assert_eq!((subject.as_str(), *reason), ("Pod app", "NorthboundRefused"));
        assert!(message.contains("constraint violation: a reason of OVN"), "{message}");
    }
    assert!(reports[0].2.contains("attachment/pod/default/app/net1/uid-app"), "{reports:?}");
    assert_eq!(scene.engine.queues().units_refused, 2);
    // The same once more is no news.
    for retry in scene.engine.take_retries() {
        scene.engine.retry(retry);
    }
    scene.refuse("constraint violation: a reason of OVN");
    assert_eq!(scene.reports(), []);
    // At last it is taken.
    for retry in scene.engine.take_retries() {
        scene.engine.retry(retry);
    }
    let batches = scene.engine.plan(&scene.cache, 1);
    assert_eq!(batches.len(), 2);
    for batch in batches {
        scene.nb.transact(&batch.transaction()).unwrap();
        scene.nb.refresh(&mut scene.cache);
        scene.engine.committed(&batch);
    }
    let reports = scene.reports();
    assert_eq!(reports.iter().map(|report| report.1).collect::<Vec<_>>(), ["Resolved"], "{reports:?}");
    assert_eq!(scene.engine.queues().units_refused, 0);
}

#[test]
fn what_is_blocked_is_not_called_resolved_because_the_connection_was_lost() {
    let mut scene = Scene::new();
    scene.engine.northbound_role(NorthboundRole::Writer);
    scene.pod("app", "web");
    scene.settle();
    scene.nodes[0].metadata.annotations = Some([(CHASSIS_ANNOTATION.to_owned(), "other".to_owned())].into());
    scene.engine.feed(&Change::Applied(scene.nodes[0].clone()));
    scene.refuse("constraint violation: a reason of OVN");
    assert_eq!(scene.reports().len(), 1);
    // It is tried again, and nobody knows what came of it, because the connection is lost.
    scene.engine.take_retries().into_iter().for_each(|retry| scene.engine.retry(retry));
    for batch in scene.engine.plan(&scene.cache, 1) {
        scene.engine.outdated(&batch);
    }
    for role in [NorthboundRole::Unreachable { why: "gone".into() }, NorthboundRole::Writer] {
        scene.engine.northbound_role(role);
        assert_eq!(scene.reports(), []);
    }
    scene.engine.compare_all(&scene.cache);
    assert_eq!(scene.reports(), []);
    scene.refuse("constraint violation: a reason of OVN");
    assert_eq!(scene.reports(), []);
    assert_eq!(scene.engine.queues().units_refused, 1);
}

#[test]
fn what_is_refused_is_not_called_resolved_while_its_lock_cannot_be_read() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    scene.settle();
    scene.nodes[0].metadata.annotations = Some([(CHASSIS_ANNOTATION.to_owned(), "other".to_owned())].into());
    scene.engine.feed(&Change::Applied(scene.nodes[0].clone()));
    scene.refuse("constraint violation: a reason of OVN");
    assert_eq!(scene.reports()[0].1, "NorthboundRefused");
    let lock = scene.guest_locks().next().unwrap().clone();
    scene.engine.feed(&Change::Unreadable(Box::new(unreadable::broken(&lock, "spec.node"))));
    scene.engine.take_retries().into_iter().for_each(|retry| scene.engine.retry(retry));
    for _ in 0..2 {
        assert_eq!(scene.engine.plan(&scene.cache, 1).len(), 0, "its rows stay as they are");
    }
    let reasons: Vec<_> = scene.reports().into_iter().map(|report| report.1).collect();
    assert!(!reasons.contains(&"Resolved"), "{reasons:?}");
    assert_eq!(scene.engine.queues().units_refused, 1);
    // It can be read again, and its rows are taken.
    scene.engine.feed(&Change::Applied(lock));
    for batch in scene.engine.plan(&scene.cache, 1) {
        scene.nb.transact(&batch.transaction()).unwrap();
        scene.nb.refresh(&mut scene.cache);
        scene.engine.committed(&batch);
    }
    assert!(scene.reports().iter().any(|report| report.1 == "Resolved"));
    assert_eq!(scene.engine.queues().units_refused, 0);
}

#[test]
fn a_unit_that_waits_for_long_is_reported_with_what_it_waits_for() {
    let mut scene = Scene::new();
    scene.pod("app", "web");
    for action in scene.engine.actions() {
        scene.perform(action);
    }
    // The port comes to nothing without its switch: somebody else's port has its name.
    scene.settle();
    let port = scene.cache.table("Logical_Switch_Port").unwrap().iter().find_map(|row| {
        let name = format!("{:?}", row.datum("name"));
        name.contains("app").then(|| row.uuid())
    });
    assert!(port.is_some());
    scene.delete_pod("app");
    scene.settle();
    scene.take_name_of_next_port("app");
    scene.pod("app", "web");
    for _ in 0..3 {
        let actions = scene.engine.actions();
        actions.into_iter().for_each(|action| scene.perform(action));
        for batch in scene.engine.plan(&scene.cache, 1000) {
            scene.nb.transact(&batch.transaction()).unwrap();
            scene.nb.refresh(&mut scene.cache);
            scene.engine.committed(&batch);
        }
    }
    assert_eq!(scene.engine.queues().units_waiting, 1);
    assert_eq!(scene.reports(), []);
    scene.engine.report_waiting();
    assert_eq!(scene.reports(), [], "it may have begun just now");
    scene.engine.report_waiting();
    let reports = scene.reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!((reports[0].0.as_str(), reports[0].1), ("Pod app", "NorthboundWaiting"));
    assert!(reports[0].2.contains("another row of table Logical_Switch_Port has"), "{reports:?}");
    scene.engine.report_waiting();
    assert_eq!(scene.reports(), [], "once is enough");
}

impl Scene {
    /// Somebody else makes a port by the name that this pod's port has.
    fn take_name_of_next_port(&mut self, pod: &str) {
        use ovn_schema::nb::{LogicalSwitch, LogicalSwitchPort};
        let (switch, port) = (ovsdb::Uuid::from_u128(1), ovsdb::Uuid::from_u128(2));
        let mut transaction = ovsdb::Transaction::new();
        let name = format!("port:default/{pod}/net1/uid-{pod}");
        transaction.insert(port, &LogicalSwitchPort { name, ..LogicalSwitchPort::default() });
        let ports = [port].into();
        transaction
            .insert(switch, &LogicalSwitch { name: "theirs".into(), ports, ..LogicalSwitch::default() });
        self.nb.transact(&transaction).unwrap();
        self.nb.refresh(&mut self.cache);
        self.engine.compare_all(&self.cache);
    }
}
