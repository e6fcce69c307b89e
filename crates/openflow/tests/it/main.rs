//! The protocol against a real ovs-vswitchd, and against what ovs-ofctl sends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod bytes;
mod flushing;
mod handshake;
mod switch;
