//! CHECK: whether what an ADD made is still there as it was made, and what differs. It needs no API server.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

use ipnet::IpNet;
use portolan_cni::{CniError, Code};
use portolan_host::{Admits, Link, Route, Rtnetlink, guard};
use portolan_plan::host::{Datapath, LinkName, Sandbox};
use serde_json::Value;

use crate::call::{NetworkConfig, PodArgs, Selection};
use crate::del::blocking;
use crate::server::Agent;
use crate::wanted::{Call, Planned, Wanted, wanted};

/// An interface as ADD made it, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq)]
struct Expected {
    interface: String,
    mac: Option<String>,
    mtu: Option<u32>,
    addresses: Vec<IpNet>,
    iface_id: Option<String>,
    /// The routes by it that ADD would make now.
    planned_routes: Vec<Route>,
}

/// The pod's end of an interface as it is.
#[derive(Clone, Debug, Default, PartialEq)]
struct Found {
    link: Link,
    addresses: Vec<IpNet>,
    routes: Vec<Route>,
}

/// Whether what a call made is still there and carries traffic. A pod that got nothing, as it asked for nothing, passes.
pub(crate) async fn check(
    agent: &Agent,
    sandbox: &Sandbox,
    config: &NetworkConfig,
    args: &str,
    netns: OwnedFd,
) -> Result<(), CniError> {
    let made = config.previous.as_ref().and_then(|result| made_before(result, sandbox));
    let nothing = config.asks_for_nothing || made.as_ref().is_some_and(Vec::is_empty);
    if config.selection == Selection::Further && nothing {
        return Ok(());
    }
    agent.vswitch.ready().await;
    agent.engine.has_observed(agent.vswitch.revision()).await;
    let planned = planned(agent, sandbox, config, args);
    let (mut expected, routes) = match made {
        Some(made) => (made, config.previous.as_ref().map(routes_of).unwrap_or_default()),
        None => expected_of(&planned, sandbox),
    };
    for one in &mut expected {
        let plan = planned.iter().find(|plan| plan.interface == one.interface);
        one.iface_id = plan.map(|plan| plan.iface_id.clone());
        one.planned_routes = plan.map(|plan| plan.end.routes.clone()).unwrap_or_default();
    }
    let mut differences: Vec<String> =
        expected.iter().flat_map(|one| on_the_node(agent, sandbox, one)).collect();
    // A function that a driver for user space has is no link in the pod.
    let without_link: BTreeSet<String> = agent.engine.observed(|observed| {
        let is_without = |one: &&Expected| {
            let note = observed.note(&sandbox.link(&one.interface));
            note.and_then(|note| note.function.as_ref()).is_some_and(|function| function.link.is_none())
        };
        expected.iter().filter(is_without).map(|one| one.interface.clone()).collect()
    });
    let names: Vec<(String, LinkName)> =
        expected.iter().map(|one| (one.interface.clone(), sandbox.link(&one.interface))).collect();
    let netdev = agent.engine.observed(|observed| observed.datapath() == Some(Datapath::Netdev));
    let (found, host) = blocking(move || {
        let mut pod = Rtnetlink::open_in(netns.as_fd())?;
        let mut found = Vec::new();
        for (name, _) in &names {
            found.push(match pod.link(name)? {
                Some(link) => {
                    Some(Found { addresses: pod.addresses(&link)?, routes: pod.routes(&link)?, link })
                }
                None => None,
            });
        }
        let guarded: BTreeMap<String, Admits> =
            if netdev { guard::guarded()?.into_iter().collect() } else { BTreeMap::new() };
        let mut host = Vec::new();
        let mut node = Rtnetlink::open()?;
        for (interface, link) in &names {
            let is_up = node.link(link.as_str())?.is_some_and(|link| link.up);
            host.extend((!is_up).then(|| format!("{interface}: host-side link {link} is missing or down")));
            let is_guarded = !netdev || guarded.get(link.as_str()) == Some(&Admits::Nothing);
            host.extend((!is_guarded).then(|| format!("{interface}: host-side link {link} has no guard")));
        }
        Ok((found, host))
    })
    .await?;
    differences.extend(host);
    let (expected, found): (Vec<_>, Vec<_>) =
        expected.into_iter().zip(found).filter(|(one, _)| !without_link.contains(&one.interface)).unzip();
    differences.extend(in_the_pod(&expected, &routes, &found));
    if differences.is_empty() {
        return Ok(());
    }
    Err(CniError::new(Code::CheckFailed, "an interface is not as ADD made it", differences.join("; ")))
}

/// What the call would make now; empty if that is not known.
fn planned(agent: &Agent, sandbox: &Sandbox, config: &NetworkConfig, args: &str) -> Vec<Planned> {
    let Ok(pod) = PodArgs::parse(args) else { return Vec::new() };
    let call = Call {
        node: &agent.config.node,
        pod: &pod,
        interface: &sandbox.call,
        selection: &config.selection,
        cluster_networks: &agent.config.cluster_networks,
        service_networks: &agent.config.service_networks,
    };
    match agent.cluster.read(|known| wanted(&call, known)) {
        Wanted::Interfaces { interfaces, .. } => interfaces,
        _ => Vec::new(),
    }
}

