//! The node's own part in the primary network: its port, and what its kernel knows of pods.
//!
//! ```text
//!  node ── portolan0 ── switch of the node ── router ── pods
//!          its own address; pods' networks by the router; the second address, which is not configured, by the router too
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use portolan_api::{Family, Mac};
use portolan_model::subnet::DEFAULT_VPC;
use portolan_model::{HeldNetworks, World};

/// The link of the node's port.
pub const NODE_LINK: &str = "portolan0";

/// What the node should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNetwork {
    /// The UID of the Node.
    pub owner: String,
    /// `iface-id` of the port's interface.
    pub iface_id: String,
    /// The MAC address of the link.
    pub mac: Mac,
    /// Its MTU.
    pub mtu: u16,
    /// Its addresses, with the lengths of their prefixes.
    pub addresses: Vec<IpNet>,
    /// The router of the node's switch, in each family.
    pub routers: Vec<IpAddr>,
    /// The networks of all pods: what goes to others leaves the cluster.
    pub pods: Vec<IpNet>,
    /// The addresses that are not configured: what the node translates on its way to pods comes from these.
    pub masquerade: Vec<IpAddr>,
    /// Networks that were given as the cluster's or are a Subnet's, and contain an address of the node itself: they would lead to nowhere.
    pub refused: Vec<IpNet>,
    /// Networks of pods that are not in effect right now, and stay as they are: see [`NodeNetwork::keep`].
    pub held: HeldNetworks,
}

impl NodeNetwork {
    /// Routes by the link: where to, and by which router.
    pub fn routes(&self) -> BTreeSet<(IpNet, IpAddr)> {
        // The kernel itself makes the route to the prefix that the link has an address of.
        let is_own = |net: &IpNet| self.addresses.iter().any(|own| own.contains(net));
        let far = self.pods.iter().copied().filter(|net| !is_own(net));
        let hidden = self.masquerade.iter().map(|address| IpNet::from(*address));
        let router = |net: &IpNet| {
            let is_of = |router: &&IpAddr| Family::of(**router) == Family::of_net(net);
            self.routers.iter().find(is_of).copied()
        };
        far.chain(hidden).filter_map(|net| Some((net, router(&net)?))).collect()
    }

    /// Adds to the networks of pods those that are held and were there before: a mistake in a Subnet must not take away what works, and
    /// what was never there does not come about by one.
    pub fn keep(&mut self, before: &[IpNet]) {
        let is_hidden = |net: &IpNet| self.masquerade.iter().any(|address| IpNet::from(*address) == *net);
        let before: Vec<IpNet> = before.iter().filter(|net| !is_hidden(net)).copied().collect();
        let kept = match &self.held {
            HeldNetworks::Unknown => before,
            HeldNetworks::Known(held) => {
                let was_there = |net: &&IpNet| before.iter().any(|before| before.contains(*net));
                held.iter().filter(was_there).copied().collect()
            }
        };
        self.pods = IpNet::aggregate(&self.pods.iter().copied().chain(kept).collect());
    }
}

