//! What the steps of ADDs took, from the log of the agent.

use std::collections::BTreeMap;

use portolan_testbed::Testbed;

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

    /// All but the waits for others, as if the agent's steps came one after another: work that is done during a wait counts too, so
    /// this is never less than what a call would take if nothing were waited for.
    pub(crate) fn own(&self) -> f64 {
        let [link, plug, configure, announce] = OWN.map(|(step, _)| self.step(step));
        // Addresses, then the links that need them, then the port beside the pod's end, then the announcement.
        let on_the_way =
            self.step("locks") + link + (plug + self.step("installed")).max(configure) + announce;
        let between = (self.step("total") - on_the_way).max(0.0);
        link + plug + configure + announce + between
    }
}

/// The last calls.
pub(crate) fn of_last(testbed: &Testbed, calls: usize) -> Vec<Call> {
    let log = std::fs::read(testbed.agents()[0].log()).unwrap();
    let text = String::from_utf8_lossy(&log);
    let all: Vec<_> = text.lines().map(without_colours).filter_map(|line| read(&line)).collect();
    let earlier = all.len().saturating_sub(calls);
    all.into_iter().skip(earlier).collect()
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
