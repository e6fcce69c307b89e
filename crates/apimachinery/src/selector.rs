//! Selectors: which objects a list, a watch or a policy is about.

mod field;
mod label;
mod label_parser;

pub use field::{FieldOperator, FieldRequirement, FieldSelector};
pub use label::{LabelOperator, LabelRequirement, LabelSelector};

/// Why a text or an object is no selector. A server answers 400 with this message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// It does not follow the grammar, or has a key or a value that no label can have.
    #[error("{0}")]
    Malformed(String),
    /// The kind cannot be selected by this field.
    #[error("field label not supported: {0}")]
    UnsupportedField(String),
    /// The kind cannot be selected by any field but its name.
    #[error("{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", apischema::go_text::quote(.0))]
    UnknownField(String),
}
