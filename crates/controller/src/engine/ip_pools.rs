//! What pools of addresses should say about themselves: how much of them is taken, and what is wrong.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use portolan_api::condition::{ConditionStatus, READY, SUPPORTED};
use portolan_api::kubeovn::support::unsupported_ip_pool;
use portolan_api::kubeovn::{IPPool, IpPoolStatus};
use portolan_api::portolan::LockAddress;
use portolan_api::{Family, FieldError, IpCount, IpRange};
use portolan_ipam::{PoolUsage, WaitKey, list_ranges};
use portolan_model::{Claim, IpPool, IpPoolProblem};
use portolan_watch::{Change, Listed};

use super::conditions::{Said, support};
use super::reports::Topic;
use super::{Action, DesiredCondition, Engine, HasConditions, Statement, Subject};

/// What the status of a pool should be.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolStatus {
    /// The pool's name.
    pub name: String,
    /// Its UID: another pool of its name is left alone.
    pub uid: String,
    /// How much of it is taken; without conditions.
    pub usage: IpPoolStatus,
    /// The conditions that differ.
    pub conditions: Vec<DesiredCondition>,
}

/// What a pool says about itself.
#[derive(Debug)]
struct Seen {
    uid: String,
    generation: Option<i64>,
    subnet: String,
    usage: IpPoolStatus,
    ready: Option<Said>,
    supported: Option<Said>,
    unsupported: Vec<String>,
}

/// What pools say about themselves, and which are to be compared with what they should say.
#[derive(Debug, Default)]
pub(super) struct IpPools {
    seen: BTreeMap<String, Seen>,
    to_compare: BTreeSet<String>,
}

impl IpPools {
    /// Nothing is to be compared until everything is.
    pub(super) fn forget_comparisons(&mut self) {
        self.to_compare.clear();
    }

    /// How many are to be compared.
    pub(super) fn comparisons(&self) -> usize {
        self.to_compare.len()
    }

    /// Everything is compared again.
    pub(super) fn begin_anew(&mut self) {
        self.to_compare = self.seen.keys().cloned().collect();
    }
}

impl Engine {
    /// Takes in a change of a pool.
    pub(super) fn observe_ip_pools(&mut self, change: &Change<IPPool>) {
        match change {
            Change::Applied(pool) => self.observe_ip_pool(pool),
            // Nothing can be written to what cannot be read.
            Change::Unreadable(unreadable) => self.forget_ip_pool(&unreadable.object.name_any()),
            Change::Deleted(pool) => self.forget_ip_pool(&pool.name_any()),
            Change::Listed(Listed { objects, .. }) => {
                let listed: BTreeSet<String> = objects.iter().map(ResourceExt::name_any).collect();
                let is_gone =
                    |name: &&String| !listed.contains(*name) && !self.world.is_missing_of::<IPPool>(*name);
                let gone: Vec<String> = self.ip_pools.seen.keys().filter(is_gone).cloned().collect();
                gone.iter().for_each(|name| self.forget_ip_pool(name));
                objects.iter().for_each(|pool| self.observe_ip_pool(pool));
            }
        }
    }

    fn observe_ip_pool(&mut self, pool: &IPPool) {
        let mut usage = pool.status.clone().unwrap_or_default();
        (usage.conditions, usage.unknown) = Default::default();
        let seen = Seen {
            uid: pool.uid().unwrap_or_default(),
            generation: pool.metadata.generation,
            subnet: pool.spec.subnet.clone().unwrap_or_default(),
            usage,
            ready: pool.says(READY),
            supported: pool.says(SUPPORTED),
            unsupported: unsupported_ip_pool(&pool.spec).iter().map(ToString::to_string).collect(),
        };
        self.forget_ip_pool(&pool.name_any());
        self.compare_pools_of_subnet(&seen.subnet);
        self.ip_pools.to_compare.insert(pool.name_any());
        self.ip_pools.seen.insert(pool.name_any(), seen);
    }

