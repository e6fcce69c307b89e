//! Who comes next when an address of a full subnet becomes free.

use std::collections::BTreeMap;

use portolan_model::Requester;

/// Those who wait for full subnets, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waiters {
    next_ticket: u64,
    tickets: BTreeMap<Requester, (u64, Vec<String>)>,
    queues: BTreeMap<String, BTreeMap<u64, Requester>>,
}

impl Waiters {
    /// Someone waits for these subnets. Who waits already keeps the place.
    pub fn wait(&mut self, requester: &Requester, subnets: impl IntoIterator<Item = String>) {
        let ticket = self.tickets.get(requester).map_or(self.next_ticket, |(ticket, _)| *ticket);
        self.remove(requester);
        self.next_ticket = self.next_ticket.max(ticket + 1);
        let subnets: Vec<_> = subnets.into_iter().collect();
        for subnet in &subnets {
            self.queues.entry(subnet.clone()).or_default().insert(ticket, requester.clone());
        }
        if !subnets.is_empty() {
            self.tickets.insert(requester.clone(), (ticket, subnets));
        }
    }

    /// Who is to be decided again now that an address of a subnet became free: the first in line, who keeps the place until
    /// [`leave`](Self::leave).
    pub fn first(&self, subnet: &str) -> Option<&Requester> {
        self.queues.get(subnet)?.values().next()
    }

    /// Someone got what was waited for, or is gone. Answers who is first in line now, for there may be more addresses free
    /// than there were events.
    pub fn leave(&mut self, requester: &Requester) -> Vec<Requester> {
        let subnets = self.remove(requester);
        subnets.iter().filter_map(|subnet| self.first(subnet).cloned()).collect()
    }

    fn remove(&mut self, requester: &Requester) -> Vec<String> {
        let Some((ticket, subnets)) = self.tickets.remove(requester) else { return Vec::new() };
        for subnet in &subnets {
            if let Some(queue) = self.queues.get_mut(subnet) {
                queue.remove(&ticket);
                if queue.is_empty() {
                    self.queues.remove(subnet);
                }
            }
        }
        subnets
    }

    /// How many wait for a subnet.
    pub fn len(&self, subnet: &str) -> usize {
        self.queues.get(subnet).map_or(0, BTreeMap::len)
    }

    /// True if no one waits.
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served() {
        let mut waiters = Waiters::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| Requester::pod("default", name));
        waiters.wait(&b, ["web".to_owned()]);
        waiters.wait(&a, ["web".to_owned(), "db".to_owned()]);
        waiters.wait(&c, ["db".to_owned()]);
        // Trying again in vain does not cost the place.
        waiters.wait(&b, ["web".to_owned()]);
        assert_eq!(waiters.first("web"), Some(&b));
        assert_eq!(waiters.leave(&b), std::slice::from_ref(&a));
        assert_eq!(waiters.first("db"), Some(&a));
        assert_eq!(waiters.leave(&a), std::slice::from_ref(&c));
        assert_eq!(waiters.leave(&a), []);
        assert_eq!(waiters.leave(&c), []);
        assert!(waiters.is_empty() && waiters.len("web") == 0);
    }
}
