//! What objects say about themselves: `Ready`, `Peered`, and how many addresses are taken.

use ovn_schema::nb::{LogicalRouter, LogicalSwitch};
use ovn_schema::sb::{DatapathBinding, PortBinding};
use ovsdb::{Transaction, TypedRow as _, Uuid};
use portolan_api::condition::{PEERED, READY};
use portolan_api::portolan::VpcPeering;
use serde_json::{Value, json};

use super::*;

const SB_SCHEMA: &str = include_str!("../../../../ovn-schema/schemas/ovn-sb.ovsschema");

/// An API server that stores statuses, both databases, and an ovn-northd that works when it is told to.
struct Stage {
    scene: Scene,
    southbound: ovsdb::Cache,
    foreign_vpcs: Vec<kubeovn::Vpc>,
    foreign_subnets: Vec<kubeovn::Subnet>,
    /// What was written to statuses, as `name Type=Status Reason` and `name field,field`.
    writes: Vec<String>,
    /// How often anything was.
    updates: usize,
    /// The unit that the database refuses.
    refused: Option<&'static str>,
    /// Whether this controller writes the northbound database.
    plans: bool,
}

impl Stage {
    fn of(scene: Scene) -> Self {
        let southbound = MemDb::new(SB_SCHEMA).unwrap();
        let tables = [DatapathBinding::TABLE, PortBinding::TABLE].map(|table| (table, Vec::new()));
        let mut stage = Stage {
            scene,
            southbound: southbound.cache(tables),
            foreign_vpcs: Vec::new(),
            foreign_subnets: Vec::new(),
            writes: Vec::new(),
            updates: 0,
            refused: None,
            plans: true,
        };
        stage.scene.engine.northbound_role(NorthboundRole::Writer);
        stage
    }

    /// A VPC and two subnets, and nothing happened yet.
    fn new() -> Self {
        Self::of(Scene::new())
    }

    /// The same, in effect, and everyone knows.
    fn settled() -> Self {
        let mut stage = Self::new();
        stage.follow();
        stage.rest();
        stage.northd();
        stage.rest();
        stage.wait();
        stage.writes.clear();
        stage
    }

    /// A controller that starts where another one was killed.
    fn restarted(self) -> Self {
        let mut scene = Scene::unlisted(self.scene.nb);
        (scene.pods, scene.locks) = (self.scene.pods, self.scene.locks);
        scene.list_all(self.scene.vpcs, self.scene.subnets, self.scene.nads);
        Self::of(scene)
    }

    fn follow(&mut self) {
        self.scene.engine.southbound_status(SouthboundStatus::Followed);
    }

    /// Makes everything happen that happens at once.
    fn rest(&mut self) {
        for _ in 0..20 {
            let actions = self.scene.engine.actions();
            let cache = &self.scene.cache;
            let batches = if self.plans { self.scene.engine.plan(cache, 1) } else { Vec::new() };
            if actions.is_empty() && batches.is_empty() {
                let more = self.scene.engine.actions();
                if more.is_empty() {
                    return;
                }
                more.into_iter().for_each(|action| self.perform(action));
            }
            actions.into_iter().for_each(|action| self.perform(action));
            for batch in batches {
                if self.refused.is_some_and(|refused| batch.units().any(|unit| unit == refused)) {
                    self.scene.engine.refused(&batch, "constraint violation: no");
                } else {
                    self.scene.nb.transact(&batch.transaction()).unwrap();
                    self.scene.engine.committed(&batch);
                }
            }
            let changes = self.scene.nb.refresh(&mut self.scene.cache);
            self.scene.engine.rows_changed(&changes, &self.scene.cache);
            self.scene.engine.settled(&self.scene.cache);
        }
        panic!("it never comes to rest");
    }

    /// What was deferred is due.
    fn tick(&mut self) {
        self.scene.engine.compare_deferred_status();
        self.rest();
    }

    /// More than a while passes, whenever it began.
    fn wait(&mut self) {
        self.tick();
        self.tick();
    }

    /// What was deferred is due, while the database takes its time.
    fn tick_without_database(&mut self) {
        self.scene.engine.compare_deferred_status();
        self.without_database();
    }

    /// Makes happen what happens at once at the API server.
    fn without_database(&mut self) {
        for _ in 0..3 {
            self.scene.engine.actions().into_iter().for_each(|action| self.perform(action));
        }
    }

