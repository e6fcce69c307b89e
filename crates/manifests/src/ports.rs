//! The ports that an installation takes on hosts: its pods use the network of their hosts, so each needs its own.

/// OVN's northbound database, for controllers.
pub(crate) const NORTHBOUND: u16 = 6641;
/// OVN's southbound database, for the ovn-controller of every node.
pub(crate) const SOUTHBOUND: u16 = 6642;
/// The same, for controllers.
pub(crate) const SOUTHBOUND_FOR_CONTROLLERS: u16 = 6643;
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

/// All ports of hosts that an installation takes.
pub(crate) const ALL: &[u16] = &[
    NORTHBOUND,
    SOUTHBOUND,
    TRACE,
    WEBHOOK,
    health::CONTROLLER,
    health::AGENT,
    health::NORTHBOUND,
    health::SOUTHBOUND,
    health::NORTHD,
    health::OVN_CONTROLLER,
    health::OVS_DATABASE,
    health::VSWITCHD,
];

/// What listens at these ports.
pub fn parts_at() -> impl Iterator<Item = Part> {
    ALL.iter().map(|&port| {
        let (name, programs): (_, &[&str]) = match port {
            NORTHBOUND => ("OVN's northbound database", &["ovsdb-server"]),
            SOUTHBOUND => ("OVN's southbound database", &["ovsdb-server"]),
            TRACE => ("traces", &["portolan"]),
            WEBHOOK => ("the webhook", &["portolan"]),
            health::CONTROLLER => ("health of the controller", &["portolan"]),
            health::AGENT => ("health of the agent", &["portolan"]),
            health::NORTHBOUND => ("health of the northbound database", &["portolan"]),
            health::SOUTHBOUND => ("health of the southbound database", &["portolan"]),
            health::NORTHD => ("health of ovn-northd", &["portolan"]),
            health::OVN_CONTROLLER => ("health of ovn-controller", &["portolan"]),
            health::OVS_DATABASE => ("health of Open vSwitch's database", &["portolan"]),
            _ => ("health of ovs-vswitchd", &["portolan"]),
        };
        Part { port, name, programs }
    })
}
