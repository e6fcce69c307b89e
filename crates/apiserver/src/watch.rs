//! Watches, dispatched by index.
//!
//! One task reads everything that happens in the store. For each event it looks up the watchers that can care: a watcher
//! sits in exactly one bucket, its most selective one, and an event visits the buckets of the object's values, new and old.
//! A watcher of `spec.nodeName=n1` costs nothing for events of other nodes.
//!
//! ```text
//! store ──► feed ──► index of the resource ──► queue of a watcher ──► its HTTP answer
//!                     ├ by name                (bounded: a slow one   (encodes; the bytes are shared
//!                     ├ by field value          is dropped)            with others who want the same)
//!                     ├ by namespace
//!                     └ all
//! ```

mod event;
mod hub;
mod index;
mod recent;
mod subscription;

pub use event::{EncodingKey, EventKind, WatchEvent};
pub use hub::{Hub, HubLimits, HubStats};
pub use subscription::{Delivery, Subscription};
