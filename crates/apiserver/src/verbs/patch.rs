//! Changing parts of an object.

use apimachinery::Status;
use apimachinery::fieldvalidation::{self, Decoded, StrictError};
use apimachinery::patch;
use apischema::{Schema, go_text};
use bytes::Bytes;
use serde_json::Value;

use super::modify::{Existing, IfAbsent, Owner};
use crate::api::Api;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::options::{FieldValidation, WriteOptions};
use crate::verbs::Answer;

/// How a patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own: lists are merged as their schema says.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// The type that a media type stands for.
    pub fn of_media_type(media_type: &str) -> Option<PatchType> {
        match media_type {
            "application/json-patch+json" => Some(PatchType::Json),
            "application/merge-patch+json" => Some(PatchType::Merge),
            "application/strategic-merge-patch+json" => Some(PatchType::Strategic),
            "application/apply-patch+yaml" => Some(PatchType::Apply),
            _ => None,
        }
    }

    /// The media types of patches.
    pub const MEDIA_TYPES: [&str; 4] = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];
}

/// A patch as the client sent it.
#[derive(Clone, Debug)]
pub struct Patch {
    /// How it is written.
    pub kind: PatchType,
    /// What was sent.
    pub body: Bytes,
}

impl Api {
    /// Changes parts of an object.
    pub async fn patch(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let (if_absent, owner) = match patch.kind {
            // What is not there has no subresources.
            PatchType::Apply if endpoint.subresource.is_empty() => (IfAbsent::Create, Owner::Settled),
            PatchType::Apply => (IfAbsent::Fail, Owner::Settled),
            _ => (IfAbsent::Fail, Owner::Writer),
        };
        let mut change = |existing: Existing<'_>| {
            let (new, strict_errors) = patch.apply(endpoint, context, existing, options)?;
            Ok((endpoint.accept_patched(new, patch, strict_errors, context, options)?, owner))
        };
        let modified = self.modify(endpoint, context, options, if_absent, &mut change).await?;
        Ok(modified.into())
    }
}

impl Patch {
    /// What the patch makes of what is there, and what a strict reader would refuse in it.
    pub(super) fn apply(
        &self,
        endpoint: &Endpoint,
        context: &Context,
        existing: Existing<'_>,
        options: &WriteOptions,
    ) -> Result<(Value, Vec<StrictError>), Status> {
        let old = match existing {
            Existing::Object(old) => Some(old),
            Existing::Nothing => None,
        };
        if self.kind == PatchType::Apply {
            let configuration = self.read_configuration(context, options)?;
            return Ok((endpoint.apply(context, old, &configuration, options)?, Vec::new()));
        }
        let old = old.ok_or_else(|| endpoint.resource.not_found(&endpoint.name))?;
        self.change(old, endpoint.version().schema.as_deref(), endpoint, options.field_validation)
    }

    /// What a patch that is no apply makes of an object of a schema.
    pub(super) fn change(
        &self,
        old: &Value,
        schema: Option<&Schema>,
        endpoint: &Endpoint,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<StrictError>), Status> {
        match (self.kind, schema) {
            (PatchType::Json, _) => {
                let (patch, strict_errors) = patch::decode_json_patch(&self.body, validation)?;
                Ok((patch.apply(old.clone())?, strict_errors))
            }
            (PatchType::Merge, _) => {
                let Decoded { value, strict_errors } = patch::decode_merge_patch(&self.body, validation)?;
                Ok((patch::merge(old, value)?, strict_errors))
            }
            (PatchType::Strategic, Some(schema)) => {
                let Decoded { value, strict_errors } = patch::decode_strategic_patch(&self.body)?;
                Ok((patch::strategic(old, value, schema)?, strict_errors))
            }
            _ => Err(Status::unsupported_media_type(endpoint.resource.patch_types())),
        }
    }

    /// What an error shows of what cannot be read: the object that the patch made, or of a strategic merge patch the patch itself.
    pub(super) fn shown_in_errors(&self, patched: &Value) -> String {
        let strategic =
            (self.kind == PatchType::Strategic).then(|| patch::decode_strategic_patch(&self.body));
        match strategic {
            Some(Ok(patch)) => go_text::plain(&patch.value),
            Some(Err(_)) | None => patched.to_string(),
        }
    }

    /// The configuration that is applied.
    pub(super) fn read_configuration(
        &self,
        context: &Context,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        let Decoded { value, strict_errors } = fieldvalidation::decode_yaml(&self.body)
            .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
        match options.field_validation {
            FieldValidation::Strict if !strict_errors.is_empty() => {
                let errors: Vec<_> = strict_errors.iter().map(StrictError::to_string).collect();
                Err(Status::bad_request(format!("error strict decoding YAML: {}", errors.join(", "))))
            }
            FieldValidation::Warn => {
                context.warn_all(fieldvalidation::warnings(&strict_errors));
                Ok(value)
            }
            FieldValidation::Ignore | FieldValidation::Strict => Ok(value),
        }
    }
}
