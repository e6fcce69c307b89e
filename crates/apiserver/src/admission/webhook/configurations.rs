//! The webhook configurations, as an informer's cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use apistore::Revision;
use bytes::Bytes;
use serde_json::Value;

use super::hook::Hook;
use super::review::Purpose;
use crate::reflector::Cache;
use crate::storage::{Key, StoredObject};

/// The keys of all configurations.
pub(super) const PREFIX: &[u8] = b"/registry/admissionregistration.k8s.io/";

/// All webhooks, in the order in which they are asked: by the name of their configuration, then as they stand in it.
#[derive(Debug, Default)]
pub struct Configurations {
    mutating: Ordered,
    validating: Ordered,
}

#[derive(Debug, Default)]
struct Ordered {
    by_configuration: BTreeMap<String, Vec<Hook>>,
    all: Arc<[Hook]>,
}

impl Ordered {
    fn put(&mut self, name: &str, hooks: Option<Vec<Hook>>) {
        match hooks {
            Some(hooks) => self.by_configuration.insert(name.to_owned(), hooks),
            None => self.by_configuration.remove(name),
        };
        self.all = self.by_configuration.values().flatten().cloned().collect();
    }
}

impl Configurations {
    /// The webhooks of one kind.
    pub(super) fn hooks(&self, purpose: Purpose) -> Arc<[Hook]> {
        match purpose {
            Purpose::Mutating => self.mutating.all.clone(),
            Purpose::Validating => self.validating.all.clone(),
        }
    }
}

impl Cache for Configurations {
    fn observe(&mut self, key: &Bytes, value: Option<&Bytes>, _previous: Option<&Bytes>) {
        let Some(key) = Key::parse(key) else { return };
        let of_kind = match key.resource {
            "admissionregistration.k8s.io/mutatingwebhookconfigurations" => &mut self.mutating,
            "admissionregistration.k8s.io/validatingwebhookconfigurations" => &mut self.validating,
            _ => return,
        };
        of_kind.put(key.name, value.map(|raw| hooks_of(key.name, raw)));
    }
}

fn hooks_of(configuration: &str, raw: &Bytes) -> Vec<Hook> {
    let object = StoredObject::decode(raw.clone(), Revision(0)).and_then(|stored| stored.to_value());
    let Ok(object) = object else {
        tracing::error!(configuration, "the webhook configuration cannot be read");
        return Vec::new();
    };
    let webhooks = object["webhooks"].as_array().into_iter().flatten();
    let read = |webhook: &Value| {
        let hook = Hook::read(webhook);
        if hook.is_none() {
            tracing::error!(configuration, name = %webhook["name"], "the webhook cannot be read and is not asked");
        }
        hook
    };
    webhooks.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(kind: &str, name: &str) -> Bytes {
        format!("/registry/admissionregistration.k8s.io/{kind}webhookconfigurations/{name}").into()
    }

    fn configuration(name: &str, hooks: &[&str]) -> Bytes {
        let hooks: Vec<Value> =
            hooks.iter().map(|name| json!({"name": name, "clientConfig": {"url": "https://a/"}})).collect();
        StoredObject::encode(
            &json!({"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}, "webhooks": hooks}),
        )
    }

    #[test]
    fn hooks_are_in_the_order_of_configurations() {
        let mut all = Configurations::default();
        let names = |all: &Configurations| {
            let hooks = all.hooks(Purpose::Mutating);
            hooks.iter().map(|hook| hook.name.to_string()).collect::<Vec<_>>()
        };
        all.observe(&key("mutating", "b"), Some(&configuration("b", &["b1", "b2"])), None);
        all.observe(&key("mutating", "a"), Some(&configuration("a", &["a1"])), None);
        all.observe(&key("validating", "a"), Some(&configuration("a", &["v"])), None);
        assert_eq!(names(&all), ["a1", "b1", "b2"]);
        all.observe(&key("mutating", "b"), Some(&configuration("b", &["b3"])), None);
        assert_eq!(names(&all), ["a1", "b3"]);
        all.observe(&key("mutating", "a"), None, None);
        assert_eq!(names(&all), ["b3"]);
        assert_eq!(all.hooks(Purpose::Validating).len(), 1);
    }
}
