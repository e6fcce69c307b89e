//! The ports that an installation takes on hosts: its pods use the network of their hosts, so each needs its own.

/// OVN's northbound database, for controllers.
pub(crate) const NORTHBOUND: u16 = 6641;
/// OVN's southbound database, for the ovn-controller of every node.
pub(crate) const SOUTHBOUND: u16 = 6642;
/// The same, for controllers.
pub(crate) const SOUTHBOUND_FOR_CONTROLLERS: u16 = 6643;
/// The northbound database, for its other members.
pub(crate) const NORTHBOUND_FOR_MEMBERS: u16 = 6644;
/// The southbound database, for its other members.
pub(crate) const SOUTHBOUND_FOR_MEMBERS: u16 = 6645;
/// The trace server; `deploy/trace.yaml` names it.
pub(crate) const TRACE: u16 = 9443;
/// The webhook; `deploy/webhook.yaml` names it.
pub(crate) const WEBHOOK: u16 = 9444;

/// Health checks and metrics, on the loopback address of the host.
pub(crate) mod health {
    pub(crate) const CONTROLLER: u16 = 10690;
    pub(crate) const AGENT: u16 = 10691;
    pub(crate) const NORTHBOUND: u16 = 10692;
    pub(crate) const SOUTHBOUND: u16 = 10693;
    pub(crate) const NORTHD: u16 = 10694;
    pub(crate) const OVN_CONTROLLER: u16 = 10695;
    pub(crate) const OVS_DATABASE: u16 = 10696;
    pub(crate) const VSWITCHD: u16 = 10697;
    pub(crate) const CLEANUP: u16 = 10698;
}

/// What listens at a port of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The port, over TCP.
    pub port: u16,
    /// What it is.
    pub name: &'static str,
    /// The programs that may have it, by the first 15 characters of their names.
    pub programs: &'static [&'static str],
}

/// What listens at the ports of hosts that an installation takes.
pub const PARTS: &[Part] = &[
    served(NORTHBOUND, "OVN's northbound database"),
    served(SOUTHBOUND, "OVN's southbound database"),
    own(SOUTHBOUND_FOR_CONTROLLERS, "OVN's southbound database for controllers"),
    own(NORTHBOUND_FOR_MEMBERS, "OVN's northbound database for its members"),
    own(SOUTHBOUND_FOR_MEMBERS, "OVN's southbound database for its members"),
    own(TRACE, "traces"),
    own(WEBHOOK, "the webhook"),
    own(health::CONTROLLER, "health of the controller"),
    own(health::AGENT, "health of the agent"),
    own(health::NORTHBOUND, "health of the northbound database"),
    own(health::SOUTHBOUND, "health of the southbound database"),
    own(health::NORTHD, "health of ovn-northd"),
    own(health::OVN_CONTROLLER, "health of ovn-controller"),
    own(health::OVS_DATABASE, "health of Open vSwitch's database"),
    own(health::VSWITCHD, "health of ovs-vswitchd"),
];

const fn own(port: u16, name: &'static str) -> Part {
    Part { port, name, programs: &["portolan"] }
}

const fn served(port: u16, name: &'static str) -> Part {
    Part { port, name, programs: &["ovsdb-server"] }
}
