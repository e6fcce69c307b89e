//! What makes a node a chassis of OVN: settings of Open vSwitch, OVN's bridge, and where tunnels end. No IO.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use portolan_host::{Link, LinkAddress};
use portolan_plan::host::Datapath;

/// The annotation of a Node that names the interface of its tunnels, as Kube-OVN has it.
pub(crate) const TUNNEL_INTERFACE: &str = "ovn.kubernetes.io/tunnel_interface";
/// The keys of `external_ids` in which OVN finds a chassis's settings.
pub(crate) const SYSTEM_ID: &str = "system-id";
const HOSTNAME: &str = "hostname";
const REMOTE: &str = "ovn-remote";
const ENCAP_TYPE: &str = "ovn-encap-type";
const ENCAP_IP: &str = "ovn-encap-ip";
const BRIDGE: &str = "ovn-bridge";
const DATAPATH_TYPE: &str = "ovn-bridge-datapath-type";
const WAIT_BEFORE_CLEAR: &str = "ovn-ofctrl-wait-before-clear";
const MATCH_NORTHD_VERSION: &str = "ovn-match-northd-version";
/// OVN's bridge, where it is not told another name.
const DEFAULT_BRIDGE: &str = "br-int";
/// The tunnels that Portolan needs.
const GENEVE: &str = "geneve";
/// For how long, in milliseconds, an ovn-controller that starts leaves the flows alone that it finds.
const FLOWS_STAY: &str = "2000";
/// Whether an ovn-controller leaves everything as it is while ovn-northd is of another version. One that went on would misread what a newer ovn-northd
/// writes, and break traffic that flows.
const WAITS_FOR_SAME_VERSION: &str = "true";
/// What a tunnel takes of the MTU of its link, without the IP header: UDP, geneve, OVN's option, and the Ethernet header inside.
const GENEVE_OVERHEAD: u32 = 8 + 8 + 8 + 14;

/// Where the tunnels of a node end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encap {
    /// At the address of this interface.
    Interface(String),
    /// At this address.
    Address(IpAddr),
}

impl FromStr for Encap {
    type Err = Infallible;

    /// An address, or else the name of an interface.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Encap::Interface(text.to_owned()), Encap::Address))
    }
}

/// How a node is to be a chassis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChassisSettings {
    /// Where its tunnels end; the Node's first InternalIP unless given. The Node's annotation has precedence.
    pub encap: Option<Encap>,
    /// OVN's southbound database, as ovn-controller is to connect to it; left as it is unless given.
    pub southbound: Option<String>,
}

/// What the agent knows of its Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    /// There is a Node of this name.
    pub(crate) exists: bool,
    /// Those annotations that concern Portolan.
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) internal_addresses: Vec<IpAddr>,
}

/// What there is on the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) external_ids: BTreeMap<String, String>,
    /// The datapath of OVN's bridge, if there is one.
    pub(crate) bridge: Option<Datapath>,
    pub(crate) links: Vec<Link>,
    pub(crate) addresses: Vec<LinkAddress>,
    /// The kernel has Open vSwitch's datapath.
    pub(crate) kernel: bool,
}

/// A node as a chassis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chassis {
    /// Keys of `external_ids`, with their values. Other keys are none of the agent's business.
    pub(crate) external_ids: BTreeMap<&'static str, String>,
    pub(crate) datapath: Datapath,
    pub(crate) encapsulation: Result<Encapsulation, Problem>,
}

/// Where tunnels end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encapsulation {
    pub(crate) address: IpAddr,
    pub(crate) link: String,
    pub(crate) link_mtu: u32,
}

impl Encapsulation {
    /// The largest packet of pods that fits into a tunnel.
    pub(crate) fn tunnel_mtu(&self) -> u32 {
        let header = if self.address.is_ipv4() { 20 } else { 40 };
        self.link_mtu.saturating_sub(GENEVE_OVERHEAD + header)
    }
}

/// Who chose where tunnels end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chooser {
    Annotation,
    Flag,
    InternalIp,
}

impl fmt::Display for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chooser::Annotation => write!(f, "the Node's annotation {TUNNEL_INTERFACE}"),
            Chooser::Flag => f.write_str("--encap of the agent"),
            Chooser::InternalIp => f.write_str("the Node's InternalIP"),
        }
    }
}

