//! Whether a VPC or subnet is in effect: its condition `Ready`.
//!
//! ```text
//!  object understood ─▶ validated ─▶ VPC there ─▶ rows committed ─▶ ovn-northd has made the datapath and its ports ─▶ True
//!       World             gate         World      Reconciler             southbound database
//! ```
//!
//! It is observed and never concluded: without one of the two databases nothing is claimed. `nb_cfg` is not raised for it, because
//! every raise makes ovn-northd compute everything again. So what can be seen is that ovn-northd has made what others connect to;
//! that a later change of routes has reached the flows is not seen.
//!
//! **Who speaks.** What follows from the objects alone, every controller that acts may say. About rows only the writer of the
//! northbound database speaks, so that two controllers never contradict each other in turn.
//!
//! **When.** What passes by itself in the usual case (rows on their way, ovn-northd at work) is said only if it lasts: see
//! [`Timing::Later`]. A VPC that comes into effect at once costs one status write.

use std::collections::BTreeMap;

use portolan_api::condition::ConditionStatus::{self, False, True, Unknown};
use portolan_model::life::Life;
use portolan_model::node_subnet::node_of_subnet;
use portolan_model::world::GatewayProblem;
use portolan_model::{Group, Subnet, Unit, UnitState, Validation, VpcPair};
use portolan_plan::northbound::southbound::{Expected, expected};
use portolan_plan::{DatabaseTarget, Round, Target as _};

use super::conditions::Facts;
use super::reports::Problem;
use super::southbound::{Southbound, SouthboundStatus};
use super::subnets::SubnetKey;
use super::{Engine, Kind, Statement};

/// What readiness depends on beside the World.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    role: NorthboundRole,
    /// How far the rows of VPCs, subnets and peerings are. One that is not here was not compared yet.
    progress: BTreeMap<Unit, Progress>,
    pub(super) southbound: Southbound,
}

/// What this controller is to the northbound database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NorthboundRole {
    /// Another one writes it, or nobody knows yet who does.
    #[default]
    Reader,
    /// It writes it.
    Writer,
    /// It cannot reach it.
    Unreachable {
        /// Where and why not, as in `cannot be reached at unix:/run/ovn/ovnnb_db.sock: …`.
        why: String,
    },
}

/// How far the rows of a unit are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// What they should be has changed, and they were not compared since.
    Changed,
    /// The difference is on its way.
    Writing,
    /// They wait for something else in the database.
    Waiting { obstacle: String },
    /// The database does not take them.
    Refused { error: String },
    /// They are what they should be.
    Committed,
}

/// What `Ready` should say.
pub(super) struct Finding {
    pub(super) says: Statement,
    pub(super) timing: Timing,
    pub(super) concern: Concern,
}

/// When it should be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// At once.
    Now,
    /// If it has been so for a while: it usually passes by itself.
    Later,
}

/// Whether somebody has to do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Concern {
    /// The user who wrote the object: an Event tells.
    Event,
    /// Nobody, or an Event of its own tells already.
    None,
}

impl Finding {
    pub(super) fn new(status: ConditionStatus, reason: &'static str, message: impl Into<String>) -> Self {
        let says = Statement { status, reason, message: message.into() };
        Finding { says, timing: Timing::Now, concern: Concern::None }
    }

    fn later(self) -> Self {
        Finding { timing: Timing::Later, ..self }
    }

    pub(super) fn with_event(self) -> Self {
        Finding { concern: Concern::Event, ..self }
    }
}

impl Engine {
    /// What this controller is to the northbound database now.
    pub fn northbound_role(&mut self, role: NorthboundRole) {
        use NorthboundRole::Unreachable;
        let still_unreachable =
            matches!((&self.readiness.role, &role), (Unreachable { .. }, Unreachable { .. }));
        // Every attempt fails at another server, or in another way: the first is what is said.
        if still_unreachable || self.readiness.role == role {
            return;
        }
        if role != NorthboundRole::Writer {
            // Another may write meanwhile. All units are compared again before this one does.
            self.readiness.progress.clear();
        }
        self.readiness.role = role;
        self.compare_all_conditions();
    }

