//! The client against real servers, and against networks that misbehave on purpose.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod cache;
mod conditions;
mod faults;
mod locks;
mod network;
mod pipelining;
mod properties;
mod raft;
mod session;
mod stage;
mod support;
mod tls;
mod transact;
