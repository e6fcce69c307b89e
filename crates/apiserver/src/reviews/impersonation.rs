//! Acting as somebody else, as the `Impersonate-…` headers ask.

use std::collections::BTreeMap;

use apimachinery::Status;
use http::HeaderMap;

use crate::authn::{AUTHENTICATED, UNAUTHENTICATED, UserInfo};
use crate::authz::{self, Attributes, Authorizer, ResourceAttributes};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const ANONYMOUS: &str = "system:anonymous";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Something about somebody that is to be taken on.
#[derive(Debug, PartialEq, Eq)]
enum Trait {
    User(String),
    ServiceAccount { namespace: String, name: String },
    Group(String),
    Extra { key: String, value: String },
    Uid(String),
}

/// The user that a request shall be done as: whom its headers name, or whoever sent it if they name nobody. Each part of who it is
/// must be allowed.
///
/// # Errors
/// A Status for the client, if it may not or asks for nonsense.
pub async fn impersonate(
    user: UserInfo,
    headers: &HeaderMap,
    authorizer: &dyn Authorizer,
) -> Result<UserInfo, Status> {
    let traits = traits(headers)?;
    if traits.is_empty() {
        return Ok(user);
    }
    for one in &traits {
        let resource = one.resource();
        let asked = Attributes { user: &user, verb: "impersonate", resource: Some(resource), path: "" };
        authz::check(authorizer, asked).await?;
    }
    Ok(user_of(traits))
}

fn traits(headers: &HeaderMap) -> Result<Vec<Trait>, Status> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).filter(|value| !value.is_empty());
    let mut traits = Vec::new();
    let user = first(USER);
    if let Some(user) = &user {
        traits.push(match service_account(user) {
            Some((namespace, name)) => {
                Trait::ServiceAccount { namespace: namespace.into(), name: name.into() }
            }
            None => Trait::User(user.clone()),
        });
    }
    traits.extend(headers.get_all(GROUP).iter().map(|group| Trait::Group(text(group))));
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            traits.push(Trait::Extra { key: percent_decoded(key), value: text(value) });
        }
    }
    traits.extend(first(UID).map(Trait::Uid));
    if user.is_none() && !traits.is_empty() {
        return Err(Status::internal_error(format!("requested {traits:?} without impersonating a user")));
    }
    Ok(traits)
}

impl Trait {
    fn resource(&self) -> ResourceAttributes<'_> {
        let of = |group, version, resource, name| ResourceAttributes {
            group,
            version,
            resource,
            subresource: "",
            namespace: "",
            name,
        };
        let authentication = "authentication.k8s.io";
        match self {
            Trait::User(name) => of("", "", "users", name),
            Trait::Group(name) => of("", "", "groups", name),
            Trait::ServiceAccount { namespace, name } => {
                ResourceAttributes { namespace, ..of("", "", "serviceaccounts", name) }
            }
            Trait::Extra { key, value } => {
                ResourceAttributes { subresource: key, ..of(authentication, "v1", "userextras", value) }
            }
            Trait::Uid(uid) => of(authentication, "v1", "uids", uid),
        }
    }
}

fn user_of(traits: Vec<Trait>) -> UserInfo {
    let groups_given = traits.iter().any(|one| matches!(one, Trait::Group(_)));
    let mut user = UserInfo::default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in traits {
        match one {
            Trait::User(name) => user.name = name,
            Trait::ServiceAccount { namespace, name } => {
                user.name = format!("{SERVICE_ACCOUNT}{namespace}:{name}");
                if !groups_given {
                    user.groups =
                        vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
                }
            }
            Trait::Group(group) => user.groups.push(group),
            Trait::Extra { key, value } => extra.entry(key).or_default().push(value),
            Trait::Uid(uid) => user.uid = uid,
        }
    }
    user.extra = extra;
    let has = |group: &str| user.groups.iter().any(|other| other == group);
    if user.name == ANONYMOUS {
        if !has(UNAUTHENTICATED) {
            user.groups.push(UNAUTHENTICATED.into());
        }
    } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.into());
    }
    user
}

fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    let is_name = |text: &str| apimachinery::format::dns1123_subdomain(text).is_empty();
    (apimachinery::format::dns1123_label(namespace).is_empty() && is_name(name)).then_some((namespace, name))
}

/// The keys of what else is known may have characters that headers may not.
fn percent_decoded(key: &str) -> String {
    let bytes = key.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            decoded.push(bytes[at]);
            at += 1;
            continue;
        }
        let digits = key.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        // What is not correctly encoded is taken as it is.
        let Some(byte) = digits else { return key.to_owned() };
        decoded.push(byte);
        at += 3;
    }
    String::from_utf8(decoded).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::BoxFuture;

    use super::*;
    use crate::authz::Decision;

    /// Allows those who may.
    #[derive(Debug)]
    struct Only(&'static [&'static str]);

    impl Authorizer for Only {
        fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
            let of = attributes.resource.map(|resource| format!("{}/{}", resource.resource, resource.name));
            let allowed = of.is_some_and(|of| self.0.contains(&of.as_str()));
            let decision = if allowed { Decision::Allow } else { Decision::Deny(String::new()) };
            std::future::ready(decision).boxed()
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    async fn act(pairs: &[(&'static str, &str)], only: &'static [&'static str]) -> Result<UserInfo, Status> {
        impersonate(UserInfo::new("admin", []), &headers(pairs), &Only(only)).await
    }

    #[tokio::test]
    async fn every_part_must_be_allowed() {
        assert_eq!(act(&[], &[]).await.unwrap().name, "admin");
        let both = [("impersonate-user", "bob"), ("impersonate-group", "dev")];
        let bob = act(&both, &["users/bob", "groups/dev"]).await.unwrap();
        assert_eq!((bob.name.as_str(), bob.groups), ("bob", vec!["dev".into(), AUTHENTICATED.into()]));
        let denied = act(&both, &["users/bob"]).await.unwrap_err();
        assert_eq!(denied.code, 403);
        assert_eq!(
            denied.message,
            "groups \"dev\" is forbidden: User \"admin\" cannot impersonate resource \"groups\" in API group \"\" at the \
             cluster scope"
        );
        assert_eq!(act(&[("impersonate-group", "dev")], &["groups/dev"]).await.unwrap_err().code, 500);
    }

    #[tokio::test]
    async fn a_service_account_brings_its_groups() {
        let robot =
            act(&[("impersonate-user", "system:serviceaccount:ns:robot")], &["serviceaccounts/robot"])
                .await
                .unwrap();
        assert_eq!(robot.name, "system:serviceaccount:ns:robot");
        assert_eq!(robot.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED]);
    }

    #[tokio::test]
    async fn what_else_is_known_is_taken_on_too() {
        let user = act(
            &[
                ("impersonate-user", "bob"),
                ("impersonate-extra-a%2fb", "x"),
                ("impersonate-extra-a%2fb", "y"),
                ("impersonate-uid", "7"),
            ],
            &["users/bob", "userextras/x", "userextras/y", "uids/7"],
        );
        let user = user.await.unwrap();
        assert_eq!((user.uid.as_str(), &user.extra["a/b"]), ("7", &vec!["x".to_owned(), "y".to_owned()]));
        assert_eq!(percent_decoded("%zz"), "%zz");
        let nobody =
            act(&[("impersonate-user", "system:anonymous")], &["users/system:anonymous"]).await.unwrap();
        assert_eq!(nobody.groups, [UNAUTHENTICATED]);
    }
}
