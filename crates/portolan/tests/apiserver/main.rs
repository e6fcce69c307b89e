//! `portolan apiserver` as a process: killed in the middle of writes again and again, and asked for what makes no sense.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod full_disk;
mod killed;
mod malformed;
mod server;
