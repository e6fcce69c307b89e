//! The versions of a kind. Managers own fields of the version that they wrote.

use std::borrow::Cow;

use apischema::Schema;
use serde_json::Value;

use super::types::Type;

/// What is known of the other versions of a kind.
pub trait Versions {
    /// The schema of a version, if the kind has it.
    fn schema(&self, api_version: &str) -> Option<&Schema>;

    /// An object at another version that the kind has. Nothing if it cannot be converted.
    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Option<Cow<'v, Value>>;
}

/// The version of a request, and the others if there are any.
#[derive(Clone, Copy)]
pub(super) struct KnownVersions<'a> {
    pub(super) api_version: &'a str,
    pub(super) schema: &'a Schema,
    pub(super) others: Option<&'a dyn Versions>,
}

impl<'a> KnownVersions<'a> {
    /// The type of the version of the request.
    pub(super) fn own(&self) -> Type<'a> {
        Type::Object(self.schema)
    }

    /// The type of a version; nothing if the kind does not have it any more.
    pub(super) fn kind(&self, api_version: &str) -> Option<Type<'a>> {
        if api_version == self.api_version {
            return Some(self.own());
        }
        self.others?.schema(api_version).map(Type::Object)
    }

    /// An object of the version of the request at another version.
    pub(super) fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Option<Cow<'v, Value>> {
        if api_version == self.api_version {
            return Some(Cow::Borrowed(object));
        }
        self.others?.convert(object, api_version)
    }
}
