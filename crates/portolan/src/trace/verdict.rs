//! Model and OVN side by side.

use portolan_model::World;
use serde::Serialize;

use super::ovn::output::{Traced, TracedEnd};
use super::ovn::place;
use super::path::{End, Path, Stop};

/// One direction: what the model says, and what OVN says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leg {
    pub(crate) path: Path,
    pub(crate) ovn: Answer,
}

/// What OVN says to what the model says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It was not asked, as the packet never comes to it or as nobody wanted it.
    NotAsked,
    /// The same.
    Agrees(String),
    /// The model cannot tell; OVN can: whether the packet arrives, and how.
    Decides { arrives: bool, how: String },
    /// Something else.
    Disagrees(String),
    /// Nothing, for this reason.
    Failed(String),
}

/// What becomes of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// It gets there, and the answer gets back.
    Reachable,
    NotReachable,
    /// Model and OVN do not agree.
    Disagreement,
    /// Nobody can tell.
    Unknown,
}

impl Verdict {
    /// The exit code that says so.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Verdict::Reachable => 0,
            Verdict::NotReachable => 1,
            Verdict::Disagreement | Verdict::Unknown => 2,
        }
    }
}

impl Leg {
    /// Whether the packet arrives, as far as that is known.
    pub(crate) fn arrives(&self) -> Option<bool> {
        match (&self.path.end, &self.ovn) {
            (End::Unknown(_), Answer::Decides { arrives, .. }) => Some(*arrives),
            (End::Unknown(_), _) => None,
            (End::Arrives, _) => Some(true),
            (End::Stops(_), _) => Some(false),
        }
    }
}

/// What follows from both directions; there is no way back for what does not get there.
pub(crate) fn verdict(there: &Leg, back: Option<&Leg>) -> Verdict {
    let legs = || [Some(there), back].into_iter().flatten();
    if legs().any(|leg| matches!(leg.ovn, Answer::Disagrees(_))) {
        return Verdict::Disagreement;
    }
    if legs().any(|leg| matches!(leg.ovn, Answer::Failed(_)) || leg.arrives().is_none()) {
        return Verdict::Unknown;
    }
    if legs().all(|leg| leg.arrives() == Some(true)) { Verdict::Reachable } else { Verdict::NotReachable }
}

/// Compares the model's path with OVN's. `port` is that of the pod that is meant.
pub(crate) fn compare(path: &Path, traced: &Traced, port: &str, world: &World) -> Answer {
    let how = traced.end.explain(world);
    let (ours, theirs) = (path.datapaths(), &traced.datapaths);
    if let End::Unknown(_) = path.end {
        // As far as the model knows the way, it must be OVN's as well.
        if !theirs.starts_with(&ours) {
            return Answer::Disagrees(format!("its way is {}, and {how}", way(theirs)));
        }
        let arrives = traced.end == TracedEnd::Output { port: port.to_owned() };
        return Answer::Decides { arrives, how };
    }
    let same_end = match (&path.port, &traced.end) {
        (Some(port), TracedEnd::Output { port: theirs }) => port == theirs,
        (None, TracedEnd::Output { .. }) | (Some(_), _) => false,
        (None, TracedEnd::Dropped(_) | TracedEnd::Asked(_) | TracedEnd::Answered { .. }) => true,
    };
    // OVN goes on until the packet's time to live is over.
    let same_way = match path.end {
        End::Stops(Stop::Loop { .. }) => theirs.starts_with(&ours),
        _ => ours == *theirs,
    };
    if same_end && same_way {
        return Answer::Agrees(how);
    }
    let way =
        if ours == *theirs { "the way is the same".into() } else { format!("its way is {}", way(theirs)) };
    Answer::Disagrees(format!("{way}, but {how}"))
}

fn way(datapaths: &[String]) -> String {
    datapaths.iter().map(|datapath| place(datapath)).collect::<Vec<_>>().join(" → ")
}
