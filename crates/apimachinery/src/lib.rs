//! What every Kubernetes API does with objects, whatever their kind: selectors, patches, server-side apply, the rules of
//! metadata, and the Status that answers a request gone wrong.
//!
//! Pure: no IO, no clock, no randomness; whoever calls says what time it is. Objects are `serde_json::Value`s, and what a kind is
//! made of comes from an [`apischema::Schema`]. Behaviour and words are those of Kubernetes: clients compare both.
//!
//! ```text
//! fieldvalidation   bytes → objects, and what a strict reader would refuse
//! protobuf          the same from protobuf, for Kubernetes' own kinds
//! options           what a request asks for besides
//! meta              metadata: reading, setting, validating
//! normal_form       how Kubernetes writes objects of its own kinds
//! selector          which objects
//! patch             JSON, merge and strategic merge patch
//! apply             server-side apply and managedFields
//! jsonpath          printer columns
//! status, group     answers, and the names in them
//! format            what names and labels look like
//! ```
//!
//! Start reading at [`apply`] for the part that is hardest to find elsewhere.

pub mod apply;
pub mod fieldvalidation;
pub mod format;
pub mod group;
pub mod jsonpath;
pub mod meta;
pub mod normal_form;
pub mod options;
pub mod patch;
pub mod protobuf;
pub mod selector;
pub mod status;
#[cfg(test)]
mod test_values;
mod time;

pub use group::*;
pub use selector::*;
pub use status::*;
