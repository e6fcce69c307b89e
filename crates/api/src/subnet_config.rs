//! What a Subnet of either API group says, as values: one parser for both.

use ipnet::IpNet;

use crate::cidr::{AddressPair, CidrBlock, Family, HostBits, parse_net};
use crate::field_error::{FieldErrors, FieldPath, Reason};
use crate::ip_range::IpRange;
use crate::names::{check_namespace, check_namespaces, check_object_name};
use crate::ovn_options::{OptionSet, Options};
use crate::provider::Provider;
use crate::routes::{GuestRoute, Route};
use crate::vni::Vni;

/// The VPC of the cluster's own pods: that of a `kubeovn.io` subnet that names none and serves no network attachment definition.
pub const DEFAULT_VPC: &str = "ovn-cluster";

/// Prefixes that no subnet can lie in or around.
const SPECIAL: &[(&str, &str)] = &[
    ("0.0.0.0/8", "\"this network\""),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("::/127", "unspecified and loopback"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
];

/// A subnet that makes sense by itself. Whether it fits the others, only the World knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetConfig {
    /// The VPC it belongs to; without one, and without a VNI, an isolated switch.
    pub vpc: Option<String>,
    /// The virtual network of the VXLAN fabric it belongs to. Never together with `vpc`.
    pub vni: Option<Vni>,
    /// Its prefixes, host bits clear.
    pub cidr: CidrBlock,
    /// Its gateway of every family it has: the first address of the prefix where none was named.
    pub gateway: AddressPair,
    /// Addresses given to no one who does not ask for them.
    pub exclude: Vec<IpRange>,
    /// Who hands out its interfaces.
    pub provider: Option<Provider>,
    /// MTU of its interfaces; without one, what the tunnel leaves.
    pub mtu: Option<u16>,
    /// DHCP for guests.
    pub dhcp: Option<DhcpConfig>,
    /// Router advertisements.
    pub ipv6_ra: Option<Options>,
    /// Routes handed to guests.
    pub routes: Vec<GuestRoute>,
    /// Refuses traffic from other subnets.
    pub private: bool,
    /// Prefixes that a private subnet still lets in.
    pub allow_subnets: Vec<IpNet>,
    /// Gives what leaves the cluster by a node the address of that node. It means something in [`DEFAULT_VPC`] only.
    pub nat_outgoing: bool,
    /// Namespaces whose pods it is the default choice for.
    pub namespaces: Vec<String>,
    /// Namespaces that may use it.
    pub allowed_namespaces: AllowedNamespaces,
    /// The choice for pods that nothing else is chosen for.
    pub default: bool,
}

/// DHCP options that a user set, by family. The rest follows from the subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DhcpConfig {
    /// Of the IPv4 prefix.
    pub v4: Options,
    /// Of the IPv6 prefix.
    pub v6: Options,
}

/// Which namespaces may put interfaces on a subnet beyond the ones that are its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedNamespaces {
    /// Only its own: those in `namespaces`, and that of the network attachment definition it serves.
    #[default]
    Own,
    /// Its own, and these.
    Listed(Vec<String>),
    /// Every namespace.
    All,
}

/// The fields of a Subnet that both API groups have, borrowed from either.
pub(crate) struct SubnetFields<'a> {
    pub(crate) host_bits: HostBits,
    pub(crate) vpc: Option<&'a str>,
    pub(crate) vni: Option<i64>,
    pub(crate) cidr_block: &'a str,
    pub(crate) gateway: Option<&'a str>,
    pub(crate) exclude_ips: &'a [String],
    pub(crate) provider: Option<&'a str>,
    pub(crate) protocol: Option<&'a str>,
    pub(crate) mtu: Option<i64>,
    pub(crate) enable_dhcp: bool,
    pub(crate) dhcp_v4_options: &'a str,
    pub(crate) dhcp_v6_options: &'a str,
    pub(crate) enable_ipv6_ra: bool,
    pub(crate) ipv6_ra_configs: &'a str,
    pub(crate) routes: &'a [Route],
    pub(crate) private: bool,
    pub(crate) allow_subnets: &'a [String],
    pub(crate) nat_outgoing: bool,
    pub(crate) namespaces: &'a [String],
    pub(crate) allowed_namespaces: &'a [String],
    pub(crate) default: bool,
}

