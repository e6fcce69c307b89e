//! Who may hold how many connections: each peer as many as it likes while there is room, and a fair share when there is none.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;

/// Connections by peer. `I` identifies one.
#[derive(Debug)]
pub(crate) struct Slots<I> {
    most: usize,
    /// The oldest first. No peer without one.
    held: BTreeMap<IpAddr, VecDeque<I>>,
    peers: HashMap<I, IpAddr>,
}

/// Whether there is room for another connection of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room<I> {
    /// There is.
    Free,
    /// If this one ends: the oldest of the peer that holds the most.
    InPlaceOf(I),
    /// Nobody holds more than this peer.
    No,
}

impl<I: Copy + Eq + Hash> Slots<I> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, held: BTreeMap::new(), peers: HashMap::new() }
    }

    pub(crate) fn room_for(&self, peer: IpAddr) -> Room<I> {
        if self.peers.len() < self.most {
            return Room::Free;
        }
        let own = self.held.get(&peer).map_or(0, VecDeque::len);
        let largest = self.held.values().max_by_key(|held| held.len());
        match largest {
            // With one less the other would hold what this peer would then, or peers would take from each other in turns.
            Some(held) if held.len() >= own + 2 => held.front().copied().map_or(Room::No, Room::InPlaceOf),
            _ => Room::No,
        }
    }

    pub(crate) fn insert(&mut self, peer: IpAddr, connection: I) {
        self.held.entry(peer).or_default().push_back(connection);
        self.peers.insert(connection, peer);
    }

    /// Forgets a connection that has ended. One that is not held is none.
    pub(crate) fn remove(&mut self, connection: I) {
        let Some(peer) = self.peers.remove(&connection) else { return };
        let Some(held) = self.held.get_mut(&peer) else { return };
        held.retain(|one| *one != connection);
        if held.is_empty() {
            self.held.remove(&peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// Admits a connection as the listener does; false if it is refused.
    fn admit(slots: &mut Slots<u32>, from: u8, connection: u32) -> bool {
        match slots.room_for(peer(from)) {
            Room::No => return false,
            Room::InPlaceOf(other) => slots.remove(other),
            Room::Free => {}
        }
        slots.insert(peer(from), connection);
        true
    }

    fn held(slots: &Slots<u32>, by: u8) -> usize {
        slots.held.get(&peer(by)).map_or(0, VecDeque::len)
    }

    #[test]
    fn one_peer_takes_all_slots_only_until_another_comes() {
        let mut slots = Slots::new(8);
        for connection in 0..8 {
            assert!(admit(&mut slots, 1, connection));
        }
        assert!(!admit(&mut slots, 1, 8), "it cannot push out its own");
        assert_eq!(slots.room_for(peer(2)), Room::InPlaceOf(0), "the oldest goes");
        for connection in 10..20 {
            admit(&mut slots, 2, connection);
        }
        assert_eq!((held(&slots, 1), held(&slots, 2)), (4, 4));
        assert!(
            !admit(&mut slots, 1, 30) && !admit(&mut slots, 2, 31),
            "peers do not take from each other in turns"
        );
    }

    #[test]
    fn there_are_never_more_than_allowed_and_ended_ones_make_room() {
        let mut slots = Slots::new(3);
        for connection in 0..50 {
            admit(&mut slots, (connection % 7) as u8, connection);
            assert!(slots.peers.len() <= 3);
        }
        for connection in 0..50 {
            slots.remove(connection);
        }
        assert!(slots.held.is_empty() && slots.peers.is_empty());
        assert_eq!(slots.room_for(peer(1)), Room::Free);
    }
}
