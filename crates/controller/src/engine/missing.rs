//! Objects that a list lacks: each is read live, and nothing changes for it until that has answered.
//!
//! One read of an object is under way at a time. If a later list lacks the object too, the answer may be older than that list, so
//! the object is read once more. A read that failed is made again after a pause, and not before, however many others are due.

use std::collections::BTreeSet;

use portolan_model::Group;
use portolan_model::holder::Read;

use super::kinds::{Kind, Observed};
use super::northbound::Evidence;
use super::{Action, Confirmation, Engine, Retry};

/// How far the live read of an object has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// It is under way. `again`: the answer may be older than what is known by now.
    UnderWay { again: bool },
    /// It failed, and is made again after a pause.
    Paused,
}

impl Engine {
    /// A list of a kind came, and the World knows what it lacks.
    pub(super) fn read_what_is_missing<K: Observed>(&mut self) {
        // Nearly always a list lacks nothing, and the kind may have very many objects.
        if self.world.missing().next().is_none() {
            return;
        }
        let reads = K::keys(&self.world).iter().filter_map(K::read).collect::<Vec<_>>();
        for read in reads {
            if self.world.is_missing(&read) {
                self.read_missing(read);
            }
        }
    }

    /// An object should exist that no watch has shown: it is read.
    pub(super) fn expect(&mut self, read: Read) {
        self.world.expect(read.clone());
        self.read_missing(read);
    }

    fn read_missing(&mut self, read: Read) {
        match self.reading.get_mut(&read) {
            Some(Reading::UnderWay { again }) => *again = true,
            Some(Reading::Paused) => {}
            None => self.ask(read),
        }
    }

    fn ask(&mut self, read: Read) {
        self.reading.insert(read.clone(), Reading::UnderWay { again: false });
        self.actions.push(Action::ReadMissing(read));
    }

    /// Live reads answered an [`Action::ReadMissing`].
    pub fn missing_read(&mut self, read: &Read, confirmation: &Confirmation) {
        let reading = self.reading.remove(read);
        if !self.world.is_missing(read) {
            return;
        }
        match confirmation {
            _ if reading == Some(Reading::UnderWay { again: true }) => self.ask(read.clone()),
            Confirmation::Found(found) => {
                let owner = self.world.uid_of(read).map(str::to_owned);
                if let Read::IpPool { name } = read {
                    self.compare_pools_beside_pool(name);
                }
                let dirty = self.world.settle_missing(read, found);
                self.follow_units(&dirty);
                self.note(dirty, &Evidence::Event(BTreeSet::from_iter(owner)));
                match read {
                    Read::Lock { name } => self.lock_read(name),
                    Read::Node { name } => {
                        self.nodes_changed = true;
                        self.observe_prefixes_of(name);
                    }
                    _ if self.world.uid_of(read).is_none() => self.forget(read),
                    _ => {}
                }
                // As when a watch shows them: each may be what stood in a subnet's way.
                if matches!(read, Read::Lock { .. } | Read::Vpc { .. } | Read::Nad { .. }) {
                    self.subnets.recheck();
                }
            }
            Confirmation::Failed => {
                self.reading.insert(read.clone(), Reading::Paused);
                self.retries.insert(Retry::Missing(read.clone()));
            }
        }
    }

    /// What is kept of an object besides the World goes with it.
    fn forget(&mut self, read: &Read) {
        if let Read::NetworkAttachment { namespace, name } = read {
            self.conditions.remove(&(Kind::NetworkAttachment, format!("{namespace}/{name}")));
        }
        let (kind, name) = match read {
            Read::IpPool { name } => (Kind::IPPool, name),
            Read::Vip { name } => (Kind::Vip, name),
            Read::Vpc { group: Group::Portolan, name } => (Kind::Vpc, name),
            Read::Vpc { group: Group::KubeOvn, name } => (Kind::KubeOvnVpc, name),
            Read::SubnetOf { group: Group::Portolan, name } => (Kind::Subnet, name),
            Read::SubnetOf { group: Group::KubeOvn, name } => (Kind::KubeOvnSubnet, name),
            _ => return,
        };
        self.conditions.remove(&(kind, name.clone()));
        self.forget_life(&(kind, name.clone()));
        if let Read::SubnetOf { group, name } = read {
            self.subnets.remove(&(*group, name.clone()));
        }
    }

    /// The pause after a read that failed is over.
    pub(super) fn read_after_pause(&mut self, read: Read) {
        self.reading.remove(&read);
        if self.world.is_missing(&read) {
            self.ask(read);
        }
    }
}
