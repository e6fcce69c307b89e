//! How long each step of an ADD took, from the logs of the agents.

use portolan_testbed::Testbed;

/// The steps in their order, by the names that the agents give them. They overlap.
const STEPS: [(&str, &str); 8] = [
    ("bridge", "ADD: bridge known to the agent"),
    ("locks", "ADD: addresses locked and seen"),
    ("link", "ADD: pair of links made"),
    ("plug", "ADD: port in Open vSwitch"),
    ("configure", "ADD: addresses and routes set"),
    ("installed", "ADD: flows installed by OVN"),
    ("announce", "ADD: addresses announced"),
    ("total", "ADD in all"),
];

/// What the steps of the last calls took, in milliseconds.
pub(crate) fn of_last(cluster: &Testbed, calls: usize) -> Vec<(&'static str, Vec<f64>)> {
    let agents = cluster.components();
    let agents = agents.iter().filter(|component| component.name().ends_with("/agent"));
    let mut lines: Vec<String> = agents
        .filter_map(|agent| std::fs::read(agent.log()?).ok())
        .flat_map(|log| {
            let text = String::from_utf8_lossy(&log).into_owned();
            text.lines().map(without_colours).filter(|line| line.contains("total_ms=")).collect::<Vec<_>>()
        })
        .collect();
    // They begin with the time.
    lines.sort();
    let last = &lines[lines.len().saturating_sub(calls)..];
    let taken = |step: &str| {
        let values = last.iter().filter_map(|line| line.split_once(&format!(" {step}_ms=")));
        values.filter_map(|(_, rest)| rest.split(' ').next()?.parse().ok()).collect()
    };
    STEPS.map(|(step, words)| (words, taken(step))).to_vec()
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}
