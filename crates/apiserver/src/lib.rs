//! A Kubernetes API server as a library: the machinery, over a [`Store`](apistore::Store), with kinds and admission injected.
//!
//! It knows no kinds but those that it works by itself (custom resource definitions, webhook configurations, reviews): those of
//! Kubernetes are in the crate `apiserver-builtin`, with an assembly of it all. Whoever uses it describes [resources](registry::Resource), puts a
//! [`Server`] together, and serves:
//!
//! ```text
//!             server        connections, TLS, requests, answers
//!               │ request   what a path and a query mean        authn   who asks
//!               │ options   what the query asks for besides     authz   whether they may
//!               │ content   formats, tables, what Accept wants
//!               ▼
//!              api ──────── verbs: create, get, list, watch, update, patch, delete … on plain JSON values
//!               │ registry  the resources and how each kind behaves (Strategy)
//!               │ admission what has a say in every write
//!               ▼
//!            storage ─────► watch: one reader of the store's events, watchers by index
//! ```
//!
//! Start reading at [`Server::builder`], then [`registry::Strategy`], then `verbs`. In the same process, [`api::Api`] does all
//! that a client can do.

#![allow(
    clippy::result_large_err,
    reason = "every verb refuses with a Status, and one is made only when a request fails"
)]

pub mod admission;
pub mod api;
pub mod audit;
pub mod authn;
pub mod authz;
pub mod content;
pub mod context;
pub mod controllers;
pub mod crd;
pub mod data_dir;
pub mod discovery;
pub mod endpoint;
mod failure;
mod health;
mod metrics;
mod openapi;
pub mod options;
pub mod pki;
pub mod reflector;
pub mod registry;
pub mod request;
pub mod reviews;
pub mod selection;
pub mod server;
pub mod storage;
pub mod verbs;
mod version;
pub mod watch;
mod workqueue;

pub use health::{Health, NeededFor};
pub use server::{Server, ServerBuilder};
pub use version::VersionInfo;
