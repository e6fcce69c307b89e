//! How an object is stored: its JSON without the resourceVersion, and where in it that belongs.
//!
//! The resourceVersion is the revision of the write, which is not known before the write. So it is left out, and spliced in
//! whenever the object is read. Lists and watches thus copy bytes, and need not parse them. The object's type comes first,
//! so that a list whose items do not say their type leaves it out by copying from where it ends.
//!
//! ```text
//! ┌────────┬─────────────┬─────────────────┬────────────┬───────────────────────────────────────────────────────┐
//! │ format │ splice u32  │ apiVersion len  │ apiVersion │ {"apiVersion":"v1","kind":"Pod","metadata":{▲"name":… │
//! │ 1 byte │ big endian  │ 1 byte          │            │                                             └ splice  │
//! └────────┴─────────────┴─────────────────┴────────────┴───────────────────────────────────────────────────────┘
//! ```

use std::io::Write as _;

use apistore::{Entry, Revision};
use bytes::Bytes;
use serde_json::{Map, Value};

const FORMAT: u8 = 1;
const FIXED_HEADER: usize = 6;

// What says the type of an object, and is written first.
const TYPE: [&str; 2] = ["apiVersion", "kind"];

/// An object as it is in the store, with the revision that it is shown at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    raw: Bytes,
    json: usize,
    splice: usize,
    /// What `metadata.resourceVersion` says.
    pub revision: Revision,
}

/// Bytes in the store that are no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored bytes are not an object of a known format")]
pub struct Corrupt;

impl StoredObject {
    /// The bytes to store. Whatever resourceVersion the object has is left out.
    pub fn encode(object: &Value) -> Bytes {
        StoredObject::encode_marked(
            object,
            object.get("apiVersion").and_then(Value::as_str).unwrap_or_default(),
        )
    }

    /// The same with another mark than the apiVersion.
    pub fn encode_marked(object: &Value, mark: &str) -> Bytes {
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        let mark_length = u8::try_from(mark.len()).unwrap_or(0);

        let mut raw = Vec::with_capacity(1024);
        raw.extend_from_slice(&[FORMAT, 0, 0, 0, 0, mark_length]);
        raw.extend_from_slice(&mark.as_bytes()[..usize::from(mark_length)]);
        let json = raw.len();
        let mut splice = json + 1;

        raw.push(b'{');
        let of_type = TYPE.iter().filter_map(|name| fields.get_key_value(*name));
        let others = fields.iter().filter(|(name, _)| !TYPE.contains(&name.as_str()));
        for (index, (name, value)) in of_type.chain(others).enumerate() {
            if index > 0 {
                raw.push(b',');
            }
            write_json(&mut raw, name);
            raw.push(b':');
            match (name.as_str(), value) {
                ("metadata", Value::Object(metadata)) => {
                    raw.push(b'{');
                    splice = raw.len();
                    for (name, value) in metadata {
                        if name == "resourceVersion" {
                            continue;
                        }
                        if raw.len() > splice {
                            raw.push(b',');
                        }
                        write_json(&mut raw, name);
                        raw.push(b':');
                        write_json(&mut raw, value);
                    }
                    raw.push(b'}');
                }
                _ => write_json(&mut raw, value),
            }
        }
        raw.push(b'}');

        let splice = u32::try_from(splice - json).expect("a request's body is far below 4 GiB");
        raw[1..5].copy_from_slice(&splice.to_be_bytes());
        raw.into()
    }

    /// Reads bytes of the store.
    pub fn decode(raw: Bytes, revision: Revision) -> Result<StoredObject, Corrupt> {
        let header = raw.first_chunk::<FIXED_HEADER>().ok_or(Corrupt)?;
        let [FORMAT, a, b, c, d, api_version_length] = *header else { return Err(Corrupt) };
        let json = FIXED_HEADER + usize::from(api_version_length);
        let splice = json + u32::from_be_bytes([a, b, c, d]) as usize;
        if splice >= raw.len() {
            return Err(Corrupt);
        }
        Ok(StoredObject { raw, json, splice, revision })
    }

    /// Reads an entry of the store.
    pub fn from_entry(entry: &Entry) -> Result<StoredObject, Corrupt> {
        StoredObject::decode(entry.value.clone(), entry.modified)
    }

    /// The bytes in the store.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The object as JSON, without its resourceVersion.
    pub fn json(&self) -> &[u8] {
        &self.raw[self.json..]
    }

    /// What it was marked with: its apiVersion, mostly.
    pub fn mark(&self) -> &str {
        std::str::from_utf8(&self.raw[FIXED_HEADER..self.json]).unwrap_or_default()
    }

    /// The same object, shown at another revision: as a deletion shows the last state.
    pub fn at(&self, revision: Revision) -> StoredObject {
        StoredObject { revision, ..self.clone() }
    }

