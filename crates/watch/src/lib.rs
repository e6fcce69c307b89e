//! Follows kinds of a Kubernetes API server, for controller and agent alike: list, watch, retry for ever, and know at any time
//! whether what was seen is current.
//!
//! ```text
//!  Followers::follow::<K>(selection, consume)          one task per kind
//!      list ──▶ Listed ──▶ watch ──▶ Applied, Deleted ──▶ consume
//!        ▲                   │
//!        └── 410, refused ───┴── cut: resume where it was     pauses: 0.1 s … 3 s, ended early when any follower recovers
//! ```
//!
//! **What counts as absence.** An error never does. Built-in kinds always exist. Any other kind is absent only if the watch of
//! CustomResourceDefinitions is in step and has no definition of it, no APIService serves its group, and a live read of both,
//! by name, says so too ([`is_kind_absent`]). Then, and only then, a follower reports an empty list. When a definition is
//! deleted, the API server deletes its objects first, and an open watch reports each deletion; a watch that was not open then
//! reports an empty list, which a consumer must confirm object by object ([`get`]) before it removes anything.
//!
//! **An object that cannot be decoded** exists all the same, and hides no other: it is reported as [`Unreadable`], with the field that
//! is wrong. A live read of it fails, which says nothing about its absence.
//!
//! Every request but a watch has a deadline ([`client`]); [`Pause`] and [`Retries`] say when what failed is tried again.
//!
//! **Which API server.** [`ApiServers`] follows where the cluster's are, and lets every connection go to one that answers.
//!
//! This crate knows nothing of Portolan's kinds. Start reading at [`Followers`].

mod api_servers;
mod client;
mod connector;
mod deadline;
mod definitions;
mod error;
mod existence;
#[cfg(feature = "fake")]
pub mod fake;
mod follower;
mod followers;
mod judge;
mod live;
mod objects;
mod one;
mod pause;
mod retries;
mod servers;
mod status;
mod unreadable;

pub use api_servers::{ApiServers, Known, NAMES_NONE};
pub use client::client;
pub use deadline::ANSWER;
pub use error::{Error, Plain};
pub use existence::is_kind_absent;
pub use follower::{Change, Object, Page, Selection};
pub use followers::{Followers, Recoveries};
pub use live::{get, is_not_found, list, list_selected};
pub use objects::{Listed, list_page};
pub use one::Observed;
pub use pause::Pause;
pub use retries::Retries;
pub use status::{Behind, Status};
pub use unreadable::{Received, Unreadable};
