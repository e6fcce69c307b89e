//! Gives functions to pods.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use portolan_api::Mac;
use portolan_host::rtnetlink::LinkSettings;
use portolan_host::{
    Admits, Error, Ethtool, Link, LinkKind, PciAddress, Result, Rtnetlink, VirtualFunction, guard,
};
use portolan_model::node::LEAST_MTU;
use portolan_plan::host::{self as plan, Datapath, FormerLink, Function, Note, Sandbox, Use};

use super::{Functions, address_of, in_use};
use crate::engine::Engine;
use crate::steps::{Reporter, Step};

impl Functions {
    /// Makes a function's link the pod's end of an interface and its representor the host-side link, guarded and up or, in the kernel's datapath,
    /// down. Answers the note with the function.
    pub(crate) fn take(
        &self,
        address: &PciAddress,
        note: Note,
        netns: &OwnedFd,
        datapath: Datapath,
        engine: &Engine,
    ) -> Result<Note> {
        let _claim = self.claim(address)?;
        let found = self.sysfs.virtual_function(address)?;
        let mut host = Rtnetlink::open()?;
        let representor = host.link(&found.representor)?;
        let representor = representor.ok_or_else(|| Error::NoLink(found.representor.clone()))?;
        let link = match found.is_for_user_space {
            true => None,
            false => self.link_on_node(&mut host, address)?,
        };
        let mut function = function_to_take(&found, &representor, link.as_ref(), &note.sandbox)?;
        if link.is_none() && function.mac.is_none() {
            let uplink = host.link(&found.uplink)?.ok_or_else(|| Error::NoLink(found.uplink.clone()))?;
            function.mac = host.function_mac(&uplink, found.index)?;
        }
        if let Some(link) = &link {
            self.refuse_unless_free(&mut host, address, link)?;
        }
        if Rtnetlink::open_in(netns.as_fd())?.link(&note.interface)?.is_some() {
            let problem = format!("cannot become {}: the pod has a link of this name", note.interface);
            return Err(Error::Device { address: address.to_string(), problem });
        }
        let note = Note { function: Some(function), ..note };
        let unit = note.link();
        engine.making(&unit, &note.sandbox);
        let steps = Reporter::new(&self.steps, &note.sandbox.container);
        let taken =
            connect(&mut host, (&representor, link.as_ref()), &note, netns, datapath, (engine, &steps));
        match &taken {
            Ok(()) => engine.made(&unit),
            Err(_) => {
                // If this fails too, the engine does it once the call is undone.
                let _ = self.release_claimed(&note, address, Some(netns));
                engine.not_made(&unit);
            }
        }
        taken.map(|()| note)
    }

    /// Refuses the link of a function that the node uses itself, and one that would not be found again in the pod.
    fn refuse_unless_free(&self, host: &mut Rtnetlink, address: &PciAddress, link: &Link) -> Result<()> {
        if !self.sysfs.is_link_of(link, address) {
            let problem = format!(
                "cannot be given to a pod: the kernel does not say that link {} is its own, as Linux does since 5.14, so nobody could tell it \
                 from others in the pod",
                link.name
            );
            return Err(Error::Device { address: address.to_string(), problem });
        }
        let used = |why: String| {
            Err(in_use(address, format!("is used by the node itself: its link {} {why}", link.name)))
        };
        if link.master.is_some() {
            return used("is a part of another link".into());
        }
        let is_of_node = |address: IpAddr| match address {
            IpAddr::V4(_) => true,
            IpAddr::V6(address) => !address.is_unicast_link_local() && !address.is_multicast(),
        };
        if let Some(address) = host.addresses(link)?.iter().find(|net| is_of_node(net.addr())) {
            return used(format!("has the address {address}"));
        }
        // The kernel removes it together with the link's place in this namespace.
        if let Some(upper) = host.links()?.into_iter().find(|other| other.lower == Some(link.index)) {
            return used(format!("carries link {}", upper.name));
        }
        if let Some(route) = host.routes(link)?.iter().find(|route| is_of_node(route.destination.addr())) {
            return used(format!("has a route to {}", route.destination));
        }
        Ok(())
    }

