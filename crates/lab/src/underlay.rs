//! The network that nodes reach each other by: a bridge in a namespace of its own.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::namespace::Namespace;

/// Nodes come after this many addresses for other things.
const FIRST_NODE: u8 = 11;

/// An underlay, 172.31.0.0/24, with the lab's home namespace on it at 172.31.0.1.
#[derive(Debug)]
pub struct Underlay {
    lab: Lab,
    fabric: Namespace,
    next_node: AtomicU8,
    next_link: AtomicU8,
}

impl Underlay {
    /// The length of the underlay's prefix.
    pub const PREFIX_LENGTH: u8 = 24;

    /// The largest packet it carries.
    pub const MTU: u16 = 1500;

    /// Makes the underlay of a lab.
    pub fn start(lab: &Lab) -> Result<Self> {
        let fabric = lab.namespace("fabric")?;
        // Forwarding without the delays of a bridge that fears loops.
        fabric.ip("link add underlay type bridge forward_delay 0 stp_state 0\nlink set underlay up")?;
        let underlay = Self {
            lab: lab.clone(),
            fabric,
            next_node: AtomicU8::new(FIRST_NODE),
            next_link: AtomicU8::new(1),
        };
        underlay.plug(lab.home(), "underlay")?;
        let address = format!("{}/{}", underlay.home_address(), Self::PREFIX_LENGTH);
        lab.home().ip(&format!("address add {address} dev underlay"))?;
        Ok(underlay)
    }

    /// The lab it belongs to.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The namespace of the bridge. Its links are named as the namespaces they lead to.
    pub fn fabric(&self) -> &Namespace {
        &self.fabric
    }

    /// The address of the lab's home namespace.
    pub fn home_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(172, 31, 0, 1)
    }

    /// Leads a link, up but without an address, from the underlay into a namespace.
    pub fn plug(&self, namespace: &Namespace, link: &str) -> Result<()> {
        let mut port = namespace.name().to_owned();
        // What the kernel allows as the name of a link.
        if port.is_empty() || port.len() > 15 || port == "underlay" || port.contains(['/', ' ']) {
            port = format!("port{}", self.next_link.fetch_add(1, Ordering::Relaxed));
        }
        namespace.sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
        self.fabric.veth(&port, namespace, link)?;
        namespace.sysctl("net.ipv6.conf.default.disable_ipv6", "0")?;
        self.fabric.ip(&format!("link set {port} master underlay"))
    }

    /// An address for the next node.
    pub fn node_address(&self) -> Result<Ipv4Addr> {
        match self.next_node.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            last.checked_add(1).filter(|&next| next < 255)
        }) {
            Ok(last) => Ok(Ipv4Addr::new(172, 31, 0, last)),
            Err(_) => {
                Err(Error::Refused { peer: "the underlay".into(), answer: "no address is left".into() })
            }
        }
    }
}
