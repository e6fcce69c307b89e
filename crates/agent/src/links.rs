//! Links of the node and of pods. All of it blocks, and runs on threads that may.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use ipnet::IpNet;
use portolan_api::Mac;
use portolan_host::rtnetlink::LinkSettings;
use portolan_host::{
    Admits, Error, Ethtool, Link, Result, Route, Rtnetlink, Tap, Veth, announce, guard, tap,
};
use portolan_plan::host::{self as plan, Change, Datapath, DesiredTap, LinkName, Note, Preparation};

use crate::engine::Engine;
use crate::functions::Functions;
use crate::host_work::Outcome;
use crate::steps::{ChangeHook, Moment, Reporter, Step};

const EEXIST: i32 = 17;

/// The pod's end of an interface, as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEnd {
    pub(crate) mac: Mac,
    pub(crate) mtu: u16,
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) routes: Vec<Route>,
    /// Networks that stay with the pod's other interfaces if this one takes the default route.
    pub(crate) kept: Vec<IpNet>,
}

/// Makes an interface's pair of links: the pod's end down, the node's end noted, and guarded and up or, in the kernel's datapath, down: the engine
/// sets it up once it is a port.
pub(crate) fn make(
    note: &Note,
    netns: &OwnedFd,
    mtu: u16,
    datapath: Datapath,
    (engine, steps): (&Engine, &Reporter),
) -> Result<()> {
    let name = note.link();
    engine.making(&name, &note.sandbox);
    let made = make_guarded(note, netns, mtu, datapath, (engine, steps));
    if made.is_err() {
        // Without a note nobody knows whose it is. If this fails too, the engine removes it.
        let _ = Rtnetlink::open().and_then(|mut host| host.delete_link(name.as_str()));
        engine.not_made(&name);
    }
    made
}

fn make_guarded(
    note: &Note,
    netns: &OwnedFd,
    mtu: u16,
    datapath: Datapath,
    (engine, steps): (&Engine, &Reporter),
) -> Result<()> {
    let mut host = Rtnetlink::open()?;
    let (name, interface) = (note.link(), note.interface.as_str());
    let veth = Veth {
        name: name.as_str(),
        peer: interface,
        peer_netns: netns.as_fd(),
        peer_mac: None,
        mtu: mtu.into(),
    };
    steps.during_work(Step::Pair, || {
        let made = host.add_veth(&veth);
        let exists = made.as_ref().is_err_and(|error| error.os_error() == Some(EEXIST));
        // What a call that was interrupted left. Nothing else has this name: it is a function of the container's id.
        if exists && host.delete_link(name.as_str())? { host.add_veth(&veth) } else { made }
    })?;
    steps.during_work(Step::Guard, || {
        guard::ipv6_off(name.as_str())?;
        if datapath == Datapath::Netdev {
            let before = engine.before_guard();
            guard::guard(name.as_str(), Admits::Nothing)?;
            engine.guard_made(&name, plan::Admits::Nothing, before);
            Ethtool::open()?.checksum_offload_off(name.as_str())?;
            Ethtool::open_in(netns.as_fd())?.checksum_offload_off(interface)?;
        }
        Ok(())
    })?;
    // With its note the link counts as one of a living sandbox: the engine gives it a port.
    steps.during_work(Step::Note, || match datapath {
        Datapath::Netdev => {
            let text = note.to_string();
            let settings = LinkSettings { alias: Some(&text), up: true, ..Default::default() };
            host.set_link(name.as_str(), settings)
        }
        Datapath::System => set_note(note),
    })
}

/// Notes on a link what it is for.
pub(crate) fn set_note(note: &Note) -> Result<()> {
    let (name, text) = (note.link(), note.to_string());
    let mut host = Rtnetlink::open()?;
    host.set_link(name.as_str(), LinkSettings { alias: Some(&text), ..Default::default() })?;
    // Of a link that is down the kernel reports no note; but that it was given an address, be it the one that it has.
    let mac = host.link(name.as_str())?.and_then(|link| link.mac);
    host.set_link(name.as_str(), LinkSettings { mac, ..Default::default() })
}

/// Makes a tap, down.
fn make_tap(name: &str, desired: &DesiredTap) -> Result<()> {
    let DesiredTap { access, mtu } = desired;
    tap::add(&Tap { name, user: access.user, group: access.group, mtu: (*mtu).into() })
}

/// Makes a link safe to be set up that no call makes, notes on it whose it is, and sets it up.
fn prepare(name: &str, preparation: &Preparation) -> Result<()> {
    let mut host = Rtnetlink::open()?;
    // It went meanwhile.
    let Some(link) = host.link(name)? else { return Ok(()) };
    let prepared = preparation
        .guard
        .map_or(Ok(()), |admits| guard::guard(name, admits_of(admits)))
        .and_then(|()| guard::make_strict(name))
        .and_then(|()| {
            let text = preparation.tag.to_string();
            // By its number: another one of its name is not guarded yet.
            host.set_link_of(&link, LinkSettings { alias: Some(&text), up: true, ..Default::default() })
        });
    match prepared {
        // It went meanwhile. If another one came in its place, that is reported.
        Err(_) if host.link(name)?.is_none_or(|now| now.index != link.index) => Ok(()),
        outcome => outcome,
    }
}

