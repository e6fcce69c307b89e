//! Whether what a client sent is of the kind and version that its path is about.

use apimachinery::{GroupKind, GroupVersion, Status, meta};
use apischema::FieldError;
use serde_json::{Map, Value};

use crate::endpoint::Endpoint;
use crate::verbs::{Patch, PatchType};

// Where Kubernetes' code has its list of kinds, which its messages name.
const SCHEME: &str = "pkg/runtime/scheme.go:110";

impl Endpoint {
    /// An object of one of the server's kinds that does not say its type is of this endpoint's. A custom resource has said it.
    pub(super) fn settle_type(&self, object: &mut Value) -> Result<(), Status> {
        if object.is_null() {
            *object = Value::Object(Map::new());
        }
        let given = (meta::kind(object).to_owned(), meta::api_version(object).to_owned());
        self.settle(object, apischema::core::decode_error).map_err(|why| {
            let kind = Some(given.0).filter(|given| !given.is_empty());
            let version = GroupVersion::parse(&given.1).ok().map(|parsed| parsed.version);
            let version = version.filter(|version| !version.is_empty());
            Status::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: {why}",
                kind.as_ref().unwrap_or(&self.resource.kind),
                version.as_ref().unwrap_or(&self.version().name),
                self.resource.kind
            ))
        })
    }

    /// The same for what a patch made of an object.
    pub(super) fn settle_patched_type(&self, object: &mut Value, patch: &Patch) -> Result<(), Status> {
        if self.resource.is_custom() && meta::kind(object).is_empty() {
            return Err(bad_patch(object.to_string(), &missing_kind(&object.to_string())));
        }
        // Kubernetes makes the object of the patched fields by their names, and its type is a matter of its own.
        if patch.kind == PatchType::Strategic
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        let decode_error = match patch.kind {
            PatchType::Strategic => apischema::core::conversion_error,
            PatchType::Json | PatchType::Merge | PatchType::Apply => apischema::core::decode_error,
        };
        let shown = patch.shown_in_errors(object);
        self.settle(object, decode_error).map_err(|why| bad_patch(shown, &why))
    }

    /// Why it cannot be read as an object of the kind, if it cannot. `decode_error` says it of one of the server's kinds.
    fn settle(
        &self,
        object: &mut Value,
        decode_error: fn(&str, &str, &str, &Value) -> Option<String>,
    ) -> Result<(), String> {
        let (kind, api_version) = (&self.resource.kind, self.api_version());
        let Some(fields) = object.as_object_mut() else {
            return Err(format!("json: cannot unmarshal into Go value of type {kind}"));
        };
        let given = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        if !self.resource.is_custom() {
            let of_version = given("apiVersion").unwrap_or(&api_version);
            let of_kind = given("kind").unwrap_or(kind);
            if (of_kind, of_version) != (kind.as_str(), api_version.as_str()) {
                return Err(self.unconvertible(of_version, of_kind));
            }
            fields.insert("kind".into(), kind.as_str().into());
            fields.insert("apiVersion".into(), api_version.into());
        }
        let error = match &self.version().schema {
            Some(schema) if schema.type_name.is_some() => {
                decode_error(&self.resource.group, &self.version().name, kind, object)
            }
            Some(schema) => apischema::decode_error(object, schema),
            None => meta::type_error(object),
        };
        error.map_or(Ok(()), Err)
    }

    /// Why an object of another type is none of this endpoint's.
    fn unconvertible(&self, api_version: &str, kind: &str) -> String {
        let GroupVersion { group, version } = GroupVersion::parse(api_version).unwrap_or_default();
        let is_known = apischema::core::schema(&group, &version, kind).is_some();
        if is_known {
            let target = self.resource.go_type();
            return format!("converting ({version}.{kind}) to ({target}): unknown conversion");
        }
        not_registered(api_version, kind)
    }

    /// A body that cannot be read as an object of the kind.
    pub(super) fn not_handled(&self, why: &str) -> Status {
        let (kind, version) = (&self.resource.kind, &self.version().name);
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    }

    /// A custom resource of this version is what is sent here; another is refused before it is looked at.
    pub(crate) fn check_custom_version(&self, object: &Value) -> Result<(), Status> {
        let (given, expected) = (meta::api_version(object), self.api_version());
        if !self.resource.is_custom() || given == expected {
            return Ok(());
        }
        Err(Status::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({expected})"
        )))
    }

    /// A custom resource may say that it is of any type until it is checked with all else.
    pub(super) fn check_custom_type(&self, object: &Value) -> Result<(), Status> {
        if !self.resource.is_custom() {
            return Ok(());
        }
        let (kind, api_version) = (meta::kind(object), self.api_version());
        let must_be = |field: &str, given: &str, expected: &str| {
            (given != expected).then(|| FieldError::invalid(field, given, format!("must be {expected}")))
        };
        let error = must_be("kind", kind, &self.resource.kind)
            .or_else(|| must_be("apiVersion", meta::api_version(object), &api_version));
        error.map_or(Ok(()), |error| {
            let kind = GroupKind::new(&self.resource.group, kind);
            Err(Status::invalid(&kind, meta::name(object), &[error]))
        })
    }
}

/// What an object of a kind that nobody knows is told.
pub(crate) fn not_registered(api_version: &str, kind: &str) -> String {
    format!("no kind {kind:?} is registered for version {api_version:?} in scheme {SCHEME:?}")
}

/// What an object without a kind is told.
pub(crate) fn missing_kind(text: &str) -> String {
    format!("Object 'Kind' is missing in '{text}'")
}

/// A patch that makes something unreadable of an object.
pub(super) fn bad_patch(shown: String, why: &str) -> Status {
    Status::invalid(&GroupKind::default(), "", &[FieldError::invalid("patch", shown, why)])
}
