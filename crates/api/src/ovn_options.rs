//! `dhcpV4Options`, `dhcpV6Options` and `ipv6RAConfigs`: options of OVN written as `key=value,key=value`.
//!
//! OVN pastes DHCP values into the text of a logical flow, where only ovn-controller would notice nonsense,
//! and only in its log. So each value is checked here against the type OVN declares for its key, and comes
//! out in the one form OVN reads: `{a, b}` for several, quotes around texts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::cidr::{Family, HostBits, parse_address, parse_net};
use crate::field_error::{FieldErrors, FieldPath, Problem, Reason};
use crate::mac::parse_interface_mac;

/// Which of OVN's option columns a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionSet {
    /// `DHCP_Options.options` of an IPv4 prefix.
    DhcpV4,
    /// `DHCP_Options.options` of an IPv6 prefix.
    DhcpV6,
    /// `Logical_Router_Port.ipv6_ra_configs`.
    Ipv6Ra,
}

/// Options by key, as OVN's database holds them.
pub type Options = BTreeMap<String, String>;

/// The type OVN gives to a value.
#[derive(Clone, Copy)]
enum Kind {
    Address(Family),
    /// One address, or several in braces.
    Addresses(Family),
    Mac,
    Number(u64, u64),
    Bit,
    Bool,
    /// A text that OVN wants in quotes.
    Quoted,
    /// A text that OVN wants bare.
    Bare,
    /// An IPv4 address, or a text in quotes.
    Host,
    /// `{net,gateway, net,gateway}`.
    StaticRoutes,
    OneOf(&'static [&'static str]),
}

use Kind::{Address, Addresses, Bare, Bit, Bool, Host, Number, OneOf, Quoted, StaticRoutes};
const V4: Family = Family::IPv4;
const V6: Family = Family::IPv6;
const U8: u64 = u8::MAX as u64;
const U16: u64 = u16::MAX as u64;
const U32: u64 = u32::MAX as u64;

const DHCP_V4: &[(&str, Kind)] = &[
    ("T1", Number(68, U32)),
    ("T2", Number(68, U32)),
    ("arp_cache_timeout", Number(0, U32)),
    ("bootfile_name", Quoted),
    ("bootfile_name_alt", Quoted),
    ("broadcast_address", Address(V4)),
    ("classless_static_route", StaticRoutes),
    ("default_ttl", Number(0, U8)),
    ("dns_server", Addresses(V4)),
    ("domain_name", Quoted),
    ("domain_search_list", Quoted),
    ("ethernet_encap", Bit),
    ("hostname", Quoted),
    ("ip_forward_enable", Bit),
    ("lease_time", Number(0, U32)),
    ("log_server", Addresses(V4)),
    ("lpr_server", Addresses(V4)),
    ("ms_classless_static_route", StaticRoutes),
    ("mtu", Number(68, U16)),
    ("netbios_name_server", Addresses(V4)),
    ("netbios_node_type", Number(0, U8)),
    ("netmask", Address(V4)),
    ("next_server", Address(V4)),
    ("nis_server", Addresses(V4)),
    ("ntp_server", Addresses(V4)),
    ("path_prefix", Quoted),
    ("policy_filter", Addresses(V4)),
    ("router", Addresses(V4)),
    ("router_discovery", Bit),
    ("router_solicitation", Address(V4)),
    ("server_id", Address(V4)),
    ("server_mac", Kind::Mac),
    ("swap_server", Addresses(V4)),
    ("tcp_keepalive_interval", Number(0, U32)),
    ("tcp_ttl", Number(0, U8)),
    ("tftp_server", Host),
    ("tftp_server_address", Addresses(V4)),
    ("wpad", Quoted),
];

const DHCP_V6: &[(&str, Kind)] = &[
    ("dhcpv6_stateless", Bool),
    ("dns_server", Addresses(V6)),
    ("domain_search", Quoted),
    ("server_id", Kind::Mac),
];

const IPV6_RA: &[(&str, Kind)] = &[
    ("address_mode", OneOf(&["slaac", "dhcpv6_stateful", "dhcpv6_stateless"])),
    ("dnssl", Bare),
    ("max_interval", Number(4, 1800)),
    ("min_interval", Number(3, 1350)),
    ("mtu", Number(1280, U16)),
    ("rdnss", Address(V6)),
    ("route_info", Bare),
    ("router_preference", OneOf(&["HIGH", "MEDIUM", "LOW"])),
    ("send_periodic", Bool),
];

