//! The client against real servers, and against networks that misbehave on purpose.

mod cache;
mod faults;
mod locks;
mod network;
mod properties;
mod raft;
mod support;
mod tls;
mod transact;
