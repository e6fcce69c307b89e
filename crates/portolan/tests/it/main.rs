//! Portolan's binaries with everything around them real. One program, so that tests of all these keep the machine busy together and are
//! linked once: `cargo test --test it charter::` runs those of one module.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod api_faults;
mod apiserver;
mod charter;
mod cli;
mod controller;
mod crash_rounds;
mod docs;
mod install;
mod installation;
mod kernel_datapath;
mod kube_rs;
mod kubectl;
mod lab;
mod node_faults;
mod primary;
mod skeleton;
mod workloads;
