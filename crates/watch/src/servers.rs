//! Which API server the next connection goes to, and which connections end. Without IO, clocks and randomness: it is told what was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

/// How long a server that is of no use stands for all: where another one fails soon after, what they have in common is to blame, such as
/// etcd, and going from one to the other would only add to it.
const GIVE_UP_AGAIN: Duration = Duration::from_secs(30);

/// One of the API servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Server {
    /// What the configuration names, be it one of them or something that leads to them.
    Given,
    /// One that the cluster lists.
    At(SocketAddr),
}

/// Says of a connection which server it is to, and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    server: Server,
    begun: u64,
}

impl Ticket {
    pub(crate) fn server(self) -> Server {
        self.server
    }
}

/// The API servers of a cluster, as one process knows them.
///
/// Invariant: there is always one to try. What was given stays for ever, at the end if nothing else; what was listed goes only when others
/// are listed.
#[derive(Debug)]
pub(crate) struct Servers {
    /// The address that was given, if that is one.
    given: Option<SocketAddr>,
    /// The first is tried first.
    order: Vec<Server>,
    /// The last list that named any.
    listed: BTreeSet<SocketAddr>,
    /// Since when a server is not what it was: connections that were begun before end.
    given_up: BTreeMap<Server, u64>,
    /// Counts what was given up.
    time: u64,
    /// Those of which nothing was heard when a connection was tried last.
    silent: BTreeSet<Server>,
    /// When a server was of no use.
    last_useless: Option<Instant>,
    current: Option<Server>,
    changes: u64,
}

impl Servers {
    /// What was given is tried first, then what was known when the process ended that was here before.
    pub(crate) fn new(given: Option<SocketAddr>, last_known: &[SocketAddr]) -> Self {
        let mut servers = Servers {
            given,
            order: vec![Server::Given],
            listed: last_known.iter().copied().collect(),
            given_up: BTreeMap::new(),
            time: 0,
            silent: BTreeSet::new(),
            last_useless: None,
            current: None,
            changes: 0,
        };
        servers.add(last_known);
        servers
    }

    /// All of them, in the order in which a connection is to be tried.
    pub(crate) fn order(&self) -> &[Server] {
        &self.order
    }

    /// What tells connections that begin now from those that began before a server was given up.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// The addresses that the cluster listed last, or that were known at the start.
    pub(crate) fn listed(&self) -> &BTreeSet<SocketAddr> {
        &self.listed
    }

    /// To which one the last connection went.
    pub(crate) fn current(&self) -> Option<Server> {
        self.current
    }

    /// How often a connection went to another one than the one before.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// A connection came about that was begun then. Says whether it is to another server than the one before.
    pub(crate) fn connected(&mut self, server: Server, begun: u64) -> (Ticket, bool) {
        self.silent.remove(&server);
        let before = self.current.replace(server);
        let changed = before.is_some_and(|before| before != server);
        self.changes += u64::from(changed);
        (Ticket { server, begun }, changed)
    }

    /// No connection came about: the others come first. Connections that there are may go on.
    pub(crate) fn refused(&mut self, server: Server) {
        if let Some(at) = self.order.iter().position(|other| *other == server) {
            let server = self.order.remove(at);
            self.order.push(server);
        }
    }

    /// No connection came about, and nothing was heard of the server meanwhile. The same may be true of connections that there are.
    pub(crate) fn silent(&mut self, server: Server) {
        self.refused(server);
        if self.order.contains(&server) {
            self.silent.insert(server);
        }
    }

    /// A connection came about after others were silent: what is connected with those goes to another too. Returns them.
    pub(crate) fn leave_silent(&mut self, now: Instant) -> BTreeSet<Server> {
        if self.silent.is_empty() || self.is_too_soon(now) {
            return BTreeSet::new();
        }
        let silent = std::mem::take(&mut self.silent);
        for server in &silent {
            self.give_up(*server);
        }
        self.last_useless = Some(now);
        silent
    }

    /// Whether it would change anything if a server were of no use.
    pub(crate) fn may_leave(&self, ticket: Ticket, now: Instant) -> bool {
        self.order.len() > 1 && !self.is_too_soon(now) && self.keeps(ticket)
    }

    /// A server that accepts connections is of no use: what is connected with it goes to another, if there is one. Says whether
    /// that changes anything.
    pub(crate) fn useless(&mut self, ticket: Ticket, now: Instant) -> bool {
        if !self.may_leave(ticket, now) {
            return false;
        }
        self.last_useless = Some(now);
        self.give_up(ticket.server);
        true
    }

    /// The cluster lists these, those that are new in the order in which they are to be tried. An empty list says nothing: an API server
    /// gave it. Says whether it is another list than before.
    pub(crate) fn list(&mut self, addresses: &[SocketAddr]) -> bool {
        let listed: BTreeSet<_> = addresses.iter().copied().collect();
        if listed.is_empty() || listed == self.listed {
            return false;
        }
        let before = std::mem::replace(&mut self.listed, listed);
        let (listed, given_up) = (&self.listed, &mut self.given_up);
        let is_left = |server: &Server| matches!(server, Server::At(address) if !listed.contains(address));
        self.order.retain(|server| !is_left(server));
        given_up.retain(|server, _| !is_left(server));
        self.silent.retain(|server| !is_left(server));
        self.add(addresses);
        if self.given.is_some_and(|given| before.contains(&given) && !self.listed.contains(&given)) {
            self.give_up(Server::Given);
        }
        true
    }

    /// Whether a connection may go on.
    pub(crate) fn keeps(&self, ticket: Ticket) -> bool {
        let given_up = self.given_up.get(&ticket.server);
        self.order.contains(&ticket.server) && given_up.is_none_or(|time| *time <= ticket.begun)
    }

    fn add(&mut self, addresses: &[SocketAddr]) {
        for address in addresses {
            // What was given has its own way to it, by which its certificate is known to be verified.
            if self.given != Some(*address) && !self.order.contains(&Server::At(*address)) {
                self.order.push(Server::At(*address));
            }
        }
    }

    fn is_too_soon(&self, now: Instant) -> bool {
        self.last_useless.is_some_and(|last| now < last + GIVE_UP_AGAIN)
    }

    fn give_up(&mut self, server: Server) {
        self.time += 1;
        self.given_up.insert(server, self.time);
        self.refused(server);
    }
}

#[cfg(test)]
mod tests;
