//! What pools of addresses should say about themselves: how much of them is taken, and what is wrong.

use kube::ResourceExt;
use portolan_api::condition::ConditionStatus::{False, True};
use portolan_api::kubeovn::{IPPool, IpPoolStatus};
use portolan_api::portolan::LockAddress;
use portolan_api::{Family, FieldError, IpCount, IpRange};
use portolan_ipam::{PoolUsage, WaitKey, list_ranges};
use portolan_model::{Claim, IpPool, IpPoolProblem};
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
        match &pool.config {
            Ok(config) => self.world.ip_pool_problem(config).as_ref().map(said),
            Err(errors) => Some(("InvalidSpec", errors.to_string())),
        }
    }

    /// Which pool of the same subnet has addresses of this one, as a reason and for people.
    fn pool_overlap(&self, pool: &IpPool) -> Option<(&'static str, String)> {
        self.world.ip_pool_overlap(&pool.name, pool.config.as_ref().ok()?).as_ref().map(said)
    }
}

fn said(problem: &IpPoolProblem) -> (&'static str, String) {
    (problem.reason(), FieldError::from(problem).to_string())
}