/// The interfaces that a call made, as its result shows: each has its host-side link there too.
fn made_before(result: &Value, sandbox: &Sandbox) -> Option<Vec<Expected>> {
    let interfaces = result.get("interfaces")?.as_array()?;
    let names: BTreeSet<_> = interfaces.iter().filter_map(|one| one["name"].as_str()).collect();
    let made = interfaces.iter().enumerate().filter_map(|(index, one)| {
        let name = one["name"].as_str().filter(|name| names.contains(sandbox.link(name).as_str()))?;
        let ips = result["ips"].as_array().into_iter().flatten();
        let own = ips.filter(|ip| ip["interface"].as_u64() == u64::try_from(index).ok());
        Some(Expected {
            interface: name.to_owned(),
            mac: one["mac"].as_str().filter(|mac| !mac.is_empty()).map(str::to_lowercase),
            mtu: one["mtu"].as_u64().and_then(|mtu| u32::try_from(mtu).ok()),
            addresses: own.filter_map(|ip| ip["address"].as_str()?.parse().ok()).collect(),
            ..Expected::default()
        })
    });
    Some(made.collect())
}

/// The routes of a result. Which interface one goes by, it does not say.
fn routes_of(result: &Value) -> Vec<Route> {
    let routes = result["routes"].as_array().into_iter().flatten();
    let route = |one: &Value| {
        let gateway = one["gw"].as_str().and_then(|gateway| gateway.parse().ok());
        Some(Route { destination: one["dst"].as_str()?.parse().ok()?, gateway })
    };
    routes.filter_map(route).collect()
}

/// What is expected where no result of ADD was passed: what ADD would make, or at least the interface that the call names.
fn expected_of(planned: &[Planned], sandbox: &Sandbox) -> (Vec<Expected>, Vec<Route>) {
    if planned.is_empty() {
        return (vec![Expected { interface: sandbox.call.clone(), ..Expected::default() }], Vec::new());
    }
    let expected = planned.iter().map(|plan| Expected {
        interface: plan.interface.clone(),
        mac: Some(plan.end.mac.to_string()),
        mtu: Some(plan.end.mtu.into()),
        addresses: plan.end.addresses.clone(),
        ..Expected::default()
    });
    (expected.collect(), planned.iter().flat_map(|plan| plan.end.routes.clone()).collect())
}

/// What differs in Open vSwitch.
fn on_the_node(agent: &Agent, sandbox: &Sandbox, expected: &Expected) -> Vec<String> {
    let (name, interface) = (sandbox.link(&expected.interface), &expected.interface);
    let port = agent.engine.observed(|observed| observed.port(&name).cloned());
    let Some(port) = port else { return vec![format!("{interface}: it has no port {name} in Open vSwitch")] };
    let mut differences = Vec::new();
    match (&port.iface_id, &expected.iface_id) {
        (Some(is), Some(should)) if is == should => {}
        (Some(_), None) => {}
        (is, should) => {
            let text = |id: &Option<String>| id.clone().unwrap_or_else(|| "none".into());
            differences.push(format!(
                "{interface}: iface-id of port {name} is {}, not {}",
                text(is),
                should.clone().unwrap_or_else(|| "that of its attachment".into())
            ));
        }
    }
    if !agent.vswitch.is_installed(&port.tag) {
        differences.push(format!("{interface}: OVN has not installed port {name}"));
    }
    differences
}

