//! Gives services their addresses and ports.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use apimachinery::Status;
use apimachinery::group::GroupKind;
use apischema::FieldError;
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::super::address;
use super::super::stored;
use super::super::value::{field_mut, items, items_mut, number, object_mut, text, texts};
use super::families::{keep_given, settle_addresses, settle_families, wanted_addresses};
use super::pool::{Asked, Owner, Pool};
use super::range::{AddressRange, ServiceRanges};
use super::{needs_health_check, needs_node_ports, wants_node_ports};
use apiserver::admission::{Admission, Attributes, Operation};
use apiserver::api::Api;
use apiserver::endpoint::Endpoint;
use apiserver::registry::Resource;

/// Gives each Service the addresses and ports that it needs, none of them twice. It has to be the last to change a service.
///
/// What is given is kept in memory until the service is stored, and known from the stored services after a start. A service
/// that is not stored in the end, and one that is deleted, gives nothing back: whoever wants what it had finds that out.
#[derive(Debug)]
pub struct ServiceAddresses {
    ranges: ServiceRanges,
    pools: OnceCell<Mutex<Pools>>,
}

#[derive(Debug, Default)]
struct Pools {
    addresses: Pool<IpAddr>,
    ports: Pool<u16>,
}

impl ServiceAddresses {
    /// Gives addresses and ports of these ranges.
    pub fn new(ranges: ServiceRanges) -> ServiceAddresses {
        ServiceAddresses { ranges, pools: OnceCell::new() }
    }
}

impl Admission for ServiceAddresses {
    fn name(&self) -> &'static str {
        "ServiceAddresses"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation != Operation::Connect
    }

    fn admit<'a>(
        &'a self,
        api: &'a Api,
        attributes: Attributes<'a>,
        service: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        async move {
            let endpoint = attributes.endpoint;
            if !is_service(endpoint) || !endpoint.subresource.is_empty() {
                return Ok(());
            }
            let pools = self.pools.get_or_try_init(|| read_pools(api, &endpoint.resource)).await?;
            // A name that is yet to be generated cannot tell one service from another; a number can.
            let name = match text(&service["metadata"]["name"]) {
                "" => format!("{}{}", text(&service["metadata"]["generateName"]), fastrand::u64(..)),
                name => name.to_owned(),
            };
            let giver = Giver {
                ranges: &self.ranges,
                pools,
                api,
                resource: &endpoint.resource,
                owner: Owner { namespace: endpoint.namespace.clone(), name },
                dry_run: attributes.options.dry_run,
            };
            giver.give(service, attributes.old).await
        }
        .boxed()
    }

    fn validate<'a>(
        &'a self,
        _api: &'a Api,
        attributes: Attributes<'a>,
        _service: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let old = attributes.old.filter(|_| is_service(attributes.endpoint));
        if let (Some(old), Some(pools)) = (old, self.pools.get()) {
            let mut pools = pools.lock().unwrap_or_else(PoisonError::into_inner);
            note_stored(&mut pools, old, attributes.context.now);
        }
        std::future::ready(Ok(())).boxed()
    }
}

fn is_service(endpoint: &Endpoint) -> bool {
    endpoint.resource.group.is_empty() && endpoint.resource.plural == "services"
}

/// What the stored services have.
async fn read_pools(api: &Api, services: &Arc<Resource>) -> Result<Mutex<Pools>, Status> {
    let (mut pools, now) = (Pools::default(), Instant::now());
    for service in stored::all(api, services).await? {
        note(&mut pools, &service, now);
    }
    Ok(Mutex::new(pools))
}

fn note(pools: &mut Pools, service: &Value, seen: Instant) {
    let owner = owner_of(service);
    for address in addresses_of(service) {
        pools.addresses.seen(address, &owner, seen);
    }
    for port in ports_of(service) {
        pools.ports.seen(port, &owner, seen);
    }
}

