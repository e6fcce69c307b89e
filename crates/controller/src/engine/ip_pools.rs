//! What pools of addresses should say about themselves: how much of them is taken, and what is wrong.

use kube::ResourceExt;
use portolan_api::condition::ConditionStatus::{False, True};
use portolan_api::kubeovn::{IPPool, IpPoolStatus};
use portolan_api::portolan::LockAddress;
use portolan_api::{Family, IpCount, IpRange};
use portolan_ipam::{PoolUsage, WaitKey, list_ranges};
use portolan_model::{Claim, IpPool};
use portolan_watch::Change;

use super::readiness::Finding;
use super::{Engine, Kind};

impl Engine {
    /// Pools are about to change, or have changed: those of the same subnets may overlap them, or no more.
    pub(super) fn compare_pools_beside(&mut self, change: &Change<IPPool>) {
        match change {
            Change::Applied(pool) => self.compare_pools_beside_pool(&pool.name_any()),
            Change::Unreadable(unreadable) => self.compare_pools_beside_pool(&unreadable.object.name_any()),
            Change::Deleted(pool) => self.compare_pools_beside_pool(&pool.name_any()),
            // Any of them may be another now.
            Change::Listed(_) => self.compare_all_of(Kind::IPPool),
        }
    }

    /// A pool may change: those of its subnet are compared, itself among them.
    pub(super) fn compare_pools_beside_pool(&mut self, name: &str) {
        let config = self.world.ip_pool(name).and_then(|pool| pool.config.as_ref().ok());
        if let Some(subnet) = config.map(|config| config.subnet.clone()) {
            self.compare_pools_of_subnet(&subnet);
        }
    }

    /// A subnet changed, or one of its pools.
    pub(super) fn compare_pools_of_subnet(&mut self, subnet: &str) {
        let names: Vec<String> =
            self.world.ip_pools_of_subnet(subnet).map(|(name, _)| name.to_owned()).collect();
        names.iter().for_each(|name| self.compare_object(Kind::IPPool, name));
    }

    /// An address became taken or free: the pools that have it say so after a while, and whoever waits for one of them is to be
    /// woken.
    pub(super) fn pools_of(&mut self, claim: &Claim) -> Vec<WaitKey> {
        let LockAddress::Ip(ip) = claim.address else { return Vec::new() };
        // A gateway's lock, and one that cannot be read, may name no subnet: then it is any of the domain.
        let subnets: Vec<&str> = match &claim.subnet {
            Some(subnet) => vec![subnet],
            None => self.world.subnets_of_domain(&claim.domain).map(|subnet| subnet.name.as_str()).collect(),
        };
        let has = |ranges: &[IpRange]| ranges.iter().any(|range| range.contains(ip));
        let pools = subnets.into_iter().flat_map(|subnet| self.world.ip_pools_of_subnet(subnet));
        let names: Vec<String> =
            pools.filter(|(_, pool)| has(&pool.ranges)).map(|(name, _)| name.to_owned()).collect();
        names.iter().for_each(|name| self.conditions.defer(&[Kind::IPPool], name));
        names.into_iter().map(|name| WaitKey::Pool { name, family: Family::of(ip) }).collect()
    }

    /// What `Ready` of a pool should say.
    pub(super) fn pool_finding(&self, name: &str) -> Option<Finding> {
        let pool = self.world.ip_pool(name)?;
        if let Some((reason, message)) = self.pool_problem(pool) {
            return Some(Finding::new(False, reason, message).with_event());
        }
        Some(match self.pool_overlap(pool) {
            // Pools that overlap are used all the same.
            Some((reason, message)) => Finding::new(True, reason, message).with_event(),
            None => Finding::new(True, "InEffect", ""),
        })
    }

    /// How much of a pool is taken; nothing of one that cannot be understood.
    pub(super) fn pool_usage(&self, name: &str) -> Option<IpPoolStatus> {
        let pool = self.world.ip_pool(name)?;
        let Ok(config) = &pool.config else { return Some(IpPoolStatus::default()) };
        let of = |family| self.ipam.pool_usage(&self.world, config, family);
        let (v4, v6) = (of(Family::IPv4), of(Family::IPv6));
        let count = |ranges: &[IpRange]| IpCount(PoolUsage::count(ranges));
        Some(IpPoolStatus {
            v4_available_ips: count(&v4.available),
            v4_available_ip_range: list_ranges(&v4.available),
            v4_using_ips: count(&v4.using),
            v4_using_ip_range: list_ranges(&v4.using),
            v6_available_ips: count(&v6.available),
            v6_available_ip_range: list_ranges(&v6.available),
            v6_using_ips: count(&v6.using),
            v6_using_ip_range: list_ranges(&v6.using),
            ..IpPoolStatus::default()
        })
    }

    /// What is wrong with a pool, as a reason and for people.
    fn pool_problem(&self, pool: &IpPool) -> Option<(&'static str, String)> {
        let config = match &pool.config {
            Ok(config) => config,
            Err(errors) => return Some(("InvalidSpec", errors.to_string())),
        };
        let name = &config.subnet;
        let Some(subnet) = self.world.subnet(name) else {
            return Some(match self.world.known_subnet(name) {
                None => ("SubnetNotFound", format!("spec.subnet: there is no Subnet {name:?}")),
                Some(_) => (
                    "SubnetNotReady",
                    format!("spec.subnet: Subnet {name:?} is not in effect; see its conditions"),
                ),
            });
        };
        let is_outside = |range: &&IpRange| {
            !subnet.config.cidr.contains(range.start()) || !subnet.config.cidr.contains(range.end())
        };
        if let Some(range) = config.ranges.iter().find(is_outside) {
            let message =
                format!("spec.ips: {range} is not in Subnet {name}, which has {}", subnet.config.cidr);
            return Some(("OutOfSubnet", message));
        }
        None
    }

    /// Which pool of the same subnet has addresses of this one, as a reason and for people.
    fn pool_overlap(&self, pool: &IpPool) -> Option<(&'static str, String)> {
        let config = pool.config.as_ref().ok()?;
        let name = &config.subnet;
        let overlaps = |a: &IpRange, b: &IpRange| {
            a.family() == b.family() && a.start() <= b.end() && b.start() <= a.end()
        };
        self.world.ip_pools_of_subnet(name).filter(|(other, _)| *other != pool.name).find_map(
            |(other, theirs)| {
                let clash = |range: &&IpRange| theirs.ranges.iter().any(|their| overlaps(range, their));
                let range = config.ranges.iter().find(clash)?;
                let message = format!(
                    "spec.ips: {range} overlaps IPPool {other}; both are used, and share these addresses; remove them from one"
                );
                Some(("Overlaps", message))
            },
        )
    }
}