/// What differs in the pod. What others added there is no difference.
fn in_the_pod(expected: &[Expected], routes: &[Route], found: &[Option<Found>]) -> Vec<String> {
    let mut differences = Vec::new();
    for (one, found) in expected.iter().zip(found) {
        let interface = &one.interface;
        let Some(Found { link, addresses, .. }) = found else {
            differences.push(format!("{interface}: there is no such link in the container"));
            continue;
        };
        if !link.up {
            differences.push(format!("{interface}: the link is down"));
        }
        let mac = link.mac.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":")).unwrap_or_default();
        if let Some(should) = one.mac.as_ref().filter(|should| **should != mac) {
            differences.push(format!("{interface}: the MAC address is {mac}, not {should}"));
        }
        if let Some(should) = one.mtu.filter(|should| *should != link.mtu) {
            differences.push(format!("{interface}: the MTU is {}, not {should}", link.mtu));
        }
        let missing = one.addresses.iter().filter(|address| !addresses.contains(address));
        differences.extend(missing.map(|address| format!("{interface}: it does not have address {address}")));
    }
    let is_planned = |one: &Expected, route: &Route| one.planned_routes.contains(route);
    // The routers of other plugins' interfaces are on no network of these.
    let is_by = |one: &Expected, route: &Route| {
        route.gateway.is_some_and(|gateway| one.addresses.iter().any(|net| net.contains(&gateway)))
    };
    for route in routes {
        let by = match expected.iter().any(|one| is_planned(one, route)) {
            true => is_planned as fn(&Expected, &Route) -> bool,
            false => is_by,
        };
        // Two interfaces may be on one network.
        let mut ways = expected.iter().zip(found).filter(|(one, _)| by(one, route)).peekable();
        let Some((first, _)) = ways.peek() else { continue };
        let name = first.interface.clone();
        if !ways.any(|(_, found)| found.as_ref().is_some_and(|found| found.routes.contains(route))) {
            differences.push(format!("{name}: it does not have route {route}"));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use serde_json::json;

    use super::*;

    fn sandbox() -> Sandbox {
        Sandbox { container: "cafe01".into(), call: "eth0".into() }
    }

    /// A result with another plugin's `eth0` and Portolan's `net1`.
    fn result() -> Value {
        let host = sandbox().link("net1").to_string();
        json!({ "interfaces": [{ "name": "eth0", "mac": "02:00:00:00:00:07", "sandbox": "/ns" }, { "name": host, "mac": "" },
                { "name": "net1", "mac": "0A:58:0A:00:00:07", "mtu": 1400, "sandbox": "/ns" }],
            "ips": [{ "address": "10.244.1.7/24", "interface": 0 }, { "address": "10.0.0.7/24", "interface": 2 }],
            "routes": [{ "dst": "0.0.0.0/0", "gw": "10.244.1.1" }, { "dst": "10.9.0.0/16", "gw": "10.0.0.1" }] })
    }

    fn found() -> Found {
        let link = Link { mac: Some([0x0a, 0x58, 0x0a, 0, 0, 7]), mtu: 1400, up: true, ..Link::default() };
        let route = |destination: &str, gateway: Option<&str>| Route {
            destination: destination.parse().unwrap(),
            gateway: gateway.map(|gateway| gateway.parse().unwrap()),
        };
        let addresses = ["10.0.0.7/24", "fe80::1/64"].map(|one| one.parse().unwrap()).into();
        let routes = vec![route("10.0.0.0/24", None), route("10.9.0.0/16", Some("10.0.0.1"))];
        Found { link, addresses, routes }
    }

    #[test]
    fn each_difference_in_the_pod_is_named_and_what_others_added_is_none() {
        let expected = made_before(&result(), &sandbox()).unwrap();
        assert_eq!(expected.iter().map(|one| one.interface.as_str()).collect::<Vec<_>>(), ["net1"]);
        let routes = routes_of(&result());
        let differences = |change: &dyn Fn(&mut Found)| {
            let mut found = found();
            change(&mut found);
            in_the_pod(&expected, &routes, &[Some(found)])
        };
        assert_eq!(differences(&|_| {}), Vec::<String>::new());
        for (change, said) in [
            (&(|found: &mut Found| found.link.up = false) as &dyn Fn(&mut Found), "net1: the link is down"),
            (
                &|found| found.link.mac = Some([2, 0, 0, 0, 0, 1]),
                "net1: the MAC address is 02:00:00:00:00:01, not 0a:58:0a:00:00:07",
            ),
            (&|found| found.link.mtu = 1500, "net1: the MTU is 1500, not 1400"),
            (&|found| found.addresses.clear(), "net1: it does not have address 10.0.0.7/24"),
            (&|found| found.routes.clear(), "net1: it does not have route 10.9.0.0/16 via 10.0.0.1"),
        ] {
            assert_eq!(differences(change), [said]);
        }
        // Where it is known by which interface a route goes, the way there does not matter: neither of these is by a router of its network.
        let route = |destination: &str, gateway: Option<&str>| Route {
            destination: destination.parse().unwrap(),
            gateway: gateway.map(|gateway| gateway.parse().unwrap()),
        };
        let others = [route("10.7.0.0/16", None), route("10.8.0.0/16", Some("192.0.2.1"))];
        assert_eq!(
            in_the_pod(&expected, &others, &[Some(found())]),
            Vec::<String>::new(),
            "another plugin's"
        );
        let mut planned = expected.clone();
        planned[0].planned_routes = others.to_vec();
        let mut whole = found();
        whole.routes.extend(others);
        assert_eq!(in_the_pod(&planned, &others, &[Some(whole)]), Vec::<String>::new());
        let said = [
            "net1: it does not have route 10.7.0.0/16",
            "net1: it does not have route 10.8.0.0/16 via 192.0.2.1",
        ];
        assert_eq!(in_the_pod(&planned, &others, &[Some(found())]), said);
        let missing = in_the_pod(&expected, &[], &[None]);
        assert_eq!(missing, ["net1: there is no such link in the container"]);
    }
}