/// Notes that a service is stored, because somebody changes or deletes it.
fn note_stored(pools: &mut Pools, service: &Value, asked_at: Timestamp) {
    let (owner, now) = (owner_of(service), Instant::now());
    for address in addresses_of(service) {
        pools.addresses.fulfilled(address, &owner, asked_at, now);
    }
    for port in ports_of(service) {
        pools.ports.fulfilled(port, &owner, asked_at, now);
    }
}

fn owner_of(service: &Value) -> Owner {
    let metadata = &service["metadata"];
    Owner { namespace: text(&metadata["namespace"]).into(), name: text(&metadata["name"]).into() }
}

fn addresses_of(service: &Value) -> Vec<IpAddr> {
    texts(&service["spec"]["clusterIPs"]).filter_map(address::parse).collect()
}

fn ports_of(service: &Value) -> Vec<u16> {
    let spec = &service["spec"];
    let ports = items(&spec["ports"]).iter().map(|port| number(&port["nodePort"]));
    let all = ports.chain([number(&spec["healthCheckNodePort"])]);
    all.filter_map(|port| u16::try_from(port).ok()).filter(|port| *port != 0).collect()
}

/// One giving.
struct Giver<'a> {
    ranges: &'a ServiceRanges,
    pools: &'a Mutex<Pools>,
    api: &'a Api,
    resource: &'a Arc<Resource>,
    owner: Owner,
    dry_run: bool,
}

