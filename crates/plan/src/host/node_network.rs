//! The node's own part in the primary network: its port, and what its kernel knows of pods.
//!
//! ```text
//!  node ── portolan0 ── switch of the node ── router ── pods
//!          its own address; pods' networks by the router; the second address, which is not configured, by the router too;
//!          where Portolan serves Services, their networks and those of node-local frontends as well
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use portolan_api::{Family, Mac};
use portolan_model::subnet::DEFAULT_VPC;
use portolan_model::{HeldNetworks, Subnet, World};

use crate::northbound::ServiceProxy;
use crate::service_addresses::NODE_LOCAL;

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
    /// The networks of Subnets in effect, and whose address what leaves the cluster from them has. What leaves from others has the node's.
    pub leaves: Vec<(IpNet, LeavesWith)>,
    /// The addresses that are not configured: what the node translates on its way to pods comes from these.
    pub masquerade: Vec<IpAddr>,
    /// The node's own addresses, in the network of the nodes.
    pub own: Vec<IpAddr>,
    /// The networks of Services, whoever serves them.
    pub services: Vec<IpNet>,
    /// Who serves Services.
    pub service_proxy: ServiceProxy,
    /// Networks that were given as the cluster's or are a Subnet's, and contain an address of the node itself: they would lead to nowhere.
    pub refused: Vec<IpNet>,
    /// Networks of pods that are not in effect right now, and stay as they are: see [`NodeNetwork::keep`].
    pub held: HeldNetworks,
}

/// Whose address has what leaves the cluster: `natOutgoing` of a Subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavesWith {
    /// The node's.
    NodeAddress,
    /// The pod's own.
    OwnAddress,
}

/// What an operator says of the cluster's networks.
#[derive(Clone, Copy, Debug)]
pub struct GivenNetworks<'a> {
    /// Those of pods.
    pub pods: &'a [IpNet],
    /// Those of Services.
    pub services: &'a [IpNet],
    /// Who serves Services.
    pub service_proxy: ServiceProxy,
}

impl NodeNetwork {
    /// Routes by the link: where to, and by which router.
    pub fn routes(&self) -> BTreeSet<(IpNet, IpAddr)> {
        // The kernel itself makes the route to the prefix that the link has an address of.
        let is_own = |net: &IpNet| self.addresses.iter().any(|own| own.contains(net));
        let far = self.pods.iter().copied().filter(|net| !is_own(net));
        let hidden = self.masquerade.iter().map(|address| IpNet::from(*address));
        let of_services = self.services.iter().copied().chain(node_local_networks());
        let of_services = of_services.filter(|_| self.service_proxy == ServiceProxy::Portolan);
        let router = |net: &IpNet| {
            let is_of = |router: &&IpAddr| Family::of(**router) == Family::of_net(net);
            self.routers.iter().find(is_of).copied()
        };
        far.chain(hidden).chain(of_services).filter_map(|net| Some((net, router(&net)?))).collect()
    }

    /// Adds to the networks of pods those that are held and were there before: a mistake in a Subnet must not take away what works, and
    /// what was never there does not come about by one.
    pub fn keep(&mut self, before: &[IpNet]) {
        let is_hidden = |net: &IpNet| self.masquerade.iter().any(|address| IpNet::from(*address) == *net);
        let is_of_services =
            |net: &IpNet| self.services.contains(net) || node_local_networks().any(|one| one == *net);
        let before = before.iter().filter(|net| !is_hidden(net) && !is_of_services(net));
        let before: Vec<IpNet> = before.copied().collect();
        let kept = match &self.held {
            HeldNetworks::Unknown => before,
            HeldNetworks::Known(held) => {
                let was_there = |net: &&IpNet| before.iter().any(|before| before.contains(*net));
                held.iter().filter(was_there).copied().collect()
            }
        };
        self.pods = IpNet::aggregate(&self.pods.iter().copied().chain(kept).collect());
    }

    /// The networks of pods that leave the cluster with their own addresses, where `before` did. What is held leaves as it did.
    pub fn unmasqueraded(&self, before: &[IpNet]) -> Vec<IpNet> {
        let own = self.leaves.iter().filter(|(_, with)| *with == LeavesWith::OwnAddress).map(|(net, _)| *net);
        let is_held = |net: &&IpNet| match &self.held {
            // What a known Subnet has addresses of is not held, whatever prefix it had before.
            HeldNetworks::Unknown => {
                self.leaves.iter().all(|(known, _)| !known.contains(*net) && !net.contains(known))
            }
            HeldNetworks::Known(held) => held.contains(net),
        };
        own.chain(before.iter().filter(is_held).copied()).collect()
    }
}

/// The networks of node-local frontends: those of [`NODE_LOCAL`].
pub fn node_local_networks() -> impl Iterator<Item = IpNet> {
    NODE_LOCAL.into_iter().map(|net| net.parse().expect("invariant: the constants are networks"))
}

