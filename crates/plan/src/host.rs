//! What should be on a node: ports of OVN's bridge, the host-side links behind them, and the guards of these links.
//!
//! ```text
//!  links of living sandboxes ──┐
//!  attachments (World) ────────┼──plan──▶ Desired ──┐
//!  sandboxes that have ended ──┘                    ├──compare──▶ Change: plug, unplug, remove link, guard …
//!  ports, links, guards as observed ────────────────┘
//! ```
//!
//! A unit is one interface of one sandbox, named by its host-side link ([`LinkName`]): port, link and guard all have that name. A
//! sandbox lives as long as its network namespace does, and with the namespace the kernel removes both ends of the link; so a link that
//! exists says that its port should. A port whose link is missing goes only if the container runtime ended the sandbox (DEL, a failed
//! ADD, GC), or if its pod was deleted: by an explicit event, or confirmed by a live read. See
//! [`Reconciler`](crate::reconciler::Reconciler).

mod names;
mod observed;
mod planning;
mod target;
#[cfg(test)]
mod tests;

pub use names::{LinkName, Note, Sandbox};
pub use observed::{Datapath, Guard, Observed, ObservedLink, ObservedPort};
pub use planning::{Desired, DesiredPort, Facts, plan};
pub use target::{Change, Key, Node};