/// Sets a link down, by which something would reach the node's own stack.
fn set_down(name: &str) -> Result<()> {
    let mut host = Rtnetlink::open()?;
    match host.link(name)? {
        Some(link) if link.up => match host.set_down(&link) {
            Err(_) if host.link(name)?.is_none() => Ok(()),
            outcome => outcome,
        },
        _ => Ok(()),
    }
}

/// Sets a link up: one that somebody set down, or that is a port of the kernel's datapath by now.
fn set_up(name: &str) -> Result<()> {
    let mut host = Rtnetlink::open()?;
    match host.link(name)? {
        Some(link) if !link.up => {}
        // A link that is removed is set down first.
        _ => return Ok(()),
    }
    match host.set_link(name, LinkSettings { up: true, ..Default::default() }) {
        // It went meanwhile.
        Err(Error::NoLink(_)) => Ok(()),
        outcome => outcome.inspect(|()| tracing::info!(link = name, "set a link up")),
    }
}

/// Configures the pod's end, and gives the node's end the same MTU. Everything in it can be used as soon as it is there.
pub(crate) fn configure(
    (link, link_mtu): (&LinkName, u16),
    interface: &str,
    netns: &OwnedFd,
    end: &PodEnd,
) -> Result<Link> {
    let mtu = Some(end.mtu.into());
    if link_mtu != end.mtu {
        Rtnetlink::open()?.set_link(link.as_str(), LinkSettings { mtu, ..Default::default() })?;
    }
    let mut pod = Rtnetlink::open_in(netns.as_fd())?;
    let settings = LinkSettings { mac: Some(end.mac.octets()), mtu, up: true, alias: None };
    pod.set_link(interface, settings)?;
    let link = pod.link(interface)?.ok_or_else(|| Error::NoLink(interface.into()))?;
    for address in &end.addresses {
        pod.add_address(&link, *address)?;
    }
    for route in &end.routes {
        if route.is_default() {
            let same_family = |net: &&IpNet| net.addr().is_ipv4() == route.destination.addr().is_ipv4();
            let kept: Vec<_> = end.kept.iter().filter(same_family).copied().collect();
            pod.keep_networks(&link, &kept)?;
        }
        pod.set_route(&link, *route)?;
    }
    Ok(link)
}

/// Announces the pod's addresses to its neighbours.
pub(crate) fn announce(netns: &OwnedFd, link: &Link, end: &PodEnd) -> Result<()> {
    let addresses: Vec<IpAddr> = end.addresses.iter().map(IpNet::addr).collect();
    announce::announce(netns.as_fd(), link, end.mac.octets(), &addresses)
}

/// Applies changes of the engine's. After one that failed, the others of its unit are left out: a guard stays as long as its link.
pub(crate) fn apply_all(changes: Vec<Change>, functions: &Functions, hook: &ChangeHook) -> Vec<Outcome> {
    let (mut outcomes, mut failed) = (Vec::new(), BTreeSet::new());
    for change in changes {
        if failed.contains(change.unit()) {
            continue;
        }
        hook.at(&change, Moment::Began);
        let outcome = apply(&change, functions).map_err(|error| with_causes(&error));
        if outcome.is_ok() {
            hook.at(&change, Moment::Ended);
        } else {
            failed.insert(change.unit().clone());
        }
        outcomes.push((change, outcome));
    }
    outcomes
}

fn admits_of(admits: plan::Admits) -> Admits {
    match admits {
        plan::Admits::Nothing => Admits::Nothing,
        plan::Admits::OwnAddresses => Admits::OwnAddresses,
    }
}

/// The same as the kernel's side has it.
pub(crate) fn admitted(admits: Admits) -> plan::Admits {
    match admits {
        Admits::Nothing => plan::Admits::Nothing,
        Admits::OwnAddresses => plan::Admits::OwnAddresses,
    }
}

/// An error with what caused it, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn apply(change: &Change, functions: &Functions) -> Result<()> {
    let name = change.unit().as_str();
    match change {
        Change::RemoveLink(_) => Rtnetlink::open()?.delete_link(name).map(drop),
        Change::Release(_, note) => functions.release(note),
        Change::MakeTap(_, tap) => make_tap(name, tap),
        Change::Prepare(_, preparation) => prepare(name, preparation),
        Change::Guard(_, admits) => match guard::guard(name, admits_of(*admits)) {
            // The link went meanwhile.
            Err(_) if Rtnetlink::open()?.link(name)?.is_none() => Ok(()),
            outcome => outcome,
        },
        Change::SetUp(_) => set_up(name),
        Change::SetDown(_) => set_down(name),
        Change::RemoveGuard(_) => guard::release_ingress(name),
        Change::Plug(..) | Change::Correct(..) | Change::Unplug(_) | Change::RaiseNextCfg(_) => Ok(()),
    }
}