    fn perform(&mut self, action: Action) {
        let Action::SetConditions(update) = action else { return self.scene.perform(action) };
        self.updates += 1;
        for condition in &update.conditions {
            let says = condition.says.as_ref().map(|says| format!("={} {}", says.status, says.reason));
            self.writes.push(format!("{} {}{}", update.name, condition.type_, says.unwrap_or_default()));
        }
        let fields: Vec<String> = update.fields.clone().into_json().keys().cloned().collect();
        if !fields.is_empty() {
            self.writes.push(format!("{} {}", update.name, fields.join(",")));
        }
        let engine = &mut self.scene.engine;
        match update.kind {
            Kind::Vpc => store(engine, self.scene.vpcs.iter_mut(), &update),
            Kind::Subnet => store(engine, self.scene.subnets.iter_mut(), &update),
            Kind::KubeOvnVpc => store(engine, self.foreign_vpcs.iter_mut(), &update),
            Kind::KubeOvnSubnet => store(engine, self.foreign_subnets.iter_mut(), &update),
            other => panic!("{other:?} has no status"),
        }
    }

    /// ovn-northd makes of the northbound database what it should.
    fn northd(&mut self) {
        let changes = self.made_by_northd().refresh(&mut self.southbound);
        self.scene.engine.southbound_changed(&changes);
    }

    fn made_by_northd(&self) -> MemDb {
        let mut database = MemDb::new(SB_SCHEMA).unwrap();
        let mut transaction = Transaction::new();
        let (mut key, mut datapath) = (0, None);
        let names = |row: &ovsdb::Row| row.get::<String>("name").unwrap();
        let other = |uuid: Uuid| Uuid::from_u128(uuid.as_u128() ^ 1);
        for (table, id) in
            [(LogicalRouter::TABLE, "logical-router"), (LogicalSwitch::TABLE, "logical-switch")]
        {
            for row in self.scene.cache.table(table).unwrap().iter() {
                let ids = [(id, row.uuid().to_string()), ("name", names(row))];
                let external_ids = ids.map(|(key, value)| (key.to_owned(), value)).into();
                key += 1;
                let binding = DatapathBinding { external_ids, tunnel_key: key, ..Default::default() };
                transaction.insert(other(row.uuid()), &binding);
                datapath = Some(other(row.uuid()));
            }
        }
        let router_ports = self.scene.cache.table("Logical_Router_Port").unwrap().iter();
        let switch_ports = self.scene.cache.table("Logical_Switch_Port").unwrap().iter();
        let switch_ports = switch_ports.filter(|row| row.get::<String>("type").unwrap() == "router");
        for row in router_ports.chain(switch_ports) {
            key += 1;
            let binding = PortBinding {
                logical_port: names(row),
                r#type: "patch".into(),
                datapath: datapath.unwrap(),
                tunnel_key: key,
                ..Default::default()
            };
            transaction.insert(other(row.uuid()), &binding);
        }
        database.transact(&transaction).unwrap();
        database
    }

    fn take_writes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.writes)
    }

    /// What a condition of a subnet or VPC says, as `Status Reason: message`.
    fn says(&self, name: &str, type_: &str) -> String {
        let vpcs = self.scene.vpcs.iter().filter(|vpc| vpc.name_any() == name);
        let subnets = self.scene.subnets.iter().filter(|subnet| subnet.name_any() == name);
        let statuses = vpcs.map(|vpc| json!(vpc.status)).chain(subnets.map(|subnet| json!(subnet.status)));
        let conditions: Vec<Value> = statuses
            .flat_map(|status| status["conditions"].as_array().cloned().unwrap_or_default())
            .collect();
        let found = conditions.iter().find(|condition| condition["type"] == type_);
        found.map_or_else(String::new, |found| {
            let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
            format!("{} {}: {}", text("status"), text("reason"), text("message"))
        })
    }

    /// A change of a subnet that someone wrote.
    fn edit_subnet(&mut self, name: &str, edit: impl FnOnce(&mut Subnet)) {
        let subnet = self.scene.subnets.iter_mut().find(|subnet| subnet.name_any() == name).unwrap();
        edit(subnet);
        subnet.metadata.generation = subnet.metadata.generation.map(|generation| generation + 1);
        let subnet = mk_validated(subnet.clone(), subnet.metadata.generation);
        self.scene.subnets.retain(|old| old.name_any() != name);
        self.scene.subnets.push(subnet.clone());
        self.scene.engine.feed(&Change::Applied(subnet));
    }

    fn apply_vpc(&mut self, vpc: Vpc) {
        self.scene.vpcs.retain(|old| old.name_any() != vpc.name_any());
        self.scene.vpcs.push(vpc.clone());
        self.scene.engine.feed(&Change::Applied(vpc));
    }

    fn field(&self, subnet: &str, field: &str) -> Value {
        let subnet = self.scene.subnets.iter().find(|one| one.name_any() == subnet).unwrap();
        json!(subnet.status)[field].clone()
    }
}

const USAGE: &str = "v4availableIPrange,v4availableIPs,v4usingIPrange,v4usingIPs,v6availableIPrange,v6availableIPs,v6usingIPrange,v6usingIPs";

