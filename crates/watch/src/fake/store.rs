//! The objects, their history, and who watches them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::Response;
use serde_json::{Map, Value, json};

use super::answer::{self, Refused, Reply, status_value};
use super::path::Target;
use crate::existence::{Kind, Origin};

/// Group and plural.
type Collection = (String, String);
/// Namespace and name.
pub(super) type Key = (String, String);

#[derive(Debug, Default)]
pub(super) struct Store {
    version: u64,
    compacted: u64,
    objects: BTreeMap<Collection, BTreeMap<Key, Value>>,
    history: Vec<(u64, Collection, Value)>,
    watches: Vec<Watch>,
}

#[derive(Debug)]
struct Watch {
    target: Target,
    lines: UnboundedSender<Result<Bytes, Refused>>,
}

fn collection(target: &Target) -> Collection {
    (target.group.clone(), target.plural.clone())
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn key(value: &Value) -> Key {
    (text(value, "/metadata/namespace").to_owned(), text(value, "/metadata/name").to_owned())
}

fn selects(target: &Target, value: &Value) -> bool {
    let namespace = target.namespace.as_deref().is_none_or(|ns| ns == text(value, "/metadata/namespace"));
    let field = target.field_selector.as_deref().and_then(|selector| selector.split_once('='));
    namespace
        && field.is_none_or(|(path, wanted)| text(value, &format!("/{}", path.replace('.', "/"))) == wanted)
}

impl Store {
    /// Built-in kinds are served, others once they are defined; APIServices once there is one.
    pub(super) fn serves(&self, target: &Target) -> bool {
        let kind = Kind {
            group: target.group.clone(),
            version: target.version.clone(),
            plural: target.plural.clone(),
        };
        let definitions = ("apiextensions.k8s.io".to_owned(), "customresourcedefinitions".to_owned());
        let defined = |name: &str| {
            self.objects
                .get(&definitions)
                .is_some_and(|all| all.contains_key(&(String::new(), name.to_owned())))
        };
        match kind.origin() {
            Origin::BuiltIn => true,
            Origin::Aggregation => self.objects.contains_key(&collection(target)),
            Origin::Defined => defined(&kind.to_string()),
        }
    }

    pub(super) fn groups(&self) -> Value {
        let groups: BTreeSet<&str> = self.objects.keys().map(|(group, _)| group.as_str()).collect();
        let groups = groups.into_iter().filter(|group| !group.is_empty());
        let version = |group: &str| json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
        let groups: Vec<Value> = groups
            .map(|group| json!({"name": group, "versions": [version(group)], "preferredVersion": version(group)}))
            .collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    pub(super) fn get(&self, target: &Target, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&collection(target))?.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(super) fn keys(&self, target: &Target) -> Vec<Key> {
        self.objects.get(&collection(target)).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    pub(super) fn put(&mut self, target: &Target, mut value: Value) -> Value {
        self.version += 1;
        let objects = self.objects.entry(collection(target)).or_default();
        let kind = if objects.contains_key(&key(&value)) { "MODIFIED" } else { "ADDED" };
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        if value["metadata"]["uid"].is_null() {
            value["metadata"]["uid"] = format!("uid-{}", self.version).into();
        }
        objects.insert(key(&value), value.clone());
        self.tell(target, kind, &value);
        value
    }

    pub(super) fn remove(&mut self, target: &Target, namespace: &str, name: &str) -> Option<Value> {
        let key = (namespace.to_owned(), name.to_owned());
        let mut value = self.objects.get_mut(&collection(target))?.remove(&key)?;
        self.version += 1;
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.tell(target, "DELETED", &value);
        Some(value)
    }

    fn tell(&mut self, target: &Target, kind: &str, value: &Value) {
        let (of, event) = (collection(target), json!({"type": kind, "object": value}));
        let line = Bytes::from(format!("{event}\n"));
        self.watches.retain(|watch| {
            let concerned = collection(&watch.target) == of && selects(&watch.target, value);
            !concerned || watch.lines.unbounded_send(Ok(line.clone())).is_ok()
        });
        self.history.push((self.version, of, event));
    }

    pub(super) fn cut_watches(&mut self, orderly: bool) {
        for watch in std::mem::take(&mut self.watches) {
            if !orderly {
                drop(watch.lines.unbounded_send(Err(Refused)));
            }
        }
    }

    pub(super) fn compact(&mut self) {
        // Something else happens meanwhile, or the version of the last list would still be the current one.
        self.version += 1;
        self.compacted = self.version;
        self.history.clear();
    }

    /// A list, or a page of one. Further pages are of what there is by then; after a compaction there are none.
    pub(super) fn list(&self, target: &Target) -> Response<Reply> {
        let (version, skipped) = match target.continues.as_deref().and_then(|token| token.split_once('.')) {
            Some((version, skipped)) => (version.parse().unwrap_or(0), skipped.parse().unwrap_or(0)),
            None => (self.version, 0),
        };
        if version < self.compacted {
            return answer::status(410, "Expired", "too old continue token");
        }
        let objects = self.objects.get(&collection(target)).into_iter().flat_map(BTreeMap::values);
        let selected: Vec<&Value> = objects.filter(|value| selects(target, value)).skip(skipped).collect();
        let items = &selected[..target.limit.unwrap_or(usize::MAX).min(selected.len())];
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if items.len() < selected.len() {
            metadata["continue"] = format!("{version}.{}", skipped + items.len()).into();
        }
        answer::json(200, &json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}))
    }

    pub(super) fn watch(&mut self, target: &Target) -> Response<Reply> {
        let from = target.from_version.unwrap_or(self.version);
        if from < self.compacted {
            return answer::status(410, "Expired", "too old resource version");
        }
        let (lines, receiver) = unbounded();
        for (version, of, event) in &self.history {
            if *version > from && *of == collection(target) && selects(target, &event["object"]) {
                drop(lines.unbounded_send(Ok(Bytes::from(format!("{event}\n")))));
            }
        }
        self.watches.push(Watch { target: target.clone(), lines });
        answer::stream(receiver)
    }

    pub(super) fn read(&self, target: &Target) -> Response<Reply> {
        match self.found(target) {
            Ok(value) => answer::json(200, value),
            Err(answer) => *answer,
        }
    }

    pub(super) fn create(&mut self, target: &Target, mut value: Value) -> Response<Reply> {
        if let Some(namespace) = &target.namespace {
            value["metadata"]["namespace"] = namespace.as_str().into();
        }
        let (namespace, name) = key(&value);
        if self.get(target, &namespace, &name).is_some() {
            return answer::status(409, "AlreadyExists", &format!("{name:?} already exists"));
        }
        answer::json(201, &self.put(target, value))
    }

    pub(super) fn patch(&mut self, target: &Target, patch: &Value) -> Response<Reply> {
        let mut value = match self.found(target) {
            Ok(value) => value.clone(),
            Err(answer) => return *answer,
        };
        for field in ["/metadata/resourceVersion", "/metadata/uid"] {
            if let Some(wanted) = patch.pointer(field).and_then(Value::as_str)
                && wanted != text(&value, field)
            {
                return answer::status(409, "Conflict", "the object has been modified");
            }
        }
        let patch = if target.is_status { &json!({"status": patch["status"]}) } else { patch };
        merge(&mut value, patch);
        answer::json(200, &self.put(target, value))
    }

    pub(super) fn delete(&mut self, target: &Target, options: &Value) -> Response<Reply> {
        let uid = match self.found(target) {
            Ok(value) => text(value, "/metadata/uid").to_owned(),
            Err(answer) => return *answer,
        };
        if options.pointer("/preconditions/uid").and_then(Value::as_str).is_some_and(|wanted| wanted != uid) {
            return answer::status(409, "Conflict", "the UID in the precondition does not match");
        }
        let removed = self.remove(
            target,
            target.namespace.as_deref().unwrap_or_default(),
            target.name.as_deref().unwrap_or_default(),
        );
        answer::json(200, &removed.unwrap_or_default())
    }

    fn found(&self, target: &Target) -> Result<&Value, Box<Response<Reply>>> {
        let name = target.name.as_deref().unwrap_or_default();
        self.get(target, target.namespace.as_deref().unwrap_or_default(), name).ok_or_else(|| {
            let mut body = status_value(404, "NotFound", &format!("{} {name:?} not found", target.plural));
            body["details"] = json!({"name": name, "group": target.group, "kind": target.plural});
            Box::new(answer::json(404, &body))
        })
    }
}

/// A JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().map(|target| target.remove(key));
        } else {
            merge(&mut target[key], value);
        }
    }
}
