//! URLs as Go's `net/url` reads them, as far as validation and CEL rules look at them.

use std::net::Ipv6Addr;

/// An absolute URI, or an absolute path, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// Empty for a path alone.
    pub(crate) scheme: String,
    /// Host and port, unescaped.
    pub(crate) host: String,
    /// As written.
    pub(crate) path: String,
    /// As written, without the question mark.
    pub(crate) query: String,
    text: String,
}

impl Url {
    /// What Go's `url.ParseRequestURI` takes: it must be absolute, and `#` means nothing special.
    pub(crate) fn parse(text: &str) -> Option<Url> {
        if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return None;
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url {
            scheme: scheme.to_ascii_lowercase(),
            host: String::new(),
            path: String::new(),
            query: query.to_owned(),
            text: text.to_owned(),
        };
        if !rest.starts_with('/') {
            // `mailto:x` has neither host nor path; without a scheme it would be relative.
            return (!scheme.is_empty()).then_some(url);
        }
        let mut path = rest;
        if let Some(authority) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            let end = authority.find('/').unwrap_or(authority.len());
            url.host = parse_authority(&authority[..end])?;
            path = &authority[end..];
        }
        url.path = unescape(path)?;
        Some(url)
    }

    /// The host without its port, and without the brackets of an IPv6 address.
    pub(crate) fn hostname(&self) -> &str {
        let host = split_port(&self.host).0;
        host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host)
    }

    /// The port, or nothing.
    pub(crate) fn port(&self) -> &str {
        split_port(&self.host).1
    }

    /// The path with what needs it escaped.
    pub(crate) fn escaped_path(&self) -> String {
        let rest = self
            .text
            .split_once(':')
            .filter(|_| !self.scheme.is_empty())
            .map_or(&*self.text, |(_, rest)| rest);
        let rest = rest.split('?').next().unwrap_or_default();
        let written = match rest.strip_prefix("//").filter(|_| !self.scheme.is_empty()) {
            Some(authority) => authority.find('/').map_or("", |start| &authority[start..]),
            None if rest.starts_with('/') => rest,
            None => "",
        };
        written.bytes().fold(String::new(), |mut path, byte| {
            let plain = byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]/%".contains(&byte);
            if plain {
                path.push(byte as char);
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
            path
        })
    }

    /// The parameters of the query in the order of their names, each with its values.
    pub(crate) fn parameters(&self) -> Vec<(String, Vec<String>)> {
        let mut parameters: Vec<(String, Vec<String>)> = Vec::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |text: &str| unescape(&text.replace('+', " "));
            let (Some(name), Some(value)) = (text(name), text(value)) else { continue };
            match parameters.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => parameters.push((name, vec![value])),
            }
        }
        parameters.sort();
        parameters
    }
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|character: char| !character.is_ascii_alphanumeric() && !"+-.".contains(character));
    match end {
        Some(0) if text.starts_with(':') => None,
        Some(end) if text[end..].starts_with(':') && text.as_bytes()[0].is_ascii_alphabetic() => {
            Some((&text[..end], &text[end + 1..]))
        }
        _ => Some(("", text)),
    }
}

/// Host and port; a user's name before them is checked and dropped.
fn parse_authority(authority: &str) -> Option<String> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            user.bytes().all(allowed).then_some(())?;
            unescape(user)?;
            host
        }
        None => authority,
    };
    let after_host = match host.strip_prefix('[') {
        Some(inner) => {
            let (address, after) = inner.split_once(']')?;
            let address = address.split_once("%25").map_or(address, |(address, _)| address);
            address.parse::<Ipv6Addr>().ok()?;
            after
        }
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    let port = after_host.strip_prefix(':');
    let port_ok = port.map_or(after_host.is_empty(), |port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host_ok =
        |byte: u8| byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte);
    (port_ok && host.bytes().all(host_ok)).then(|| unescape(host)).flatten()
}

fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (name, port)
        }
        _ => (host, ""),
    }
}

fn unescape(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = after else { return None };
        let digit = |byte: &u8| (*byte as char).to_digit(16);
        bytes.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = after;
    }
    Some(
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = Url::parse("https://user@example.com:80/a%20b/c?x=1&y=2&x=3").unwrap();
        assert_eq!((&*url.scheme, &*url.host), ("https", "example.com:80"));
        assert_eq!((url.hostname(), url.port()), ("example.com", "80"));
        assert_eq!((&*url.path, &*url.escaped_path()), ("/a b/c", "/a%20b/c"));
        let parameters =
            [("x".to_owned(), vec!["1".to_owned(), "3".to_owned()]), ("y".to_owned(), vec!["2".to_owned()])];
        assert_eq!(url.parameters(), parameters);
        let url = Url::parse("https://[::1]:80/").unwrap();
        assert_eq!((&*url.host, url.hostname(), url.port()), ("[::1]:80", "::1", "80"));
        let url = Url::parse("/path?q").unwrap();
        assert_eq!((&*url.scheme, &*url.host, &*url.path), ("", "", "/path"));
    }

    #[test]
    fn what_is_not_absolute_is_none() {
        for text in ["", "a", "../a", ":a", "http://[::1", "http://a b/", "http://a:b/", "http://a/%zz"] {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }
}