#[test]
fn ready_is_true_once_northd_has_made_the_rows_and_costs_one_write() {
    let mut stage = Stage::new();
    stage.follow();
    stage.rest();
    assert_eq!(stage.take_writes(), [""; 0], "what usually passes by itself is not said at once");
    stage.wait();
    assert_eq!(stage.says("blue", READY).split(':').next(), Some("False WaitingForNorthd"));
    assert!(stage.says("web", READY).contains("has not made its datapath"), "{}", stage.says("web", READY));
    stage.take_writes();
    stage.northd();
    stage.rest();
    let mut writes = stage.take_writes();
    writes.sort();
    assert_eq!(writes, ["blue Ready=True InEffect", "db Ready=True InEffect", "web Ready=True InEffect"]);
    stage.wait();
    assert_eq!(stage.take_writes(), [""; 0]);

    // The usual case: ovn-northd is fast.
    let mut stage = Stage::new();
    stage.follow();
    stage.rest();
    stage.northd();
    stage.rest();
    let mut writes = stage.take_writes();
    writes.sort();
    let expected = [
        "blue Ready=True InEffect",
        "blue subnets,vpcPeerings",
        "db Ready=True InEffect",
        &format!("db {USAGE}"),
        "web Ready=True InEffect",
        &format!("web {USAGE}"),
    ];
    assert_eq!(writes, expected, "one write for each, with all that is to be said");
    stage.wait();
    assert_eq!(stage.take_writes(), [""; 0]);
    assert_eq!(stage.scene.reasons(), [""; 0], "nobody has to do anything");
}

#[test]
fn what_is_not_committed_is_not_ready_and_says_so_if_it_lasts() {
    let mut stage = Stage::new();
    stage.follow();
    stage.scene.engine.actions().into_iter().for_each(|action| stage.scene.perform(action));
    // The transactions are on their way, and no answer comes.
    assert!(!stage.scene.engine.plan(&stage.scene.cache, 1000).is_empty());
    stage.tick_without_database();
    assert_eq!(stage.says("web", READY), "", "it may have begun just now");
    stage.tick_without_database();
    assert!(stage.says("web", READY).starts_with("False Pending"), "{}", stage.says("web", READY));
}

#[test]
fn a_busy_subnet_does_not_say_what_passes_by_itself_and_says_what_lasts() {
    let mut stage = Stage::settled();
    // Pods come and go, so that something is always due.
    stage.scene.pod("a", "web");
    stage.rest();
    assert!(stage.scene.engine.has_deferred_status());
    // An edit, whose rows are on their way when it is.
    stage.edit_subnet("web", |subnet| subnet.spec.mtu = Some(1300));
    stage.without_database();
    let batches = stage.scene.engine.plan(&stage.scene.cache, 1000);
    assert!(!batches.is_empty());
    stage.tick_without_database();
    assert_eq!(stage.take_writes(), [format!("web {USAGE}")], "the rows are on their way since just now");
    for batch in batches {
        stage.scene.nb.transact(&batch.transaction()).unwrap();
        stage.scene.engine.committed(&batch);
    }
    stage.rest();
    assert_eq!(stage.take_writes(), ["web Ready=True InEffect"]);
    // The next is on its way for long. That the object changes meanwhile does not make it begin anew.
    stage.edit_subnet("web", |subnet| subnet.spec.mtu = Some(1200));
    stage.without_database();
    assert!(!stage.scene.engine.plan(&stage.scene.cache, 1000).is_empty());
    stage.scene.pod("b", "web");
    stage.without_database();
    stage.tick_without_database();
    assert_eq!(stage.take_writes(), [format!("web {USAGE}")]);
    stage.scene.pod("c", "web");
    stage.without_database();
    stage.tick_without_database();
    assert_eq!(stage.take_writes(), ["web Ready=False Pending".to_owned(), format!("web {USAGE}")]);
    // It is said once.
    stage.tick_without_database();
    stage.tick_without_database();
    assert_eq!(stage.take_writes(), [""; 0]);
}

#[test]
fn a_change_of_a_ready_subnet_is_ready_once_it_is_committed() {
    let mut stage = Stage::settled();
    stage.edit_subnet("web", |subnet| subnet.spec.mtu = Some(1300));
    stage.rest();
    assert_eq!(stage.take_writes(), ["web Ready=True InEffect"], "for the new generation");
    // A change between transaction and answer is not covered by that answer.
    stage.edit_subnet("web", |subnet| subnet.spec.mtu = Some(1200));
    stage.scene.engine.actions();
    let batches = stage.scene.engine.plan(&stage.scene.cache, 1000);
    stage.edit_subnet("web", |subnet| subnet.spec.mtu = Some(1100));
    for batch in batches {
        stage.scene.nb.transact(&batch.transaction()).unwrap();
        stage.scene.engine.committed(&batch);
    }
    assert!(
        !stage.scene.engine.actions().iter().any(|action| matches!(action, Action::SetConditions(_))),
        "what is committed is not what it should be"
    );
}

