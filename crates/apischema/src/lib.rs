//! Schemas of Kubernetes kinds, and what a server does with them: pruning, defaulting, validation (CEL rules included) and
//! OpenAPI documents.
//!
//! Pure: no IO, no clock, no randomness. It knows the types and defaults of Kubernetes' own kinds, and nothing of any other
//! kind's meaning. What it says is what kube-apiserver 1.34 says, to the letter where clients may look at it.
//!
//! ```text
//!              CRD's JSON ── structural_errors ──▶ refused, or
//!                  │
//!            Schema::from_json ──▶ Schema ──▶ CompiledSchema (CEL rules compiled once)
//!                                    │               │
//! object ── decode_error ── prune ── default ──▶ validate ──▶ FieldErrors, in the words of kube-apiserver
//! ```
//!
//! For kinds of Kubernetes itself [`core`] has the schemas, and [`core::default`] in place of [`default()`]. Start reading at
//! [`Schema`].

mod cel;
mod compiled;
pub mod core;
mod decode;
mod defaults;
mod field_error;
mod field_path;
mod formats;
pub mod go_text;
mod path;
mod prune;
mod quantity;
mod rules;
mod schema;
mod structural;
mod url;
mod validate;

pub use compiled::CompiledSchema;
pub use decode::decode_error;
pub use defaults::default;
pub use field_error::{FieldError, FieldErrorKind};
pub use field_path::resolve as resolve_field_path;
pub use formats::unrecognized_formats;
pub use path::Path;
pub use prune::prune;
pub use quantity::{Precision, Quantity};
pub use schema::{
    AdditionalProperties, CompiledPattern, Components, ListType, MapType, PatchStrategy, Rule, Schema,
    SchemaError, Type, Validation,
};
pub use structural::{StatusSubresource, structural_errors};
pub use validate::validate;
