//! On whole clusters of real Kubernetes, with containers: `make test-k8s`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod dual_stack;
mod doctor;
mod harness;
mod installation;
mod nothing_left;
mod pods;
mod primary;
mod primary_faults;
mod secondary;
mod tenants;