impl SubnetFields<'_> {
    /// Checks every field, then every relation between fields that are right by themselves.
    pub(crate) fn parse(&self) -> Result<SubnetConfig, FieldErrors> {
        let errors = &mut FieldErrors::new();
        let cidr = self.cidr(errors);
        self.check_vpc(errors);
        let config = SubnetConfig {
            vpc: self.vpc.map(str::to_owned),
            vni: self.vni(errors),
            cidr: cidr.unwrap_or(CidrBlock::V4(ipnet::Ipv4Net::default())),
            gateway: self.gateway(cidr, errors),
            exclude: self.exclude(cidr, errors),
            provider: self.provider(errors),
            mtu: self.mtu(cidr, errors),
            dhcp: self.dhcp(errors),
            ipv6_ra: self.ipv6_ra(errors),
            routes: self.routes(cidr, errors),
            private: self.private,
            allow_subnets: self.allow_subnets(errors),
            nat_outgoing: self.nat_outgoing,
            namespaces: self.namespaces(errors),
            allowed_namespaces: self.allowed_namespaces(errors),
            default: self.default,
        };
        self.check_protocol(cidr, errors);
        std::mem::take(errors).into_result(config)
    }

    fn cidr(&self, errors: &mut FieldErrors) -> Option<CidrBlock> {
        let path = FieldPath::SPEC.field("cidrBlock");
        if self.cidr_block.is_empty() {
            errors.add_bare(&path, Reason::Required, "is required; give a prefix such as 10.0.0.0/24");
            return None;
        }
        let block = CidrBlock::parse(self.cidr_block, self.host_bits)
            .map_err(|problem| errors.add_problem(&path, self.cidr_block, &problem))
            .ok()?;
        for net in block.nets() {
            let longest = if net.addr().is_ipv4() { 30 } else { 126 };
            if net.prefix_len() > longest {
                let message = format!("is too small for a gateway and a guest; use at most /{longest}");
                errors.add(&path, net.to_string(), Reason::Invalid, message);
            }
            if let Some((special, what)) = SPECIAL.iter().find(|(special, _)| overlaps(net, special)) {
                let message = format!("overlaps {special}, which is {what}; choose another prefix");
                errors.add(&path, net.to_string(), Reason::Invalid, message);
            }
        }
        Some(block)
    }

    fn check_vpc(&self, errors: &mut FieldErrors) {
        let Some(vpc) = self.vpc else { return };
        let path = FieldPath::SPEC.field("vpc");
        if let Err(problem) = check_object_name(vpc) {
            errors.add_problem(&path, vpc, &problem);
        }
        if self.vni.is_some() {
            errors.add(
                &path,
                vpc,
                Reason::Invalid,
                "is set together with vni; a subnet is in a VPC or in a VNI, not both",
            );
        }
    }

    fn vni(&self, errors: &mut FieldErrors) -> Option<Vni> {
        let number = self.vni?;
        let path = FieldPath::SPEC.field("vni");
        Vni::new(number).map_err(|problem| errors.add_problem(&path, number.to_string(), &problem)).ok()
    }

    fn gateway(&self, cidr: Option<CidrBlock>, errors: &mut FieldErrors) -> AddressPair {
        let path = FieldPath::SPEC.field("gateway");
        let default = cidr.map_or(AddressPair::V4(std::net::Ipv4Addr::UNSPECIFIED), |c| c.first_addresses());
        let Some(text) = self.gateway else { return default };
        let gateway = match text.parse::<AddressPair>() {
            Ok(gateway) => gateway,
            Err(problem) => {
                errors.add_problem(&path, text, &problem);
                return default;
            }
        };
        let Some(cidr) = cidr else { return gateway };
        for family in [Family::IPv4, Family::IPv6] {
            match (cidr.net(family), gateway.address(family)) {
                (Some(net), Some(address)) if !net.contains(&address) => {
                    let message = format!("is outside {net}; choose an address inside it");
                    errors.add(&path, address.to_string(), Reason::Invalid, message);
                }
                (Some(net), Some(address)) if address == net.network() => {
                    let first = default.address(family).unwrap_or(address);
                    let message = format!("is the network address of {net}; use {first}");
                    errors.add(&path, address.to_string(), Reason::Invalid, message);
                }
                (Some(net), Some(address)) if address.is_ipv4() && address == net.broadcast() => {
                    let first = default.address(family).unwrap_or(address);
                    let message = format!("is the broadcast address of {net}; use {first}");
                    errors.add(&path, address.to_string(), Reason::Invalid, message);
                }
                (Some(net), None) => {
                    let first = default.address(family).unwrap_or(net.network());
                    let message =
                        format!("has no {family} gateway for {net}; add {first}, or leave the field out");
                    errors.add(&path, text, Reason::Invalid, message);
                }
                (None, Some(address)) => {
                    let message = format!("is an {family} address, but cidrBlock has no {family} block");
                    errors.add(&path, address.to_string(), Reason::Invalid, message);
                }
                _ => {}
            }
        }
        gateway
    }

    fn exclude(&self, cidr: Option<CidrBlock>, errors: &mut FieldErrors) -> Vec<IpRange> {
        let path = FieldPath::SPEC.field("excludeIps");
        let mut ranges = Vec::with_capacity(self.exclude_ips.len());
        for (i, text) in self.exclude_ips.iter().enumerate() {
            let at = path.index(i);
            match text.parse::<IpRange>() {
                Err(problem) => errors.add_problem(&at, text, &problem),
                Ok(range) => {
                    let outside =
                        cidr.is_some_and(|c| !c.contains(range.start()) || !c.contains(range.end()));
                    if outside {
                        let message =
                            format!("is not inside cidrBlock {}; remove it or correct it", self.cidr_block);
                        errors.add(&at, text, Reason::Invalid, message);
                    } else {
                        ranges.push(range);
                    }
                }
            }
        }
        ranges
    }

    fn provider(&self, errors: &mut FieldErrors) -> Option<Provider> {
        let text = self.provider?;
        let path = FieldPath::SPEC.field("provider");
        text.parse().map_err(|problem| errors.add_problem(&path, text, &problem)).ok()
    }

    fn mtu(&self, cidr: Option<CidrBlock>, errors: &mut FieldErrors) -> Option<u16> {
        let mtu = self.mtu?;
        let path = FieldPath::SPEC.field("mtu");
        let has_v6 = cidr.is_some_and(|c| c.has(Family::IPv6));
        let (least, why) = if has_v6 { (1280, ", as IPv6 needs") } else { (576, "") };
        match u16::try_from(mtu) {
            Ok(mtu) if mtu >= least => Some(mtu),
            _ => {
                let message = format!("is not a possible MTU; use {least} to 65535{why}");
                errors.add(&path, mtu.to_string(), Reason::Invalid, message);
                None
            }
        }
    }

    fn dhcp(&self, errors: &mut FieldErrors) -> Option<DhcpConfig> {
        // Options are checked even while DHCP is off: turning it on should bring no surprise.
        let spec = FieldPath::SPEC;
        let v4 = OptionSet::DhcpV4.parse(self.dhcp_v4_options, &spec.field("dhcpV4Options"), errors);
        let v6 = OptionSet::DhcpV6.parse(self.dhcp_v6_options, &spec.field("dhcpV6Options"), errors);
        self.enable_dhcp.then_some(DhcpConfig { v4, v6 })
    }

    fn ipv6_ra(&self, errors: &mut FieldErrors) -> Option<Options> {
        let path = FieldPath::SPEC.field("ipv6RAConfigs");
        let options = OptionSet::Ipv6Ra.parse(self.ipv6_ra_configs, &path, errors);
        self.enable_ipv6_ra.then_some(options)
    }

    fn routes(&self, cidr: Option<CidrBlock>, errors: &mut FieldErrors) -> Vec<GuestRoute> {
        let path = FieldPath::SPEC.field("routes");
        let mut routes: Vec<GuestRoute> = Vec::with_capacity(self.routes.len());
        for (i, route) in self.routes.iter().enumerate() {
            let at = path.index(i);
            let Some(parsed) = route.parse(&at, errors) else { continue };
            let off_link = parsed.gateway.filter(|gw| cidr.is_some_and(|c| !c.contains(*gw)));
            if let Some(gateway) = off_link {
                let message =
                    format!("is not inside cidrBlock {}, so no guest can reach it", self.cidr_block);
                errors.add(&at.field("gw"), gateway.to_string(), Reason::Invalid, message);
            } else if routes.iter().any(|other| other.destination == parsed.destination) {
                errors.add(
                    &at.field("dst"),
                    &route.dst,
                    Reason::Duplicate,
                    "has a route already; remove one",
                );
            } else {
                routes.push(parsed);
            }
        }
        routes
    }

    fn allow_subnets(&self, errors: &mut FieldErrors) -> Vec<IpNet> {
        let path = FieldPath::SPEC.field("allowSubnets");
        let mut nets = Vec::with_capacity(self.allow_subnets.len());
        for (i, text) in self.allow_subnets.iter().enumerate() {
            for part in text.split(',') {
                match parse_net(part, self.host_bits) {
                    Ok(net) => nets.push(net),
                    Err(problem) => errors.add_problem(&path.index(i), part, &problem),
                }
            }
        }
        nets
    }

    fn namespaces(&self, errors: &mut FieldErrors) -> Vec<String> {
        check_namespaces(self.namespaces, &FieldPath::SPEC.field("namespaces"), errors);
        self.namespaces.to_vec()
    }

    fn allowed_namespaces(&self, errors: &mut FieldErrors) -> AllowedNamespaces {
        if self.allowed_namespaces.is_empty() {
            return AllowedNamespaces::Own;
        }
        if self.allowed_namespaces.iter().any(|name| name == "*") {
            return AllowedNamespaces::All;
        }
        let path = FieldPath::SPEC.field("allowedNamespaces");
        for (i, name) in self.allowed_namespaces.iter().enumerate() {
            if let Err(problem) = check_namespace(name) {
                errors.add_problem(&path.index(i), name, &problem);
            }
        }
        AllowedNamespaces::Listed(self.allowed_namespaces.to_vec())
    }

    fn check_protocol(&self, cidr: Option<CidrBlock>, errors: &mut FieldErrors) {
        let Some(protocol) = self.protocol else { return };
        let path = FieldPath::SPEC.field("protocol");
        if protocol == "Mac" {
            errors.add(
                &path,
                protocol,
                Reason::NotSupported,
                "is not supported; give the subnet a cidrBlock and use IPv4, IPv6 or Dual",
            );
            return;
        }
        if !matches!(protocol, "IPv4" | "IPv6" | "Dual") {
            errors.add(&path, protocol, Reason::Invalid, "is none of IPv4, IPv6 and Dual");
            return;
        }
        let actual = match cidr {
            None => return,
            Some(CidrBlock::V4(_)) => "IPv4",
            Some(CidrBlock::V6(_)) => "IPv6",
            Some(CidrBlock::Dual(..)) => "Dual",
        };
        if protocol != actual {
            let message =
                format!("does not fit cidrBlock {}; use {actual}, or leave the field out", self.cidr_block);
            errors.add(&path, protocol, Reason::Invalid, message);
        }
    }
}

fn overlaps(net: IpNet, special: &str) -> bool {
    special.parse::<IpNet>().is_ok_and(|special| special.contains(&net) || net.contains(&special))
}

#[cfg(test)]
mod tests;
