//! Plans as people read them, in a database that enforces the schema, and in a real OVN.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod diff;
mod driver;
mod golden;
mod history;
mod memdb;
mod northd;
mod object;
mod overlay;
mod overlay_properties;
mod properties;
mod scene;
mod support;
