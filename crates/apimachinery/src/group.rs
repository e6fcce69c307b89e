//! The names that kinds and resources go by: group, version, kind, resource.

use std::fmt;

/// An API group at one version: `v1`, `apps/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: String,
    /// `v1`
    pub version: String,
}

/// A kind of a group, whatever the version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: String,
    /// `Deployment`
    pub kind: String,
}

/// A kind of a group at one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// Empty for the core group.
    pub group: String,
    /// `v1`
    pub version: String,
    /// `Deployment`
    pub kind: String,
}

/// A resource of a group, whatever the version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: String,
    /// `deployments`
    pub resource: String,
}

/// An `apiVersion` with more than one slash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct BadGroupVersion(pub String);

impl GroupVersion {
    /// A group at a version.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        GroupVersion { group: group.into(), version: version.into() }
    }

    /// Reads an `apiVersion`. An empty one is no error: it names nothing.
    pub fn parse(api_version: &str) -> Result<Self, BadGroupVersion> {
        match api_version.split_once('/') {
            None => Ok(Self::new("", api_version)),
            // Old clients send the core group like this.
            Some(("", "")) => Ok(Self::default()),
            Some((group, version)) if !version.contains('/') => Ok(Self::new(group, version)),
            Some(_) => Err(BadGroupVersion(api_version.to_owned())),
        }
    }

    /// A kind of this group and version.
    pub fn with_kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            formatter.write_str(&self.version)
        } else {
            write!(formatter, "{}/{}", self.group, self.version)
        }
    }
}

impl GroupVersionKind {
    /// A kind of a group at a version.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Without the kind.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// Without the version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }
}

/// `apps/v1, Kind=Deployment`, and `/v1, Kind=Pod`.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl GroupKind {
    /// A kind of a group.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        GroupKind { group: group.into(), kind: kind.into() }
    }
}

/// `Deployment.apps`, and `Pod`.
impl fmt::Display for GroupKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(formatter, &self.kind, &self.group)
    }
}

impl GroupResource {
    /// A resource of a group.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        GroupResource { group: group.into(), resource: resource.into() }
    }

    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.resource.is_empty()
    }
}

/// `deployments.apps`, and `pods`.
impl fmt::Display for GroupResource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(formatter, &self.resource, &self.group)
    }
}

fn dotted(formatter: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { formatter.write_str(name) } else { write!(formatter, "{name}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_kubernetes_writes_them() {
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
        assert_eq!(GroupResource::new("apps", "deployments").to_string(), "deployments.apps");
        assert_eq!(GroupKind::new("apps", "Deployment").to_string(), "Deployment.apps");
        assert_eq!(
            GroupVersion::new("apps", "v1").with_kind("Deployment").to_string(),
            "apps/v1, Kind=Deployment"
        );
        assert_eq!(GroupVersionKind::new("", "v1", "Pod").to_string(), "/v1, Kind=Pod");
    }

    #[test]
    fn an_api_version_names_a_group_and_a_version() {
        assert_eq!(GroupVersion::parse("v1"), Ok(GroupVersion::new("", "v1")));
        assert_eq!(GroupVersion::parse("apps/v1"), Ok(GroupVersion::new("apps", "v1")));
        assert_eq!(GroupVersion::parse(""), Ok(GroupVersion::default()));
        assert_eq!(GroupVersion::parse("/"), Ok(GroupVersion::default()));
        assert_eq!(
            GroupVersion::parse("a/b/c").map_err(|bad| bad.to_string()),
            Err("unexpected GroupVersion string: a/b/c".to_owned())
        );
        for text in ["v1", "apps/v1", ""] {
            assert_eq!(GroupVersion::parse(text).map(|version| version.to_string()), Ok(text.to_owned()));
        }
    }
}
