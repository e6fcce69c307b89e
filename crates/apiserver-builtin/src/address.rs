//! IP addresses and networks in core kinds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::errors::Errors;
use apischema::Path;

/// Reads an address as old fields of Kubernetes do: numbers may have leading zeros, and IPv4 in IPv6 is IPv4.
pub(super) fn parse(text: &str) -> Option<IpAddr> {
    let strict = text.parse::<IpAddr>().ok().or_else(|| parse_with_zeros(text))?;
    Some(strict.to_canonical())
}

fn parse_with_zeros(text: &str) -> Option<IpAddr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets).into())
}

/// A network as old fields of Kubernetes read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    pub(super) fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse(address)?;
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let prefix: u8 = prefix.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= longest).then(|| Network { address: masked(address, prefix), prefix })
    }

    /// Whether another network is in this one, and smaller.
    pub(super) fn strictly_contains(&self, other: &Network) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.prefix < other.prefix
            && masked(other.address, self.prefix) == self.address
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    }
}

/// Checks an address of an old field. Those that were there before are left alone.
pub(super) fn check(errors: &mut Errors, path: Path<'_>, text: &str, existing: &[&str]) {
    if !existing.contains(&text) && parse(text).is_none() {
        errors.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}

/// Checks an address of a new field: it is written as it would be written.
pub(super) fn check_canonical(errors: &mut Errors, path: Path<'_>, text: &str) {
    let Some(address) = parse(text) else { return check(errors, path, text, &[]) };
    match text.parse::<IpAddr>() {
        Err(_) => errors.invalid(path, text, "must not have leading 0s"),
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            errors.invalid(path, text, "must not be an IPv4-mapped IPv6 address");
        }
        Ok(_) if address.to_string() != text => {
            errors.invalid(path, text, format!("must be in canonical form (\"{address}\")"));
        }
        Ok(_) => {}
    }
}

/// Checks a network of an old field. Those that were there before are left alone.
pub(super) fn check_network(errors: &mut Errors, path: Path<'_>, text: &str, existing: &[&str]) {
    if !existing.contains(&text) && Network::parse(text).is_none() {
        errors.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }
}

/// Checks that an address is one that something can be reached at.
pub(super) fn check_reachable(errors: &mut Errors, path: Path<'_>, text: &str) {
    let Some(address) = parse(text) else {
        return errors.invalid(path, text, "must be a valid IP address");
    };
    if address.is_unspecified() {
        errors.invalid(path, text, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    if link_local {
        errors.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        errors.invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// Whether addresses are one of each family.
pub(super) fn is_dual_stack<'a>(addresses: impl IntoIterator<Item = &'a str>) -> bool {
    let (mut v4, mut v6) = (0, 0);
    for address in addresses.into_iter().filter_map(parse) {
        if address.is_ipv4() { v4 += 1 } else { v6 += 1 }
    }
    v4 >= 1 && v6 >= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(check: impl Fn(&mut Errors, Path<'_>)) -> Vec<String> {
        let mut errors = Errors::default();
        check(&mut errors, Path::root("ip"));
        errors.into_vec().into_iter().map(|error| error.detail).collect()
    }

    #[test]
    fn old_fields_take_what_old_servers_took() {
        assert_eq!(parse("010.001.0.9"), Some(Ipv4Addr::new(10, 1, 0, 9).into()));
        assert_eq!(parse("::ffff:1.2.3.4"), Some(Ipv4Addr::new(1, 2, 3, 4).into()));
        for bad in ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "a", "1.2.3.4/8", "fe80::1%eth0"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(
            messages(|errors, path| check(errors, path, "x", &[])),
            ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
        );
        assert!(messages(|errors, path| check(errors, path, "x", &["x"])).is_empty());
    }

    #[test]
    fn new_fields_are_canonical() {
        let wrong = |text: &str| messages(|errors, path| check_canonical(errors, path, text));
        assert!(wrong("2001:db8::1").is_empty());
        assert_eq!(wrong("2001:DB8::1"), ["must be in canonical form (\"2001:db8::1\")"]);
        assert_eq!(wrong("1.02.3.4"), ["must not have leading 0s"]);
        assert_eq!(wrong("::ffff:1.2.3.4"), ["must not be an IPv4-mapped IPv6 address"]);
    }

    #[test]
    fn networks_contain_smaller_ones() {
        let network = |text| Network::parse(text).unwrap();
        assert!(network("10.0.0.0/8").strictly_contains(&network("10.1.0.0/16")));
        assert!(!network("10.0.0.0/8").strictly_contains(&network("10.0.0.0/8")));
        assert!(!network("10.0.0.0/8").strictly_contains(&network("11.0.0.0/16")));
        assert!(!network("::/0").strictly_contains(&network("10.0.0.0/8")));
        assert!(network("0.0.0.0/0").strictly_contains(&network("1.0.0.0/8")));
        for bad in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/", "x/8", "10.0.0.0/-1"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn endpoints_are_reachable() {
        let wrong = |text: &str| messages(|errors, path| check_reachable(errors, path, text));
        assert!(wrong("10.0.0.1").is_empty());
        assert_eq!(wrong("0.0.0.0"), ["may not be unspecified (0.0.0.0)"]);
        assert_eq!(wrong("127.0.0.1"), ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]);
        assert_eq!(wrong("fe80::1"), ["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]);
        assert_eq!(
            wrong("224.0.0.1"),
            ["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]
        );
        assert!(is_dual_stack(["10.0.0.1", "::1"]));
        assert!(!is_dual_stack(["10.0.0.1", "10.0.0.2"]));
    }
}