impl Giver<'_> {
    async fn give(&self, service: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if let Some(old) = old {
            keep_given(service, old);
            keep_ports(service, old);
        }
        settle_addresses(service, old);
        settle_families(service, old, self.ranges).map_err(|errors| self.refuse(&errors))?;
        for (place, wanted) in wanted_addresses(service, old) {
            let given = self.address(service, place, &wanted).await?;
            let spec = object_mut(service, "spec");
            if place == 0 {
                spec.insert("clusterIP".into(), given.as_str().into());
            }
            let all = spec.entry("clusterIPs").or_insert_with(|| json!([]));
            if let Some(all) = all.as_array_mut() {
                all.truncate(place);
                all.push(given.into());
            }
        }
        self.node_ports(service, old).await?;
        self.health_check_port(service, old).await
    }

    fn refuse(&self, errors: &[FieldError]) -> Status {
        Status::invalid(&GroupKind::new("", "Service"), &self.owner.name, errors)
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn address(&self, service: &Value, place: usize, wanted: &str) -> Result<String, Status> {
        let is_v4 = text(&service["spec"]["ipFamilies"][place]) == "IPv4";
        let range = self.ranges.addresses.iter().find(|range| range.is_ipv4() == is_v4);
        let range = *range.ok_or_else(|| Status::internal_error("no range of the family"))?;
        if wanted.is_empty() {
            if self.dry_run {
                return Ok(range.network().to_string());
            }
            return match self.any_address(range).await? {
                Some(address) => Ok(address.to_string()),
                None => Err(Status::internal_error("failed to allocate a serviceIP: range is full")),
            };
        }
        let address = address::parse(wanted);
        let why = match address.filter(|address| range.place(*address).is_some()) {
            None => "the provided network does not match the current range",
            Some(address) => match self.get(address, |pools| &mut pools.addresses, addresses_of).await? {
                true => return Ok(wanted.to_owned()),
                false => "provided IP is already allocated",
            },
        };
        let detail = format!("failed to allocate IP {wanted}: {why}");
        let value = service["spec"]["clusterIPs"].clone();
        Err(self.refuse(&[FieldError::invalid("spec.clusterIPs", value, detail)]))
    }

    async fn any_address(&self, range: AddressRange) -> Result<Option<IpAddr>, Status> {
        let room = range.room();
        // The low addresses are left for those who want one in particular, as long as there are others.
        let low = (room / 16).clamp(16, 256).min(room);
        let first = if low < room { fastrand::u64(low..room) } else { 0 };
        let ask = |pools: &mut Pools| {
            let in_range = |address| range.place(address).is_some();
            pools.addresses.ask_any(
                room,
                first,
                |place| range.at(place),
                in_range,
                &self.owner,
                Instant::now(),
            )
        };
        let given = ask(&mut self.pools());
        match given {
            Some(address) => Ok(Some(address)),
            None => {
                self.look_again().await?;
                Ok(ask(&mut self.pools()))
            }
        }
    }

    /// A port that is none of those that the service uses already.
    async fn any_port(&self, used: &[u16]) -> Result<Option<u16>, Status> {
        let (least, most) = (*self.ranges.ports.start(), *self.ranges.ports.end());
        let room = u64::from(most.saturating_sub(least)) + 1;
        let low = (room / 32).clamp(16, 128).min(room);
        let first = if low < room { fastrand::u64(low..room) } else { 0 };
        let at = |place: u64| least + u16::try_from(place).expect("invariant: a port is below 2^16");
        let would_do = |port| self.ranges.ports.contains(&port) && !used.contains(&port);
        let ask =
            |pools: &mut Pools| pools.ports.ask_any(room, first, at, would_do, &self.owner, Instant::now());
        let given = ask(&mut self.pools());
        match given {
            Some(port) => Ok(Some(port)),
            None => {
                self.look_again().await?;
                Ok(ask(&mut self.pools()))
            }
        }
    }

    /// Forgets what services have no longer.
    async fn look_again(&self) -> Result<(), Status> {
        // Invariant: what is stored while the services are read was promised before, or is seen after.
        let before = Instant::now();
        let services = stored::all(self.api, self.resource).await?;
        let mut pools = self.pools();
        pools.addresses.forget_before(before);
        pools.ports.forget_before(before);
        for service in &services {
            note(&mut pools, service, before);
        }
        Ok(())
    }

    /// Asks for one thing. If somebody had it, it is looked up whether anybody still has.
    async fn get<T: Copy + Eq + std::hash::Hash>(
        &self,
        thing: T,
        pool: fn(&mut Pools) -> &mut Pool<T>,
        has: fn(&Value) -> Vec<T>,
    ) -> Result<bool, Status> {
        let ask = || {
            let mut pools = self.pools();
            let (pool, now) = (pool(&mut pools), Instant::now());
            if self.dry_run { pool.look(thing, &self.owner, now) } else { pool.ask(thing, &self.owner, now) }
        };
        let holder = match ask() {
            Asked::Given => return Ok(true),
            Asked::Promised => return Ok(false),
            Asked::Held(holder) => holder,
        };
        let endpoint = Endpoint::object(self.resource.clone(), &holder.namespace, &holder.name);
        let holder = stored::find(self.api, &endpoint).await?;
        if holder.is_some_and(|service| has(&service).contains(&thing)) {
            return Ok(false);
        }
        self.look_again().await?;
        Ok(ask() == Asked::Given)
    }

    async fn take_port(&self, port: i64) -> Result<(), String> {
        let known = u16::try_from(port).ok().filter(|port| self.ranges.ports.contains(port));
        let Some(known) = known else {
            let (least, most) = (self.ranges.ports.start(), self.ranges.ports.end());
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {least}-{most}"
            ));
        };
        match self.get(known, |pools| &mut pools.ports, ports_of).await {
            Ok(true) => Ok(()),
            Ok(false) => Err("provided port is already allocated".into()),
            Err(status) => Err(status.message),
        }
    }

    async fn node_ports(&self, service: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if !needs_node_ports(service) {
            return Ok(());
        }
        let (gives, had) = (wants_node_ports(service), old.map_or_else(Vec::new, ports_of));
        let ports = service["spec"]["ports"].clone();
        // Ports of one number and several protocols share the port on nodes.
        let mut by_port: HashMap<i64, i64> = HashMap::new();
        let mut invented = 0;
        for (index, port) in items(&ports).iter().enumerate() {
            let (number_of, own) = (number(&port["port"]), number(&port["nodePort"]));
            if own == 0 && !gives {
                continue;
            }
            let shared = by_port.get(&number_of).copied().filter(|_| own == 0 && old.is_none());
            let asked_for = items(&ports)
                .iter()
                .find(|other| number(&other["port"]) == number_of && number(&other["nodePort"]) != 0);
            let wanted = match (own, asked_for) {
                (0, Some(other)) if old.is_none() => number(&other["nodePort"]),
                (own, _) => own,
            };
            let given = if let Some(shared) = shared {
                shared
            } else if wanted != 0 {
                let is_had = had.iter().any(|had| i64::from(*had) == wanted);
                let is_again = by_port.values().any(|given| *given == wanted);
                let taken = match (is_again, old) {
                    _ if is_had || by_port.get(&number_of) == Some(&wanted) => Ok(()),
                    (true, Some(_)) => Ok(()),
                    (true, None) => Err("provided port is already allocated".into()),
                    (false, _) => self.take_port(wanted).await,
                };
                taken.map_err(|why| {
                    let path = format!("spec.ports[{index}].nodePort");
                    self.refuse(&[FieldError::invalid(path, wanted, why)])
                })?;
                wanted
            } else if self.dry_run {
                invented += 1;
                i64::from(*self.ranges.ports.end()) + 1 + invented
            } else {
                let mut used = ports_of(service);
                used.extend(by_port.values().filter_map(|port| u16::try_from(*port).ok()));
                let any = self.any_port(&used).await?;
                let any = any
                    .ok_or_else(|| Status::internal_error("failed to allocate a nodePort: range is full"))?;
                i64::from(any)
            };
            by_port.insert(number_of, given);
            if let Some(port) = items_mut(field_mut(service, "spec"), "ports").get_mut(index) {
                port["nodePort"] = given.into();
            }
        }
        Ok(())
    }

    async fn health_check_port(&self, service: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if !needs_health_check(service) || old.is_some_and(needs_health_check) {
            return Ok(());
        }
        let wanted = number(&service["spec"]["healthCheckNodePort"]);
        if wanted != 0 {
            return self.take_port(wanted).await.map_err(|why| {
                Status::internal_error(format!(
                    "failed to allocate requested HealthCheck NodePort {wanted}: {why}"
                ))
            });
        }
        let given = if self.dry_run {
            i64::from(*self.ranges.ports.end()) + 1
        } else {
            let any = self.any_port(&ports_of(service)).await?;
            i64::from(any.ok_or_else(|| {
                Status::internal_error("failed to allocate a HealthCheck NodePort 0: range is full")
            })?)
        };
        object_mut(service, "spec").insert("healthCheckNodePort".into(), given.into());
        Ok(())
    }
}

/// Fills in the ports on nodes that a client left out and the service was given before.
fn keep_ports(service: &mut Value, old: &Value) {
    if needs_node_ports(old)
        && wants_node_ports(old)
        && needs_node_ports(service)
        && wants_node_ports(service)
    {
        let port_of = |port: &Value| number(&port["nodePort"]);
        let used: Vec<_> =
            items(&service["spec"]["ports"]).iter().map(port_of).filter(|port| *port != 0).collect();
        for port in
            items_mut(field_mut(service, "spec"), "ports").iter_mut().filter(|port| port_of(port) == 0)
        {
            let before = items(&old["spec"]["ports"])
                .iter()
                .rfind(|before| text(&before["name"]) == text(&port["name"]));
            if let Some(before) = before.map(port_of).filter(|before| *before != 0 && !used.contains(before))
            {
                port["nodePort"] = before.into();
            }
        }
    }
    if needs_health_check(old)
        && needs_health_check(service)
        && number(&service["spec"]["healthCheckNodePort"]) == 0
    {
        let before = old["spec"]["healthCheckNodePort"].clone();
        object_mut(service, "spec").insert("healthCheckNodePort".into(), before);
    }
}
