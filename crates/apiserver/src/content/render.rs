//! Writing answers.
//!
//! An object that is wanted whole, as JSON and in the version that it is stored in, is copied; all else is parsed first.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use apimachinery::Status;
use apistore::Revision;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::accept::{Accepted, Format, MetaVersion, MetadataOf, Shape};
use super::table::{Headers, ListMeta, table};
use crate::endpoint::Endpoint;
use crate::registry::Resource;
use crate::storage::{StoredObject, TypePrefix};
use crate::verbs::{Content, Listed};
use crate::watch::{EncodingKey, EventKind, WatchEvent};

/// Writes the answers to one request.
#[derive(Clone, Debug)]
pub struct Renderer {
    endpoint: Endpoint,
    accepted: Accepted,
    api_version: String,
    mark: String,
}

impl Renderer {
    /// Writes answers of an endpoint as the client wants them.
    pub fn new(endpoint: Endpoint, accepted: Accepted) -> Renderer {
        let (api_version, mark) = (endpoint.api_version(), endpoint.mark().into_owned());
        Renderer { endpoint, accepted, api_version, mark }
    }

    /// The media type of what is written.
    pub fn media_type(&self) -> &'static str {
        match self.accepted.format {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        }
    }

    /// Writes what a verb answers.
    pub fn content(&self, content: &Content, now: Timestamp) -> Result<Vec<u8>, Status> {
        match content {
            Content::Stored(stored) if self.copies(stored) => {
                let mut out = Vec::with_capacity(stored.json_len() + 1);
                stored.write_json(&mut out);
                out.push(b'\n');
                Ok(out)
            }
            Content::Stored(stored) => self.object(&self.endpoint.read(stored)?, now),
            Content::Object(object) => self.object(object, now),
            Content::List(listed) => self.list(listed, now),
            Content::Other(value) => Ok(self.value(value)),
            Content::Status(status) => Ok(self.status(status)),
        }
    }

    /// Writes a Status.
    pub fn status(&self, status: &Status) -> Vec<u8> {
        write_status(self.accepted, status)
    }

    fn object(&self, object: &Value, now: Timestamp) -> Result<Vec<u8>, Status> {
        Ok(match self.accepted.shape {
            Shape::Object => self.value(object),
            Shape::Metadata(version, MetadataOf::One) => self.value(&partial_metadata(object, version)),
            Shape::Metadata(_, MetadataOf::Many) => {
                return Err(Status::not_shown_so(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                    self.endpoint.resource.go_type()
                )));
            }
            Shape::Table(version, include) => {
                let meta = ListMeta { resource_version: resource_version(object), ..ListMeta::default() };
                let columns = &self.endpoint.version().columns;
                self.value(&table(columns, version, include, &meta, Headers::Shown, [object], now))
            }
        })
    }

    fn list(&self, listed: &Listed, now: Timestamp) -> Result<Vec<u8>, Status> {
        let meta = ListMeta {
            resource_version: listed.revision.0.to_string(),
            continuation: listed.continuation.clone(),
            remaining: listed.remaining,
            // Kubernetes holds a list of custom resources as a map, and leaves nothing out of what it once set.
            shows_empty: self.endpoint.resource.is_custom() && self.accepted.shape == Shape::Object,
        };
        match self.accepted.shape {
            Shape::Object if self.accepted.format == Format::Json && !self.accepted.pretty => {
                self.object_list(listed, &meta)
            }
            Shape::Object => {
                let mut items = self.values(listed)?;
                if !self.endpoint.resource.is_custom() {
                    items.iter_mut().for_each(drop_type);
                }
                Ok(self.value(&json!({
                    "apiVersion": self.api_version,
                    "items": items,
                    "kind": self.endpoint.resource.list_kind,
                    "metadata": meta.to_value(),
                })))
            }
            Shape::Metadata(_, MetadataOf::One) => Err(Status::not_shown_so(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
                self.endpoint.resource.go_type()
            ))),
            Shape::Metadata(version, MetadataOf::Many) => {
                let items: Vec<Value> =
                    self.values(listed)?.iter().map(|object| partial_metadata(object, version)).collect();
                Ok(self.value(&json!({
                    "apiVersion": version.api_version(),
                    // Kubernetes never makes this list unless it has something to put there.
                    "items": if items.is_empty() { Value::Null } else { items.into() },
                    "kind": "PartialObjectMetadataList",
                    "metadata": meta.to_value(),
                })))
            }
            Shape::Table(version, include) => {
                let objects = self.values(listed)?;
                let columns = &self.endpoint.version().columns;
                Ok(self.value(&table(columns, version, include, &meta, Headers::Shown, &objects, now)))
            }
        }
    }

    /// A list of whole objects, made by copying what need not be parsed.
    fn object_list(&self, listed: &Listed, meta: &ListMeta) -> Result<Vec<u8>, Status> {
        let size: usize = listed.objects.iter().map(|stored| stored.json_len() + 1).sum();
        let mut out = Vec::with_capacity(size + 256);
        write(&mut out, format_args!(r#"{{"apiVersion":{},"items":["#, json!(self.api_version)));
        let is_custom = self.endpoint.resource.is_custom();
        let of_type = TypePrefix::new(&self.api_version, &self.endpoint.resource.kind);
        for (index, stored) in listed.objects.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match (self.copies(stored), is_custom) {
                (true, true) => stored.write_json(&mut out),
                (true, false) if stored.write_json_untyped(&of_type, &mut out) => {}
                (_, true) => write_json(&mut out, &self.endpoint.read(stored)?),
                (_, false) => {
                    let mut object = self.endpoint.read(stored)?;
                    drop_type(&mut object);
                    write_json(&mut out, &object);
                }
            }
        }
        let kind = json!(self.endpoint.resource.list_kind);
        write(&mut out, format_args!("],\"kind\":{kind},\"metadata\":{}}}\n", meta.to_value()));
        Ok(out)
    }

    /// Whether the same objects are always written alike. In tables, ages change with the time.
    pub fn is_shareable(&self) -> bool {
        !matches!(self.accepted.shape, Shape::Table(..))
    }

    /// The resource whose objects are written.
    pub fn resource(&self) -> &Arc<Resource> {
        &self.endpoint.resource
    }

    /// What watchers who want to be told in the same way share. Only the first event has a table's headers.
    pub fn encoding_key(&self, first: bool) -> EncodingKey {
        let headers = first && matches!(self.accepted.shape, Shape::Table(..));
        Arc::from(format!("{} {:?} {headers}", self.api_version, self.accepted.shape))
    }

    /// Writes an event of a watch.
    pub fn event(&self, key: &EncodingKey, kind: EventKind, event: &WatchEvent, first: bool) -> Bytes {
        event.encoded(key, kind, || {
            let written = match event.shown(kind) {
                Some(stored) if self.copies(stored) => Ok(copied_event(kind.as_str(), stored)),
                Some(stored) if stored.mark() != self.mark => {
                    self.endpoint.read(stored).map(|object| self.value_event(kind.as_str(), &object, first))
                }
                _ => event
                    .shown_value(kind)
                    .map_err(Status::internal_error)
                    .map(|object| self.value_event(kind.as_str(), object, first)),
            };
            written.unwrap_or_else(|status| self.error_event(&status))
        })
    }

    /// Writes an object that was there before a watch began.
    pub fn initial_event(&self, stored: &StoredObject, first: bool) -> Bytes {
        if self.copies(stored) {
            return copied_event("ADDED", stored);
        }
        match self.endpoint.read(stored) {
            Ok(object) => self.value_event("ADDED", &object, first),
            Err(status) => self.error_event(&status),
        }
    }

    /// Writes how far a watch is.
    pub fn bookmark(&self, revision: Revision, initial_end: bool, first: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.0.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"apiVersion": self.api_version, "kind": self.endpoint.resource.kind, "metadata": metadata});
        self.value_event("BOOKMARK", &object, first)
    }

    /// Writes why a watch ends.
    pub fn error_event(&self, status: &Status) -> Bytes {
        let mut out = br#"{"type":"ERROR","object":"#.to_vec();
        write_json(&mut out, status);
        out.extend_from_slice(b"}\n");
        out.into()
    }

    fn value_event(&self, kind: &str, object: &Value, first: bool) -> Bytes {
        let shaped = match self.accepted.shape {
            Shape::Object => Cow::Borrowed(object),
            Shape::Metadata(version, _) => Cow::Owned(partial_metadata(object, version)),
            Shape::Table(version, include) => {
                let meta = ListMeta { resource_version: resource_version(object), ..ListMeta::default() };
                let headers = if first { Headers::Shown } else { Headers::Omitted };
                let columns = &self.endpoint.version().columns;
                Cow::Owned(table(columns, version, include, &meta, headers, [object], Timestamp::now()))
            }
        };
        let mut out = Vec::with_capacity(1024);
        write(&mut out, format_args!(r#"{{"type":"{kind}","object":"#));
        write_json(&mut out, &*shaped);
        out.extend_from_slice(b"}\n");
        out.into()
    }

    fn copies(&self, stored: &StoredObject) -> bool {
        self.accepted.shape == Shape::Object
            && self.accepted.format == Format::Json
            && !self.accepted.pretty
            && stored.mark() == self.mark
    }

    fn values(&self, listed: &Listed) -> Result<Vec<Value>, Status> {
        listed.objects.iter().map(|stored| self.endpoint.read(stored)).collect()
    }

    fn value(&self, value: &Value) -> Vec<u8> {
        write_value(self.accepted, value)
    }
}

/// Writes a Status to a client that wants this.
pub fn write_status(accepted: Accepted, status: &Status) -> Vec<u8> {
    if accepted.format == Format::Json && !accepted.pretty {
        let mut out = Vec::with_capacity(256);
        write_json(&mut out, status);
        out.push(b'\n');
        return out;
    }
    write_value(accepted, &serde_json::to_value(status).unwrap_or_default())
}

/// Writes anything to a client that wants this.
pub fn write_value<T: serde::Serialize>(accepted: Accepted, value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    match accepted.format {
        Format::Json if accepted.pretty => {
            serde_json::to_writer_pretty(&mut out, value)
                .expect("a JSON value is always serialised to memory");
        }
        Format::Json => {
            write_json(&mut out, value);
            out.push(b'\n');
        }
        Format::Yaml => {
            let text = serde_saphyr::to_string(value).expect("a JSON value is always serialised as YAML");
            out = text.into_bytes();
        }
    }
    out
}

fn copied_event(kind: &str, stored: &StoredObject) -> Bytes {
    let mut out = Vec::with_capacity(stored.json_len() + 40);
    write(&mut out, format_args!(r#"{{"type":"{kind}","object":"#));
    stored.write_json(&mut out);
    out.extend_from_slice(b"}\n");
    out.into()
}

pub(super) fn partial_metadata(object: &Value, version: MetaVersion) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    json!({"apiVersion": version.api_version(), "kind": "PartialObjectMetadata", "metadata": metadata})
}

/// Items of a list do not say what they are: the list does.
fn drop_type(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
}

fn resource_version(object: &Value) -> String {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn write(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("writing to memory does not fail");
}

fn write_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("a JSON value is always serialised to memory");
}
