//! `ovn-trace`: what OVN's logical flows do with a packet.
//!
//! It is a program of OVN's packages and answers one question on demand: nothing in the data or control path depends on it. It runs
//! without a shell, with a deadline, and dies with whoever waits for it. It reads the whole southbound database each time, so
//! callers bound how many run at once.

pub mod output;

use std::process::{Command, Stdio};
use std::time::Duration;

use ovsdb::{Endpoints, TlsFiles};

use self::output::{End, Traced};
use crate::error::OvnError;
use crate::packet::{Direction, Packet};

/// How long it may take.
const DEADLINE: Duration = Duration::from_secs(20);
/// How often connection tracking is consulted at most on a path: once where a packet enters a switch, once where it leaves.
const CONNTRACK_LOOKUPS: usize = 16;
/// How many next hops of one load-shared route are followed.
const MOST_NEXT_HOPS: u16 = 8;

/// A southbound database to trace in.
#[derive(Clone, Debug)]
pub struct OvnTrace {
    /// The southbound database.
    pub endpoints: Endpoints,
    /// Certificates for `ssl:` endpoints.
    pub tls: Option<TlsFiles>,
}

/// Several next hops share the load: where the packet goes by each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ways {
    /// By the first next hop.
    pub first: Traced,
    /// By the others, if a route shares the load.
    pub others: Vec<Traced>,
}

impl OvnTrace {
    /// Follows a packet, by every next hop where a route shares the load.
    ///
    /// # Errors
    /// When `ovn-trace` cannot be run, takes too long or prints something else.
    pub async fn follow(&self, packet: &Packet) -> Result<Ways, OvnError> {
        let first = self.run(packet, None).await?;
        let Some(next_hops) = first.next_hops else { return Ok(Ways { first, others: Vec::new() }) };
        let mut ways = Vec::new();
        for id in 1..=next_hops.min(MOST_NEXT_HOPS) {
            ways.push(self.run(packet, Some(id)).await?);
        }
        let others = ways.split_off(1.min(ways.len()));
        Ok(Ways { first: ways.pop().unwrap_or(first), others })
    }

    async fn run(&self, packet: &Packet, select: Option<u16>) -> Result<Traced, OvnError> {
        let mut command = Command::new("ovn-trace");
        let endpoints: Vec<_> = self.endpoints.now().iter().map(ToString::to_string).collect();
        command.arg(format!("--db={}", endpoints.join(",")));
        if let Some(tls) = &self.tls {
            let file = |option: &str, path: &std::path::Path| format!("--{option}={}", path.display());
            command
                .arg(file("private-key", &tls.private_key))
                .arg(file("certificate", &tls.certificate))
                .arg(file("ca-cert", &tls.ca));
        }
        command.args(arguments(packet, select)).stdin(Stdio::null());
        let running = tokio::process::Command::from(command).kill_on_drop(true).output();
        let output = match tokio::time::timeout(DEADLINE, running).await {
            Err(_) => return Err(OvnError::Late(DEADLINE)),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(OvnError::NotInstalled);
            }
            Ok(Err(error)) => return Err(OvnError::NotStarted(error)),
            Ok(Ok(output)) => output,
        };
        let printed = String::from_utf8_lossy(&output.stdout);
        if let Some(traced) = output::read(&printed).filter(|_| output.status.success()) {
            return Ok(traced);
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        let text = [complaint.trim(), printed.trim()].join(" ");
        Err(OvnError::Failed { status: output.status, output: shortened(text.trim()) })
    }
}

impl Ways {
    /// Every way, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = &Traced> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Whether all ways end alike.
    pub fn end_alike(&self) -> bool {
        let port = |traced: &Traced| match &traced.end {
            End::Output { port } => Some(port.clone()),
            _ => None,
        };
        self.others.iter().all(|other| port(other) == port(&self.first))
    }
}

fn arguments(packet: &Packet, select: Option<u16>) -> Vec<String> {
    let state = match packet.direction {
        Direction::Forward => "--ct=new",
        Direction::Reply => "--ct=est,rpl",
    };
    let mut arguments = vec!["--detailed".to_owned(), "--no-leader-only".to_owned()];
    arguments.extend(std::iter::repeat_n(state.to_owned(), CONNTRACK_LOOKUPS));
    arguments.extend(select.map(|id| format!("--select-id={id}")));
    // What follows is no option, whatever it begins with.
    arguments.extend(["--".to_owned(), packet.datapath.clone(), packet.microflow()]);
    arguments
}

/// At most a few lines, without control characters.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 500;
    text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
