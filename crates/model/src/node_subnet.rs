//! Subnets of nodes: what the pod prefixes of a Node amount to. There is no object for one but the Node itself.
//!
//! | address of each prefix | whose |
//! |---|---|
//! | the first after the network's own | the router's |
//! | the second | the node's, by its port |
//! | the third | the node's too: what it masquerades its traffic to services with |
//! | all others | pods' |
//!
//! The places are fixed, so that a node's port and its pods never contend for an address.

use std::net::IpAddr;

use portolan_api::portolan::SubnetSpec;
use portolan_api::{AddressPair, CidrBlock, FieldErrors, FieldPath, Reason, SubnetConfig};

use crate::group::Group;
use crate::guest_addresses::guest_range;
use crate::life::Life;
use crate::node::Node;
use crate::subnet::{DEFAULT_VPC, Subnet, Validation};

/// What the names of such subnets begin with; those of Kubernetes objects have no colon.
const PREFIX: &str = "node:";
/// How many addresses of each family a node has of its own.
pub const NODE_ADDRESSES: usize = 2;

/// The name of a node's subnet.
pub fn node_subnet(node: &str) -> String {
    format!("{PREFIX}{node}")
}

/// The node whose subnet has this name, if it is one.
pub fn node_of_subnet(subnet: &str) -> Option<&str> {
    subnet.strip_prefix(PREFIX)
}

/// What says that the prefixes of a Node were found free of clashes: the value of the annotation. It names the Node by its UID: what was
/// found of one says nothing of another that has its name, and its annotations.
pub fn served(cidr: CidrBlock, node_uid: &str) -> String {
    format!("{cidr} of {node_uid}")
}

/// The addresses of a node in its own prefixes, those of each family in order.
pub fn node_addresses(cidr: CidrBlock) -> Vec<IpAddr> {
    let routers: AddressPair = cidr.first_addresses();
    let after = |router: IpAddr| (1..=NODE_ADDRESSES as u32).map(move |place| nth_after(router, place));
    routers.addresses().flat_map(after).collect()
}

fn nth_after(address: IpAddr, place: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::from(v4.to_bits().saturating_add(place).to_be_bytes()),
        IpAddr::V6(v6) => IpAddr::from(v6.to_bits().saturating_add(u128::from(place)).to_be_bytes()),
    }
}

impl Node {
    /// Its subnet, if prefixes were allocated to it.
    pub fn subnet(&self) -> Option<Result<Subnet, FieldErrors>> {
        let config = match self.pod_cidrs.as_ref()? {
            Ok(cidr) => config(*cidr),
            Err(errors) => Err(errors.clone()),
        };
        let name = node_subnet(&self.name);
        Some(config.map(|config| Subnet {
            domain: Subnet::domain_of(&name, &config),
            name,
            uid: self.uid.clone(),
            generation: None,
            group: Group::Core,
            validation: self.prefixes_validation(),
            config,
            // Nobody deletes it but with its node.
            life: Life::Protected,
        }))
    }

    /// Whether its prefixes were found free of clashes.
    pub fn prefixes_validation(&self) -> Validation {
        match (&self.pod_cidrs, &self.served_cidrs) {
            (Some(Ok(cidr)), Some(told)) if served(*cidr, &self.uid) == *told => Validation::Current,
            _ => Validation::Not,
        }
    }
}

/// A subnet with these prefixes, checked as any other.
fn config(cidr: CidrBlock) -> Result<SubnetConfig, FieldErrors> {
    let own = node_addresses(cidr);
    let mut errors = FieldErrors::new();
    let list = FieldPath::SPEC;
    let list = list.field("podCIDRs");
    for (i, net) in cidr.nets().enumerate() {
        let mut own = own.iter().filter(|address| net.contains(*address));
        let fits = |address: &IpAddr| guest_range(net).is_some_and(|range| range.contains(*address));
        if own.clone().count() < NODE_ADDRESSES || !own.all(fits) {
            let message = "is too small for a router, a node and its pods; allocate larger prefixes to nodes";
            errors.add(&list.index(i), net.to_string(), Reason::Invalid, message);
        }
    }
    errors.into_result(())?;
    let spec = SubnetSpec {
        cidr_block: cidr.to_string(),
        vpc: Some(DEFAULT_VPC.to_owned()),
        // Only the node asks for these.
        exclude_ips: own.iter().map(ToString::to_string).collect(),
        ..SubnetSpec::default()
    };
    spec.parse().map_err(|errors| {
        let mut renamed = FieldErrors::new();
        for error in errors {
            renamed.add(&list, error.value.unwrap_or_default(), error.reason, error.message);
        }
        renamed
    })
}

