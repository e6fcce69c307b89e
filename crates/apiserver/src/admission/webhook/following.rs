//! The configurations of the store, followed.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use apistore::{Range, Revision, StoreError};
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::hook::Hook;
use super::review::Purpose;
use crate::storage::{Key, Storage, StorageWatch, StoredObject};

const PREFIX: &[u8] = b"/registry/admissionregistration.k8s.io/";

/// All webhooks, in the order in which they are asked: by the name of their configuration, then as they stand in it.
#[derive(Debug, Default)]
pub(super) struct Configurations {
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

    fn tell(&mut self, key: &Bytes, value: Option<&Bytes>) {
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

/// What goes on following the store; it must run for changes to be seen.
#[must_use = "changes of configurations are not seen unless this runs"]
#[derive(Debug)]
pub struct Following {
    configurations: Arc<RwLock<Configurations>>,
    storage: Storage,
    events: StorageWatch,
    reached: watch::Sender<Revision>,
}

impl Following {
    /// Reads everything. The receiver is told up to which change all is known.
    pub(super) async fn start(
        storage: &Storage,
        configurations: Arc<RwLock<Configurations>>,
    ) -> Result<(Following, watch::Receiver<Revision>), StoreError> {
        let (events, revision) = list(storage, &configurations).await?;
        let (reached, receiver) = watch::channel(revision);
        Ok((Following { configurations, storage: storage.clone(), events, reached }, receiver))
    }

    /// Follows the store until it is closed.
    pub async fn run(mut self) {
        loop {
            match self.events.next().await {
                Ok(events) => {
                    let mut configurations =
                        self.configurations.write().unwrap_or_else(PoisonError::into_inner);
                    for event in &events {
                        configurations.tell(&event.key, event.value.as_ref());
                    }
                    drop(configurations);
                    if let Some(last) = events.last() {
                        self.reached.send_replace(last.revision);
                    }
                }
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::warn!(%error, "webhook configurations are read anew");
                    match list(&self.storage, &self.configurations).await {
                        Ok((events, revision)) => {
                            self.events = events;
                            self.reached.send_replace(revision);
                        }
                        Err(error) => {
                            tracing::error!(%error, "webhook configurations are no longer followed");
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// Reads everything, puts it in place of what was known, and returns what tells of changes since.
async fn list(
    storage: &Storage,
    configurations: &RwLock<Configurations>,
) -> Result<(StorageWatch, Revision), StoreError> {
    let page = storage.list(Range { prefix: Bytes::from_static(PREFIX), ..Range::default() }).await?;
    let mut all = Configurations::default();
    for entry in &page.entries {
        all.tell(&entry.key, Some(&entry.value));
    }
    *configurations.write().unwrap_or_else(PoisonError::into_inner) = all;
    let events = storage.watch(Bytes::from_static(PREFIX), page.revision).await?;
    Ok((events, page.revision))
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
        all.tell(&key("mutating", "b"), Some(&configuration("b", &["b1", "b2"])));
        all.tell(&key("mutating", "a"), Some(&configuration("a", &["a1"])));
        all.tell(&key("validating", "a"), Some(&configuration("a", &["v"])));
        assert_eq!(names(&all), ["a1", "b1", "b2"]);
        all.tell(&key("mutating", "b"), Some(&configuration("b", &["b3"])));
        assert_eq!(names(&all), ["a1", "b3"]);
        all.tell(&key("mutating", "a"), None);
        assert_eq!(names(&all), ["b3"]);
        assert_eq!(all.hooks(Purpose::Validating).len(), 1);
    }
}