    /// What `Ready` of an object should say; none if this controller has nothing to say about it.
    pub(super) fn readiness_of(&self, kind: Kind, name: &str, facts: &Facts) -> Option<Finding> {
        let unit = unit_of(kind, name);
        match &facts.needs {
            Err(errors) => {
                let effect = if self.had_effect(&unit, facts) { LAST_VALID_STAYS } else { NO_EFFECT };
                let message = format!("{errors}; {effect}");
                let finding = Finding::new(False, "InvalidSpec", message);
                // VPCs have an Event about that already.
                return Some(if is_subnet(kind) { finding.with_event() } else { finding });
            }
            // Deletion makes a new generation, which nobody validates any more: the last verdict stays.
            Ok(_) if self.was_never_valid_and_is_deleted(name, facts) => return None,
            Ok(vpcs) if is_subnet(kind) => {
                if let Some(finding) =
                    self.subnet_obstacle(kind, name, facts, vpcs.first().map(String::as_str))
                {
                    return Some(finding);
                }
            }
            Ok(_) => {}
        }
        if self.world.object_uid(&unit)? != facts.uid {
            let message = format!(
                "metadata.name: {name:?} is the name of {} of {}, which is the one in effect; delete one of the two",
                if is_subnet(kind) { "a Subnet" } else { "a Vpc" },
                other_group(kind),
            );
            return Some(Finding::new(False, "NameTaken", message).with_event());
        }
        self.rows_of(&unit, facts).map_or_else(|| self.made_of(&unit), Result::ok)
    }

    /// Whether a subnet is being deleted whose last verdict is not that it is valid.
    fn was_never_valid_and_is_deleted(&self, name: &str, facts: &Facts) -> bool {
        let subnet = self.world.known_subnet(name).filter(|subnet| subnet.uid == facts.uid);
        subnet.is_some_and(|subnet| subnet.life == Life::Terminating && subnet.validation == Validation::Not)
    }

    /// Whether an object that is invalid was in effect before. A controller that starts knows it by what was said.
    fn had_effect(&self, unit: &Unit, facts: &Facts) -> bool {
        let has_rows =
            matches!(self.readiness.progress.get(unit), Some(Progress::Committed | Progress::Changed));
        let was_said = facts.ready.as_ref().is_some_and(|said| {
            ABOUT_COMMITTED_ROWS.contains(&said.reason()) || said.message().ends_with(LAST_VALID_STAYS)
        });
        self.world.object_uid(unit).is_some_and(|uid| uid == facts.uid) && (has_rows || was_said)
    }

    /// What stands in a subnet's way before OVN comes into play.
    fn subnet_obstacle(&self, kind: Kind, name: &str, facts: &Facts, vpc: Option<&str>) -> Option<Finding> {
        if let Some(refusal) = self.subnets.refusal(&gate_key(kind, name)) {
            let message = format!("the subnet is not used: {refusal}");
            return Some(Finding::new(False, "NotValidated", message).with_event());
        }
        let subnet = self.world.known_subnet(name).filter(|subnet| subnet.uid == facts.uid);
        let is_unjudged =
            |subnet: &Subnet| subnet.validation != Validation::Current && subnet.life != Life::Terminating;
        if subnet.is_some_and(is_unjudged) {
            let message = "it was not compared with the other subnets yet; see the condition Validated";
            return Some(Finding::new(False, "NotValidated", message).later());
        }
        if let Some(vpc) = vpc {
            match self.world.state(&Unit::Vpc(vpc.to_owned())) {
                UnitState::Live => {}
                UnitState::Absent => {
                    let message =
                        format!("spec.vpc: there is no VPC {vpc:?}; the subnet has no router until there is");
                    return Some(Finding::new(False, "VpcNotFound", message).with_event());
                }
                UnitState::Held => {
                    let message = format!(
                        "spec.vpc: VPC {vpc:?} cannot be understood; correct it, see its condition Ready"
                    );
                    return Some(Finding::new(False, "VpcInvalid", message).with_event());
                }
            }
        }
        let subnet = subnet?;
        if subnet.config.vni.is_some() {
            let message = "spec.vni: the VXLAN fabric is not built yet; the subnet has no effect";
            return Some(Finding::new(False, "VniNotSupported", message).with_event());
        }
        self.gateway_obstacle(subnet)
    }

    /// An edit of a gateway that has no effect, because it would double an address.
    fn gateway_obstacle(&self, subnet: &Subnet) -> Option<Finding> {
        if self.world.state(&Unit::Subnet(subnet.name.clone())) != UnitState::Held {
            return None;
        }
        let problem = self.world.gateway_problem(subnet)?;
        Some(match &problem {
            GatewayProblem::Pending { address } => {
                Finding::new(False, "GatewayPending", format!("spec.gateway: {address} {problem}")).later()
            }
            GatewayProblem::Taken { address, .. } => {
                Finding::new(False, "GatewayTaken", format!("spec.gateway: {address} {problem}")).with_event()
            }
            GatewayProblem::OtherDomain { .. } => {
                Finding::new(False, "OtherDomain", format!("spec: this {problem}")).with_event()
            }
        })
    }

