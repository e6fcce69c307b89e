//! Pools of addresses.

use std::collections::BTreeSet;

use portolan_api::IpRange;
use portolan_api::kubeovn::IpPoolConfig;

use super::requests::Topic;
use super::{Source, World};
use crate::dirty::Dirty;
use crate::doors;
use crate::holder::Read;
use crate::ip_pool::{IpPool, IpPoolProblem};
use crate::unreadable::Unreadable;

impl World {
    /// A pool of addresses.
    pub fn ip_pool(&self, name: &str) -> Option<&IpPool> {
        self.ip_pools.get(name)
    }

    /// The pools of a subnet that can be understood, by name.
    pub fn ip_pools_of_subnet(&self, subnet: &str) -> impl Iterator<Item = (&str, &IpPoolConfig)> {
        let pools = self.ip_pools_by_subnet.get(subnet).filter_map(|name| self.ip_pools.get(name));
        pools.filter_map(|pool| Some((pool.name.as_str(), pool.config.as_ref().ok()?)))
    }

    /// Addresses of a subnet that are kept for those who choose from a pool.
    pub fn pooled_ranges(&self, subnet: &str) -> impl Iterator<Item = IpRange> {
        self.ip_pools_of_subnet(subnet).flat_map(|(_, pool)| pool.ranges.iter().copied())
    }

    /// Why a pool is not in effect, if it is not.
    pub fn ip_pool_problem(&self, config: &IpPoolConfig) -> Option<IpPoolProblem> {
        let subnet = config.subnet.clone();
        match (self.subnet(&subnet), self.known_subnet(&subnet)) {
            (Some(subnet), _) => IpPoolProblem::out_of(subnet, config),
            (None, Some(_)) => Some(IpPoolProblem::SubnetNotReady { subnet }),
            (None, None) => Some(IpPoolProblem::SubnetNotFound { subnet }),
        }
    }

    /// Which other pool of its Subnet has addresses of a pool, if one has.
    pub fn ip_pool_overlap(&self, name: &str, config: &IpPoolConfig) -> Option<IpPoolProblem> {
        let overlaps = |a: &IpRange, b: &IpRange| {
            a.family() == b.family() && a.start() <= b.end() && b.start() <= a.end()
        };
        let mut others = self.ip_pools_of_subnet(&config.subnet).filter(|(other, _)| *other != name);
        others.find_map(|(other, theirs)| {
            let clash = |range: &&IpRange| theirs.ranges.iter().any(|their| overlaps(range, their));
            let range = *config.ranges.iter().find(clash)?;
            Some(IpPoolProblem::Overlaps { range, other: other.to_owned() })
        })
    }

    pub(super) fn set_ip_pool(&mut self, name: &str, new: Option<IpPool>, dirty: &mut Dirty) {
        if self.ip_pools.get(name) == new.as_ref() {
            return;
        }
        let subnet_of = |pool: &IpPool| pool.config.as_ref().ok().map(|config| config.subnet.clone());
        let after = new.as_ref().and_then(subnet_of);
        let old = match new {
            Some(pool) => self.ip_pools.insert(name.to_owned(), pool),
            None => self.ip_pools.remove(name),
        };
        let before = old.as_ref().and_then(subnet_of);
        if let Some(subnet) = &before {
            self.ip_pools_by_subnet.remove(subnet, name);
        }
        if let Some(subnet) = &after {
            self.ip_pools_by_subnet.insert(subnet.clone(), name.to_owned());
        }
        // What a pool keeps nobody else gets, so whoever waits for an address of the subnet may have one now.
        let subnets: BTreeSet<String> = before.into_iter().chain(after).collect();
        let mut topics = vec![Topic::IpPool(name.to_owned())];
        topics.extend(subnets.into_iter().map(Topic::Subnet));
        self.publish(&topics, dirty);
    }
}

impl Source for IpPool {
    type Key = String;
    fn key(&self) -> String {
        self.name.clone()
    }
    fn put(&self, world: &mut World, dirty: &mut Dirty) {
        world.set_ip_pool(&self.name, Some(self.clone()), dirty);
    }
    fn put_unreadable(object: &Unreadable<'_>, world: &mut World, dirty: &mut Dirty) {
        let pool = doors::kubeovn::unreadable_ip_pool(object);
        // What it keeps stays kept.
        if world.ip_pool(&pool.name).is_none_or(|known| known.uid != pool.uid) {
            pool.put(world, dirty);
        }
    }
    fn remove(key: &String, world: &mut World, dirty: &mut Dirty) {
        world.set_ip_pool(key, None, dirty);
    }
    fn keys(world: &World) -> Vec<String> {
        world.ip_pools.keys().cloned().collect()
    }
    fn read(key: &String) -> Option<Read> {
        Some(Read::IpPool { name: key.clone() })
    }
}
