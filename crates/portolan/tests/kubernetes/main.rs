//! On whole clusters of real Kubernetes, with containers: `make test-k8s`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod doctor;
mod dual_stack;
mod harness;
mod harvester;
mod installation;
mod members;
mod nothing_left;
mod ovn4nfv;
mod ovn_upgrade;
mod pods;
mod primary;
mod primary_faults;
mod primary_installed;
mod primary_installed_faults;
mod secondary;
mod services;
mod tenants;
mod traffic;
mod upgrade;
