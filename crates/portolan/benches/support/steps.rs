//! What the steps of ADDs took, from the log of an agent.

use std::collections::BTreeMap;
use std::path::Path;

/// The steps that are the agent's own work, by the names that it gives them. Some go on while others do.
pub(crate) const OWN: [(&str, &str); 4] = [
    ("link", "pair of links made"),
    ("plug", "port in Open vSwitch"),
    ("configure", "addresses and routes set"),
    ("announce", "addresses announced"),
];

/// One ADD: its steps in milliseconds.
pub(crate) struct Call(BTreeMap<String, f64>);

impl Call {
    /// How long a step took; nothing if there was none.
    pub(crate) fn step(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// All of the call but the time in which it only waited for others: for its addresses, and for OVN after the pod's end was configured.
    pub(crate) fn own(&self) -> f64 {
        let [plug, configure] = ["plug", "configure"].map(|step| self.step(step));
        let only_waited = (plug + self.step("installed") - plug.max(configure)).max(0.0);
        self.step("total") - self.step("locks") - only_waited
    }
}

/// All calls that a log tells of.
pub(crate) fn all_in(log: &Path) -> Vec<Call> {
    let log = std::fs::read(log).unwrap();
    let text = String::from_utf8_lossy(&log);
    text.lines().map(without_colours).filter_map(|line| read(&line)).collect()
}

fn read(line: &str) -> Option<Call> {
    let fields = line.split(' ').filter_map(|field| field.split_once("_ms="));
    let steps: BTreeMap<_, _> =
        fields.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect();
    steps.contains_key("total").then_some(Call(steps))
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}