/// Why tunnels cannot end where they should. What is set stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("there is no Node of this name yet, so its annotations and InternalIP are not known")]
    NoNode,
    #[error("the Node has no InternalIP in its status; set one, or start the agent with --encap")]
    NoInternalIp,
    #[error("{by} names interface {name}, which this node does not have; it has {has}")]
    NoInterface { by: Chooser, name: String, has: String },
    #[error("{by} names interface {name}, which has no address that other nodes could reach")]
    NoAddress { by: Chooser, name: String },
    #[error(
        "{by} names interface {name}, which has several addresses ({addresses}), and none of them is the Node's InternalIP; \
         start the agent with --encap and the address"
    )]
    SeveralAddresses { by: Chooser, name: String, addresses: String },
    #[error(
        "{by} is {address}, which no interface of this node has; start the agent with --encap and another one"
    )]
    NotOnNode { by: Chooser, address: IpAddr },
    #[error(
        "pods get an MTU of {pods}, but tunnels by {link}, whose MTU is {link_mtu}, leave {leaves}: larger packets between nodes \
         are lost; raise the MTU of {link}, or lower --mtu of the controller, or start it without, so that the smallest tunnel decides \
         (from 1280)"
    )]
    Mtu { pods: u16, link: String, link_mtu: u32, leaves: u32 },
    #[error(
        "pods on this node have interfaces with an MTU of up to {largest}, from before the controller said {pods}: larger packets may \
         not fit into the tunnels of every node and are lost; delete these pods, so that they are made again; their links: {links}"
    )]
    OldMtu { largest: u32, pods: u16, links: String },
}

/// How a node should be as a chassis.
pub(crate) fn chassis(
    settings: &ChassisSettings,
    node: &str,
    bridge: &str,
    facts: &NodeFacts,
    found: &Found,
) -> Chassis {
    let is = |key: &str| found.external_ids.get(key).filter(|value| !value.is_empty());
    let kept = |key: &str, default: &str| is(key).cloned().unwrap_or_else(|| default.to_owned());
    let asked = is(DATAPATH_TYPE).map(|text| datapath_of(text));
    let default = if found.kernel { Datapath::System } else { Datapath::Netdev };
    // That of a bridge that exists is never changed under its ports.
    let datapath = found.bridge.or(asked).unwrap_or(default);
    let encapsulation = encapsulation(settings, facts, found);
    let mut external_ids = BTreeMap::from([
        (SYSTEM_ID, kept(SYSTEM_ID, node)),
        (HOSTNAME, kept(HOSTNAME, node)),
        (WAIT_BEFORE_CLEAR, kept(WAIT_BEFORE_CLEAR, FLOWS_STAY)),
        (MATCH_NORTHD_VERSION, kept(MATCH_NORTHD_VERSION, WAITS_FOR_SAME_VERSION)),
    ]);
    let types = kept(ENCAP_TYPE, GENEVE);
    let has_geneve = types.split(',').any(|one| one.trim() == GENEVE);
    external_ids.insert(ENCAP_TYPE, if has_geneve { types } else { GENEVE.to_owned() });
    if let Ok(encapsulation) = &encapsulation {
        external_ids.insert(ENCAP_IP, encapsulation.address.to_string());
    }
    if let Some(southbound) = &settings.southbound {
        external_ids.insert(REMOTE, southbound.clone());
    }
    if datapath == Datapath::Netdev {
        external_ids.insert(DATAPATH_TYPE, datapath_name(datapath).to_owned());
    }
    if bridge != DEFAULT_BRIDGE || is(BRIDGE).is_some() {
        external_ids.insert(BRIDGE, bridge.to_owned());
    }
    Chassis { external_ids, datapath, encapsulation }
}

/// As Open vSwitch calls it.
pub(crate) fn datapath_name(datapath: Datapath) -> &'static str {
    match datapath {
        Datapath::System => "system",
        Datapath::Netdev => "netdev",
    }
}

/// What Open vSwitch means by a type.
pub(crate) fn datapath_of(text: &str) -> Datapath {
    if text == "netdev" { Datapath::Netdev } else { Datapath::System }
}

