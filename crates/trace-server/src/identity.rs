//! Who asks: a user that the front proxy names, or one whose token the API server confirms.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use portolan_serving::Peer;

use crate::front_proxy::{FrontProxy, NAME, NAMESPACE, Trust};
use crate::reviews::Reviews;

/// A user, as authorization wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// Why nobody is known to ask.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unauthenticated {
    #[error("the request has no credentials: ask through the API server, or with a bearer token")]
    None,
    #[error("the request has no credentials, and the API server cannot vouch for its user: {0}")]
    NoFrontProxy(String),
    #[error(
        "whom to trust is not known yet: ConfigMap {NAMESPACE}/{NAME} has not been read; see the log of the controller if this lasts"
    )]
    NotRead,
    #[error(
        "whom to trust is not known: ConfigMap {NAMESPACE}/{NAME} does not exist, or the API server does not show it; kube-apiserver \
         writes it when it starts"
    )]
    Absent,
    #[error(
        "the client certificate has the common name {0:?}, which data.requestheader-allowed-names of ConfigMap {NAMESPACE}/{NAME} does \
         not allow; kube-apiserver writes there what its --requestheader-allowed-names has"
    )]
    NameNotAllowed(String),
    #[error("the bearer token is not valid")]
    Token,
    #[error("too many tokens from this address; try again")]
    TooMany,
    #[error("the API server cannot review the token: {}", portolan_watch::Plain(.0))]
    Review(#[from] kube::Error),
}

/// Who sent a request.
pub(crate) async fn authenticate(
    reviews: &Reviews,
    headers: &HeaderMap,
    trust: &Trust,
    peer: &Peer,
) -> Result<User, Unauthenticated> {
    if let Some(user) = proxied(headers, trust.proxy(), peer) {
        return Ok(user);
    }
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    match authorization.and_then(|value| value.strip_prefix("Bearer ")) {
        Some(token) => reviews.review(peer.address, token).await,
        None => Err(match trust {
            Trust::NotRead => Unauthenticated::NotRead,
            Trust::Absent => Unauthenticated::Absent,
            Trust::Nobody(why) => Unauthenticated::NoFrontProxy(why.clone()),
            Trust::Proxy(proxy) => match &peer.certified_name {
                Some(name) if !proxy.admits(name) => Unauthenticated::NameNotAllowed(name.clone()),
                _ => Unauthenticated::None,
            },
        }),
    }
}

/// The user that the front proxy names. Headers of anybody else count for nothing.
fn proxied(headers: &HeaderMap, front_proxy: Option<&FrontProxy>, peer: &Peer) -> Option<User> {
    let name = peer.certified_name.as_deref()?;
    let proxy = front_proxy.filter(|proxy| proxy.admits(name))?;
    let values = |names: &[String]| -> Vec<String> {
        let values = names.iter().flat_map(|name| headers.get_all(name.as_str()));
        values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let name = values(&proxy.user_headers).into_iter().next().filter(|name| !name.is_empty())?;
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        let key = proxy.extra_prefixes.iter().find_map(|prefix| {
            let header = header.as_str();
            let starts = header.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
            starts.then(|| header[prefix.len()..].to_owned())
        });
        if let (Some(key), Ok(value)) = (key, value.to_str()) {
            extra.entry(unescaped(&key)).or_default().push(value.to_owned());
        }
    }
    let user = User { name, groups: values(&proxy.group_headers), extra };
    Some(user).filter(|user| !user.is_anonymous())
}

/// Keys of extra headers are percent-encoded, as headers have no slashes.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = key.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let encoded = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match encoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl User {
    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == "system:anonymous" || self.groups.iter().any(|group| group == "system:unauthenticated")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy() -> FrontProxy {
        let list = |text: &str| vec![text.to_owned()];
        FrontProxy {
            authorities: String::new(),
            allowed_names: list("front-proxy-client"),
            user_headers: list("X-Remote-User"),
            group_headers: list("X-Remote-Group"),
            extra_prefixes: list("X-Remote-Extra-"),
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn headers_count_only_from_the_front_proxy() {
        let sent = headers(&[
            ("x-remote-user", "ann"),
            ("x-remote-group", "crew"),
            ("x-remote-group", "system:authenticated"),
            ("x-remote-extra-example.org%2fteam", "blue"),
        ]);
        let peer = |name: Option<&str>| Peer {
            address: [10, 0, 0, 1].into(),
            certified_name: name.map(str::to_owned),
        };
        let front = peer(Some("front-proxy-client"));
        let user = proxied(&sent, Some(&proxy()), &front).unwrap();
        assert_eq!((user.name.as_str(), user.groups.len()), ("ann", 2));
        assert_eq!(user.extra["example.org/team"], ["blue"]);
        assert_eq!(proxied(&sent, Some(&proxy()), &peer(None)), None, "no certificate");
        assert_eq!(proxied(&sent, Some(&proxy()), &peer(Some("other"))), None, "another name");
        assert_eq!(proxied(&sent, None, &front), None, "no front proxy is configured");
        let anonymous = headers(&[("x-remote-user", "system:anonymous")]);
        assert_eq!(proxied(&anonymous, Some(&proxy()), &front), None);
    }

    #[test]
    fn arbitrary_keys_are_unescaped_without_panic() {
        for (escaped, plain) in [("a%2Fb", "a/b"), ("%", "%"), ("%2", "%2"), ("%zz", "%zz"), ("", "")] {
            assert_eq!(unescaped(escaped), plain);
        }
    }
}
