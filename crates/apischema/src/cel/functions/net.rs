//! IP addresses and prefixes.

use std::net::{IpAddr, Ipv6Addr};

use regex::Regex;

use super::super::value::{Evaluated, Val};
use super::{Implementation, constant, fail, no_such_overload};
use crate::go_text::quote;

pub(super) const SIGNATURES: &str = "
    isIP(string) bool
    ip(string) IP
    ip.isCanonical(string) bool
    IP .family() int
    IP .isUnspecified() bool
    IP .isLoopback() bool
    IP .isLinkLocalMulticast() bool
    IP .isLinkLocalUnicast() bool
    IP .isGlobalUnicast() bool
    isCIDR(string) bool
    cidr(string) CIDR
    CIDR .containsIP(string) bool
    CIDR .containsIP(IP) bool
    CIDR .containsCIDR(string) bool
    CIDR .containsCIDR(CIDR) bool
    CIDR .ip() IP
    CIDR .masked() CIDR
    CIDR .prefixLength() int
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("isIP", constant(is_ip)),
    ("ip", constant(ip)),
    ("ip.isCanonical", constant(is_canonical)),
    ("family", constant(|values, _| of_ip(values, |ip| Val::Int(if ip.is_ipv4() { 4 } else { 6 })))),
    ("isUnspecified", constant(|values, _| of_ip(values, |ip| Val::Bool(ip.is_unspecified())))),
    ("isLoopback", constant(|values, _| of_ip(values, |ip| Val::Bool(ip.is_loopback())))),
    (
        "isLinkLocalMulticast",
        constant(|values, _| of_ip(values, |ip| Val::Bool(is_link_local_multicast(ip)))),
    ),
    ("isLinkLocalUnicast", constant(|values, _| of_ip(values, |ip| Val::Bool(is_link_local_unicast(ip))))),
    ("isGlobalUnicast", constant(|values, _| of_ip(values, |ip| Val::Bool(is_global_unicast(ip))))),
    ("isCIDR", constant(is_cidr)),
    ("cidr", constant(cidr)),
    ("containsIP", constant(contains_ip)),
    ("containsCIDR", constant(contains_cidr)),
    ("masked", constant(masked)),
    ("prefixLength", constant(prefix_length)),
];

/// An address without zone, and without an IPv4 one hidden in an IPv6 one.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let error = |reason: &str| {
        Err(format!(
            "IP Address {} parse error during conversion from string: ParseAddr({}): {reason}",
            quote(text),
            quote(text)
        ))
    };
    if text.contains('%') {
        return Err(format!("IP address {} with zone value is not allowed", quote(text)));
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)))
        }
        Ok(address) => Ok(address),
        Err(_) => error("unable to parse IP"),
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let error = || {
        let quoted = quote(text);
        format!(
            "network address parse error during conversion from string: netip.ParsePrefix({quoted}): bad prefix"
        )
    };
    let (address, length) = text.rsplit_once('/').ok_or_else(error)?;
    let canonical = length == "0" || !length.starts_with('0');
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) && canonical;
    let address: IpAddr = address.parse().map_err(|_| error())?;
    let length = digits.then(|| length.parse::<u8>().ok()).flatten();
    let length = length.filter(|length| *length <= bits(address)).ok_or_else(error)?;
    match address {
        IpAddr::V6(inner) if inner.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)))
        }
        address => Ok((address, length)),
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with all but its first bits cleared.
fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
        }
    }
}

fn contains(prefix: (IpAddr, u8), address: IpAddr) -> bool {
    prefix.0.is_ipv4() == address.is_ipv4() && mask(prefix.0, prefix.1) == mask(address, prefix.1)
}

fn of_ip<'a>(values: &[Val<'a>], of: fn(&IpAddr) -> Val<'a>) -> Evaluated<'a> {
    match values {
        [Val::Ip(address)] => Ok(of(address)),
        _ => no_such_overload(),
    }
}

fn is_link_local_multicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
}

fn is_ip<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::String(text)] => Ok(Val::Bool(parse_ip(text).is_ok())),
        _ => no_such_overload(),
    }
}

fn ip<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::String(text)] => parse_ip(text).map_or_else(fail, |address| Ok(Val::Ip(address))),
        [Val::Cidr(address, _)] => Ok(Val::Ip(*address)),
        _ => no_such_overload(),
    }
}

fn is_canonical<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::String(text)] => {
            parse_ip(text).map_or_else(fail, |address| Ok(Val::Bool(address.to_string() == **text)))
        }
        _ => no_such_overload(),
    }
}

fn is_cidr<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::String(text)] => Ok(Val::Bool(parse_cidr(text).is_ok())),
        _ => no_such_overload(),
    }
}

fn cidr<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let [Val::String(text)] = values else { return no_such_overload() };
    match parse_cidr(text) {
        Ok((address, length)) => Ok(Val::Cidr(address, length)),
        Err(message) => fail(format!("network address parse error during conversion from string: {message}")),
    }
}

fn contains_ip<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let (address, length, other) = match values {
        [Val::Cidr(address, length), Val::Ip(other)] => (*address, *length, *other),
        [Val::Cidr(address, length), Val::String(text)] => match parse_ip(text) {
            Ok(other) => (*address, *length, other),
            Err(message) => return fail(message),
        },
        _ => return no_such_overload(),
    };
    Ok(Val::Bool(contains((address, length), other)))
}

fn contains_cidr<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let (outer, inner) = match values {
        [Val::Cidr(address, length), Val::Cidr(other, other_length)] => {
            ((*address, *length), (*other, *other_length))
        }
        [Val::Cidr(address, length), Val::String(text)] => match parse_cidr(text) {
            Ok(inner) => ((*address, *length), inner),
            Err(message) => return fail(message),
        },
        _ => return no_such_overload(),
    };
    Ok(Val::Bool(outer.1 <= inner.1 && contains(outer, inner.0)))
}

fn masked<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Cidr(address, length)] => Ok(Val::Cidr(mask(*address, *length), *length)),
        _ => no_such_overload(),
    }
}

fn prefix_length<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::Cidr(_, length)] => Ok(Val::Int(i64::from(*length))),
        _ => no_such_overload(),
    }
}