fn encapsulation(
    settings: &ChassisSettings,
    facts: &NodeFacts,
    found: &Found,
) -> Result<Encapsulation, Problem> {
    let annotated = facts.annotations.get(TUNNEL_INTERFACE).filter(|name| !name.is_empty());
    let (encap, by) = match (annotated, &settings.encap, facts.internal_addresses.first()) {
        // Its annotation has precedence: until it is known, tunnels stay where they are.
        _ if !facts.exists => return Err(Problem::NoNode),
        (Some(name), _, _) => (Encap::Interface(name.clone()), Chooser::Annotation),
        (None, Some(encap), _) => (encap.clone(), Chooser::Flag),
        (None, None, Some(address)) => (Encap::Address(*address), Chooser::InternalIp),
        (None, None, None) => return Err(Problem::NoInternalIp),
    };
    let (link, address) = match encap {
        Encap::Interface(name) => {
            let link = found.links.iter().find(|link| link.name == name);
            let has =
                || found.links.iter().map(|link| link.name.as_str()).take(20).collect::<Vec<_>>().join(", ");
            let link = link.ok_or_else(|| Problem::NoInterface { by, name: name.clone(), has: has() })?;
            (link, address_of(link, by, facts, found)?)
        }
        Encap::Address(address) => {
            let on = found.addresses.iter().find(|one| one.address.addr() == address);
            let link = on.and_then(|on| found.links.iter().find(|link| link.index == on.link));
            (link.ok_or(Problem::NotOnNode { by, address })?, address)
        }
    };
    Ok(Encapsulation { address, link: link.name.clone(), link_mtu: link.mtu })
}