    pub(super) fn forget_ip_pool(&mut self, name: &str) {
        if let Some(seen) = self.ip_pools.seen.remove(name) {
            // Another one may overlap it no more.
            self.compare_pools_of_subnet(&seen.subnet);
        }
    }

    /// A subnet changed, or one of its pools.
    pub(super) fn compare_pools_of_subnet(&mut self, subnet: &str) {
        let names = self.world.ip_pools_of_subnet(subnet).map(|(name, _)| name.to_owned());
        self.ip_pools.to_compare.extend(names);
    }

    /// An address became taken or free: the pools that have it are to be compared, and whoever waits for one of them is to be woken.
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
        self.ip_pools.to_compare.extend(names.iter().cloned());
        names.into_iter().map(|name| WaitKey::Pool { name, family: Family::of(ip) }).collect()
    }

    /// Asks for what differs.
    pub(super) fn compare_ip_pools(&mut self) {
        for name in std::mem::take(&mut self.ip_pools.to_compare) {
            let Some(pool) = self.world.ip_pool(&name) else {
                self.ip_pools.seen.remove(&name);
                continue;
            };
            let Some(seen) = self.ip_pools.seen.get(&name) else { continue };
            let usage = self.pool_usage(pool);
            let problem = self.pool_problem(pool);
            // Pools that overlap are used all the same.
            let overlap = if problem.is_none() { self.pool_overlap(pool) } else { None };
            let status = problem.is_none().into();
            let (reason, message) =
                problem.or_else(|| overlap.clone()).unwrap_or(("InEffect", String::new()));
            let ready = Statement { status, reason, message };
            let desired = [
                (READY, Some(ready), seen.ready.as_ref()),
                (SUPPORTED, support(&seen.unsupported, seen.supported.as_ref()), seen.supported.as_ref()),
            ];
            let desired = desired.map(|(type_, says, said)| {
                (DesiredCondition { type_, generation: seen.generation, says }, said)
            });
            let says = desired.iter().filter_map(|(desired, _)| desired.says.as_ref());
            let problems = says
                .filter(|says| says.status != ConditionStatus::True)
                .map(|says| (says.reason, says.message.clone()));
            let problems = problems.chain(overlap).collect();
            let differing = desired.iter().filter(|(desired, said)| !desired.is_said_by(*said));
            let conditions: Vec<_> = differing.map(|(desired, _)| desired.clone()).collect();
            let uid = seen.uid.clone();
            if !conditions.is_empty() || usage != seen.usage {
                let status = PoolStatus { name: name.clone(), uid: uid.clone(), usage, conditions };
                self.actions.push(Action::SetPoolStatus(Box::new(status)));
            }
            let subject = Subject {
                api_version: "kubeovn.io/v1".to_owned(),
                kind: "IPPool".to_owned(),
                namespace: None,
                name,
            };
            self.report(subject, uid, Topic::Conditions, problems);
        }
    }

    fn pool_usage(&self, pool: &IpPool) -> IpPoolStatus {
        let Ok(config) = &pool.config else { return IpPoolStatus::default() };
        let of = |family| self.ipam.pool_usage(&self.world, config, family);
        let (v4, v6) = (of(Family::IPv4), of(Family::IPv6));
        let count = |ranges: &[IpRange]| IpCount(PoolUsage::count(ranges));
        IpPoolStatus {
            v4_available_ips: count(&v4.available),
            v4_available_ip_range: list_ranges(&v4.available),
            v4_using_ips: count(&v4.using),
            v4_using_ip_range: list_ranges(&v4.using),
            v6_available_ips: count(&v6.available),
            v6_available_ip_range: list_ranges(&v6.available),
            v6_using_ips: count(&v6.using),
            v6_using_ip_range: list_ranges(&v6.using),
            ..IpPoolStatus::default()
        }
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
