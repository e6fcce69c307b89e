//! What can be done with objects: each verb, for any kind, on plain values.
//!
//! Whoever calls has read the request and knows that the user may do it. The answer is not yet in any format.

mod create;
mod delete;
mod delete_collection;
mod get;
mod list;
mod metadata;
mod modify;
mod ownership;
mod patch;
mod prepare;
mod scale;
mod type_meta;
mod update;
mod watch;

use apimachinery::Status;
use apimachinery::fieldvalidation::StrictError;
use http::StatusCode;
use serde_json::Value;

pub(crate) use delete::{FOREGROUND, ORPHAN};
pub use list::Listed;
pub(crate) use modify::IfAbsent;
pub use modify::{Existing, Modified, Owner};
pub use ownership::{spec_field, status_field};
pub use patch::{Patch, PatchType};
pub use scale::ScaleWrite;
pub(crate) use type_meta::{missing_kind, not_registered};
pub use watch::{InitialObjects, InitialPage, Phase, Watching};

use crate::storage::StoredObject;

/// An object as a client sent it.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The object.
    pub object: Value,
    /// What a strict reader would refuse in the body.
    pub strict_errors: Vec<StrictError>,
}

impl From<Value> for Submitted {
    /// An object that does not come from a body.
    fn from(object: Value) -> Submitted {
        Submitted { object, strict_errors: Vec::new() }
    }
}

/// What a verb answers.
#[derive(Clone, Debug)]
pub struct Answer {
    /// `200`, mostly.
    pub code: StatusCode,
    /// What is in the body.
    pub content: Content,
}

/// What is in the body of an answer.
#[derive(Clone, Debug)]
pub enum Content {
    /// An object of the resource, as it is stored.
    Stored(StoredObject),
    /// An object of the resource, in the version of the request.
    Object(Value),
    /// A list of the resource's objects.
    List(Listed),
    /// Something else, which is sent as it is: a Scale, a TokenRequest.
    Other(Value),
    /// How it went, where there is no object to show.
    Status(Box<Status>),
}

impl Answer {
    /// An answer to what went as usual.
    pub fn ok(content: Content) -> Answer {
        Answer { code: StatusCode::OK, content }
    }

    /// An answer to what made something.
    pub fn created(content: Content) -> Answer {
        Answer { code: StatusCode::CREATED, content }
    }
}
