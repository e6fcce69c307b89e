//! Schemas of Kubernetes kinds, and what a server does with them: pruning, defaulting, validation (CEL rules included) and
//! OpenAPI documents.
//!
//! Pure: no IO, no clock, no randomness, nothing of any particular kind's meaning. Start reading at [`Schema`].

mod field_error;
mod schema;

pub use field_error::{FieldError, FieldErrorKind};
pub use schema::{AdditionalProperties, ListType, MapType, PatchStrategy, Rule, Schema, Type, Validation};