/// What a node should have; none while its port has no addresses. `networks` are the cluster's as far as the operator says, `mtu` that of
/// subnets that name none.
pub fn node_network(world: &World, node: &str, networks: &[IpNet], mtu: u16) -> Option<NodeNetwork> {
    let node = world.node(node)?;
    let port = world.node_port(node)?;
    let (attachment, subnet) = (port.attachment, world.subnet(port.subnet.name)?);
    let config = &subnet.config;
    let families = || [Family::IPv4, Family::IPv6].into_iter();
    let addresses = families().filter_map(|family| {
        let own = attachment.addresses_of(family).next()?;
        IpNet::new(own, config.cidr.net(family)?.prefix_len()).ok()
    });
    let masquerade: Vec<IpAddr> =
        families().filter_map(|family| attachment.addresses_of(family).nth(1)).collect();
    let of_subnets: Vec<IpNet> =
        world.subnets_of_vpc(DEFAULT_VPC).flat_map(|subnet| subnet.config.cidr.nets()).collect();
    let is_ours = |net: &IpNet| node.addresses.iter().any(|address| net.contains(address));
    let (refused, given): (Vec<IpNet>, Vec<IpNet>) =
        networks.iter().chain(&of_subnets).map(IpNet::trunc).partition(|net| is_ours(net));
    let pods = IpNet::aggregate(&given);
    Some(NodeNetwork {
        owner: node.uid.clone(),
        iface_id: attachment.iface_id(),
        mac: attachment.mac,
        mtu: config.mtu.unwrap_or(mtu),
        addresses: addresses.collect(),
        routers: families().filter_map(|family| config.gateway.address(family)).collect(),
        pods,
        masquerade,
        refused,
        held: world.held_networks(DEFAULT_VPC),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use portolan_api::portolan::{DecidedInterface, HolderKind};
    use portolan_model::fixtures::{mk_lock, mk_node_with, mk_subnet};
    use portolan_model::{FirstInterface, Settings};

    use super::*;

    fn world() -> World {
        let mut world = World::new(Settings { first_interface: FirstInterface::Portolan });
        drop(world.apply(&mk_node_with("w1", "10.16.1.0/24,fd00:16:1::/64")));
        drop(world.apply(&mk_subnet("apps", "10.50.0.0/24", "ovn-cluster")));
        drop(world.apply(&mk_subnet("tenants", "10.60.0.0/24", "blue")));
        for (at, address) in
            ["10.16.1.2", "10.16.1.3", "fd00:16:1::2", "fd00:16:1::3"].into_iter().enumerate()
        {
            let mut lock = mk_lock("vpc/ovn-cluster", "node:w1", address, "w1", at as u64 + 1);
            let holder = &mut lock.spec.holder;
            (holder.kind, holder.namespace) = (HolderKind::Node, None);
            (holder.uid, holder.interface) = ("node-w1".into(), Some("node".into()));
            lock.spec.mac = address.contains('.').then(|| "0a:58:0a:10:01:02".to_owned());
            let families = [Family::IPv4, Family::IPv4, Family::IPv6, Family::IPv6].into();
            lock.spec.interfaces = vec![DecidedInterface { interface: "node".into(), families }];
            drop(world.apply(&lock));
        }
        world
    }

    fn texts<T: ToString>(of: impl IntoIterator<Item = T>) -> Vec<String> {
        of.into_iter().map(|one| one.to_string()).collect()
    }

    #[test]
    fn the_node_reaches_all_pods_by_the_router_of_its_switch() {
        let networks = ["10.16.0.0/14", "fd00:16::/32"].map(|net| net.parse().unwrap());
        let network = node_network(&world(), "w1", &networks, 1400).unwrap();
        assert_eq!(texts(&network.addresses), ["10.16.1.2/24", "fd00:16:1::2/64"]);
        assert_eq!(
            texts(network.routes().iter().map(|(net, router)| format!("{net} via {router}"))),
            [
                "10.16.0.0/14 via 10.16.1.1",
                "10.16.1.3/32 via 10.16.1.1",
                "10.50.0.0/24 via 10.16.1.1",
                "fd00:16::/32 via fd00:16:1::1",
                "fd00:16:1::3/128 via fd00:16:1::1",
            ]
        );
        assert_eq!(texts(&network.pods), ["10.16.0.0/14", "10.50.0.0/24", "fd00:16::/32"]);
        assert_eq!(texts(&network.masquerade), ["10.16.1.3", "fd00:16:1::3"]);
        assert_eq!((network.mtu, network.mac.to_string().as_str()), (1400, "0a:58:0a:10:01:02"));
        assert_eq!(network.iface_id, "port:w1/node/node-w1");
    }

    #[test]
    fn a_network_around_the_node_itself_is_refused() {
        let networks = ["192.168.0.0/16".parse().unwrap()];
        let network = node_network(&world(), "w1", &networks, 1400).unwrap();
        assert_eq!(texts(&network.refused), ["192.168.0.0/16"]);
        assert!(!texts(&network.pods).contains(&"192.168.0.0/16".to_owned()));
    }

    #[test]
    fn so_is_a_subnet_around_it() {
        let mut world = world();
        let mut node = mk_node_with("w1", "10.16.1.0/24,fd00:16:1::/64");
        node.addresses = vec!["10.50.0.9".parse().unwrap()];
        drop(world.apply(&node));
        let network = node_network(&world, "w1", &[], 1400).unwrap();
        assert_eq!(texts(&network.refused), ["10.50.0.0/24"]);
        assert!(!texts(network.routes().iter().map(|(net, _)| net)).contains(&"10.50.0.0/24".to_owned()));
    }

    fn pods_with(world: &World, before: &[&str]) -> Vec<String> {
        let mut network = node_network(world, "w1", &[], 1400).unwrap();
        let before: Vec<IpNet> = before.iter().map(|net| net.parse().unwrap()).collect();
        network.keep(&before);
        texts(&network.pods)
    }

    const BEFORE: [&str; 3] = ["10.50.0.0/24", "10.16.1.3/32", "10.70.0.0/24"];

    #[test]
    fn what_a_mistake_in_a_subnet_hides_stays_as_it_was() {
        let mut world = world();
        assert_eq!(pods_with(&world, &BEFORE), ["10.16.1.0/24", "10.50.0.0/24", "fd00:16:1::/64"]);
        drop(world.apply(&mk_subnet("apps", "10.50.0.0/33", "ovn-cluster")));
        let kept = ["10.16.1.0/24", "10.50.0.0/24", "10.70.0.0/24", "fd00:16:1::/64"];
        assert_eq!(pods_with(&world, &BEFORE), kept);
        assert_eq!(pods_with(&world, &[]), ["10.16.1.0/24", "fd00:16:1::/64"]);
    }

    #[test]
    fn a_subnet_that_is_not_in_effect_hides_its_own_networks_alone() {
        let mut world = world();
        // Those of tenants are no networks of the node's.
        let unvalidated = |name, cidr, vpc| {
            let mut subnet = mk_subnet(name, cidr, vpc);
            subnet.status = None;
            subnet
        };
        drop(world.apply(&unvalidated("tenants", "10.60.0.0/24", "blue")));
        let without = ["10.16.1.0/24", "10.50.0.0/24", "fd00:16:1::/64"];
        assert_eq!(pods_with(&world, &BEFORE), without, "what nobody has any more goes");
        // One that never was in effect does not come about; one that was stays, also as a part of a route to more.
        drop(world.apply(&unvalidated("new", "10.80.0.0/24", "ovn-cluster")));
        assert_eq!(pods_with(&world, &BEFORE), without);
        drop(world.apply(&unvalidated("apps", "10.50.0.0/24", "ovn-cluster")));
        assert_eq!(pods_with(&world, &BEFORE), without);
        assert_eq!(pods_with(&world, &["10.50.0.0/23"]), without);
        assert_eq!(pods_with(&world, &[]), ["10.16.1.0/24", "fd00:16:1::/64"]);
    }

    #[test]
    fn without_addresses_there_is_nothing_to_make() {
        let mut world = world();
        drop(world.delete(&mk_lock("vpc/ovn-cluster", "node:w1", "10.16.1.2", "w1", 1)));
        assert_eq!(node_network(&world, "w1", &[], 1400), None);
        assert_eq!(node_network(&world, "w2", &[], 1400), None);
    }
}
