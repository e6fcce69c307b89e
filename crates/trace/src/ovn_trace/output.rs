//! What `ovn-trace --detailed` prints, as far as it is needed: the switches and routers that a packet passed, the logical flows
//! that it met there, and how it ended.

/// The path of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The logical switches and routers, in order. One that the packet returns to is there again.
    pub passages: Vec<Passage>,
    /// How it ended.
    pub end: End,
    /// How many next hops share the load, if a route on the path has several.
    pub next_hops: Option<u16>,
}

/// A packet in one logical switch or router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Its name.
    pub datapath: String,
    /// The flows that the packet met, of both pipelines.
    pub flows: Vec<Flow>,
}

/// How a packet ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It left by this logical port.
    Output {
        /// The port's name.
        port: String,
    },
    /// The last flow dropped it.
    Dropped,
    /// It went to every port of a switch, as none is known to have its MAC address.
    Flooded,
    /// A router sent an ARP or neighbour solicitation instead: it does not know the next hop's MAC address.
    NeighbourUnknown,
    /// It was replaced by an answer: `icmp4`, `tcp_reset`.
    Answered {
        /// OVN's name of the action.
        with: String,
    },
}

/// A logical flow that a packet met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Which half of a switch's or router's tables it is in.
    pub pipeline: Pipeline,
    /// The number of its table.
    pub table: i64,
    /// The name of its table, such as `lr_in_policy`.
    pub stage: String,
    /// Its priority; none where no flow matched.
    pub priority: Option<i64>,
    /// The first 32 bits of its UUID.
    pub uuid: Option<u32>,
    /// Its match.
    pub matches: String,
    /// Its actions, as they were carried out.
    pub actions: Vec<String>,
}

/// Half of a switch's or router's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pipeline {
    /// From a port to a decision.
    #[default]
    Ingress,
    /// From the decision to another port.
    Egress,
}

/// Blocks of actions on a packet that was made in place of the one that is followed.
const SOLICITATIONS: [&str; 2] = ["arp", "nd_ns"];
const ANSWERS: [&str; 8] =
    ["icmp4", "icmp4_error", "icmp6", "icmp6_error", "tcp_reset", "reject", "nd_na", "nd_na_router"];

/// Reads what `ovn-trace --detailed` prints; none if that is no trace.
pub fn read(text: &str) -> Option<Traced> {
    let mut reader = Reader::default();
    for line in text.lines() {
        if let Some(end) = reader.line(line.trim())? {
            return reader.traced(end);
        }
    }
    let end = reader.output.take().map_or(End::Dropped, |port| End::Output { port });
    reader.traced(end)
}

#[derive(Default)]
struct Reader {
    passages: Vec<Passage>,
    pipeline: Pipeline,
    /// The port that the present pipeline has put the packet out of.
    output: Option<String>,
    next_hops: Option<u16>,
}

impl Reader {
    /// Takes a line: none if it is not understood, and how the packet ended if it says so.
    fn line(&mut self, words: &str) -> Option<Option<End>> {
        if words.starts_with("ingress(") {
            let datapath = quoted(words, "dp=")?;
            self.passages.push(Passage { datapath, flows: Vec::new() });
            (self.pipeline, self.output) = (Pipeline::Ingress, None);
        } else if words.starts_with("egress(") {
            (self.pipeline, self.output) = (Pipeline::Egress, None);
        } else if SOLICITATIONS.contains(&words) {
            return Some(Some(End::NeighbourUnknown));
        } else if ANSWERS.contains(&words) {
            return Some(Some(End::Answered { with: words.to_owned() }));
        } else if words.starts_with("multicast(") {
            return Some(Some(End::Flooded));
        } else if let Some(flow) = flow(words, self.pipeline) {
            if let Some(passage) = self.passages.last_mut() {
                passage.flows.push(flow);
            }
        } else if let Some(rest) = words.strip_prefix("/* output to ") {
            let port = quoted(rest, "")?;
            self.output = if rest.contains("type \"patch\"") { None } else { Some(port) };
        } else if !words.is_empty() && !words.starts_with("---") {
            self.action(words);
        }
        Some(None)
    }

    fn action(&mut self, words: &str) {
        if let Some((_, list)) = words.split_once("= select(").filter(|_| self.next_hops.is_none()) {
            let count = list.split(')').next().unwrap_or_default().split(',').count();
            self.next_hops = u16::try_from(count).ok();
        }
        if let Some(flow) = self.passages.last_mut().and_then(|passage| passage.flows.last_mut()) {
            flow.actions.push(words.to_owned());
        }
    }

    fn traced(self, end: End) -> Option<Traced> {
        let Reader { passages, next_hops, .. } = self;
        (!passages.is_empty()).then_some(Traced { passages, end, next_hops })
    }
}

/// `13. lr_in_ip_routing (northd.c:12045): 1, priority 0, uuid 198f2bcc`, or `0. lr_in_admission: no match (implicit drop)`.
fn flow(line: &str, pipeline: Pipeline) -> Option<Flow> {
    let (number, rest) = line.split_once(". ")?;
    let table = number.parse().ok()?;
    let end = rest.find([' ', ':'])?;
    let (stage, rest) = rest.split_at(end);
    let rest = rest.strip_prefix(" (").and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
    let rest = rest.trim_start_matches([':', ' ']);
    let mut flow = Flow { pipeline, table, stage: stage.to_owned(), ..Flow::default() };
    if let Some((matches, rest)) = rest.rsplit_once(", priority ") {
        let (priority, uuid) = rest.split_once(", uuid ").unwrap_or((rest, ""));
        flow.priority = priority.trim().parse().ok();
        flow.uuid = u32::from_str_radix(uuid.trim(), 16).ok();
        flow.matches = matches.to_owned();
    }
    Some(flow)
}

/// The text in quotes after a key.
fn quoted(text: &str, key: &str) -> Option<String> {
    let after = &text[text.find(key)? + key.len()..];
    let inner = after.strip_prefix('"')?;
    Some(inner[..inner.find('"')?].to_owned())
}

impl Traced {
    /// The flow that the packet met last.
    pub fn last_flow(&self) -> Option<&Flow> {
        self.passages.iter().rev().find_map(|passage| passage.flows.last())
    }
}

impl Flow {
    /// The value that the flow gives to a register by `REGISTER = VALUE;`.
    pub fn assigned(&self, register: &str) -> Option<&str> {
        let assignment =
            |action: &&String| action.split_once(" = ").is_some_and(|(name, _)| name == register);
        let (_, value) = self.actions.iter().rev().find(assignment)?.split_once(" = ")?;
        Some(value.trim_end_matches(';'))
    }
}

impl Pipeline {
    /// OVN's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Pipeline::Ingress => "ingress",
            Pipeline::Egress => "egress",
        }
    }
}

#[cfg(test)]
mod tests;
