//! The kinds of every API group that Portolan serves or reads, what one object alone shows to be wrong with
//! it, and the CustomResourceDefinitions.
//!
//! This crate must never know IO, clocks, tokio or a Kubernetes client, and never another object than the one
//! it looks at: what depends on others is `crates/model`'s.
//!
//! ```text
//!  text in an object or annotation ──parse──▶ values (Mac, CidrBlock, Provider…)  ──▶ doors of crates/model
//!                                     └─────▶ FieldErrors: where, what, how to fix ──▶ conditions, webhook, CLI
//! ```
//!
//! Start reading at [`portolan`], our own group, then [`kubeovn`]. A kind's `parse` gives a [`SubnetConfig`] or
//! [`VpcConfig`], the same for both groups. Pods ask for interfaces through [`networks_annotation`],
//! [`nfn_network`] and [`pod_annotations`]; networks are described by [`nad`]. [`crd`] makes the definitions.
//! Fields of the kinds stay strings, so that a bad value can be stored, shown and explained; everything past
//! this crate is typed.

// `printcolumn` of kube's derive is given once per column, each with a `type_`: clippy takes them for copies.
#![allow(clippy::duplicated_attributes)]

pub mod annotations;
pub mod cidr;
pub mod condition;
pub mod crd;
pub mod domain;
pub mod field_error;
pub mod finalizer;
pub mod ip_count;
pub mod ip_range;
mod json_reader;
pub mod kubeovn;
pub mod kubevirt;
pub mod mac;
pub mod nad;
pub mod names;
pub mod network_status;
pub mod networks_annotation;
pub mod nfn_network;
pub mod ovn_options;
pub mod pod_annotations;
pub mod portolan;
pub mod provider;
pub mod rate;
pub mod routes;
pub mod subnet_config;
pub mod vni;
pub mod vpc_config;

pub use annotations::Annotations;
pub use cidr::{AddressPair, CidrBlock, Family, InterfacePair, Pair};
pub use crd::{crd_yaml, crds};
pub use domain::Domain;
pub use field_error::{FieldError, FieldErrors, FieldPath, Problem, Reason};
pub use ip_count::IpCount;
pub use ip_range::IpRange;
pub use kubeovn::kubeovn_support_markdown;
pub use mac::Mac;
pub use provider::Provider;
pub use rate::{Rate, Rates};
pub use routes::GuestRoute;
pub use subnet_config::SubnetConfig;
pub use vni::Vni;
pub use vpc_config::VpcConfig;
