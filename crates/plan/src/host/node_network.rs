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
use portolan_model::World;
use portolan_model::subnet::DEFAULT_VPC;

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
    /// Routes by the link: where to, and by which router.
    pub routes: BTreeSet<(IpNet, IpAddr)>,
    /// The networks of all pods: what goes to others leaves the cluster.
    pub pods: Vec<IpNet>,
    /// The addresses that are not configured: what the node translates on its way to pods comes from these.
    pub masquerade: Vec<IpAddr>,
    /// The node's own addresses, in the network of the nodes.
    pub own: Vec<IpAddr>,
    /// Networks that were given as the cluster's or are a Subnet's, and contain an address of the node itself: they would lead to nowhere.
    pub refused: Vec<IpNet>,
    /// Whether this is all that there is. If not, what is missing here stays.
    pub is_complete: bool,
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
    // The kernel itself makes the route to the prefix that the link has an address of.
    let own: Vec<IpNet> = config.cidr.nets().collect();
    let far = pods.iter().copied().filter(|net| !own.contains(net));
    let hidden = masquerade.iter().map(|address| IpNet::from(*address));
    let by_router = |net: IpNet| Some((net, config.gateway.address(Family::of_net(&net))?));
    let routes = far.chain(hidden).filter_map(by_router).collect();
    Some(NodeNetwork {
        owner: node.uid.clone(),
        iface_id: attachment.iface_id(),
        mac: attachment.mac,
        mtu: config.mtu.unwrap_or(mtu),
        addresses: addresses.collect(),
        routes,
        pods,
        masquerade,
        own: node.addresses.clone(),
        refused,
        is_complete: !world.has_held_subnets(),
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
            texts(network.routes.iter().map(|(net, router)| format!("{net} via {router}"))),
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
        assert!(!texts(network.routes.iter().map(|(net, _)| net)).contains(&"10.50.0.0/24".to_owned()));
    }

    #[test]
    fn what_a_mistake_in_a_subnet_hides_is_not_complete() {
        let mut world = world();
        assert!(node_network(&world, "w1", &[], 1400).unwrap().is_complete);
        drop(world.apply(&mk_subnet("apps", "10.50.0.0/33", "ovn-cluster")));
        let network = node_network(&world, "w1", &[], 1400).unwrap();
        assert!(!network.is_complete);
        assert_eq!(texts(&network.pods), ["10.16.1.0/24", "fd00:16:1::/64"]);
    }

    #[test]
    fn without_addresses_there_is_nothing_to_make() {
        let mut world = world();
        drop(world.delete(&mk_lock("vpc/ovn-cluster", "node:w1", "10.16.1.2", "w1", 1)));
        assert_eq!(node_network(&world, "w1", &[], 1400), None);
        assert_eq!(node_network(&world, "w2", &[], 1400), None);
    }
}