    /// Configures a function that has no link: whatever has the function finds its MAC address there.
    pub(crate) fn configure_without_link(&self, note: &Note, mac: Mac, mtu: u16) -> Result<()> {
        let Some(function) = &note.function else { return Ok(()) };
        let found = self.sysfs.virtual_function(&address_of(function)?)?;
        let mut host = Rtnetlink::open()?;
        let settings = LinkSettings { mtu: Some(mtu.into()), ..LinkSettings::default() };
        host.set_link(note.link().as_str(), settings)?;
        let uplink = host.link(&found.uplink)?.ok_or_else(|| Error::NoLink(found.uplink.clone()))?;
        host.set_function_mac(&uplink, found.index, mac.octets())
    }
}

/// What is to be noted of a function, unless a pod has it. A representor that still has the note of a sandbox which is gone says what both
/// links were called before.
fn function_to_take(
    found: &VirtualFunction,
    representor: &Link,
    link: Option<&Link>,
    sandbox: &Sandbox,
) -> Result<Function> {
    let address = &found.address;
    let before = representor.alias.as_deref().and_then(|alias| alias.parse::<Note>().ok());
    let before = before.and_then(|note| Some((note.function?, note.sandbox, note.interface)));
    let same_sandbox = before.as_ref().is_some_and(|(_, of, _)| of == sandbox);
    match (&before, link) {
        (Some((function, Sandbox { container, .. }, interface)), None)
            if function.used == Use::InUse && !same_sandbox =>
        {
            let by = format!(
                "is in use by container {container}, as its interface {interface}: two pods were given the same deviceID"
            );
            return Err(in_use(address, by));
        }
        (Some((_, Sandbox { container, .. }, _)), None) if !found.is_for_user_space => {
            let by = format!(
                "has not come back from container {container} yet, whose network namespace still exists"
            );
            return Err(in_use(address, by));
        }
        (None, None) if !found.is_for_user_space => {
            let by = "has no link in the node's network namespace: either another namespace has it, or no driver for network cards has \
                      the device";
            return Err(in_use(address, by.into()));
        }
        (None, _) if representor.master.is_some() => {
            let by = format!(
                "cannot be plugged: its representor {} is a part of another switch",
                representor.name
            );
            return Err(in_use(address, by));
        }
        _ => {}
    }
    let former = before.map(|(function, ..)| function);
    let as_it_is =
        |link: &Link| FormerLink { name: link.name.clone(), settings: link.mac.map(|mac| (mac, link.mtu)) };
    let mac = former.as_ref().and_then(|function| function.mac);
    let (noted, noted_link) = former.map(|function| (function.representor, function.link)).unzip();
    Ok(Function {
        address: address.to_string(),
        representor: noted.unwrap_or_else(|| as_it_is(representor)),
        link: link.map(|link| noted_link.flatten().unwrap_or_else(|| as_it_is(link))),
        mac,
        used: Use::InUse,
    })
}

/// Everything that [`Functions::take`] changes.
fn connect(
    host: &mut Rtnetlink,
    (representor, link): (&Link, Option<&Link>),
    note: &Note,
    netns: &OwnedFd,
    datapath: Datapath,
    (engine, steps): (&Engine, &Reporter),
) -> Result<()> {
    let (unit, interface) = (note.link(), note.interface.as_str());
    steps.during_work(Step::NoteFunction, || {
        if representor.up {
            host.set_down(representor)?;
        }
        // The interface's own MTU comes later, as with a pair of links.
        let mtu = Some(LEAST_MTU.into());
        host.rename(representor, unit.as_str(), Some(&note.to_string()), mtu)
    })?;
    guard::ipv6_off(unit.as_str())?;
    if datapath == Datapath::Netdev {
        let before = engine.before_guard();
        guard::guard(unit.as_str(), Admits::Nothing)?;
        engine.guard_made(&unit, plan::Admits::Nothing, before);
        tracing::warn!(
            interface,
            sandbox = note.sandbox.container,
            "the userspace datapath does not offload: ovs-vswitchd forwards what the function sends"
        );
    }
    if let Some(link) = link {
        steps.during_work(Step::MoveFunction, || host.move_link(link, netns.as_fd(), interface))?;
        // A card computes checksums by itself; of a pair of links nobody does.
        if datapath == Datapath::Netdev && link.kind == LinkKind::Veth {
            Ethtool::open()?.checksum_offload_off(unit.as_str())?;
            Ethtool::open_in(netns.as_fd())?.checksum_offload_off(interface)?;
        }
    }
    // The kernel reports the note with that.
    host.set_link(unit.as_str(), LinkSettings { up: true, ..LinkSettings::default() })?;
    match datapath {
        Datapath::Netdev => Ok(()),
        // Nothing guards it: the engine sets it up once it is a port.
        Datapath::System => host.set_down(representor),
    }
}
