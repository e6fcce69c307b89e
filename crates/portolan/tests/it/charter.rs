//! The Harvester charter's list, by the manifests in `examples/harvester`: real binaries on real OVN, each case on one node and
//! between nodes.
//!
//! What must not get through is tried by guests of which each is seen, at the same time, to reach somebody else.

mod addresses;
mod connectivity;
mod deletion;
mod dhcp;
mod faults;
mod guests;
mod mtu;
mod ovn4nfv;
mod policy_routes;
mod rates;
mod tenancy;