#[test]
fn a_controller_that_starts_finds_everything_said_and_writes_nothing() {
    let mut stage = Stage::settled().restarted();
    stage.scene.engine.northbound_role(NorthboundRole::Reader);
    stage.plans = false;
    stage.rest();
    stage.wait();
    stage.scene.engine.northbound_role(NorthboundRole::Unreachable { why: "refused".into() });
    stage.rest();
    stage.wait();
    assert_eq!(stage.take_writes(), [""; 0], "what another one said about this generation stays");
    stage.scene.engine.northbound_role(NorthboundRole::Writer);
    stage.rest();
    stage.wait();
    assert_eq!(stage.take_writes(), [""; 0], "the rows were not compared yet");
    stage.plans = true;
    stage.rest();
    stage.wait();
    assert_eq!(stage.take_writes(), [""; 0], "the southbound database is still being read");
    stage.northd();
    stage.follow();
    stage.rest();
    stage.wait();
    assert_eq!(stage.take_writes(), [""; 0]);
}

#[test]
fn of_two_controllers_only_the_writer_speaks_about_rows() {
    let mut stage = Stage::new();
    stage.scene.engine.northbound_role(NorthboundRole::Reader);
    stage.plans = false;
    stage.follow();
    stage.rest();
    stage.wait();
    assert!(stage.take_writes().iter().all(|write| !write.contains(READY)), "another one knows better");
    // It loses the lock later: nothing is taken back.
    let mut stage = Stage::settled();
    stage.scene.engine.northbound_role(NorthboundRole::Reader);
    stage.plans = false;
    stage.scene.engine.southbound_status(SouthboundStatus::Lost { why: "gone".into() });
    stage.rest();
    stage.wait();
    assert_eq!(stage.take_writes(), [""; 0]);
}

#[test]
fn without_the_northbound_database_new_objects_say_that_it_cannot_be_reached() {
    let mut stage = Stage::settled();
    stage.plans = false;
    stage.scene.engine.northbound_role(NorthboundRole::Unreachable {
        why: "cannot be reached at unix:/run/ovn/ovnnb_db.sock: connection refused".into(),
    });
    stage.apply_vpc(mk_vpc("green"));
    stage.rest();
    stage.wait();
    assert_eq!(
        stage.says("green", READY),
        "Unknown NorthboundUnreachable: OVN's northbound database cannot be reached at unix:/run/ovn/ovnnb_db.sock: connection refused; nothing is lost, changes wait"
    );
    assert!(stage.says("blue", READY).starts_with("True"));
}

#[test]
fn without_the_southbound_database_nothing_is_claimed() {
    let mut stage = Stage::settled();
    let lost =
        SouthboundStatus::Lost { why: "cannot be reached at ssl:10.0.0.1:6642: connection refused".into() };
    stage.scene.engine.southbound_status(lost.clone());
    stage.rest();
    let expected = "Unknown SouthboundUnreachable: its rows are committed; what ovn-northd made of them is not known: \
                    OVN's southbound database cannot be reached at ssl:10.0.0.1:6642: connection refused";
    assert_eq!(stage.says("web", READY), expected);
    assert_eq!(stage.take_writes().len(), 3);
    stage.follow();
    stage.rest();
    assert!(stage.says("web", READY).starts_with("True"));
    // It comes back with less than it had.
    stage.scene.engine.southbound_status(lost);
    stage.rest();
    let emptied = MemDb::new(SB_SCHEMA).unwrap().refresh(&mut stage.southbound);
    stage.scene.engine.southbound_changed(&emptied);
    stage.follow();
    stage.rest();
    stage.wait();
    assert!(stage.says("web", READY).starts_with("False WaitingForNorthd"), "never a stale True");
    assert_eq!(stage.scene.reasons(), [""; 0]);
}

#[test]
fn what_the_database_refuses_is_reported_with_its_error_until_it_is_mended() {
    let mut stage = Stage::settled();
    stage.refused = Some("subnet/web");
    stage.edit_subnet("web", |subnet| subnet.spec.mtu = Some(1300));
    stage.rest();
    let said = stage.says("web", READY);
    assert!(
        said.starts_with(
            "False Refused: OVN's northbound database refuses the rows of subnet/web: constraint violation: no"
        ),
        "{said}"
    );
    assert_eq!(stage.scene.reasons(), ["Refused"]);
    assert!(stage.says("db", READY).starts_with("True"), "others go on");
    stage.take_writes();
    // It is tried again in vain: nothing new is to be said.
    for _ in 0..3 {
        for retry in stage.scene.engine.take_retries() {
            stage.scene.engine.retry(retry);
        }
        stage.rest();
        stage.wait();
    }
    assert_eq!(stage.take_writes(), [""; 0]);
    stage.refused = None;
    stage.edit_subnet("web", |subnet| subnet.spec.mtu = None);
    stage.rest();
    assert!(stage.says("web", READY).starts_with("True"), "{}", stage.says("web", READY));
    assert_eq!(stage.scene.reasons(), ["Refused", "Resolved"]);
}

