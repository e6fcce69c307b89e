//! What should be on a node: ports of OVN's bridge, the host-side links behind them, and the guards of these links.
//!
//! ```text
//!  links of living sandboxes ──┐
//!  attachments (World) ────────┼──plan──▶ Desired ──┐
//!  sandboxes that have ended ──┘                    ├──compare──▶ Change: plug, unplug, remove link, guard …
//!  ports, links, guards as observed ────────────────┘
//! ```
//!
//! A unit is one link of the node, and its port and guard, which all have one name ([`LinkName`]): the host-side link of an interface of a
//! sandbox, or a port of the node itself, which the holder of addresses asks for (`holder`). What they are for is said by their tags ([`Tag`]).
//!
//! **Sandboxes.** The links are made by CNI calls. A sandbox lives as long as its network namespace does, and with the namespace the kernel removes both ends of the link; so a link that
//! exists says that its port should. Where the pod's end is a network function ([`Function`]), the host-side link is its representor,
//! which is never removed, only released: there it is the function's link that says whether the sandbox lives. A port whose link is missing goes only if the container runtime ended the sandbox (DEL, a failed
//! ADD, GC), or if its pod was deleted: by an explicit event, or confirmed by a live read. See
//! [`Reconciler`](crate::reconciler::Reconciler).

mod function;
mod holder;
mod names;
mod node_network;
mod observed;
mod planning;
mod removals;
mod services;
mod target;
#[cfg(test)]
mod tests;

pub use function::{FormerLink, Function, Use};
pub use names::{HolderTag, LinkName, Note, Sandbox, Tag};
pub use node_network::{
    GivenNetworks, LeavesWith, NODE_LINK, NodeNetwork, node_local_networks, node_network,
};
pub use observed::{Datapath, Guard, Internal, Observed, ObservedLink, ObservedPort, PodEnd, Switched};
pub use planning::{Admits, Desired, DesiredLink, DesiredPort, DesiredTap, Facts, LinkState, plan};
pub use removals::{Configuration, Removal, Removals};
pub use services::{Clients, NodeServices, ServiceChange, ServiceElement};
pub use target::{Change, Key, Node, Preparation};
