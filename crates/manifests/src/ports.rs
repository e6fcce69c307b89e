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
