//! Portolan's CNI plugin: what a container runtime calls, and the protocol between it and the node's agent.
//!
//! ```text
//!  runtime ── environment, stdin ──▶ shim ── one Request, the opened netns beside it ──▶ agent
//!          ◀── stdout, exit code ──       ◀── one Answer ──────────────────────────────
//! ```
//!
//! The plugin is synchronous and links no async runtime, TLS or Kubernetes client: it checks what it was passed ([`shim`]), forwards it
//! ([`protocol`]) and prints the answer. Closing the connection before the answer cancels the call: that is what the kernel does when
//! the container runtime kills the plugin. The agent uses the same types, with [`result`] and [`error`] for its answers. Only while the
//! agent is down does the plugin answer by itself, and only for pods that ask for nothing ([`annotations`]).

pub mod annotations;
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

/// The value of `interfaces` in the configuration of a plugin that is chained after another one.
pub const FURTHER: &str = "further";

/// The plugin's type in network configurations.
pub const PLUGIN_TYPE: &str = "portolan-cni";

/// Every type by which network configurations mean the plugin: its own, Kube-OVN's and OVN4NFV's among them.
pub const PLUGIN_TYPES: &[&str] = &[PLUGIN_TYPE, "portolan", "kube-ovn", "ovn4nfvk8s-cni"];

/// A text that is in the plugin's binary, whatever it is called, once it is in lower case: by it a file of an installation is known as
/// Portolan's. Programs that only look for it do not have it.
pub const BINARY_MARK: &str = "THIS FILE IS THE CNI PLUGIN OF PORTOLAN.DEV";