    /// How many bytes [`StoredObject::write_json`] writes at most.
    pub fn json_len(&self) -> usize {
        self.raw.len() - self.json + r#""resourceVersion":"18446744073709551615","#.len()
    }

    /// Appends the object as JSON, resourceVersion included.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.raw[self.json..self.splice]);
        // What a dry run shows was never written.
        if self.revision > Revision(0) {
            let separator = if self.raw[self.splice] == b'}' { "" } else { "," };
            write!(out, r#""resourceVersion":"{}"{separator}"#, self.revision.0)
                .expect("writing to memory does not fail");
        }
        out.extend_from_slice(&self.raw[self.splice..]);
    }

    /// Appends the object as JSON without its type, if that is this one. Nothing is written otherwise.
    pub fn write_json_untyped(&self, of_type: &TypePrefix, out: &mut Vec<u8>) -> bool {
        let skipped = self.json + of_type.0.len();
        if !self.raw[self.json..].starts_with(&of_type.0) || skipped > self.splice {
            return false;
        }
        out.push(b'{');
        StoredObject { json: skipped, ..self.clone() }.write_json(out);
        true
    }

    /// The object, resourceVersion included.
    pub fn to_value(&self) -> Result<Value, Corrupt> {
        let mut object: Value = serde_json::from_slice(&self.raw[self.json..]).map_err(|_| Corrupt)?;
        if self.revision > Revision(0)
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("resourceVersion".into(), Value::String(self.revision.0.to_string()));
        }
        Ok(object)
    }
}

/// How the JSON of objects of one type begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePrefix(Vec<u8>);

impl TypePrefix {
    /// Of this type.
    pub fn new(api_version: &str, kind: &str) -> TypePrefix {
        let (api_version, kind) = (Value::from(api_version), Value::from(kind));
        TypePrefix(format!(r#"{{"apiVersion":{api_version},"kind":{kind},"#).into_bytes())
    }
}

fn write_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("a JSON value is always serialised to memory");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(object: &Value, revision: u64) -> Value {
        let stored = StoredObject::decode(StoredObject::encode(object), Revision(revision)).unwrap();
        let mut copied = Vec::new();
        stored.write_json(&mut copied);
        assert!(copied.len() <= stored.json_len());
        let copied: Value = serde_json::from_slice(&copied).unwrap();
        assert_eq!(copied, stored.to_value().unwrap(), "copied bytes and the parsed object agree");
        copied
    }

    #[test]
    fn the_resource_version_is_that_of_the_write() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "3"}, "data": {"k": "\"v\""}});
        let read = shown(&object, 12);
        assert_eq!(read["metadata"], json!({"name": "a", "resourceVersion": "12"}));
        assert_eq!(read["data"], object["data"]);
    }

    #[test]
    fn an_object_differing_by_resource_version_alone_is_stored_alike() {
        let one = json!({"apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "3", "uid": "u"}});
        let two = json!({"apiVersion": "v1", "metadata": {"name": "a", "uid": "u"}});
        assert_eq!(StoredObject::encode(&one), StoredObject::encode(&two));
    }

    #[test]
    fn empty_metadata_takes_a_resource_version_too() {
        assert_eq!(shown(&json!({"metadata": {}}), 1), json!({"metadata": {"resourceVersion": "1"}}));
        assert_eq!(
            shown(&json!({"metadata": {"resourceVersion": "9"}}), 1),
            json!({"metadata": {"resourceVersion": "1"}})
        );
    }

    #[test]
    fn the_api_version_is_known_without_parsing() {
        let raw = StoredObject::encode(&json!({"apiVersion": "example.com/v1", "metadata": {"name": "a"}}));
        assert_eq!(StoredObject::decode(raw, Revision(1)).unwrap().mark(), "example.com/v1");
    }

    #[test]
    fn an_object_is_copied_without_its_type() {
        let object =
            json!({"addressType": "IPv4", "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
        let stored = StoredObject::decode(StoredObject::encode(&object), Revision(3)).unwrap();
        let mut copied = Vec::new();
        assert!(!stored.write_json_untyped(&TypePrefix::new("v1", "Node"), &mut copied));
        assert!(copied.is_empty(), "what is of another type is not touched");
        assert!(stored.write_json_untyped(&TypePrefix::new("v1", "Pod"), &mut copied));
        let copied: Value = serde_json::from_slice(&copied).unwrap();
        assert_eq!(copied, json!({"addressType": "IPv4", "metadata": {"name": "a", "resourceVersion": "3"}}));
    }

    #[test]
    fn other_bytes_are_corrupt() {
        for raw in [&b""[..], b"{}", b"\x01\xff\xff\xff\xff\x00{}", b"\x02\x00\x00\x00\x01\x00{}"] {
            assert_eq!(StoredObject::decode(Bytes::from_static(raw), Revision(1)), Err(Corrupt));
        }
    }
}
