//! Portolan's CNI plugin: what a container runtime calls, and the protocol by which it asks the node's agent.
//!
//! ```text
//!  runtime ── environment, stdin ──▶ shim ── one Request, the opened netns beside it ──▶ agent
//!          ◀── stdout, exit code ──       ◀── one Answer ──────────────────────────────
//! ```
//!
//! The plugin is synchronous and knows neither a runtime nor TLS nor Kubernetes: it checks what it was given ([`shim`]), passes it on
//! ([`protocol`]) and writes the answer. Closing the connection before the answer cancels the call: that is what the kernel
//! does when the container runtime kills the plugin. The agent uses the same types, with [`result`] and [`error`] for what it answers.

pub mod error;
pub mod protocol;
pub mod result;
pub mod shim;
pub mod version;

pub use error::{CniError, Code};
pub use protocol::{Answer, Request, Verb};
pub use result::{AddResult, Interface, IpConfig, Route};
pub use version::Version;

/// Where the agent listens unless the node's own configuration says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/portolan/cni.sock";

/// What the plugin is called in network configurations.
pub const PLUGIN_TYPE: &str = "portolan-cni";
