//! Routes that guests are given: `{dst, gw}`, as in a subnet's `routes`, a CNI configuration and annotations.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cidr::{Family, HostBits, parse_address, parse_net_or_address};
use crate::field_error::{FieldErrors, FieldPath, Reason};

/// A route as users write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// Destination, as a CIDR.
    #[schemars(length(min = 1, max = 43))]
    pub dst: String,
    /// Next hop. Without one, the subnet's gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45))]
    pub gw: Option<String>,
}

/// A route for a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GuestRoute {
    /// Where to.
    pub destination: IpNet,
    /// By which router; without one, by the subnet's gateway.
    pub gateway: Option<IpAddr>,
}

impl Route {
    /// The route, if it makes sense by itself; otherwise what is wrong goes to `errors`.
    pub fn parse(&self, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Option<GuestRoute> {
        parse_route(&self.dst, self.gw.as_deref(), path, errors)
    }
}

/// Checks a route given as two texts.
pub(crate) fn parse_route(
    dst: &str,
    gw: Option<&str>,
    path: &FieldPath<'_>,
    errors: &mut FieldErrors,
) -> Option<GuestRoute> {
    let destination = parse_net_or_address(dst, HostBits::Mask)
        .map_err(|problem| errors.add_problem(&path.field("dst"), dst, &problem))
        .ok();
    let at = path.field("gw");
    let gateway = match gw.filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => match parse_address(text) {
            Ok(address) => Some(address),
            Err(problem) => {
                errors.add_problem(&at, text, &problem);
                return None;
            }
        },
    };
    let destination = destination?;
    if let Some(gateway) = gateway {
        let (family, wanted) = (Family::of(gateway), Family::of_net(&destination));
        if family != wanted {
            let message = format!("is an {family} address, but the destination {destination} is {wanted}");
            errors.add(&at, gateway.to_string(), Reason::Invalid, message);
            return None;
        }
        if !is_next_hop(gateway) {
            errors.add(&at, gateway.to_string(), Reason::Invalid, NO_NEXT_HOP);
            return None;
        }
    }
    Some(GuestRoute { destination, gateway })
}

/// Why an address is no next hop.
pub(crate) const NO_NEXT_HOP: &str = "cannot be a next hop; name the address of a router";

/// True for an address that a packet can be sent to.
pub(crate) fn is_next_hop(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !address.is_unspecified() && !address.is_loopback() && !address.is_multicast() && !broadcast
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(dst: &str, gw: &str) -> Result<GuestRoute, String> {
        let mut errors = FieldErrors::new();
        let spec = FieldPath::SPEC;
        let routes = spec.field("routes");
        let route = parse_route(dst, Some(gw), &routes.index(0), &mut errors);
        route.ok_or_else(|| errors.to_string())
    }

    #[test]
    fn destination_and_gateway_of_one_family() {
        let route = parse("10.1.0.0/16", "10.0.0.1").unwrap();
        assert_eq!(route.destination.to_string(), "10.1.0.0/16");
        assert_eq!(parse("fd00::/64", "").unwrap().gateway, None);
        assert_eq!(parse("10.1.2.3", "10.0.0.1").unwrap().destination.to_string(), "10.1.2.3/32");
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            parse("10.1.0.0/16", "fd00::1").unwrap_err(),
            r#"spec.routes[0].gw: "fd00::1" is an IPv6 address, but the destination 10.1.0.0/16 is IPv4"#
        );
        assert_eq!(
            parse("everywhere", "10.0.0.300").unwrap_err(),
            r#"spec.routes[0].dst: "everywhere" is not an IP address; spec.routes[0].gw: "10.0.0.300" is not an IP address"#
        );
        assert_eq!(
            parse("10.1.0.0/16", "0.0.0.0").unwrap_err(),
            r#"spec.routes[0].gw: "0.0.0.0" cannot be a next hop; name the address of a router"#
        );
    }
}
