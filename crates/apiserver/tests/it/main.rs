//! The server over HTTP, on a store in a temporary directory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod absurd_numbers;
mod audit;
mod crd;
mod crd_server;
mod documents;
mod faulty_store;
mod garbage;
mod health;
mod limits;
mod namespaces;
mod objects;
mod patches;
mod reviews;
mod security;
mod support;
mod watches;
mod webhooks;
