//! A pod played by hand: a network namespace and a veth pair into its node, for tests that do without a CNI plugin.

use crate::command::Command;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::node::Node;

/// A network namespace with a link `eth0` whose other end is on a node.
#[derive(Debug)]
pub struct Pod {
    namespace: Namespace,
    node_link: String,
}

impl Node {
    /// Makes a pod. Its name, of at most 15 characters, is also that of the link on the node's side.
    pub fn pod(&self, name: &str) -> Result<Pod> {
        let namespace = self.namespace().network_beside(name)?;
        self.namespace().veth(name, &namespace, "eth0")?;
        Ok(Pod { namespace, node_link: name.into() })
    }

    /// Makes the pod's link a port of `br-int` and waits until OVN has installed its flows there.
    pub fn plug(&self, pod: &Pod, logical_switch_port: &str) -> Result<()> {
        let (link, id) = (pod.node_link(), format!("external-ids:iface-id={logical_switch_port}"));
        self.vsctl(&["add-port", "br-int", link, "--", "set", "Interface", link, &id])?;
        self.vsctl(&["wait-until", "Interface", link, "external-ids:ovn-installed=true"]).map(drop)
    }
}

impl Pod {
    /// Its namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The name of its link on the node's side.
    pub fn node_link(&self) -> &str {
        &self.node_link
    }

    /// A command to run in the pod.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// Gives `eth0` a MAC, an address with its prefix length, and an MTU.
    pub fn configure(&self, mac: &str, address: &str, mtu: u16) -> Result<()> {
        self.namespace
            .ip(&format!("link set eth0 address {mac} mtu {mtu}\naddress add {address} dev eth0 nodad"))
    }
}
