//! Bodies that are written as protobuf. Clients in Go write objects of Kubernetes' own kinds so.
//!
//! A body is four bytes that say what it is, and an envelope: a message that names the kind, around the bytes of the object's own
//! message. A message has numbers where JSON has names. Which name and type a number stands for is in `protobuf/messages.json`,
//! made by `cargo xtask codegen` from Kubernetes' own definitions.
//!
//! ```text
//! wire       bytes → numbered values
//! messages   what the numbers mean
//! object     numbered values → JSON
//! special    what is not in JSON as it is in protobuf: times, quantities, raw JSON
//! ```
//!
//! The result is what the client would have sent had it written JSON: Go writes all numbers, strings and flags of a message, but
//! leaves out of JSON those that are zero and marked so.

use apischema::core;
use serde_json::Value;
use thiserror::Error;

use self::messages::Messages;
use self::wire::{Fields, WireError};
use crate::group::GroupVersion;

mod messages;
mod object;
mod special;
mod wire;

/// What a body begins with.
const PREFIX: &[u8] = b"k8s\0";

/// The kinds that are in every group, and are the same in each.
const OF_EVERY_GROUP: &[&str] = &["CreateOptions", "DeleteOptions", "PatchOptions", "UpdateOptions"];

/// What a body says that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `v1`, `apps/v1`
    pub api_version: String,
    /// `Pod`
    pub kind: String,
}

/// Why a body cannot be read.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ProtobufError {
    /// There is none.
    #[error("empty data")]
    Empty,
    /// It does not begin as it should.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    /// It ends where it should begin.
    #[error("empty body")]
    NoEnvelope,
    /// The message that says what it is cannot be read.
    #[error(transparent)]
    Envelope(WireError),
    /// It does not say which kind it is.
    #[error("Object 'Kind' is missing in 'runtime.TypeMeta{{APIVersion:{:?}, Kind:\"\"}}'", .0.api_version)]
    NoKind(TypeMeta),
    /// It does not say which version its kind is of.
    #[error("Object 'apiVersion' is missing in 'runtime.TypeMeta{{APIVersion:\"\", Kind:{:?}}}'", .0.kind)]
    NoVersion(TypeMeta),
    /// Its kind is not one of Kubernetes' own, which alone are written as protobuf.
    #[error("no kind {:?} is registered for version {:?}", .0.kind, .0.api_version)]
    UnknownKind(TypeMeta),
    /// The object in it cannot be read.
    #[error("{problem}")]
    Object {
        /// What it says that it is.
        type_meta: TypeMeta,
        /// What is wrong with it.
        problem: WireError,
    },
}

impl ProtobufError {
    /// What the body says that it is, if that could be read.
    pub fn type_meta(&self) -> Option<&TypeMeta> {
        match self {
            ProtobufError::Empty
            | ProtobufError::NoPrefix
            | ProtobufError::NoEnvelope
            | ProtobufError::Envelope(_) => None,
            ProtobufError::NoKind(type_meta)
            | ProtobufError::NoVersion(type_meta)
            | ProtobufError::UnknownKind(type_meta)
            | ProtobufError::Object { type_meta, .. } => Some(type_meta),
        }
    }
}

/// Reads an object, with its `apiVersion` and `kind`.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    if body.is_empty() {
        return Err(ProtobufError::Empty);
    }
    let envelope = body.strip_prefix(PREFIX).ok_or(ProtobufError::NoPrefix)?;
    if envelope.is_empty() {
        return Err(ProtobufError::NoEnvelope);
    }
    let (type_meta, object) = open(envelope).map_err(ProtobufError::Envelope)?;
    if type_meta.kind.is_empty() {
        return Err(ProtobufError::NoKind(type_meta));
    }
    if type_meta.api_version.is_empty() {
        return Err(ProtobufError::NoVersion(type_meta));
    }
    let messages = Messages::get();
    let Some(message) = message_name(&type_meta).and_then(|name| messages.find(&name)) else {
        return Err(ProtobufError::UnknownKind(type_meta));
    };
    match object::decode(messages, message, object) {
        Ok(mut fields) => {
            fields.insert("apiVersion".into(), type_meta.api_version.into());
            fields.insert("kind".into(), type_meta.kind.into());
            Ok(Value::Object(fields))
        }
        Err(problem) => Err(ProtobufError::Object { type_meta, problem }),
    }
}

/// What an envelope says that is in it, and what is in it. The envelope says too how that is encoded; nobody heeds it.
fn open(envelope: &[u8]) -> Result<(TypeMeta, &[u8]), WireError> {
    let mut type_meta = TypeMeta::default();
    let mut object: &[u8] = &[];
    let mut fields = Fields::of("Unknown", envelope);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => {
                let mut fields = Fields::of("TypeMeta", value.bytes("TypeMeta")?);
                while let Some((number, value)) = fields.next()? {
                    match number {
                        1 => type_meta.api_version = special::text(value.bytes("APIVersion")?),
                        2 => type_meta.kind = special::text(value.bytes("Kind")?),
                        _ => {}
                    }
                }
            }
            2 => object = value.bytes("Raw")?,
            _ => {}
        }
    }
    Ok((type_meta, object))
}

/// The name of a kind's message; none if it is not one of Kubernetes' own.
fn message_name(type_meta: &TypeMeta) -> Option<String> {
    let TypeMeta { api_version, kind } = type_meta;
    if OF_EVERY_GROUP.contains(&&**kind) {
        return Some(format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"));
    }
    let GroupVersion { group, version } = GroupVersion::parse(api_version).ok()?;
    let kinds = core::kinds();
    let wanted = (&*group, &*version, &**kind);
    let found =
        kinds.binary_search_by(|known| (&*known.group, &*known.version, &*known.kind).cmp(&wanted)).ok()?;
    Some(kinds[found].type_name.clone())
}

#[cfg(test)]
mod tests;
