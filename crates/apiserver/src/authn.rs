//! Authentication: which user a request is from.

mod certificate;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;

pub use certificate::user_of_certificate;

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// `system:node:n1`
    pub name: String,
    /// Often empty.
    pub uid: String,
    /// `system:masters`
    pub groups: Vec<String>,
    /// What else is known.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of the anonymous user.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

impl UserInfo {
    /// An authenticated user with these groups, and [`AUTHENTICATED`].
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> UserInfo {
        let mut groups: Vec<String> = groups.into_iter().collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.into());
        }
        UserInfo { name: name.into(), groups, ..UserInfo::default() }
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> UserInfo {
        UserInfo {
            name: "system:anonymous".into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..UserInfo::default()
        }
    }
}

/// The credentials of a request.
#[derive(Debug)]
pub struct Credentials<'a> {
    /// The user of the client certificate, which the connection has verified.
    pub certificate: Option<&'a UserInfo>,
    /// The request's headers.
    pub headers: &'a HeaderMap,
}

/// The credentials are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unauthorized;

/// Authenticates requests.
pub trait Authenticator: Send + Sync + fmt::Debug {
    /// The user; absent if the request has no credentials of the authenticator's kind.
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<UserInfo>, Unauthorized>;
}

/// Authenticates by verified client certificates.
#[derive(Clone, Copy, Debug)]
pub struct ClientCertificates;

impl Authenticator for ClientCertificates {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<UserInfo>, Unauthorized> {
        Ok(credentials.certificate.cloned())
    }
}

/// Authenticates by a fixed set of bearer tokens.
#[derive(Clone, Default)]
pub struct StaticTokens {
    tokens: HashMap<String, UserInfo>,
}

impl StaticTokens {
    /// Users and their tokens.
    pub fn new(tokens: impl IntoIterator<Item = (String, UserInfo)>) -> StaticTokens {
        StaticTokens { tokens: tokens.into_iter().collect() }
    }
}

impl fmt::Debug for StaticTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StaticTokens").field("users", &self.tokens.len()).finish()
    }
}

impl Authenticator for StaticTokens {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<UserInfo>, Unauthorized> {
        let Some(token) = bearer_token(credentials.headers) else { return Ok(None) };
        // Unknown tokens are not refused here: they may be another authenticator's.
        Ok(self.tokens.get(token).cloned())
    }
}

/// The token that a request carries.
pub fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}

/// Asks the authenticators in order. A request without credentials is anonymous; one with a token that none of them knows is
/// refused.
pub fn authenticate(
    authenticators: &[Box<dyn Authenticator>],
    credentials: &Credentials<'_>,
) -> Result<UserInfo, Unauthorized> {
    for authenticator in authenticators {
        if let Some(user) = authenticator.authenticate(credentials)? {
            return Ok(user);
        }
    }
    if credentials.headers.contains_key(AUTHORIZATION) {
        return Err(Unauthorized);
    }
    Ok(UserInfo::anonymous())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, authorization.parse().unwrap())])
    }

    #[test]
    fn certificates_tokens_and_no_credentials_authenticate_users() {
        let alice = UserInfo::new("alice", []);
        let authenticators: Vec<Box<dyn Authenticator>> = vec![
            Box::new(ClientCertificates),
            Box::new(StaticTokens::new([("secret".into(), alice.clone())])),
        ];
        let who = |headers: &HeaderMap, certificate| {
            authenticate(&authenticators, &Credentials { certificate, headers })
        };
        assert_eq!(who(&headers("Bearer secret"), None), Ok(alice.clone()));
        assert_eq!(who(&headers("bearer  secret "), None), Ok(alice));
        assert_eq!(who(&headers("Bearer other"), None), Err(Unauthorized));
        assert_eq!(who(&headers("Basic YTpi"), None), Err(Unauthorized));
        assert_eq!(who(&HeaderMap::new(), None), Ok(UserInfo::anonymous()));
        let node = UserInfo::new("system:node:a", ["system:nodes".into()]);
        assert_eq!(who(&headers("Bearer other"), Some(&node)), Ok(node.clone()));
    }
}
