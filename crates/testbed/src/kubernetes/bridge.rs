//! The network of the reference plugins: a bridge on each node, routes between the nodes.

use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use portolan_lab::{Machine, Namespace, Result, Trying, Underlay};
use serde_json::json;

use super::POD_CIDR;
use super::node::Running;

/// The bridge that pods are on.
const BRIDGE: &str = "cni0";

/// Where a node's pods are, for all others.
#[derive(Debug, Default)]
pub(super) struct Routes {
    known: Mutex<Vec<Route>>,
}

#[derive(Debug)]
struct Route {
    pod_cidr: String,
    via: Ipv4Addr,
    node: Namespace,
}

impl Routes {
    /// Tells a node that came up where the others' pods are, and the others where its own are.
    pub(super) fn tell(&self, node: &Running, pod_cidr: &str, underlay: &Underlay) -> Result<()> {
        let machine = node.machine();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // As it was before it was switched off.
        known.retain(|route| route.via != machine.address());
        let new =
            Route { pod_cidr: pod_cidr.into(), via: machine.address(), node: machine.namespace().clone() };
        for other in &*known {
            other.node.ip(&new.line())?;
            new.node.ip(&other.line())?;
        }
        // The API server reaches webhooks and extension servers in pods.
        underlay.lab().home().ip(&new.line())?;
        masquerade(&new.node)?;
        known.push(new);
        Ok(())
    }
}

impl Route {
    fn line(&self) -> String {
        format!("route replace {} via {}", self.pod_cidr, self.via)
    }
}

/// Lets containerd know what to call for a pod's network.
pub(super) fn configure(machine: &Machine, pod_cidr: &str) -> Result<()> {
    let list = json!({
        "cniVersion": "1.0.0", "name": "bridge",
        "plugins": [
            {
                "type": "bridge", "bridge": BRIDGE, "isGateway": true, "ipMasq": false, "hairpinMode": true,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": pod_cidr}]], "routes": [{"dst": "0.0.0.0/0"}]},
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    machine.namespace().run(move || {
        // At once, so that nobody reads a part of it; and within the directory: containerd 1.6 does not take notice of files that
        // are moved there from elsewhere.
        let (hidden, path) = ("/etc/cni/net.d/.10-bridge", "/etc/cni/net.d/10-bridge.conflist");
        std::fs::write(hidden, format!("{list:#}")).trying(|| format!("write {hidden}"))?;
        std::fs::rename(hidden, path).trying(|| format!("rename {hidden} to {path}"))
    })
}

/// What pods send out of the cluster has the address of their node.
fn masquerade(node: &Namespace) -> Result<()> {
    let rules = format!(
        "table ip lab-masquerade\nflush table ip lab-masquerade\ntable ip lab-masquerade {{\n chain postrouting {{\n  \
         type nat hook postrouting priority srcnat; policy accept;\n  \
         ip saddr {POD_CIDR} ip daddr != {POD_CIDR} oifname != \"{BRIDGE}\" masquerade\n }}\n}}\n"
    );
    node.command("nft").args(["-f", "-"]).stdin(rules).read().map(drop)
}
