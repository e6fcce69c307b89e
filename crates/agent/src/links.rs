//! Links of the node and of pods. All of it blocks, and runs on threads that may.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ipnet::IpNet;
use portolan_api::Mac;
use portolan_host::rtnetlink::LinkSettings;
use portolan_host::{Error, Ethtool, Link, Result, Route, Rtnetlink, Veth, announce, guard};

use crate::call::Sandbox;
use crate::vswitch::Datapath;

/// The pod's end of an interface, as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEnd {
    pub(crate) mac: Mac,
    pub(crate) mtu: u16,
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) routes: Vec<Route>,
}

/// Makes an interface's pair of links: the pod's end down, the node's end up, noted and guarded.
pub(crate) fn make(
    sandbox: &Sandbox,
    interface: &str,
    netns: &Arc<OwnedFd>,
    mtu: u16,
    datapath: Datapath,
) -> Result<()> {
    let mut host = Rtnetlink::open()?;
    let name = sandbox.link(interface);
    // What an earlier try left. Nothing else has this name: it is a function of the container's id.
    host.delete_link(&name)?;
    let veth =
        Veth { name: &name, peer: interface, peer_netns: netns.as_fd(), peer_mac: None, mtu: mtu.into() };
    host.add_veth(&veth)?;
    host.set_link(&name, LinkSettings { alias: Some(&sandbox.alias(interface)), ..Default::default() })?;
    guard::ipv6_off(&name)?;
    if datapath == Datapath::Netdev {
        guard::drop_ingress(&name)?;
        Ethtool::open()?.checksum_offload_off(&name)?;
        Ethtool::open_in(netns.as_fd())?.checksum_offload_off(interface)?;
    }
    host.set_link(&name, LinkSettings { up: true, ..Default::default() })
}

/// Configures the pod's end. Everything in it is used as soon as it is there.
pub(crate) fn configure(
    sandbox: &Sandbox,
    interface: &str,
    netns: &Arc<OwnedFd>,
    end: &PodEnd,
) -> Result<Link> {
    let mtu = Some(end.mtu.into());
    Rtnetlink::open()?.set_link(&sandbox.link(interface), LinkSettings { mtu, ..Default::default() })?;
    let mut pod = Rtnetlink::open_in(netns.as_fd())?;
    let settings = LinkSettings { mac: Some(end.mac.octets()), mtu, up: true, alias: None };
    pod.set_link(interface, settings)?;
    let link = pod.link(interface)?.ok_or_else(|| Error::NoLink(interface.into()))?;
    for address in &end.addresses {
        pod.add_address(&link, *address)?;
    }
    for route in &end.routes {
        pod.set_route(&link, *route)?;
    }
    Ok(link)
}

/// Tells the neighbours who has the pod's addresses.
pub(crate) fn tell(netns: &Arc<OwnedFd>, link: &Link, end: &PodEnd) -> Result<()> {
    let addresses: Vec<IpAddr> = end.addresses.iter().map(IpNet::addr).collect();
    announce::announce(netns.as_fd(), link, end.mac.octets(), &addresses)
}

/// Removes all links of a call: those that are noted to be, and those that rows name. All are tried; the first error is returned.
pub(crate) fn remove(sandbox: &Sandbox, named: &[String], datapath: Datapath) -> Result<()> {
    let mut host = Rtnetlink::open()?;
    let prefix = sandbox.alias_prefix();
    let noted = host.links()?.into_iter().filter(|link| {
        link.alias.as_deref().is_some_and(|alias| alias.starts_with(&prefix))
            // One that was made and not noted yet.
            || link.name == sandbox.link(&sandbox.call)
    });
    let mut names: Vec<String> = noted.map(|link| link.name).chain(named.iter().cloned()).collect();
    names.sort();
    names.dedup();
    let mut outcome = Ok(());
    for name in names {
        if datapath == Datapath::Netdev {
            outcome = outcome.and(guard::release_ingress(&name));
        }
        outcome = outcome.and(host.delete_link(&name).map(drop));
    }
    outcome
}
