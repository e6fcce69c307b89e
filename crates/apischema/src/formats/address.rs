//! Addresses: IP, MAC and mail.

use std::net::{IpAddr, Ipv4Addr};

/// An IP address. Zeros may lead the parts of an IPv4 one, which many parsers refuse.
pub(crate) fn parse_ip_sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let mut parts = text.split('.').map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if digits { part.parse::<u8>().ok() } else { None }
    });
    let mut next = || parts.next().flatten();
    let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    parts.next().is_none().then_some(IpAddr::V4(address))
}

/// A MAC address of 6, 8 or 20 bytes, as pairs of digits between colons or dashes or as fours between dots.
pub(crate) fn parse_mac(text: &str) -> Option<Vec<u8>> {
    let separator = text.chars().find(|character| matches!(character, ':' | '-' | '.'))?;
    let digits = if separator == '.' { 4 } else { 2 };
    let mut bytes = Vec::new();
    for group in text.split(separator) {
        if group.len() != digits || !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for pair in group.as_bytes().chunks(2) {
            let pair = std::str::from_utf8(pair).ok()?;
            bytes.push(u8::from_str_radix(pair, 16).ok()?);
        }
    }
    matches!(bytes.len(), 6 | 8 | 20).then_some(bytes)
}

/// An address as a mail's header has it: bare, or in angle brackets after a name.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let bare = match text.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) {
        Some((name, address)) if is_display_name(name.trim()) => address,
        Some(_) => return false,
        None => text,
    };
    let Some((local, domain)) = split_at_sign(bare) else { return false };
    let local_ok = match local.strip_prefix('"') {
        Some(quoted) => quoted.len() > 1 && quoted.ends_with('"'),
        None => is_dotted_atoms(local),
    };
    local_ok && (is_dotted_atoms(domain) || domain.starts_with('[') && domain.ends_with(']'))
}

fn split_at_sign(address: &str) -> Option<(&str, &str)> {
    if address.starts_with('"') {
        let end = address.rfind("\"@")?;
        return Some((&address[..=end], &address[end + 2..]));
    }
    address.split_once('@')
}

fn is_display_name(name: &str) -> bool {
    let quoted = name.len() > 1 && name.starts_with('"') && name.ends_with('"');
    quoted || name.split([' ', '\t']).all(|word| word.is_empty() || word.split('.').all(is_atom_or_empty))
}

fn is_dotted_atoms(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && is_atom_or_empty(atom))
}

fn is_atom_or_empty(atom: &str) -> bool {
    let special = |character: char| "()<>[]:;@\\,\"".contains(character);
    !atom.chars().any(|character| special(character) || character.is_control() || character.is_whitespace())
}
