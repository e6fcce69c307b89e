//! Whether a Vpc or Subnet is in effect, and why not.

use portolan_api::condition::{READY, VALIDATED};
use portolan_model::{Unit, UnitState, Validation};
use serde::Serialize;

use crate::cluster::{Condition, Described, Snapshot};

/// Another object has the name, and is in effect.
pub(crate) const NAME_TAKEN: &str = "NameTaken";

/// Whether something is in effect, and why not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Readiness {
    pub(crate) ready: bool,
    /// One word; empty if it is ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// What is wrong, and what to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
}

impl Readiness {
    pub(crate) fn yes() -> Self {
        Self { ready: true, ..Self::default() }
    }

    pub(crate) fn no(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { ready: false, reason: reason.into(), message: message.into() }
    }

    /// `yes`, or `no (Reason)`.
    pub(crate) fn word(&self) -> String {
        match (self.ready, self.reason.as_str()) {
            (true, _) => "yes".into(),
            (false, "") => "no".into(),
            (false, reason) => format!("no ({reason})"),
        }
    }

    fn of_condition(condition: &Condition) -> Self {
        Self::no(condition.reason.clone(), condition.message.clone())
    }

    /// Of a Vpc.
    pub(crate) fn of_vpc(snapshot: &Snapshot, vpc: &Described) -> Self {
        let unit = Unit::Vpc(vpc.name.clone());
        if let Some(problem) = Self::of_name(snapshot, vpc, &unit) {
            return problem;
        }
        match vpc.condition(READY) {
            _ if snapshot.world.vpc(&vpc.name).is_none() => Self::no("Invalid", errors(vpc)),
            Some(condition) if !condition.is_true() => Self::of_condition(condition),
            _ => Self::yes(),
        }
    }

    /// Of a Subnet.
    pub(crate) fn of_subnet(snapshot: &Snapshot, described: &Described) -> Self {
        let unit = Unit::Subnet(described.name.clone());
        if let Some(problem) = Self::of_name(snapshot, described, &unit) {
            return problem;
        }
        let Some(subnet) = snapshot.world.known_subnet(&described.name) else {
            return Self::no("Invalid", errors(described));
        };
        let vpc = subnet.vpc().filter(|vpc| snapshot.world.vpc(vpc).is_none());
        let ready = described.condition(READY).filter(|condition| !condition.is_true());
        match (subnet.validation, described.condition(VALIDATED)) {
            (Validation::Not, Some(condition)) => Self::of_condition(condition),
            (Validation::Not, None) => {
                Self::no("NotValidated", "nobody has looked at it yet: is `portolan controller` running?")
            }
            (Validation::Earlier, _) => Self::no(
                "Revalidating",
                "it was changed, and nobody has looked at the change yet; what it was before is in effect",
            ),
            (Validation::Current, _) => match (vpc, ready) {
                (Some(vpc), _) if snapshot.world.state(&Unit::Vpc(vpc.to_owned())) == UnitState::Held => {
                    Self::no("InvalidVpc", format!("something is wrong with its VPC {vpc}: see there"))
                }
                (Some(vpc), _) => {
                    let message = format!(
                        "its VPC {vpc} does not exist, so it has no router; make the VPC, or name another"
                    );
                    Self::no("NoVpc", message)
                }
                (None, Some(condition)) => Self::of_condition(condition),
                (None, None) => Self::yes(),
            },
        }
    }

    /// If another object has the name.
    fn of_name(snapshot: &Snapshot, described: &Described, unit: &Unit) -> Option<Self> {
        let owner = snapshot.world.owner(unit)?;
        (owner != described.uid).then(|| {
            let other = described.group.other();
            let message =
                format!("there is one of this name in {other} too, and that one is in effect; rename or delete one of them");
            Self::no(NAME_TAKEN, message)
        })
    }
}

fn errors(described: &Described) -> String {
    let errors: Vec<_> = described.findings.errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}