impl OptionSet {
    fn table(self) -> &'static [(&'static str, Kind)] {
        match self {
            OptionSet::DhcpV4 => DHCP_V4,
            OptionSet::DhcpV6 => DHCP_V6,
            OptionSet::Ipv6Ra => IPV6_RA,
        }
    }

    fn noun(self) -> &'static str {
        match self {
            OptionSet::DhcpV4 => "a DHCPv4 option",
            OptionSet::DhcpV6 => "a DHCPv6 option",
            OptionSet::Ipv6Ra => "a router-advertisement setting",
        }
    }

    /// Parses the options that `text` at `path` holds; what is wrong goes to `errors` and is left out.
    pub fn parse(self, text: &str, path: &FieldPath<'_>, errors: &mut FieldErrors) -> Options {
        let mut options = Options::new();
        for item in split_outside_brackets(text) {
            let item = item.trim();
            if item.is_empty() {
                continue;
            }
            let Some((key, value)) = item.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
            else {
                errors.add(path, item, Reason::Invalid, "has no value; write key=value, separated by commas");
                continue;
            };
            let at = path.key(key);
            let Some((_, kind)) = self.table().iter().find(|(name, _)| *name == key) else {
                let known: Vec<_> = self.table().iter().map(|(name, _)| *name).collect();
                let message = format!("is not {} that OVN knows; it knows {}", self.noun(), known.join(", "));
                errors.add(path, key, Reason::NotSupported, message);
                continue;
            };
            match kind.canonical(value) {
                Err(problem) => errors.add_problem(&at, value, &problem),
                Ok(_) if options.contains_key(key) => {
                    errors.add(&at, value, Reason::Duplicate, "sets the option a second time; remove one");
                }
                Ok(value) => {
                    options.insert(key.to_owned(), value);
                }
            }
        }
        options
    }
}

impl Kind {
    fn canonical(self, value: &str) -> Result<String, Problem> {
        match self {
            Address(family) => address(value, family).map(|a| a.to_string()),
            Addresses(family) => {
                let list = items(value).map(|item| address(item, family)).collect::<Result<Vec<_>, _>>()?;
                match list.as_slice() {
                    [] => Err(Problem::invalid("is empty; give an address")),
                    [one] => Ok(one.to_string()),
                    many => {
                        let texts: Vec<_> = many.iter().map(IpAddr::to_string).collect();
                        Ok(format!("{{{}}}", texts.join(", ")))
                    }
                }
            }
            Kind::Mac => parse_interface_mac(value).map(|mac| mac.to_string()),
            Number(min, max) => match value.parse::<u64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(number.to_string()),
                _ => Err(Problem::invalid(format!("is not a number from {min} to {max}"))),
            },
            Bit => match value {
                "0" | "1" => Ok(value.to_owned()),
                _ => Err(Problem::invalid("is neither 0 nor 1")),
            },
            Bool => match value {
                "true" | "false" => Ok(value.to_owned()),
                _ => Err(Problem::invalid("is neither true nor false")),
            },
            Quoted => bare(value).map(|text| format!("\"{text}\"")),
            Bare => bare(value).map(str::to_owned),
            Host => match address(value, V4) {
                Ok(address) => Ok(address.to_string()),
                Err(_) => Quoted.canonical(value),
            },
            StaticRoutes => static_routes(value),
            OneOf(allowed) if allowed.contains(&value) => Ok(value.to_owned()),
            OneOf(allowed) => Err(Problem::invalid(format!("is none of {}", allowed.join(", ")))),
        }
    }
}

fn address(value: &str, family: Family) -> Result<IpAddr, Problem> {
    match parse_address(value) {
        Ok(address) if Family::of(address) == family => Ok(address),
        _ => Err(Problem::invalid(format!("is not an {family} address"))),
    }
}

/// The elements of `a`, `{a, b}` or Kube-OVN's `a;b`.
fn items(value: &str) -> impl Iterator<Item = &str> {
    let inner = value.strip_prefix('{').and_then(|v| v.strip_suffix('}')).unwrap_or(value);
    inner.split([',', ';']).map(str::trim).filter(|item| !item.is_empty())
}

fn static_routes(value: &str) -> Result<String, Problem> {
    let problem =
        || Problem::invalid("is not a list of routes; write {10.1.0.0/16,10.0.0.1, 0.0.0.0/0,10.0.0.1}");
    let parts: Vec<_> = items(value).collect();
    if parts.is_empty() {
        return Err(problem());
    }
    let routes = parts.chunks(2).map(|route| match route {
        [net, gateway] => {
            let net = parse_net(net, HostBits::Mask).map_err(|_| problem())?;
            let gateway = address(gateway, V4).map_err(|_| problem())?;
            if Family::of_net(&net) == V4 { Ok(format!("{net},{gateway}")) } else { Err(problem()) }
        }
        _ => Err(problem()),
    });
    Ok(format!("{{{}}}", routes.collect::<Result<Vec<_>, _>>()?.join(", ")))
}

/// A text without its quotes, if it cannot break out of them.
fn bare(value: &str) -> Result<&str, Problem> {
    let text = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
    let harmless = |b: u8| (b.is_ascii_graphic() || b == b' ') && !matches!(b, b'"' | b'\\');
    if !text.is_empty() && text.len() <= 255 && text.bytes().all(harmless) {
        Ok(text)
    } else {
        Err(Problem::invalid(
            "is not a text of 1 to 255 printable ASCII characters without quotes and backslashes",
        ))
    }
}