/// What a node should have; none while its port has no addresses. `mtu` is that of subnets that name none.
pub fn node_network(world: &World, node: &str, given: GivenNetworks<'_>, mtu: u16) -> Option<NodeNetwork> {
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
    let leaves: Vec<(IpNet, LeavesWith)> = world.subnets_of_vpc(DEFAULT_VPC).flat_map(leaves_of).collect();
    let of_subnets = || leaves.iter().map(|(net, _)| net);
    let is_ours = |net: &IpNet| node.addresses.iter().any(|address| net.contains(address));
    let (mut refused, pods): (Vec<IpNet>, Vec<IpNet>) =
        given.pods.iter().chain(of_subnets()).map(IpNet::trunc).partition(|net| is_ours(net));
    let pods = IpNet::aggregate(&pods);
    let (around, services): (Vec<IpNet>, Vec<IpNet>) =
        given.services.iter().map(IpNet::trunc).partition(|net| is_ours(net));
    if given.service_proxy == ServiceProxy::Portolan {
        refused.extend(around);
    }
    Some(NodeNetwork {
        owner: node.uid.clone(),
        iface_id: attachment.iface_id(),
        mac: attachment.mac,
        mtu: config.mtu.unwrap_or(mtu),
        addresses: addresses.collect(),
        routers: families().filter_map(|family| config.gateway.address(family)).collect(),
        pods,
        leaves,
        masquerade,
        own: node.addresses.clone(),
        services: IpNet::aggregate(&services),
        service_proxy: given.service_proxy,
        refused,
        held: world.held_networks(DEFAULT_VPC),
    })
}

