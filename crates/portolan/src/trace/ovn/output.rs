//! What `ovn-trace` says, as far as it is needed: which switches and routers a packet passed, and how it ended.

/// The way of a packet as OVN's own tool has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Traced {
    /// The logical switches and routers, by name.
    pub(crate) datapaths: Vec<String>,
    pub(crate) end: TracedEnd,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TracedEnd {
    /// It came out of a port.
    Output { port: String },
    /// It was dropped by this rule.
    Dropped(Flow),
    /// A router asked who has the next address in place of sending it: nobody is known to.
    Asked(Flow),
    /// It was turned into something else: `icmp4`, `tcp_reset`.
    Answered { by: Flow, with: String },
}

/// A logical flow that a packet met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) datapath: String,
    pub(crate) stage: String,
    pub(crate) priority: Option<u32>,
    pub(crate) matches: String,
}

/// Blocks of actions on a packet that was made in place of this one.
const QUESTIONS: [&str; 2] = ["arp", "nd_ns"];
const ANSWERS: [&str; 8] =
    ["icmp4", "icmp4_error", "icmp6", "icmp6_error", "tcp_reset", "reject", "nd_na", "nd_na_router"];

/// Reads what `ovn-trace --detailed` prints; none if that is not understood.
pub(crate) fn read(text: &str) -> Option<Traced> {
    follow(text).filter(|traced| !traced.datapaths.is_empty())
}

fn follow(text: &str) -> Option<Traced> {
    let mut datapaths: Vec<String> = Vec::new();
    let mut flow = Flow::default();
    let mut output = None;
    for line in text.lines() {
        let words = line.trim();
        if let Some(header) = words.strip_prefix("ingress(").or_else(|| words.strip_prefix("egress(")) {
            let datapath = quoted(header, "dp=")?;
            if words.starts_with("ingress(") {
                datapaths.push(datapath.clone());
            }
            flow = Flow { datapath, ..Flow::default() };
            output = None;
        } else if QUESTIONS.contains(&words) {
            return Some(Traced { datapaths, end: TracedEnd::Asked(flow) });
        } else if ANSWERS.contains(&words) {
            return Some(Traced { datapaths, end: TracedEnd::Answered { by: flow, with: words.to_owned() } });
        } else if words.starts_with("multicast(") {
            // Flooded, as nobody knows better: it was not for anyone.
            return Some(Traced { datapaths, end: TracedEnd::Dropped(flow) });
        } else if let Some((stage, rest)) = stage(words) {
            (flow.priority, flow.matches) = priority(rest);
            flow.stage = stage.to_owned();
        } else if let Some(rest) = words.strip_prefix("/* output to ") {
            let port = quoted(rest, "")?;
            output = if rest.contains("type \"patch\"") { None } else { Some(port) };
        }
    }
    let end = match output {
        Some(port) => TracedEnd::Output { port },
        None => TracedEnd::Dropped(flow),
    };
    Some(Traced { datapaths, end })
}

/// `13. lr_in_ip_routing (northd.c:12045): 1, priority 0, uuid 198f2bcc`: the stage, and what follows.
fn stage(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(". ")?;
    number.parse::<u32>().ok()?;
    let end = rest.find([' ', ':'])?;
    let (stage, rest) = rest.split_at(end);
    let rest = rest.strip_prefix(" (").and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
    Some((stage, rest.trim_start_matches([':', ' '])))
}

/// The priority and the match of `MATCH, priority N, uuid …`; neither where no flow matched.
fn priority(text: &str) -> (Option<u32>, String) {
    let Some((matches, rest)) = text.rsplit_once(", priority ") else { return (None, String::new()) };
    let digits = rest.split(',').next().unwrap_or_default();
    (digits.trim().parse().ok(), matches.to_owned())
}

/// The text in quotes after a key.
fn quoted(text: &str, key: &str) -> Option<String> {
    let after = &text[text.find(key)? + key.len()..];
    let inner = after.strip_prefix('"')?;
    Some(inner[..inner.find('"')?].to_owned())
}

#[cfg(test)]
mod tests;
