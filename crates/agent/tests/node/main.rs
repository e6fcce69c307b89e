//! Agents on nodes of a real OVN, with a real kube-apiserver. The controller is played by hand: locks by kubectl, ports by ovn-nbctl.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod calls;
mod chained;
mod plugged;
mod recovery;
mod stage;