impl Subnet {
    /// The node whose prefixes these are, if they are a node's.
    pub fn node(&self) -> Option<&str> {
        node_of_subnet(&self.name)
    }

    /// Whether an address is the node's own, if these are a node's prefixes.
    pub fn is_of_node(&self, address: IpAddr) -> bool {
        self.node().is_some() && node_addresses(self.config.cidr).contains(&address)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use portolan_api::cidr::HostBits;

    use super::*;
    use crate::fixtures::mk_node;

    fn subnet(text: &str) -> Result<Subnet, FieldErrors> {
        let cidr = CidrBlock::parse(text, HostBits::Mask).unwrap();
        let node = mk_node("w1");
        Node { pod_cidrs: Some(Ok(cidr)), served_cidrs: Some(served(cidr, &node.uid)), ..node }
            .subnet()
            .unwrap()
    }

    #[test]
    fn the_first_addresses_are_the_routers_and_the_nodes() {
        let subnet = subnet("10.1.0.0/24,fd00:1::/64").unwrap();
        assert_eq!((subnet.name.as_str(), subnet.vpc()), ("node:w1", Some(DEFAULT_VPC)));
        assert_eq!(subnet.config.gateway.to_string(), "10.1.0.1,fd00:1::1");
        let own: Vec<_> = node_addresses(subnet.config.cidr).iter().map(ToString::to_string).collect();
        assert_eq!(own, ["10.1.0.2", "10.1.0.3", "fd00:1::2", "fd00:1::3"]);
        assert!(subnet.is_of_node("fd00:1::3".parse().unwrap()));
        assert!(!subnet.is_of_node("10.1.0.4".parse().unwrap()));
        assert_eq!(subnet.validation, Validation::Current);
        assert_eq!(subnet.node(), Some("w1"));
    }

    #[test]
    fn prefixes_without_room_or_of_a_special_kind_are_refused() {
        for (text, message) in [
            ("10.1.0.0/30", "is too small"),
            ("10.1.0.0/32", "is too small"),
            ("10.1.0.0/24,fd00::/127", "is too small"),
            ("169.254.1.0/24", "is link-local"),
        ] {
            let errors = subnet(text).unwrap_err().to_string();
            assert!(errors.starts_with("spec.podCIDRs"), "{errors}");
            assert!(errors.contains(message.trim_start_matches("is ")), "{errors}");
        }
        assert!(subnet("10.1.0.0/29").is_ok());
    }

    #[test]
    fn other_prefixes_than_those_that_were_found_free_are_not_in_use() {
        let other = Node { served_cidrs: Some("10.9.0.0/24".into()), ..mk_node("w1") };
        assert_eq!(other.prefixes_validation(), Validation::Not);
        let cidr = CidrBlock::V4("10.1.0.0/24".parse().unwrap());
        let node = Node { pod_cidrs: Some(Ok(cidr)), ..other };
        assert_eq!(node.prefixes_validation(), Validation::Not);
        for (told, validation) in [
            (served(cidr, "node-w1"), Validation::Current),
            // What was found of an earlier Node of this name, or what somebody wrote who knows the prefixes alone.
            (served(cidr, "node-before"), Validation::Not),
            (cidr.to_string(), Validation::Not),
        ] {
            let node = Node { served_cidrs: Some(told.clone()), ..node.clone() };
            assert_eq!(node.prefixes_validation(), validation, "{told}");
        }
    }
}