    /// How far the rows of a unit are: none if they are committed, an error if nothing is to be said.
    fn rows_of(&self, unit: &Unit, facts: &Facts) -> Option<Result<Finding, Silence>> {
        // What was said about the rows of this generation stays until something else is known.
        let unless_said = |finding: Finding| {
            let said = facts.ready.as_ref().is_some_and(|said| {
                said.generation() == facts.generation && ABOUT_ROWS.contains(&said.reason())
            });
            Some(if said { Err(Silence) } else { Ok(finding.later()) })
        };
        match &self.readiness.role {
            NorthboundRole::Reader => return Some(Err(Silence)),
            NorthboundRole::Unreachable { why } => {
                let message = format!("OVN's northbound database {why}; nothing is lost, changes wait");
                return unless_said(Finding::new(Unknown, "NorthboundUnreachable", message));
            }
            NorthboundRole::Writer => {}
        }
        let pending = || Finding::new(False, "Pending", "its rows are not in OVN's northbound database yet");
        for unit in std::iter::once(unit.clone()).chain(self.peerings_of(unit)) {
            match self.readiness.progress.get(&unit) {
                Some(Progress::Committed) => {}
                Some(Progress::Changed | Progress::Writing) => return Some(Ok(pending().later())),
                Some(Progress::Waiting { obstacle }) => {
                    let message = format!(
                        "the rows of {unit} wait for another change of OVN's northbound database: {obstacle}"
                    );
                    return Some(Ok(Finding::new(False, "Pending", message).later()));
                }
                Some(Progress::Refused { error }) => {
                    let message = format!(
                        "OVN's northbound database refuses the rows of {unit}: {error}; change what causes it, it is tried again"
                    );
                    return Some(Ok(Finding::new(False, REFUSED, message).with_event()));
                }
                None => return unless_said(pending()),
            }
        }
        None
    }

    /// Whether it is known that the northbound database has the rows of a VPC or subnet as they should be.
    pub(super) fn has_its_rows(&self, kind: Kind, name: &str) -> bool {
        let unit = unit_of(kind, name);
        let mut units = std::iter::once(unit.clone()).chain(self.peerings_of(&unit));
        self.readiness.role == NorthboundRole::Writer
            && units.all(|unit| self.readiness.progress.get(&unit) == Some(&Progress::Committed))
    }

    /// Whether ovn-northd has made a unit whose rows are committed.
    fn made_of(&self, unit: &Unit) -> Option<Finding> {
        let southbound = &self.readiness.southbound;
        match &southbound.status {
            SouthboundStatus::Connecting => return None,
            SouthboundStatus::Lost { why } => {
                let message = format!(
                    "its rows are committed; what ovn-northd made of them is not known: OVN's southbound database {why}"
                );
                return Some(Finding::new(Unknown, "SouthboundUnreachable", message));
            }
            SouthboundStatus::Followed => {}
        }
        let expected: Expected = expected(unit, &self.world);
        Some(match southbound.missing(&expected) {
            None => Finding::new(True, "InEffect", "OVN has it"),
            Some(missing) => {
                let message = format!(
                    "its rows are committed, but ovn-northd has not made its {missing} in OVN's southbound database; check that ovn-northd runs"
                );
                Finding::new(False, "WaitingForNorthd", message).later()
            }
        })
    }

    /// The peerings of a VPC that stand.
    fn peerings_of(&self, unit: &Unit) -> impl Iterator<Item = Unit> {
        let vpc = match unit {
            Unit::Vpc(name) => self.world.vpc(name),
            _ => None,
        };
        let pairs = vpc.into_iter().flat_map(|vpc| {
            vpc.config.peerings.iter().filter_map(|peering| VpcPair::new(&vpc.name, &peering.remote_vpc))
        });
        pairs.filter(|pair| self.world.peering(pair).is_some()).map(Unit::Peering)
    }

    /// What the rows of a unit should be has changed.
    pub(super) fn rows_are_to_change(&mut self, unit: &Unit, state: UnitState) {
        if is_watched(unit) {
            match state {
                UnitState::Absent => drop(self.readiness.progress.remove(unit)),
                // What is held keeps the rows that it has.
                UnitState::Held => {}
                // At a start everything is new, and most of it has its rows already.
                UnitState::Live if !self.readiness.progress.contains_key(unit) => {}
                UnitState::Live => self.rows_are(unit, Progress::Changed),
            }
        }
    }

