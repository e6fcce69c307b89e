//! The priorities of all ACLs: whatever writes some takes its own from here. The highest that matches decides.

/// What comes from the node itself, with its answers to what it asked a Service: always passes, and without connection tracking where it
/// passes its node's port twice.
pub(super) const NODE: i64 = 32_000;
/// Who may begin to talk to a private subnet.
pub(super) const PRIVATE_ALLOW: i64 = 1_001;
/// Nobody else.
pub(super) const PRIVATE_DROP: i64 = 1_000;
