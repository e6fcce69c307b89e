//! How a run went, for a person to read.

use std::collections::BTreeMap;
use std::fmt;

use crate::difference::{Difference, Mismatch};
use crate::error::Error;

/// How many mismatches of a case are shown.
const SHOWN: usize = 12;

/// How one case went.
#[derive(Debug)]
pub enum Outcome {
    /// The server answers as recorded, but for deliberate differences.
    Passed,
    /// It answers otherwise.
    Differs(Vec<Mismatch>),
    /// The case could not be run to its end.
    Broke(Error),
}

/// How a run of the suite went.
#[derive(Debug, Default)]
pub struct Report {
    /// The outcome of each case.
    pub outcomes: BTreeMap<String, Outcome>,
    /// Deliberate differences that did not show: they must be struck off the list.
    pub stale: Vec<Difference>,
}

impl Report {
    /// Whether every case passed and every deliberate difference showed.
    pub fn has_passed(&self) -> bool {
        self.stale.is_empty() && self.outcomes.values().all(|outcome| matches!(outcome, Outcome::Passed))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (case, outcome) in &self.outcomes {
            match outcome {
                Outcome::Passed => {}
                Outcome::Broke(error) => writeln!(formatter, "{case}: {error}\n")?,
                Outcome::Differs(mismatches) => {
                    writeln!(formatter, "{case}:")?;
                    for mismatch in mismatches.iter().take(SHOWN) {
                        writeln!(formatter, "  {mismatch}")?;
                    }
                    if let Some(more) = mismatches.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                        writeln!(formatter, "  and {more} more")?;
                    }
                    writeln!(formatter)?;
                }
            }
        }
        for Difference { case, step, path, .. } in &self.stale {
            writeln!(
                formatter,
                "differences.yaml: {case}, step {step}, {path} is as recorded: strike it off\n"
            )?;
        }
        let mut topics: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (case, outcome) in &self.outcomes {
            let topic = case.split_once('/').map_or(case.as_str(), |(topic, _)| topic);
            let (passed, failed) = topics.entry(topic).or_default();
            *(if matches!(outcome, Outcome::Passed) { passed } else { failed }) += 1;
        }
        writeln!(formatter, "{:<16}{:>7}{:>8}", "topic", "passed", "failed")?;
        for (topic, (passed, failed)) in &topics {
            writeln!(formatter, "{topic:<16}{passed:>7}{failed:>8}")?;
        }
        let (passed, failed) =
            topics.values().fold((0, 0), |(passed, failed), topic| (passed + topic.0, failed + topic.1));
        writeln!(formatter, "{:<16}{passed:>7}{failed:>8}", "all")
    }
}
