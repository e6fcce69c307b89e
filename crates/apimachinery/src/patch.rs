//! Patches: three ways to say what of an object changes.
//!
//! [`json`] is a list of operations (RFC 6902), [`merge()`] an object that looks like the change (RFC 7396), [`strategic()`] such
//! an object whose lists are merged by the keys that the schema names. Where kube-apiserver differs from the RFCs, so do these:
//! clients have come to rely on it.

mod body;
mod json_patch;
mod merge;
mod strategic;

pub use body::{decode_json_patch, decode_merge_patch, decode_strategic_patch};
pub use json_patch::{JsonPatch, MAX_OPERATIONS, json};
pub use merge::merge;
pub use strategic::strategic;

use crate::status::Status;

/// The deepest that an object may nest. The patches and configurations that come over the wire are parsed with about this limit;
/// a JSON patch could go beyond it by moving things into each other, and nobody could read the object any more.
pub const MAX_DEPTH: usize = 120;

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is not what a patch of its kind looks like: 400.
    #[error("{0}")]
    Malformed(String),
    /// It does not fit the object: 422. The client is not told what exactly is wrong, as Kubernetes does not tell either.
    #[error("{0}")]
    Inapplicable(String),
    /// It is too long: 413.
    #[error("{0}")]
    TooLarge(String),
    /// It cannot be made sense of: 400, though Kubernetes answers 500.
    #[error("{0}")]
    Unexpected(String),
}

impl From<PatchError> for Status {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::Malformed(message) => Status::bad_request(message),
            PatchError::Inapplicable(_) => Status::unprocessable(),
            PatchError::TooLarge(message) => Status::request_entity_too_large(message),
            PatchError::Unexpected(message) => Status::unexpected(message),
        }
    }
}