#[test]
fn what_the_database_refuses_is_resolved_once_it_is_taken_and_not_because_the_connection_was_lost() {
    let mut stage = Stage::settled();
    stage.refused = Some("subnet/web");
    stage.edit_subnet("web", |subnet| subnet.spec.mtu = Some(1300));
    stage.rest();
    assert_eq!(stage.scene.reasons(), ["Refused"]);
    // The connection is lost, and comes back. Then everything is compared, in vain again.
    stage.plans = false;
    let lost = NorthboundRole::Unreachable { why: "cannot be reached".into() };
    for role in [lost, NorthboundRole::Reader, NorthboundRole::Writer] {
        stage.scene.engine.northbound_role(role);
        stage.rest();
        stage.wait();
    }
    assert_eq!(stage.scene.reasons(), ["Refused"], "{:?}", stage.scene.reported);
    stage.scene.engine.compare_all(&stage.scene.cache);
    stage.plans = true;
    stage.rest();
    stage.wait();
    assert_eq!(stage.scene.reasons(), ["Refused"], "{:?}", stage.scene.reported);
    // Nor because it was edited: that may mend it, or not.
    stage.edit_subnet("web", |subnet| subnet.spec.mtu = Some(1200));
    stage.rest();
    stage.wait();
    assert_eq!(stage.scene.reasons(), ["Refused"], "{:?}", stage.scene.reported);
    stage.refused = None;
    for retry in stage.scene.engine.take_retries() {
        stage.scene.engine.retry(retry);
    }
    stage.rest();
    assert_eq!(stage.scene.reasons(), ["Refused", "Resolved"], "{:?}", stage.scene.reported);
}

#[test]
fn a_subnet_of_which_only_a_part_is_taken_is_not_ready() {
    let mut stage = Stage::settled();
    stage.edit_subnet("web", |subnet| subnet.spec.enable_dhcp = true);
    stage.rest();
    // Its DHCP options go after the rest of it has changed: there are two transactions.
    stage.edit_subnet("web", |subnet| {
        subnet.spec.enable_dhcp = false;
        subnet.spec.mtu = Some(1300);
    });
    stage.without_database();
    let batches = stage.scene.engine.plan(&stage.scene.cache, 1);
    let [first, second] = batches.try_into().unwrap();
    assert!([&first, &second].into_iter().all(|batch| batch.units().eq(["subnet/web"])));
    stage.take_writes();
    stage.scene.engine.refused(&first, "constraint violation: no");
    stage.scene.nb.transact(&second.transaction()).unwrap();
    stage.scene.engine.committed(&second);
    stage.without_database();
    assert_eq!(stage.take_writes(), ["web Ready=False Refused"]);
    assert_eq!(stage.scene.reasons(), ["Refused"]);
    // It is tried again, and taken.
    for retry in stage.scene.engine.take_retries() {
        stage.scene.engine.retry(retry);
    }
    stage.rest();
    assert_eq!(stage.take_writes(), ["web Ready=True InEffect"]);
    assert_eq!(stage.scene.reasons(), ["Refused", "Resolved"]);
}

#[test]
fn a_subnet_that_does_not_fit_says_why_and_is_ready_when_it_does() {
    let mut stage = Stage::settled();
    let mut rival = mk_subnet("rival", "10.0.0.0/25", "blue");
    rival.status = None;
    stage.scene.subnets.push(rival.clone());
    stage.scene.engine.feed(&Change::Applied(rival.clone()));
    stage.rest();
    assert_eq!(stage.says("rival", READY), "", "it is being judged");
    let judged =
        [((portolan_model::Group::Portolan, "rival".to_owned()), ("subnet-rival".to_owned(), Some(1)))];
    let lists =
        Lists { subnets: stage.scene.subnets.clone(), vpcs: stage.scene.vpcs.clone(), ..Lists::default() };
    stage.scene.engine.judge_and_write(&judged.into(), &lists);
    stage.rest();
    let said = stage.says("rival", READY);
    assert!(
        said.starts_with("False NotValidated: the subnet is not used: ") && said.contains("overlaps"),
        "{said}"
    );
    assert_eq!(stage.scene.reasons(), ["NotValidated"]);
    stage.edit_subnet("rival", |subnet| subnet.spec.cidr_block = "10.0.9.0/24".into());
    stage.rest();
    stage.northd();
    stage.rest();
    assert!(stage.says("rival", READY).starts_with("True"), "{}", stage.says("rival", READY));
    assert_eq!(stage.scene.reasons(), ["NotValidated", "Resolved"]);
}

