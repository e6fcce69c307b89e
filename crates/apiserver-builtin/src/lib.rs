//! The built-in kinds of Kubernetes for [`apiserver`], the objects that every cluster has of them, and [`Embedded`]: a whole API
//! server in one process.
//!
//! The kinds are those of Kubernetes 1.34, and stay so: no field or rule of a later release is added. A server that only serves
//! kinds of its own needs none of this crate.
//!
//! Each kind is a [`Resource`]: its names as discovery has them, its columns, and a [`Strategy`](apiserver::registry::Strategy) that says
//! what may be written. Most strategies are a `Behaviour`: a table of what a kind does in its own way.
//! Texts of errors are those of kube-apiserver: clients and their tests know them.
//!
//! ```text
//! kind, behaviour, table      what a kind is made of
//! errors, value               reading objects, and saying where one is wrong
//! format, address, labels     texts that mean something
//! stored                      what is stored, for whoever has to look before a write
//! pod, workload, job …        the kinds
//! admission, bootstrap        what the server adds to objects, and objects that it makes
//! embedded                    the generic server with these kinds, CRDs, RBAC, controllers and a store
//! ```
//!
//! No controllers run for these kinds, but for the server's own: nothing makes pods of a Deployment, or tokens of a
//! ServiceAccount. Not even the `default` ServiceAccount of a namespace is made.

#![allow(
    clippy::result_large_err,
    reason = "every verb refuses with a Status, and one is made only when a request fails"
)]

mod address;
mod admission;
mod behaviour;
mod bootstrap;
mod certificate;
mod claim;
mod class;
mod config_map;
mod diff;
mod disruption_budget;
mod embedded;
mod endpoint_slice;
mod endpoints;
mod errors;
mod event;
mod format;
mod ingress;
mod job;
mod kind;
mod labels;
mod lease;
mod limits;
mod namespace;
mod network_policy;
mod node;
mod persistent_volume;
mod pod;
mod rbac;
mod secret;
mod service;
mod service_account;
mod stored;
mod table;
#[cfg(test)]
mod testing;
mod value;
mod volume_kinds;
mod warnings;
mod workload;

pub use admission::{CertificateSigners, DefaultTolerations, PodPriority};
pub use bootstrap::bootstrap;
pub use embedded::{Embedded, EmbeddedError, Running};
pub use service::{BadRange, ServiceAddresses, ServiceRanges};

use apiserver::registry::Resource;

/// The resources of the built-in kinds.
pub fn resources() -> Vec<Resource> {
    let mut resources = vec![
        certificate::resource(),
        claim::resource(),
        class::priority(),
        class::runtime(),
        config_map::resource(),
        disruption_budget::resource(),
        endpoint_slice::resource(),
        endpoints::resource(),
        ingress::class(),
        ingress::resource(),
        lease::resource(),
        namespace::resource(),
        network_policy::resource(),
        node::resource(),
        persistent_volume::resource(),
        pod::bindings(),
        pod::resource(),
        secret::resource(),
        service::resource(),
        service_account::resource(),
    ];
    resources.extend(event::resources());
    resources.extend(job::resources());
    resources.extend(limits::resources());
    resources.extend(rbac::resources());
    resources.extend(volume_kinds::resources());
    resources.extend(workload::resources());
    resources
}

#[cfg(test)]
mod tests;
