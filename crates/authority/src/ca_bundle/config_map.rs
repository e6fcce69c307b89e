//! A ConfigMap that says which authorities to trust, for those who may not read the Secret.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::HasCaBundle;

/// The key with the certificates, in PEM.
pub const BUNDLE: &str = "ca.crt";
/// What all objects of an installation say: `portolan uninstall` takes one without it for somebody else's, and leaves it.
const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "portolan");

impl HasCaBundle for ConfigMap {
    fn with_bundle(&self, bundle: &str) -> Option<Value> {
        let present = self.data.as_ref().and_then(|data| data.get(BUNDLE));
        (present.map(String::as_str) != Some(bundle)).then(|| json!({"data": {BUNDLE: bundle}}))
    }

    /// Nobody else brings it again, and nothing is signed without it.
    fn made(name: &str, bundle: &str) -> Option<Self> {
        let (label, installation) = PART_OF;
        let labels = [(label.to_owned(), installation.to_owned())].into();
        let metadata =
            ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
        let data = [(BUNDLE.to_owned(), bundle.to_owned())].into();
        Some(Self { metadata, data: Some(data), ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_bundle_is_written_and_other_keys_are_left_alone() {
        let mut map = ConfigMap::default();
        assert_eq!(map.with_bundle("one"), Some(json!({"data": {"ca.crt": "one"}})));
        map.data = Some([("ca.crt".into(), "one".into()), ("other".into(), "key".into())].into());
        assert_eq!(map.with_bundle("one"), None);
        assert_eq!(map.with_bundle("two"), Some(json!({"data": {"ca.crt": "two"}})));
    }
}
