//! Whether a kind exists at all.

use std::fmt;

use kube::{Api, Client, Resource};

use crate::Error;
use crate::definitions::{ApiService, Definition};

/// The built-in groups whose names have dots. A group without a dot is always built in: definitions of custom resources are
/// refused for such.
const BUILT_IN: &[&str] = &[
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// The group of APIServices, which every API server has that can delegate to others.
const AGGREGATION: &str = "apiregistration.k8s.io";

/// A kind of objects. Shown as its definition would be named: `vpcs.kubeovn.io`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
}

/// Who decides whether a kind exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Every API server has it.
    BuiltIn,
    /// Every API server that can delegate to others has it: the kind `APIService` itself.
    Aggregation,
    /// A CustomResourceDefinition or an APIService.
    Defined,
}

impl Kind {
    pub(crate) fn of<K: Resource<DynamicType = ()>>() -> Self {
        Kind {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
        }
    }

    pub(crate) fn origin(&self) -> Origin {
        match self.group.as_str() {
            AGGREGATION => Origin::Aggregation,
            group if !group.contains('.') || BUILT_IN.contains(&group) => Origin::BuiltIn,
            _ => Origin::Defined,
        }
    }

    /// Whether this answer says that the object of this name does not exist. A proxy, or an API server that is starting,
    /// answers 404 too, but does not name the object.
    pub(crate) fn is_named_by(&self, error: &kube::Error, name: &str) -> bool {
        let kube::Error::Api(status) = error else { return false };
        let Some(details) = &status.details else { return false };
        status.code == 404
            && status.reason == "NotFound"
            && details.name == name
            && details.kind == self.plural
            && details.group == self.group
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// Asks the API server whether a kind is certainly absent: neither defined, nor delegated to another server. Built-in kinds
/// never are. Definitions are read by name from the API server's store, so the answer holds also right after a restart, when
/// the API server may not serve custom resources yet.
///
/// # Errors
/// When it cannot be found out. Nothing is known then.
pub async fn is_kind_absent<K: Resource<DynamicType = ()>>(client: &Client) -> Result<bool, Error> {
    is_absent(client, &Kind::of::<K>()).await
}

pub(crate) async fn is_absent(client: &Client, kind: &Kind) -> Result<bool, Error> {
    match kind.origin() {
        Origin::BuiltIn => Ok(false),
        Origin::Aggregation => is_without_aggregation(client).await,
        Origin::Defined => {
            let definition = live::<Definition>(client, &kind.to_string()).await?;
            Ok(definition.is_none() && !is_delegated(client, kind).await?)
        }
    }
}

async fn is_delegated(client: &Client, kind: &Kind) -> Result<bool, Error> {
    match live::<ApiService>(client, &format!("{}.{}", kind.version, kind.group)).await {
        Ok(service) => Ok(service.is_some_and(|service| service.is_delegated())),
        Err(error) if error.code() == Some(404) && is_without_aggregation(client).await? => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether this API server cannot delegate at all, as Portolan's own. kube-apiserver's list of groups always begins with the
/// group of APIServices.
async fn is_without_aggregation(client: &Client) -> Result<bool, Error> {
    let groups = client.list_api_groups().await?.groups;
    Ok(!groups.iter().any(|group| group.name == AGGREGATION))
}

/// Reads an object by name; none only if the answer names it.
async fn live<K>(client: &Client, name: &str) -> Result<Option<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + fmt::Debug,
{
    match Api::<K>::all(client.clone()).get(name).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if Kind::of::<K>().is_named_by(&error, name) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::StatefulSet;
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::api::networking::v1::NetworkPolicy;

    use super::*;

    #[test]
    fn built_in_kinds_are_told_from_defined_ones() {
        for kind in [Kind::of::<Pod>(), Kind::of::<StatefulSet>(), Kind::of::<NetworkPolicy>()] {
            assert_eq!(kind.origin(), Origin::BuiltIn, "{kind}");
        }
        assert_eq!(Kind::of::<Definition>().origin(), Origin::BuiltIn);
        assert_eq!(Kind::of::<ApiService>().origin(), Origin::Aggregation);
        let kind = Kind { group: "kubeovn.io".into(), version: "v1".into(), plural: "vpcs".into() };
        assert_eq!((kind.origin(), kind.to_string().as_str()), (Origin::Defined, "vpcs.kubeovn.io"));
    }
}
