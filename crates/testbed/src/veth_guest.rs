//! A guest played by hand: a network namespace and a veth pair into its node, for tests that do without a CNI plugin.

use portolan_lab::{Command, Namespace, Node, Result};

/// A network namespace with a link `eth0` whose other end is on a node.
#[derive(Debug)]
pub struct VethGuest {
    namespace: Namespace,
    node_link: String,
}

impl VethGuest {
    /// Makes a guest on a node. Its name, of at most 15 characters, is also that of the link on the node's side.
    pub fn new(node: &Node, name: &str) -> Result<Self> {
        let namespace = node.namespace().network_beside(name)?;
        node.namespace().veth(name, &namespace, "eth0")?;
        Ok(Self { namespace, node_link: name.into() })
    }

    /// Makes its link a port of `br-int` on its node and waits until OVN has installed its flows there.
    pub fn plug(&self, node: &Node, logical_switch_port: &str) -> Result<()> {
        let (link, id) = (self.node_link(), format!("external-ids:iface-id={logical_switch_port}"));
        node.vsctl(&["add-port", "br-int", link, "--", "set", "Interface", link, &id])?;
        node.vsctl(&["wait-until", "Interface", link, "external-ids:ovn-installed=true"]).map(drop)
    }

    /// Its namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The name of its link on the node's side.
    pub fn node_link(&self) -> &str {
        &self.node_link
    }

    /// A command to run in it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// Gives `eth0` a MAC, an address with its prefix length, and an MTU.
    pub fn configure(&self, mac: &str, address: &str, mtu: u16) -> Result<()> {
        self.namespace
            .ip(&format!("link set eth0 address {mac} mtu {mtu}\naddress add {address} dev eth0 nodad"))
    }
}