#[test]
fn a_peering_that_the_other_vpc_does_not_name_says_what_it_must_name() {
    let peering = |remote: &str, address: &str| VpcPeering {
        remote_vpc: remote.into(),
        local_connect_ip: address.into(),
    };
    let mut stage = Stage::settled();
    let mut blue = stage.scene.vpcs[0].clone();
    blue.spec.vpc_peerings = vec![peering("green", "169.254.0.1/30")];
    stage.apply_vpc(blue);
    stage.rest();
    assert_eq!(
        stage.says("blue", PEERED),
        "False RemoteVpcNotFound: spec.vpcPeerings[0].remoteVpc: \"green\" does not exist yet; the peering is established \
         once VPC green is created"
    );
    stage.apply_vpc(mk_vpc("green"));
    stage.rest();
    assert_eq!(
        stage.says("blue", PEERED),
        "False OneSidedPeering: spec.vpcPeerings[0].remoteVpc: \"green\" does not name blue in its vpcPeerings; the \
         peering is established once green does; add to VPC green in spec.vpcPeerings: remoteVpc blue, with a localConnectIP in \
         one network with 169.254.0.1/30"
    );
    assert_eq!(stage.scene.reasons(), ["RemoteVpcNotFound", "OneSidedPeering"]);
    let mut green = stage.scene.vpcs.iter().find(|vpc| vpc.name_any() == "green").unwrap().clone();
    green.spec.vpc_peerings = vec![peering("blue", "169.254.0.2/30")];
    stage.apply_vpc(green);
    stage.rest();
    assert_eq!(stage.says("blue", PEERED), "True Peered: ");
    assert_eq!(stage.says("green", PEERED), "True Peered: ");
    stage.wait();
    let said = stage.says("blue", READY);
    assert!(said.contains("has not made its port vpc:blue/vpc:green"), "{said}");
    stage.northd();
    stage.rest();
    assert!(stage.says("blue", READY).starts_with("True"));
    stage.wait();
    let blue = stage.scene.vpcs.iter().find(|vpc| vpc.name_any() == "blue").unwrap();
    assert_eq!(blue.status.as_ref().unwrap().vpc_peerings, ["green"]);
    assert_eq!(blue.status.as_ref().unwrap().subnets, ["db", "web"]);
    // One without peerings has no condition about them.
    let mut green = stage.scene.vpcs.iter().find(|vpc| vpc.name_any() == "green").unwrap().clone();
    green.spec.vpc_peerings = Vec::new();
    stage.apply_vpc(green);
    stage.rest();
    assert_eq!(stage.says("green", PEERED), "");
    assert!(stage.says("blue", PEERED).starts_with("False OneSidedPeering"));
}

#[test]
fn many_pods_cost_one_write_of_usage_and_an_idle_time_none() {
    let mut stage = Stage::settled();
    for n in 0..100 {
        stage.scene.pod(&format!("pod-{n}"), "web");
    }
    stage.rest();
    assert_eq!(stage.take_writes(), [""; 0], "nothing is written while pods come up");
    assert!(stage.scene.engine.has_deferred_status());
    stage.wait();
    assert_eq!(stage.take_writes(), [format!("web {USAGE}")]);
    assert_eq!(
        (stage.field("web", "v4usingIPs"), stage.field("web", "v4availableIPs")),
        (json!(100), json!(153))
    );
    assert_eq!(stage.field("db", "v4availableIPs"), json!(253));
    stage.wait();
    assert!(!stage.scene.engine.has_deferred_status(), "the time is not measured while nothing happens");
    assert_eq!(stage.take_writes(), [""; 0]);
    for n in 0..99 {
        stage.scene.delete_pod(&format!("pod-{n}"));
    }
    stage.rest();
    stage.wait();
    assert_eq!(stage.field("web", "v4usingIPs"), json!(1));
    let last = stage.scene.guest_locks().next().unwrap().spec.address.clone();
    assert_eq!(stage.field("web", "v4usingIPrange"), json!(last));
    assert_eq!(stage.take_writes().len(), 1);
}

#[test]
fn while_standing_by_nothing_is_written_and_afterwards_what_differs() {
    let mut stage = Stage::settled();
    stage.scene.engine.stand_by();
    stage.scene.engine.southbound_status(SouthboundStatus::Lost { why: "gone".into() });
    assert!(!stage.scene.engine.has_deferred_status());
    stage.rest();
    stage.wait();
    assert_eq!(stage.take_writes(), [""; 0]);
    stage.scene.engine.lead();
    stage.scene.engine.compare_all(&stage.scene.cache);
    stage.rest();
    assert!(stage.says("web", READY).starts_with("Unknown SouthboundUnreachable"));
}

