//! Agents on nodes of a real OVN, with a real kube-apiserver. The controller is played by hand: locks by kubectl, ports by ovn-nbctl.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod attachments;
mod callers;
mod calls;
mod chained;
mod chassis;
mod checks;
mod delegate;
mod functions;
mod guards;
mod health;
mod interfaces;
mod isolation;
mod plugged;
mod recovery;
mod removal;
mod rights;
mod services;
mod spec;
mod stage;
mod taps;