/// Splits at commas that are neither in braces nor in quotes.
fn split_outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut in_quotes) = (0u32, false);
    text.split(move |c| {
        match c {
            '"' => in_quotes = !in_quotes,
            '{' if !in_quotes => depth = depth.saturating_add(1),
            '}' if !in_quotes => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0 && !in_quotes
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATH: FieldPath<'static> = FieldPath::root("spec");

    fn parse(set: OptionSet, text: &str) -> (Vec<String>, Vec<String>) {
        let mut errors = FieldErrors::new();
        let path = PATH.field("dhcp");
        let options = set.parse(text, &path, &mut errors);
        (
            options.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            errors.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn kube_ovn_documented_options_are_understood() {
        let text = "lease_time=3600, router=10.0.0.1,server_id=169.254.0.254,server_mac=00:00:00:2E:2F:B8,dns_server={8.8.8.8;1.1.1.1}";
        let (options, errors) = parse(OptionSet::DhcpV4, text);
        assert_eq!(errors, [""; 0]);
        assert_eq!(
            options,
            [
                "dns_server={8.8.8.8, 1.1.1.1}",
                "lease_time=3600",
                "router=10.0.0.1",
                "server_id=169.254.0.254",
                "server_mac=00:00:00:2e:2f:b8"
            ]
        );
        let ra = "address_mode=dhcpv6_stateful,max_interval=30,min_interval=5,send_periodic=true";
        assert_eq!(parse(OptionSet::Ipv6Ra, ra).1, [""; 0]);
        assert_eq!(parse(OptionSet::DhcpV6, "server_id=00:00:00:2E:2F:C5").1, [""; 0]);
    }

    #[test]
    fn texts_come_out_quoted_and_cannot_break_out() {
        let (options, _) = parse(OptionSet::DhcpV4, "domain_name=a.b,domain_search_list=\"a.b, c.d\"");
        assert_eq!(options, ["domain_name=\"a.b\"", "domain_search_list=\"a.b, c.d\""]);
        let (options, errors) = parse(OptionSet::DhcpV4, r#"hostname=a"; drop"#);
        assert!(options.is_empty());
        assert_eq!(errors.len(), 1, "{errors:?}");
    }

    #[test]
    fn routes_are_checked() {
        let (options, errors) =
            parse(OptionSet::DhcpV4, "classless_static_route={30.0.0.0/24,10.0.0.10, 0.0.0.0/0,10.0.0.1}");
        assert_eq!(errors, [""; 0]);
        assert_eq!(options, ["classless_static_route={30.0.0.0/24,10.0.0.10, 0.0.0.0/0,10.0.0.1}"]);
        for bad in ["{30.0.0.0/24}", "{fd00::/64,10.0.0.1}", "{}", "30.0.0.0/24"] {
            let (_, errors) = parse(OptionSet::DhcpV4, &format!("classless_static_route={bad}"));
            assert_eq!(errors.len(), 1, "{bad}");
        }
    }

    #[test]
    fn each_mistake_is_named() {
        let (options, errors) = parse(
            OptionSet::DhcpV4,
            "lease_time=abc,mtu=67,router=fd00::1,ethernet_encap=yes,lonely,T1=99,T1=98,server_mac=x",
        );
        assert_eq!(options, ["T1=99"]);
        assert_eq!(
            errors,
            [
                r#"spec.dhcp[lease_time]: "abc" is not a number from 0 to 4294967295"#,
                r#"spec.dhcp[mtu]: "67" is not a number from 68 to 65535"#,
                r#"spec.dhcp[router]: "fd00::1" is not an IPv4 address"#,
                r#"spec.dhcp[ethernet_encap]: "yes" is neither 0 nor 1"#,
                r#"spec.dhcp: "lonely" has no value; write key=value, separated by commas"#,
                r#"spec.dhcp[T1]: "98" sets the option a second time; remove one"#,
                r#"spec.dhcp[server_mac]: "x" is not a MAC address; write six hexadecimal bytes, such as 02:00:00:00:00:01"#,
            ]
        );
        assert_eq!(
            parse(OptionSet::DhcpV6, "leasetime=3").1,
            [
                r#"spec.dhcp: "leasetime" is not a DHCPv6 option that OVN knows; it knows dhcpv6_stateless, dns_server, domain_search, server_id"#
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_answered_and_the_result_is_stable(text in "([a-zA-Z0-9_]{1,12}=[{}\",;.:0-9a-z]{0,20},?){0,6}|(hostname|dns_server|mtu)=\\PC{0,30}|\\PC*") {
            let mut errors = FieldErrors::new();
            for set in [OptionSet::DhcpV4, OptionSet::DhcpV6, OptionSet::Ipv6Ra] {
                let options = set.parse(&text, &PATH, &mut errors);
                let again: Vec<_> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let mut none = FieldErrors::new();
                // A bare text with commas would need quotes to be written back; OVN holds it without.
                if !options.contains_key("dnssl") && !options.contains_key("route_info") {
                    prop_assert_eq!(set.parse(&again.join(","), &PATH, &mut none), options);
                    prop_assert!(none.is_empty());
                }
            }
        }
    }
}
