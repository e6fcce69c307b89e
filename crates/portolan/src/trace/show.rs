//! What was found, as text and as JSON.

use serde_json::{Value, json};

use super::Trace;
use super::path::{End, Hop, Path};
use super::verdict::{Answer, Leg, Verdict};
use crate::output::wrap;

/// As text, for people, in lines that fit.
pub(crate) fn text(trace: &Trace, width: Option<usize>) -> String {
    let Trace { what, from, to, there, back, verdict } = trace;
    let outcome = match verdict {
        Verdict::Reachable => "reachable",
        Verdict::NotReachable => "not reachable",
        Verdict::Disagreement => "MODEL AND OVN DO NOT AGREE",
        Verdict::Unknown => "not known",
    };
    let mut text = format!("{what} from {from} to {to}: {outcome}\n\nThere:\n{}", leg(there));
    if let Some(back) = back {
        text += &format!("\nBack:\n{}", leg(back));
    }
    if *verdict == Verdict::Disagreement {
        text += "\nWhat to look at: the objects say one thing, OVN does another.\n";
        text += "  Just changed? Then OVN may be a moment behind: trace again.\n";
        text += "  Does the controller write?   portolan lab logs controller, or the logs of its pod\n";
        text += "  Does northd follow?          ovn-nbctl --wait=sb sync\n";
        text += "  What does OVN have?          ovn-nbctl show; ovn-sbctl show\n";
    }
    let lines: Vec<_> = text.lines().map(|line| wrap(line, width, 6)).collect();
    format!("{}\n", lines.join("\n"))
}

fn leg(leg: &Leg) -> String {
    let mut text = String::new();
    for (number, hop) in leg.path.hops.iter().enumerate() {
        let arrow = if number == 0 { "  " } else { "  → " };
        let by = match hop {
            Hop::Router { by, .. } if !by.is_empty() => {
                format!("   [{}]", by.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
            }
            _ => String::new(),
        };
        text += &format!("{arrow}{hop}{by}\n");
    }
    match &leg.path.end {
        End::Arrives => {}
        End::Stops(stop) => text += &format!("  ✗ {stop}\n  What to do: {}\n", stop.advice()),
        End::Unknown(why) => text += &format!("  ? {why}\n"),
    }
    for assumed in &leg.path.assumed {
        text += &format!("  Taken for granted: {assumed}.\n");
    }
    text += &match &leg.ovn {
        Answer::NotAsked if leg.path.leaves_the_pod() => "  OVN was not asked.\n".to_owned(),
        Answer::NotAsked => "  OVN was not asked: the packet never leaves the pod.\n".to_owned(),
        Answer::Agrees(how) => format!("  OVN agrees: {how}.\n"),
        Answer::Decides { how, .. } => format!("  OVN says: {how}.\n"),
        Answer::Disagrees(why) => format!("  OVN DOES NOT AGREE: {why}.\n"),
        Answer::Failed(why) => format!("  OVN could not be asked: {why}\n"),
    };
    text
}

/// As JSON, for programs.
pub(crate) fn json(trace: &Trace) -> anyhow::Result<String> {
    let value = json!({
        "from": trace.from,
        "to": trace.to,
        "traffic": trace.what,
        "verdict": trace.verdict,
        "there": leg_json(&trace.there),
        "back": trace.back.as_ref().map(leg_json),
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&value)?))
}

fn leg_json(leg: &Leg) -> Value {
    let Path { hops, end, assumed, .. } = &leg.path;
    let model = match end {
        End::Arrives => json!({"arrives": true}),
        End::Stops(stop) => json!({"arrives": false, "why": stop.to_string(), "advice": stop.advice()}),
        End::Unknown(why) => json!({"arrives": null, "why": why}),
    };
    let ovn = match &leg.ovn {
        Answer::NotAsked => json!({"asked": false}),
        Answer::Agrees(how) => json!({"asked": true, "agrees": true, "how": how}),
        Answer::Decides { arrives, how } => json!({"asked": true, "arrives": arrives, "how": how}),
        Answer::Disagrees(why) => json!({"asked": true, "agrees": false, "how": why}),
        Answer::Failed(why) => json!({"asked": true, "error": why}),
    };
    json!({"path": hops, "model": model, "ovn": ovn, "assumed": assumed})
}
