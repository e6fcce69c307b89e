//! What the sending pod itself does with a packet: by which interface it leaves, and to whom. The routes are those that the agent
//! gives the pod; what the pod or another network plugin adds to them is not known here.

use std::net::IpAddr;

use portolan_api::Family;
use portolan_model::guest::{GuestInterface, GuestState, MissingPart, guest};
use portolan_model::request::Needs;
use portolan_model::{Requester, World};

use crate::error::Error;
use crate::question::PodName;

/// A pod with the interfaces that Portolan gives it.
#[derive(Clone, Debug)]
pub struct Guest<'w> {
    pub(crate) name: PodName,
    pub(crate) node: Option<String>,
    pub(crate) interfaces: Vec<GuestInterface<'w>>,
}

/// How a packet leaves a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit<'g, 'w> {
    pub(crate) interface: &'g GuestInterface<'w>,
    /// Whose MAC address the packet gets: the destination's, or a router's.
    pub(crate) next_hop: IpAddr,
    /// The pod has the route only if it asks by DHCP.
    pub(crate) by_dhcp: bool,
}

impl<'w> Guest<'w> {
    /// A pod with its interfaces.
    ///
    /// # Errors
    /// When there is no such pod, or when it has no interface of Portolan's, with the reason.
    pub fn find(world: &'w World, name: &PodName) -> Result<Self, Error> {
        let Some(pod) = world.pod(&name.namespace, &name.name) else {
            return Err(Error::NoPod(name.clone()));
        };
        let none = |why: String| Err(Error::NoInterface { pod: name.clone(), why });
        if pod.host_network {
            return none("uses its node's network and has no interface of its own".into());
        }
        if pod.finished {
            return none("has finished; its interfaces are removed".into());
        }
        if pod.node().is_none() {
            return none(
                "is on no node yet, so it has no interface; `kubectl describe pod` shows why".into(),
            );
        }
        let waiting = |why: &str| none(format!("has no interface of Portolan's yet: {why}"));
        match guest(world, &name.namespace, &name.name, &[]) {
            GuestState::Decided(found) if !found.interfaces.is_empty() => {
                Ok(Self { name: name.clone(), node: pod.node().map(str::to_owned), interfaces: found.interfaces })
            }
            GuestState::Decided(found) => {
                let parts = found.missing.iter().map(|missing| match &missing.what {
                    MissingPart::Attachment => format!("{}: its addresses or its Subnet are not in effect", missing.interface),
                    MissingPart::Request(waits) => {
                        let waits: Vec<_> = waits.iter().map(ToString::to_string).collect();
                        format!("{}: {}", missing.interface, waits.join("; "))
                    }
                });
                waiting(&parts.collect::<Vec<_>>().join("; "))
            }
            GuestState::Undecided | GuestState::Unknown => waiting(&why_undecided(world, name)),
            GuestState::Nothing => none(
                "asks for no interface of Portolan's; the annotation k8s.v1.cni.cncf.io/networks asks for one".into(),
            ),
        }
    }

    /// The interface and next hop by which a packet leaves, as the kernel chooses: the longest prefix, and of equals the first.
    pub(crate) fn exit(&self, to: IpAddr) -> Option<Exit<'_, 'w>> {
        longest(self.interfaces.iter().flat_map(|interface| ways(interface, to)))
    }

    /// The interface that has an address.
    pub(crate) fn with_address(&self, address: IpAddr) -> Option<&GuestInterface<'w>> {
        self.interfaces.iter().find(|interface| interface.attachment.addresses.contains(&address))
    }
}

/// The way to an address by one interface.
pub(crate) fn exit_by<'g, 'w>(interface: &'g GuestInterface<'w>, to: IpAddr) -> Option<Exit<'g, 'w>> {
    longest(ways(interface, to))
}

/// The first address of a family.
pub(crate) fn address(interface: &GuestInterface<'_>, family: Family) -> Option<IpAddr> {
    interface.attachment.addresses_of(family).next()
}

/// The routes that have an address, each with the length of its prefix.
fn ways<'g, 'w>(interface: &'g GuestInterface<'w>, to: IpAddr) -> impl Iterator<Item = (u8, Exit<'g, 'w>)> {
    let exit = move |next_hop, by_dhcp| Exit { interface, next_hop, by_dhcp };
    let on_link = interface.addresses.iter().find(|net| net.contains(&to));
    let on_link = on_link.map(|net| (net.prefix_len(), exit(to, false)));
    let routes = interface.routes.iter().filter(move |route| route.destination.contains(&to));
    let routes =
        routes.map(move |route| (route.destination.prefix_len(), exit(route.gateway.unwrap_or(to), false)));
    let same_family = move |router: &&IpAddr| Family::of(**router) == Family::of(to);
    let by_dhcp =
        interface.dhcp_routers.iter().filter(same_family).map(move |router| (0, exit(*router, true)));
    on_link.into_iter().chain(routes).chain(by_dhcp)
}

fn longest<E>(ways: impl Iterator<Item = (u8, E)>) -> Option<E> {
    let best = ways.fold(None, |best: Option<(u8, E)>, way| match best {
        Some(best) if way.0 <= best.0 => Some(best),
        _ => Some(way),
    });
    best.map(|(_, exit)| exit)
}

fn why_undecided(world: &World, name: &PodName) -> String {
    match world.needs(&Requester::pod(&name.namespace, &name.name)) {
        Needs::Interfaces(request) => {
            let problems = request.problems.iter().map(ToString::to_string);
            let reasons: Vec<_> = problems.chain(request.waits.iter().map(ToString::to_string)).collect();
            if reasons.is_empty() { "no address is assigned yet".to_owned() } else { reasons.join("; ") }
        }
        _ => "what it needs is not known yet".to_owned(),
    }
}