fn leaves_of(subnet: &Subnet) -> impl Iterator<Item = (IpNet, LeavesWith)> {
    let with = if subnet.config.nat_outgoing { LeavesWith::NodeAddress } else { LeavesWith::OwnAddress };
    subnet.config.cidr.nets().map(move |net| (net, with))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use portolan_api::portolan::{DecidedInterface, HolderKind};
    use portolan_model::fixtures::{mk_kubeovn_subnet, mk_lock, mk_node_with, mk_subnet};
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

    /// What an operator says where something else serves Services.
    fn given(pods: &[IpNet]) -> GivenNetworks<'_> {
        GivenNetworks { pods, services: &[], service_proxy: ServiceProxy::Other }
    }

    fn texts<T: ToString>(of: impl IntoIterator<Item = T>) -> Vec<String> {
        of.into_iter().map(|one| one.to_string()).collect()
    }

    #[test]
    fn the_node_reaches_all_pods_by_the_router_of_its_switch() {
        let networks = ["10.16.0.0/14", "fd00:16::/32"].map(|net| net.parse().unwrap());
        let network = node_network(&world(), "w1", given(&networks), 1400).unwrap();
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
    fn where_portolan_serves_services_what_goes_to_them_takes_the_same_way() {
        let services = ["10.96.0.0/16", "fd96::/112"].map(|net| net.parse().unwrap());
        let given = |service_proxy| GivenNetworks { pods: &[], services: &services, service_proxy };
        let routes =
            |network: &NodeNetwork| texts(network.routes().iter().map(|(net, by)| format!("{net} via {by}")));
        let portolan = node_network(&world(), "w1", given(ServiceProxy::Portolan), 1400).unwrap();
        let other = node_network(&world(), "w1", given(ServiceProxy::Other), 1400).unwrap();
        let more: Vec<String> =
            routes(&portolan).into_iter().filter(|route| !routes(&other).contains(route)).collect();
        assert_eq!(
            more,
            [
                "10.96.0.0/16 via 10.16.1.1",
                "169.254.169.0/26 via 10.16.1.1",
                "fd8a:3c51:9e07:a9::/64 via fd00:16:1::1",
                "fd96::/112 via fd00:16:1::1",
            ]
        );
        assert_eq!(routes(&portolan).len(), routes(&other).len() + more.len());
        assert_eq!(portolan.pods, other.pods, "what pods send there is none of what they send to pods");
        // Where an earlier agent served them, these are no networks of pods that a Subnet hides.
        let mut world = world();
        drop(world.apply(&mk_subnet("apps", "10.50.0.0/33", "ovn-cluster")));
        for service_proxy in [ServiceProxy::Portolan, ServiceProxy::Other] {
            let mut after = node_network(&world, "w1", given(service_proxy), 1400).unwrap();
            after.keep(&portolan.routes().iter().map(|(net, _)| *net).collect::<Vec<_>>());
            assert_eq!(texts(&after.pods), ["10.16.1.0/24", "10.50.0.0/24", "fd00:16:1::/64"]);
        }
    }

    #[test]
    fn a_network_of_services_around_the_node_itself_is_refused() {
        let services = ["192.168.0.0/16".parse().unwrap()];
        let given = |service_proxy| GivenNetworks { pods: &[], services: &services, service_proxy };
        let network = node_network(&world(), "w1", given(ServiceProxy::Portolan), 1400).unwrap();
        assert_eq!((texts(&network.refused), network.services), (vec!["192.168.0.0/16".to_owned()], vec![]));
        let network = node_network(&world(), "w1", given(ServiceProxy::Other), 1400).unwrap();
        assert_eq!(texts(&network.refused), [""; 0], "it is not routed here");
    }

    #[test]
    fn a_network_around_the_node_itself_is_refused() {
        let networks = ["192.168.0.0/16".parse().unwrap()];
        let network = node_network(&world(), "w1", given(&networks), 1400).unwrap();
        assert_eq!(texts(&network.refused), ["192.168.0.0/16"]);
        assert!(!texts(&network.pods).contains(&"192.168.0.0/16".to_owned()));
    }

    #[test]
    fn so_is_a_subnet_around_it() {
        let mut world = world();
        let mut node = mk_node_with("w1", "10.16.1.0/24,fd00:16:1::/64");
        node.addresses = vec!["10.50.0.9".parse().unwrap()];
        drop(world.apply(&node));
        let network = node_network(&world, "w1", given(&[]), 1400).unwrap();
        assert_eq!(texts(&network.refused), ["10.50.0.0/24"]);
        assert!(!texts(network.routes().iter().map(|(net, _)| net)).contains(&"10.50.0.0/24".to_owned()));
    }

    fn pods_with(world: &World, before: &[&str]) -> Vec<String> {
        let mut network = node_network(world, "w1", given(&[]), 1400).unwrap();
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

    fn unmasqueraded_with(world: &World, before: &[&str]) -> Vec<String> {
        let network = node_network(world, "w1", given(&["10.16.0.0/14".parse().unwrap()]), 1400).unwrap();
        let before: Vec<IpNet> = before.iter().map(|net| net.parse().unwrap()).collect();
        texts(network.unmasqueraded(&before))
    }

    #[test]
    fn pods_leave_with_the_address_that_nat_outgoing_says() {
        let mut world = world();
        assert_eq!(
            unmasqueraded_with(&world, &[]),
            [""; 0],
            "the node's prefixes, and Subnets of portolan.dev"
        );
        let mut apps = mk_subnet("apps", "10.50.0.0/24,fd00:50::/64", "ovn-cluster");
        let mut theirs = mk_kubeovn_subnet("theirs", "10.51.0.0/24");
        for (ours, of_kubeovn, own) in [
            (Some(false), Some(true), &["10.50.0.0/24", "fd00:50::/64"][..]),
            (Some(true), Some(false), &["10.51.0.0/24"]),
            (None, None, &["10.51.0.0/24"]),
        ] {
            (apps.spec.nat_outgoing, theirs.spec.nat_outgoing) = (ours, of_kubeovn);
            drop(world.apply(&apps));
            drop(world.apply(&theirs));
            assert_eq!(unmasqueraded_with(&world, &["10.50.0.0/24", "10.99.0.0/24"]), own);
        }
        theirs.spec.default = Some(true);
        drop(world.apply(&theirs));
        assert_eq!(unmasqueraded_with(&world, &[]), [""; 0], "the Subnet of all nodes");
        // What tenants' pods have is the business of their VPCs.
        let mut tenants = mk_kubeovn_subnet("tenants", "10.60.0.0/24");
        tenants.spec.vpc = Some("blue".into());
        drop(world.apply(&tenants));
        assert_eq!(unmasqueraded_with(&world, &[]), [""; 0]);
    }

    #[test]
    fn pods_of_a_subnet_that_is_not_in_effect_leave_as_they_did() {
        let mut world = world();
        let mut apps = mk_subnet("apps", "10.50.0.0/24", "ovn-cluster");
        apps.status = None;
        for nat_outgoing in [Some(true), Some(false)] {
            apps.spec.nat_outgoing = nat_outgoing;
            drop(world.apply(&apps));
            assert_eq!(unmasqueraded_with(&world, &["10.50.0.0/24"]), ["10.50.0.0/24"]);
            assert_eq!(unmasqueraded_with(&world, &[]), [""; 0]);
        }
        // Of one nothing is known; what the others have is known all the same.
        drop(world.apply(&mk_subnet("apps", "10.50.0.0/33", "ovn-cluster")));
        drop(world.apply(&mk_subnet("known", "10.51.0.0/24", "ovn-cluster")));
        assert_eq!(unmasqueraded_with(&world, &["10.50.0.0/24", "10.51.0.0/24"]), ["10.50.0.0/24"]);
        // Also if it was made again with another prefix.
        for before in ["10.51.0.0/25", "10.51.0.0/16"] {
            assert_eq!(unmasqueraded_with(&world, &[before]), [""; 0]);
        }
    }

    #[test]
    fn without_addresses_there_is_nothing_to_make() {
        let mut world = world();
        drop(world.delete(&mk_lock("vpc/ovn-cluster", "node:w1", "10.16.1.2", "w1", 1)));
        assert_eq!(node_network(&world, "w1", given(&[]), 1400), None);
        assert_eq!(node_network(&world, "w2", given(&[]), 1400), None);
    }
}