    /// Units that should have rows were compared with the database.
    pub(super) fn rows_were_compared(&mut self, units: Vec<Unit>, round: &Round<DatabaseTarget<Unit>>) {
        if units.is_empty() {
            return;
        }
        let target = self.northbound.target();
        let changing: std::collections::BTreeSet<Unit> =
            round.changes.iter().filter_map(|change| target.unit_of(change)).collect();
        for unit in units {
            let refused = matches!(self.readiness.progress.get(&unit), Some(Progress::Refused { .. }));
            let waiting = round.waiting.iter().find(|waiting| waiting.unit == unit);
            if let Some(waiting) = waiting {
                self.rows_are(&unit, Progress::Waiting { obstacle: waiting.obstacle.to_string() });
            } else if !changing.contains(&unit) {
                self.rows_are(&unit, Progress::Committed);
            } else if !refused {
                // What was refused is tried again, and stays refused until that succeeds.
                self.rows_are(&unit, Progress::Writing);
            }
        }
    }

    /// What was on its way is committed. What changed since is not.
    pub(super) fn rows_were_committed(&mut self, unit: &Unit) {
        if matches!(self.readiness.progress.get(unit), Some(Progress::Writing | Progress::Refused { .. })) {
            self.rows_are(unit, Progress::Committed);
        }
    }

    /// The database does not take the rows of a unit.
    pub(super) fn rows_were_refused(&mut self, unit: &Unit, error: &str) {
        if matches!(self.readiness.progress.get(unit), Some(Progress::Writing | Progress::Refused { .. })) {
            self.rows_are(unit, Progress::Refused { error: error.to_owned() });
        }
    }

    fn rows_are(&mut self, unit: &Unit, progress: Progress) {
        if self.readiness.progress.get(unit) != Some(&progress) {
            self.readiness.progress.insert(unit.clone(), progress);
            self.compare_conditions_of_unit(unit);
        }
    }
}

/// The reasons that only a writer of the northbound database gives: what stands in the way before that is over when there are rows.
const ABOUT_ROWS: [&str; 6] =
    ["InEffect", "Pending", REFUSED, "WaitingForNorthd", "NorthboundUnreachable", "SouthboundUnreachable"];

const REFUSED: &str = "Refused";

/// Whether it is a problem that the northbound database refuses rows.
pub(super) fn is_refusal((reason, _): &Problem) -> bool {
    *reason == REFUSED
}

/// The ones of them that are given once rows are committed.
const ABOUT_COMMITTED_ROWS: [&str; 3] = ["InEffect", "WaitingForNorthd", "SouthboundUnreachable"];

/// What becomes of an invalid object that was in effect before, and of one that never was.
const LAST_VALID_STAYS: &str = "its last valid version stays in effect";
const NO_EFFECT: &str = "the object has no effect until this is corrected";

/// Nothing is to be said.
struct Silence;

/// Attachments have no conditions, and there are many of them; nor have nodes and Services.
pub(super) fn is_watched(unit: &Unit) -> bool {
    match unit {
        Unit::Attachment(_) | Unit::Node(_) | Unit::Chassis(_) | Unit::Service { .. } => false,
        Unit::Subnet(name) => node_of_subnet(name).is_none(),
        Unit::Vpc(_) | Unit::Peering(_) => true,
    }
}

/// The unit of a VPC or subnet.
fn unit_of(kind: Kind, name: &str) -> Unit {
    if is_subnet(kind) { Unit::Subnet(name.to_owned()) } else { Unit::Vpc(name.to_owned()) }
}

pub(super) fn is_subnet(kind: Kind) -> bool {
    matches!(kind, Kind::Subnet | Kind::KubeOvnSubnet)
}

pub(super) fn is_vpc(kind: Kind) -> bool {
    matches!(kind, Kind::Vpc | Kind::KubeOvnVpc)
}

/// The API group that has the same kind, but for the one of this kind.
fn other_group(kind: Kind) -> Group {
    match kind {
        Kind::Subnet | Kind::Vpc => Group::KubeOvn,
        _ => Group::Portolan,
    }
}

fn gate_key(kind: Kind, name: &str) -> SubnetKey {
    let group = match kind {
        Kind::Subnet => portolan_model::Group::Portolan,
        _ => portolan_model::Group::KubeOvn,
    };
    (group, name.to_owned())
}