/// The one address of an interface: the Node's InternalIP if it has that, or its only one, IPv4 before IPv6.
fn address_of(link: &Link, by: Chooser, facts: &NodeFacts, found: &Found) -> Result<IpAddr, Problem> {
    let of_link = found.addresses.iter().filter(|one| one.link == link.index);
    let addresses: Vec<IpAddr> = of_link.map(|one| one.address.addr()).collect();
    if let Some(internal) = facts.internal_addresses.iter().find(|one| addresses.contains(one)) {
        return Ok(*internal);
    }
    let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|address| address.is_ipv4());
    let name = || link.name.clone();
    match (&v4[..], &v6[..]) {
        ([address], _) | ([], [address]) => Ok(*address),
        ([], []) => Err(Problem::NoAddress { by, name: name() }),
        _ => {
            let addresses = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Err(Problem::SeveralAddresses { by, name: name(), addresses })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use super::*;

    fn found() -> Found {
        let link =
            |index, name: &str, mtu| Link { index, name: name.into(), mtu, up: true, ..Link::default() };
        let address = |link, text: &str| LinkAddress { link, address: text.parse().unwrap() };
        Found {
            links: vec![
                link(2, "eth0", 1500),
                link(3, "eth1", 9000),
                link(4, "eth2", 1500),
                link(5, "eth3", 1500),
            ],
            addresses: vec![
                address(2, "192.0.2.1/24"),
                address(2, "192.0.2.9/24"),
                address(3, "198.51.100.1/24"),
                address(3, "2001:db8::1/64"),
                address(4, "203.0.113.1/24"),
                address(4, "203.0.113.2/24"),
            ],
            ..Found::default()
        }
    }

    fn facts(annotation: Option<&str>, addresses: &[&str]) -> NodeFacts {
        let annotations = annotation.map(|name| (TUNNEL_INTERFACE.to_owned(), name.to_owned()));
        NodeFacts {
            exists: true,
            annotations: annotations.into_iter().collect(),
            internal_addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    fn settings(encap: Option<&str>) -> ChassisSettings {
        ChassisSettings { encap: encap.map(|text| text.parse().unwrap()), southbound: None }
    }

    #[test]
    fn tunnels_end_where_the_annotation_says_or_the_flag_or_at_the_internal_address() {
        let internal = &["192.0.2.9"][..];
        for (annotation, flag, addresses, expected) in [
            (None, None, internal, Ok(("192.0.2.9", "eth0", 1442))),
            (None, Some("eth1"), internal, Ok(("198.51.100.1", "eth1", 8942))),
            (None, Some("2001:db8::1"), internal, Ok(("2001:db8::1", "eth1", 8922))),
            (Some("eth1"), Some("eth0"), internal, Ok(("198.51.100.1", "eth1", 8942))),
            // Of several addresses the Node's own is meant.
            (Some("eth0"), None, internal, Ok(("192.0.2.9", "eth0", 1442))),
            (None, Some("eth2"), internal, Err("several addresses (203.0.113.1, 203.0.113.2)")),
            (Some("eth3"), None, internal, Err("which has no address")),
            (
                Some("eth9"),
                Some("eth0"),
                internal,
                Err("interface eth9, which this node does not have; it has eth0, eth1"),
            ),
            (
                None,
                Some("192.0.2.200"),
                internal,
                Err("--encap of the agent is 192.0.2.200, which no interface"),
            ),
            (None, None, &["10.9.9.9"], Err("the Node's InternalIP is 10.9.9.9, which no interface")),
            (None, None, &[], Err("the Node has no InternalIP")),
        ] {
            let plan = chassis(&settings(flag), "n", "br-int", &facts(annotation, addresses), &found());
            match (expected, &plan.encapsulation) {
                (Ok((address, link, mtu)), Ok(is)) => {
                    assert_eq!(
                        (is.address.to_string().as_str(), is.link.as_str(), is.tunnel_mtu()),
                        (address, link, mtu)
                    );
                    assert_eq!(plan.external_ids["ovn-encap-ip"], address);
                }
                (Err(part), Err(problem)) => {
                    assert!(problem.to_string().contains(part), "{problem}");
                    assert!(!plan.external_ids.contains_key("ovn-encap-ip"), "what is set stays");
                }
                (expected, is) => panic!("{expected:?}: {is:?}"),
            }
        }
        let unknown = chassis(&settings(None), "n", "br-int", &NodeFacts::default(), &found());
        assert_eq!(unknown.encapsulation, Err(Problem::NoNode));
    }

    #[test]
    fn what_others_have_set_is_kept_where_it_need_not_be_ours() {
        let ids = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let plan = |found: &Found, bridge: &str| {
            let settings =
                ChassisSettings { southbound: Some("tcp:192.0.2.5:6642".into()), ..settings(None) };
            chassis(&settings, "node1", bridge, &facts(None, &["192.0.2.1"]), found)
        };
        let fresh = plan(&found(), "br-int");
        assert_eq!(fresh.datapath, Datapath::Netdev);
        let expected = BTreeMap::from(
            [
                ("system-id", "node1"),
                ("hostname", "node1"),
                ("ovn-remote", "tcp:192.0.2.5:6642"),
                ("ovn-encap-type", "geneve"),
                ("ovn-encap-ip", "192.0.2.1"),
                ("ovn-bridge-datapath-type", "netdev"),
                ("ovn-ofctrl-wait-before-clear", "2000"),
                ("ovn-match-northd-version", "true"),
            ]
            .map(|(key, value)| (key, value.to_owned())),
        );
        assert_eq!(fresh.external_ids, expected);
        let external_ids = ids(&[
            ("system-id", "chassis-7"),
            ("hostname", "h"),
            ("ovn-encap-type", "geneve,vxlan"),
            ("ovn-encap-ip", "192.0.2.77"),
            ("ovn-ofctrl-wait-before-clear", "8000"),
            ("ovn-match-northd-version", "false"),
            ("ovn-bridge", "br-other"),
        ]);
        let kernel = Found { external_ids, kernel: true, bridge: Some(Datapath::System), ..found() };
        let kept = plan(&kernel, "br-int");
        for (key, value) in [
            ("system-id", "chassis-7"),
            ("hostname", "h"),
            ("ovn-encap-type", "geneve,vxlan"),
            ("ovn-encap-ip", "192.0.2.1"),
            ("ovn-ofctrl-wait-before-clear", "8000"),
            ("ovn-match-northd-version", "false"),
            ("ovn-bridge", "br-int"),
        ] {
            assert_eq!(kept.external_ids[key], value);
        }
        assert_eq!(kept.datapath, Datapath::System);
        assert!(!kept.external_ids.contains_key("ovn-bridge-datapath-type"));
        // A bridge keeps its datapath, whatever the kernel has.
        let netdev = Found { bridge: Some(Datapath::Netdev), kernel: true, ..found() };
        assert_eq!(plan(&netdev, "br-int").datapath, Datapath::Netdev);
        assert_eq!(plan(&Found { kernel: true, ..found() }, "br-x").datapath, Datapath::System);
        assert_eq!(plan(&Found { kernel: true, ..found() }, "br-x").external_ids["ovn-bridge"], "br-x");
    }
}