#[test]
fn what_one_term_did_not_come_to_write_of_a_status_the_next_one_does() {
    let mut stage = Stage::settled();
    stage.scene.pod("a", "web");
    stage.rest();
    stage.scene.engine.compare_deferred_status();
    let actions = stage.scene.engine.actions();
    assert!(actions.iter().any(|action| matches!(action, Action::SetConditions(_))), "{actions:?}");
    stage.scene.engine.stand_by();
    actions.into_iter().for_each(|action| stage.scene.engine.dropped(action));
    stage.scene.engine.lead();
    stage.scene.engine.compare_all(&stage.scene.cache);
    stage.rest();
    stage.wait();
    assert_eq!(stage.field("web", "v4usingIPs"), json!(1));
}

#[test]
fn clients_of_kube_ovn_find_what_they_read() {
    let mut stage = Stage::settled();
    let mut vpc = kubeovn::Vpc::new("ovn-cluster", kubeovn::VpcSpec::default());
    vpc.metadata.uid = Some("uid-vpc".into());
    vpc.metadata.generation = Some(1);
    let spec = json!({"cidrBlock": "10.7.0.0/16,fd00::/64", "vpc": "ovn-cluster", "enableDHCP": true});
    let mut subnet = kubeovn::Subnet::new("pods", serde_json::from_value(spec).unwrap());
    subnet.metadata.uid = Some("uid-subnet".into());
    subnet.metadata.generation = Some(1);
    subnet.status = Some(kubeovn::SubnetStatus::default());
    let valid = portolan_api::condition::ConditionUpdate {
        type_: portolan_api::condition::VALIDATED,
        status: true.into(),
        reason: "Valid",
        message: "",
        generation: Some(1),
    };
    let now = serde_json::from_value("2026-01-01T00:00:00Z".into()).unwrap();
    let conditions = &mut subnet.status.as_mut().unwrap().conditions;
    kubeovn::set_condition(conditions.get_or_insert_default(), valid, &now);
    (stage.foreign_vpcs, stage.foreign_subnets) = (vec![vpc.clone()], vec![subnet.clone()]);
    stage.scene.engine.feed(&Change::Applied(vpc));
    stage.scene.engine.feed(&Change::Applied(subnet));
    stage.rest();
    stage.northd();
    stage.rest();
    stage.wait();
    let status = json!(stage.foreign_vpcs[0].status);
    for (field, value) in [
        ("standby", json!(true)),
        ("default", json!(true)),
        ("router", json!("vpc:ovn-cluster")),
        ("subnets", json!(["pods"])),
    ] {
        assert_eq!(status[field], value, "{status}");
    }
    let status = json!(stage.foreign_subnets[0].status);
    assert_eq!(status["v4availableIPs"], json!(65533), "{status}");
    assert_eq!(status["v4availableIPrange"], json!("10.7.0.2-10.7.255.254"));
    // Beyond what a JSON client can count it is a floating-point number, as Kube-OVN writes it.
    assert!(status["v6availableIPs"].as_f64().is_some_and(|count| count > 1.8e19), "{status}");
    assert_eq!(status["v6availableIPrange"], json!("fd00::2-fd00::ffff:ffff:ffff:ffff"));
    let rows = stage.scene.cache.table("DHCP_Options").unwrap();
    let uuid = status["dhcpV4OptionsUUID"].as_str().unwrap().parse().unwrap();
    assert!(rows.get(uuid).is_some(), "{status}");
    stage.take_writes();
    stage.wait();
    assert_eq!(stage.take_writes(), [""; 0], "what was written is what should be there");
}

/// What `kubectl delete` does to a subnet that is in use.
fn delete(stage: &mut Stage, name: &str) {
    let subnet = stage.scene.subnets.iter_mut().find(|subnet| subnet.name_any() == name).unwrap();
    subnet.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    subnet.metadata.generation = subnet.metadata.generation.map(|generation| generation + 1);
    let subnet = subnet.clone();
    stage.scene.engine.feed(&Change::Applied(subnet));
    stage.rest();
    stage.wait();
}

#[test]
fn a_subnet_that_is_being_deleted_and_in_use_stays_ready_as_long_as_ovn_has_it() {
    let mut stage = Stage::settled();
    stage.scene.pod("a", "web");
    stage.rest();
    delete(&mut stage, "web");
    assert!(
        stage.says("web", "Terminating").starts_with("True InUse"),
        "{}",
        stage.says("web", "Terminating")
    );
    assert!(stage.says("web", READY).starts_with("True InEffect"), "{}", stage.says("web", READY));
    // Its rows are still observed.
    let emptied = MemDb::new(SB_SCHEMA).unwrap().refresh(&mut stage.southbound);
    stage.scene.engine.southbound_changed(&emptied);
    stage.rest();
    stage.wait();
    assert!(stage.says("web", READY).starts_with("False WaitingForNorthd"), "{}", stage.says("web", READY));
    assert_eq!(stage.scene.reasons(), ["InUse"]);
}

