//! Whether an object is in effect, as far as that was observed, and why not.

use std::fmt;

use portolan_api::condition::{READY, TERMINATING, VALIDATED};
use portolan_model::{Unit, UnitState, Validation};
use serde::Serialize;

use crate::cluster::{Condition, Described, Snapshot};

/// Another object has the name and is in effect.
pub(crate) const NAME_TAKEN: &str = "NameTaken";

/// Whether something is in effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Ready {
    /// Its condition says so.
    Yes,
    /// Its condition says that it is not, or it cannot be.
    No,
    /// It is being deleted, whether or not it is still in effect.
    Terminating,
    /// It is none of Portolan's, and nothing is wrong with that.
    NotServed,
    /// No condition says anything.
    #[default]
    Unknown,
}

/// Whether something is in effect, and why not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Readiness {
    pub(crate) ready: Ready,
    /// One word; empty if it is ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// What is wrong, and what to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ready::Yes => "yes",
            Ready::No => "no",
            Ready::Terminating => "terminating",
            Ready::NotServed => "not served",
            Ready::Unknown => "unknown",
        })
    }
}

impl Readiness {
    pub(crate) fn yes() -> Self {
        Self { ready: Ready::Yes, ..Self::default() }
    }

    pub(crate) fn no(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { ready: Ready::No, reason: reason.into(), message: message.into() }
    }

    pub(crate) fn unknown(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { ready: Ready::Unknown, reason: reason.into(), message: message.into() }
    }

    pub(crate) fn not_served(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { ready: Ready::NotServed, reason: reason.into(), message: message.into() }
    }

    /// `yes`, `unknown`, `no (Reason)`, `not served (Reason)` or `terminating (Reason)`.
    pub(crate) fn word(&self) -> String {
        match (self.ready, self.reason.as_str()) {
            (ready @ (Ready::No | Ready::NotServed | Ready::Terminating), reason) if !reason.is_empty() => {
                format!("{ready} ({reason})")
            }
            (ready, _) => ready.to_string(),
        }
    }

    /// What a condition `Ready` says of the current generation; a missing one says nothing.
    fn of_condition(described: &Described) -> Self {
        match described.condition(READY) {
            None => Self::unknown("NotReported", "the controller has not reported whether it is in effect"),
            Some(condition) if condition.is_outdated(described) => Self::unknown(
                "Outdated",
                "it was changed, and the controller has not reported on the change yet",
            ),
            Some(condition) => Self::of(condition),
        }
    }

    /// Of an object that is being deleted: what keeps it, if that was said.
    fn of_terminating(described: &Described) -> Option<Self> {
        let (reason, message) = match described.condition(TERMINATING) {
            Some(condition) => (condition.reason.clone(), condition.message.clone()),
            None => (String::new(), "it is being deleted".to_owned()),
        };
        described.terminating.then_some(Self { ready: Ready::Terminating, reason, message })
    }

    fn of(condition: &Condition) -> Self {
        match condition.status.as_str() {
            "True" => Self::yes(),
            "False" => Self::no(condition.reason.clone(), condition.message.clone()),
            _ => Self::unknown(condition.reason.clone(), condition.message.clone()),
        }
    }

    /// Of a Vpc.
    pub(crate) fn of_vpc(snapshot: &Snapshot, vpc: &Described) -> Self {
        let unit = Unit::Vpc(vpc.name.clone());
        let problem = Self::of_name(snapshot, vpc, &unit).or_else(|| Self::of_terminating(vpc));
        if let Some(problem) = problem {
            return problem;
        }
        if snapshot.world.vpc(&vpc.name).is_none() {
            return Self::no("InvalidSpec", errors(vpc));
        }
        Self::of_condition(vpc)
    }

    /// Of a Subnet.
    pub(crate) fn of_subnet(snapshot: &Snapshot, described: &Described) -> Self {
        let unit = Unit::Subnet(described.name.clone());
        let problem = Self::of_name(snapshot, described, &unit).or_else(|| Self::of_terminating(described));
        if let Some(problem) = problem {
            return problem;
        }
        let Some(subnet) = snapshot.world.known_subnet(&described.name) else {
            return Self::no("InvalidSpec", errors(described));
        };
        match (subnet.validation, described.condition(VALIDATED)) {
            (Validation::Not, Some(condition)) => {
                let message = format!("the subnet is not used: {}", condition.message);
                return Self::no("NotValidated", message);
            }
            (Validation::Not, None) => {
                return Self::unknown(
                    "NotValidated",
                    "the controller has not validated it yet: is `portolan controller` running?",
                );
            }
            (Validation::Earlier, _) => {
                return Self::unknown(
                    "Revalidating",
                    "it was changed, and the change is not validated yet; its earlier version is in effect",
                );
            }
            (Validation::Current, _) => {}
        }
        let vpc = subnet.vpc().filter(|vpc| snapshot.world.vpc(vpc).is_none());
        match vpc {
            Some(vpc) if snapshot.world.state(&Unit::Vpc(vpc.to_owned())) == UnitState::Held => {
                Self::no("VpcInvalid", format!("its VPC {vpc} is invalid: see `portolan describe vpc {vpc}`"))
            }
            Some(vpc) => Self::no(
                "VpcNotFound",
                format!("its VPC {vpc} does not exist, so it has no router; create the VPC, or name another"),
            ),
            None => Self::of_condition(described),
        }
    }

    /// If another object has the name.
    fn of_name(snapshot: &Snapshot, described: &Described, unit: &Unit) -> Option<Self> {
        let owner = snapshot.world.object_uid(unit)?;
        let other = described.group.other()?;
        (owner != described.uid).then(|| {
            let message =
                format!("{other} has an object of this name too, and that one is in effect; rename or delete one of them");
            Self::no(NAME_TAKEN, message)
        })
    }
}

impl From<&Condition> for Readiness {
    fn from(condition: &Condition) -> Self {
        Self::of(condition)
    }
}

fn errors(described: &Described) -> String {
    let errors: Vec<_> = described.findings.errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}
