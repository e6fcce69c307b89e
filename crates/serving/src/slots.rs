//! Who may hold how many connections: each peer as many as it likes while there is room, and a fair share when there is none.
//!
//! Peers that have shown a certificate come first: a connection without one makes room before any with one does. A connection has
//! shown none when it begins, so newcomers can always take the place of another; peers without a certificate, however many they
//! are, then lose to each other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;

/// Connections by peer. `I` identifies one.
#[derive(Debug)]
pub(crate) struct Slots<I> {
    most: usize,
    peers: HashMap<I, IpAddr>,
    uncertified: Held<I>,
    certified: Held<I>,
    /// How many there were.
    count: u64,
}

/// Each with its number, the oldest first. No peer without one.
type Held<I> = BTreeMap<IpAddr, VecDeque<(u64, I)>>;

/// Whether there is room for another connection of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room<I> {
    /// There is.
    Free,
    /// If this one ends.
    InPlaceOf(I),
    /// All have shown a certificate, and nobody holds more of them than this peer.
    No,
}

impl<I: Copy + Eq + Hash> Slots<I> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, peers: HashMap::new(), uncertified: Held::new(), certified: Held::new(), count: 0 }
    }

    pub(crate) fn room_for(&self, peer: IpAddr) -> Room<I> {
        if self.peers.len() < self.most {
            return Room::Free;
        }
        // Where nobody holds more, a peer's newcomer takes the place of its own oldest, and only a new peer's that of another's.
        let other = larger_share(&self.uncertified, peer)
            .or_else(|| self.uncertified.get(&peer))
            .or_else(|| largest_share(&self.uncertified))
            .or_else(|| larger_share(&self.certified, peer));
        other.and_then(VecDeque::front).map_or(Room::No, |(_, connection)| Room::InPlaceOf(*connection))
    }

    pub(crate) fn insert(&mut self, peer: IpAddr, connection: I) {
        self.uncertified.entry(peer).or_default().push_back((self.count, connection));
        self.peers.insert(connection, peer);
        self.count += 1;
    }

    /// A connection's peer has shown a certificate. One that is not held is none.
    pub(crate) fn certify(&mut self, connection: I) {
        let Some(peer) = self.peers.get(&connection) else { return };
        if let Some(numbered) = take(&mut self.uncertified, *peer, connection) {
            self.certified.entry(*peer).or_default().push_back(numbered);
        }
    }

    /// Forgets a connection that has ended. One that is not held is none.
    pub(crate) fn remove(&mut self, connection: I) {
        let Some(peer) = self.peers.remove(&connection) else { return };
        take(&mut self.uncertified, peer, connection);
        take(&mut self.certified, peer, connection);
    }
}

/// What the peer holds that holds the most; of several, the one with the oldest connection.
fn largest_share<I>(held: &Held<I>) -> Option<&VecDeque<(u64, I)>> {
    held.values().max_by_key(|share| (share.len(), Reverse(share.front().map(|(number, _)| *number))))
}

/// The same, if it is so much more than what this peer holds that it stays the larger or becomes equal by giving one: else peers
/// would take from each other in turns.
fn larger_share<I>(held: &Held<I>, peer: IpAddr) -> Option<&VecDeque<(u64, I)>> {
    let own = held.get(&peer).map_or(0, VecDeque::len);
    largest_share(held).filter(|share| share.len() >= own + 2)
}

fn take<I: Copy + Eq>(held: &mut Held<I>, peer: IpAddr, connection: I) -> Option<(u64, I)> {
    let share = held.get_mut(&peer)?;
    let at = share.iter().position(|(_, one)| *one == connection)?;
    let taken = share.remove(at);
    if share.is_empty() {
        held.remove(&peer);
    }
    taken
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
        slots.peers.values().filter(|one| **one == peer(by)).count()
    }

    #[test]
    fn one_peer_takes_all_slots_only_until_another_comes() {
        let mut slots = Slots::new(8);
        for connection in 0..8 {
            assert!(admit(&mut slots, 1, connection));
        }
        assert_eq!(slots.room_for(peer(1)), Room::InPlaceOf(0), "its own oldest goes");
        assert_eq!(slots.room_for(peer(2)), Room::InPlaceOf(0), "the oldest goes");
        for connection in 10..20 {
            admit(&mut slots, 2, connection);
        }
        assert_eq!((held(&slots, 1), held(&slots, 2)), (4, 4));
        for connection in 30..40 {
            admit(&mut slots, 1, connection);
            assert_eq!(
                (held(&slots, 1), held(&slots, 2)),
                (4, 4),
                "they do not take from each other in turns"
            );
        }
    }

    #[test]
    fn many_peers_without_a_certificate_make_room_for_a_new_one_and_before_certified_ones() {
        let mut slots = Slots::new(8);
        for from in 0..8 {
            assert!(admit(&mut slots, from, from.into()));
        }
        assert_eq!(slots.room_for(peer(100)), Room::InPlaceOf(0), "the oldest of all");
        assert!(admit(&mut slots, 100, 100));
        slots.certify(100);
        for from in 10..90 {
            assert!(admit(&mut slots, from, from.into()));
            assert_eq!((held(&slots, 100), slots.peers.len()), (1, 8));
        }
        assert!(admit(&mut slots, 100, 101), "another of the certified peer");
        assert_eq!(held(&slots, 100), 2);
    }

    #[test]
    fn certified_peers_have_a_fair_share_among_themselves() {
        let mut slots = Slots::new(8);
        for connection in 0..8 {
            assert!(admit(&mut slots, 1, connection));
            slots.certify(connection);
        }
        assert_eq!(slots.room_for(peer(1)), Room::No);
        for connection in 10..20 {
            if admit(&mut slots, 2, connection) {
                slots.certify(connection);
            }
        }
        assert_eq!((held(&slots, 1), held(&slots, 2)), (4, 4));
        assert_eq!((slots.room_for(peer(1)), slots.room_for(peer(2))), (Room::No, Room::No));
    }

    #[test]
    fn there_are_never_more_than_allowed_and_ended_ones_make_room() {
        let mut slots = Slots::new(3);
        for connection in 0..50 {
            admit(&mut slots, (connection % 7) as u8, connection);
            if connection % 3 == 0 {
                slots.certify(connection);
            }
            assert!(slots.peers.len() <= 3);
        }
        for connection in 0..50 {
            slots.remove(connection);
        }
        assert!(slots.uncertified.is_empty() && slots.certified.is_empty() && slots.peers.is_empty());
        assert_eq!(slots.room_for(peer(1)), Room::Free);
    }
}
