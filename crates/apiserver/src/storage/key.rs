//! Where objects are in the store: `/registry/<group or core>/<resource>[/<namespace>]/<name>`.

use bytes::Bytes;

const ROOT: &str = "/registry/";

/// All objects of one resource: `core/configmaps`, `apps/deployments`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey(Box<str>);

/// What a key of the store says about the object there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The resource, as in [`ResourceKey`].
    pub resource: &'a str,
    /// Empty for objects without a namespace.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
}

impl ResourceKey {
    /// The key of a resource of a group; the core group's name is empty.
    pub fn new(group: &str, plural: &str) -> ResourceKey {
        let group = if group.is_empty() { "core" } else { group };
        ResourceKey(format!("{group}/{plural}").into())
    }

    /// `core/configmaps`
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the keys of all objects, or of all in a namespace, start with.
    pub fn prefix(&self, namespace: &str) -> Bytes {
        let mut key = String::with_capacity(ROOT.len() + self.0.len() + namespace.len() + 2);
        key.push_str(ROOT);
        key.push_str(&self.0);
        key.push('/');
        if !namespace.is_empty() {
            key.push_str(namespace);
            key.push('/');
        }
        key.into()
    }

    /// The key of one object; `namespace` is empty if it has none.
    pub fn object(&self, namespace: &str, name: &str) -> Bytes {
        let mut key = Vec::with_capacity(ROOT.len() + self.0.len() + namespace.len() + name.len() + 2);
        key.extend_from_slice(&self.prefix(namespace));
        key.extend_from_slice(name.as_bytes());
        key.into()
    }
}

impl<'a> Key<'a> {
    /// Reads a key; absent for keys that are no object's.
    pub fn parse(key: &'a [u8]) -> Option<Key<'a>> {
        let path = std::str::from_utf8(key).ok()?.strip_prefix(ROOT)?;
        let group_end = path.find('/')?;
        let resource_end = group_end + 1 + path[group_end + 1..].find('/')?;
        let (resource, rest) = (&path[..resource_end], &path[resource_end + 1..]);
        let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
        (!name.is_empty()).then_some(Key { resource, namespace, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_resource_namespace_and_name() {
        let pods = ResourceKey::new("", "pods");
        let key = pods.object("default", "a");
        assert_eq!(&key[..], b"/registry/core/pods/default/a");
        assert_eq!(Key::parse(&key), Some(Key { resource: "core/pods", namespace: "default", name: "a" }));

        let key = ResourceKey::new("example.com", "things").object("", "b");
        assert_eq!(Key::parse(&key), Some(Key { resource: "example.com/things", namespace: "", name: "b" }));
    }

    #[test]
    fn a_namespace_is_not_a_prefix_of_another() {
        let prefix = ResourceKey::new("", "pods").prefix("a");
        assert!(!ResourceKey::new("", "pods").object("ab", "x").starts_with(&prefix));
    }

    #[test]
    fn other_keys_are_no_objects() {
        for key in [
            "",
            "/registry",
            "/registry/",
            "/registry/core",
            "/registry/core/pods/",
            "/format",
            "/registry/core/pods/a/",
        ] {
            assert_eq!(Key::parse(key.as_bytes()), None, "{key}");
        }
        assert_eq!(Key::parse(b"/registry/core/pods/\xff"), None);
    }
}
