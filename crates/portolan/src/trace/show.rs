//! An answer as text.

use portolan_trace::api::{Hop, Leg, Rule, TraceStatus, Verdict};

use crate::output::{plain, wrap};

/// The answer in lines that fit.
pub(crate) fn text(status: &TraceStatus, width: Option<usize>) -> String {
    let verdict = match status.verdict {
        Verdict::Reachable => "reachable",
        Verdict::NotReachable => "not reachable",
        Verdict::Disagreement => "OVN DOES NOT HAVE WHAT THE OBJECTS ASK FOR",
        Verdict::Unknown => "unknown",
    };
    let mut text = format!("{}: {verdict}\n\nForward:\n{}", plain(&status.question), leg(&status.forward));
    if let Some(reply) = &status.reply {
        text += &format!("\nReply:\n{}", leg(reply));
    }
    if status.verdict == Verdict::Disagreement {
        text += "\nWhat to check:\n";
        text += "  Objects just changed?        OVN may be a moment behind: trace again.\n";
        text += "  Does the controller run?     kubectl logs of its pod; portolan lab logs controller\n";
        text += "  Is ovn-northd up to date?    ovn-nbctl --wait=sb sync\n";
        text += "  What does OVN have?          ovn-nbctl show; ovn-sbctl show\n";
    }
    let lines: Vec<_> = text.lines().map(|line| wrap(line, width, 6)).collect();
    format!("{}\n", lines.join("\n"))
}

fn leg(leg: &Leg) -> String {
    let mut text = String::new();
    for (number, hop) in leg.path.iter().enumerate() {
        let arrow = if number == 0 { "  " } else { "  → " };
        text += &format!("{arrow}{}\n", self::hop(hop));
    }
    let sign = match leg.arrives {
        Some(true) => "✓",
        Some(false) => "✗",
        None => "?",
    };
    if let Some(cause) = &leg.cause {
        text += &format!("  {sign} {}\n", plain(&cause.message));
        if !cause.advice.is_empty() {
            text += &format!("  What to do: {}\n", plain(&cause.advice));
        }
    }
    for difference in &leg.differences {
        text += &format!("  Difference: {}\n", plain(&difference.message));
    }
    for note in &leg.notes {
        text += &format!("  Note: {}\n", plain(note));
    }
    if let Some(error) = &leg.error {
        text += &format!("  OVN could not be asked: {}\n", plain(error));
    }
    text
}

pub(crate) fn hop(hop: &Hop) -> String {
    match hop {
        Hop::Pod { name, interface, address, node, .. } => {
            let node = node.as_ref().map(|node| format!(", {node}")).unwrap_or_default();
            format!("pod {} ({address}, {interface}{node})", plain(name))
        }
        Hop::Switch { name, rules } => format!("switch {}{}", plain(name), self::rules(rules)),
        Hop::Router { name, rules } => format!("router {}{}", plain(name), self::rules(rules)),
        Hop::Peering { from, to } => format!("peering {from} – {to}"),
        Hop::Tunnel { from, to, encapsulation } => {
            let ends = encapsulation.as_ref().map(|ends| format!(" ({ends})")).unwrap_or_default();
            format!("tunnel {from} → {to}{ends}")
        }
    }
}

fn rules(rules: &[Rule]) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let texts: Vec<_> = rules.iter().map(|rule| plain(&rule.text)).collect();
    format!("   [{}]", texts.join("; "))
}

#[cfg(test)]
mod tests;
