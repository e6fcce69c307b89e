//! Stand-in until `portolan_model::guest` is there.
#![allow(missing_docs, dead_code)]
use ipnet::IpNet;
use portolan_api::Family;
use portolan_model::doors::pod::FIRST_INTERFACE;
use portolan_model::request::Wait;
use portolan_model::{Attachment, Requester, Subnet, World};
use std::net::IpAddr;

#[derive(Clone, Debug, PartialEq)]
pub struct Guest<'w> {
    pub interfaces: Vec<GuestInterface<'w>>,
    pub missing: Vec<Missing>,
}
#[derive(Clone, Debug, PartialEq)]
pub struct GuestInterface<'w> {
    pub attachment: &'w Attachment,
    pub subnet: &'w Subnet,
    pub addresses: Vec<IpNet>,
    pub gateways: Vec<IpAddr>,
    pub routes: Vec<Route>,
    pub dhcp_routers: Vec<IpAddr>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub destination: IpNet,
    pub gateway: Option<IpAddr>,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub interface: String,
    pub what: MissingPart,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingPart {
    Attachment,
    Request(Vec<Wait>),
}
#[derive(Clone, Debug, PartialEq)]
pub enum GuestState<'w> {
    Unknown,
    Nothing,
    Undecided,
    Decided(Guest<'w>),
}
impl<'w> GuestInterface<'w> {
    pub fn name(&self) -> &'w str {
        self.attachment.id.interface()
    }
}

pub fn guest<'w>(world: &'w World, namespace: &str, name: &str, _kept: &[IpNet]) -> GuestState<'w> {
    let Some(pod) = world.pod(namespace, name) else { return GuestState::Unknown };
    let request = world.request(&Requester::pod(namespace, name));
    let requests = request.as_ref().map(|r| r.interfaces.as_slice()).unwrap_or_default();
    let interfaces: Vec<_> = world
        .attachments()
        .filter(|a| a.id.namespace() == Some(namespace) && a.pod_uid() == Some(&pod.uid))
        .filter_map(|attachment| {
            let subnet = world.subnet(&attachment.subnet)?;
            let config = &subnet.config;
            let name = attachment.id.interface();
            let asked = requests.iter().find(|r| r.interface == name);
            let others = requests.iter().any(|o| o.interface != name && o.default_route.is_some());
            let addresses: Vec<IpNet> = attachment
                .addresses
                .iter()
                .filter_map(|ip| IpNet::new(*ip, config.cidr.net(Family::of(*ip))?.prefix_len()).ok())
                .collect();
            let gateways: Vec<IpAddr> = [Family::IPv4, Family::IPv6]
                .into_iter()
                .filter(|f| attachment.addresses_of(*f).next().is_some())
                .filter_map(|f| config.gateway.address(f))
                .collect();
            let gw = |f: Family| gateways.iter().copied().find(|g| Family::of(*g) == f);
            let mut routes: Vec<Route> = config
                .routes
                .iter()
                .chain(asked.into_iter().flat_map(|a| &a.routes))
                .filter_map(|r| {
                    let g = r.gateway.or_else(|| gw(Family::of_net(&r.destination)))?;
                    Some(Route { destination: r.destination, gateway: Some(g) })
                })
                .collect();
            let default = asked.and_then(|a| a.default_route.as_ref());
            let everything = |ip: IpAddr| match ip {
                IpAddr::V4(_) => IpNet::V4(Default::default()),
                IpAddr::V6(_) => IpNet::V6(Default::default()),
            };
            let takes = default.is_some() || (name == FIRST_INTERFACE && !others);
            if takes {
                let routers = default.filter(|r| !r.is_empty()).cloned().unwrap_or_else(|| gateways.clone());
                routes.extend(
                    routers.into_iter().map(|r| Route { destination: everything(r), gateway: Some(r) }),
                );
            }
            let dhcp_routers = if !takes && config.dhcp.is_some() && config.vpc.is_some() {
                gateways.clone()
            } else {
                Vec::new()
            };
            Some(GuestInterface { attachment, subnet, addresses, gateways, routes, dhcp_routers })
        })
        .collect();
    if !interfaces.is_empty() {
        return GuestState::Decided(Guest { interfaces, missing: Vec::new() });
    }
    if request.is_some() { GuestState::Undecided } else { GuestState::Nothing }
}