#[test]
fn a_deleted_subnet_whose_pods_go_one_by_one_names_those_that_are_left_in_one_write() {
    let mut stage = Stage::settled();
    for n in 0..20 {
        stage.scene.pod(&format!("pod-{n:02}"), "web");
    }
    stage.rest();
    delete(&mut stage, "web");
    assert!(stage.says("web", "Terminating").starts_with("True InUse: 20 addresses are in use: "));
    stage.take_writes();
    stage.updates = 0;
    for n in 0..18 {
        stage.scene.delete_pod(&format!("pod-{n:02}"));
        stage.rest();
        assert_eq!(stage.take_writes(), [""; 0], "after {n}");
    }
    stage.wait();
    assert_eq!(stage.take_writes(), ["web Terminating=True InUse".to_owned(), format!("web {USAGE}")]);
    assert_eq!(stage.updates, 1);
    let said = stage.says("web", "Terminating");
    assert!(said.starts_with("True InUse: 2 addresses are in use: ") && said.contains("pod-19"), "{said}");
    assert_eq!(stage.scene.reasons(), ["InUse"], "one Event is enough");
    for n in 18..20 {
        stage.scene.delete_pod(&format!("pod-{n:02}"));
    }
    stage.rest();
    assert!(stage.scene.subnets.iter().all(|subnet| subnet.name_any() != "web"), "nothing uses it any more");
}

#[test]
fn the_last_verdict_about_a_subnet_stays_when_it_is_deleted_and_nothing_is_called_resolved() {
    let mut stage = Stage::settled();
    stage.scene.pod("a", "web");
    stage.rest();
    stage.edit_subnet("web", |_| ());
    let subnet = stage.scene.subnets.iter_mut().find(|subnet| subnet.name_any() == "web").unwrap();
    let validated = &mut subnet.status.as_mut().unwrap().conditions;
    let validated = validated.iter_mut().find(|condition| condition.type_ == "Validated").unwrap();
    (validated.status, validated.message) = ("False".into(), "spec.cidr: it overlaps another".into());
    let subnet = subnet.clone();
    stage.scene.engine.feed(&Change::Applied(subnet));
    stage.rest();
    let refused = "False NotValidated: the subnet is not used: spec.cidr: it overlaps another";
    assert_eq!(stage.says("web", READY), refused);
    delete(&mut stage, "web");
    assert_eq!(stage.says("web", READY), refused);
    assert!(!stage.scene.reasons().contains(&"Resolved"), "{:?}", stage.scene.reported);
}

#[test]
fn an_invalid_object_says_whether_an_earlier_version_of_it_is_in_effect() {
    let mut stage = Stage::settled();
    let mut invalid = mk_vpc("green");
    invalid.spec.policy_routes = serde_json::from_value(json!([
        {"priority": 1, "action": "drop", "match": "ip4.src = 10.0.0.1"}
    ]))
    .unwrap();
    stage.apply_vpc(invalid.clone());
    stage.rest();
    let said = stage.says("green", READY);
    assert!(said.ends_with("; the object has no effect until this is corrected"), "{said}");
    let mut blue = stage.scene.vpcs[0].clone();
    blue.metadata.generation = blue.metadata.generation.map(|generation| generation + 1);
    blue.spec.policy_routes = invalid.spec.policy_routes;
    stage.apply_vpc(blue);
    stage.rest();
    assert!(stage.says("blue", READY).ends_with("; its last valid version stays in effect"));
    // So says a controller that starts where this one was killed.
    let mut stage = stage.restarted();
    stage.follow();
    stage.rest();
    stage.wait();
    assert!(stage.says("blue", READY).ends_with("; its last valid version stays in effect"));
    assert!(stage.says("green", READY).ends_with("; the object has no effect until this is corrected"));
}

#[test]
fn an_object_whose_name_another_has_names_the_other() {
    let mut stage = Stage::settled();
    let mut twin = portolan_model::fixtures::mk_kubeovn_vpc("blue");
    twin.metadata.uid = Some("twin".into());
    twin.metadata.generation = Some(1);
    stage.foreign_vpcs.push(twin.clone());
    stage.scene.engine.feed(&Change::Applied(twin));
    stage.rest();
    let said = json!(stage.foreign_vpcs[0].status)["conditions"][0].clone();
    assert_eq!(said["reason"], "NameTaken");
    let message = r#"metadata.name: "blue" is the name of a Vpc of portolan.dev, which is the one in effect; delete one of the two"#;
    assert_eq!(said["message"], message);
}
