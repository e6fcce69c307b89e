//! The options of a deletion, from a query or a body.

use apimachinery::{GroupKind, Status, meta};
use apischema::FieldError;
use serde::Deserialize;
use serde_json::Value;

use super::dry_run;
use crate::request::Query;
use crate::verbs::not_registered;

/// What becomes of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They stay.
    Orphan,
    /// They go after the object.
    Background,
    /// They go before the object.
    Foreground,
}

/// What must be so for a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Preconditions {
    /// The object's uid.
    pub uid: Option<String>,
    /// The object's resourceVersion.
    pub resource_version: Option<String>,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Whether everything is done but the write.
    pub dry_run: bool,
    /// How many seconds the object is given; absent for what its kind gives.
    pub grace_period_seconds: Option<i64>,
    /// What must be so.
    pub preconditions: Preconditions,
    /// What becomes of dependents; absent for what the kind does.
    pub propagation: Option<Propagation>,
    /// The older way to say so.
    pub orphan_dependents: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Body {
    dry_run: Option<Vec<String>>,
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
}

impl DeleteOptions {
    /// Reads a body, or where there is none a query.
    pub fn parse(query: &Query, body: Option<Value>) -> Result<DeleteOptions, Status> {
        let body = match body {
            Some(body) => {
                let kind = body.get("kind").and_then(Value::as_str).unwrap_or("DeleteOptions");
                if kind != "DeleteOptions" {
                    let version = Some(meta::api_version(&body)).filter(|version| !version.is_empty());
                    return Err(Status::unexpected(not_registered(version.unwrap_or("v1"), kind)));
                }
                serde_json::from_value(body).map_err(|error| Status::bad_request(error.to_string()))?
            }
            None => Body {
                dry_run: Some(query.all("dryRun").map(String::from).collect()),
                grace_period_seconds: query
                    .number("gracePeriodSeconds")
                    .map_err(|error| Status::bad_request(error.to_string()))?,
                preconditions: None,
                propagation_policy: query.text("propagationPolicy").map(String::from),
                orphan_dependents: query.flag("orphanDependents"),
            },
        };
        body.validate()
    }
}

impl Body {
    fn validate(self) -> Result<DeleteOptions, Status> {
        let mut errors = Vec::new();
        if let (Some(_), Some(policy)) = (self.orphan_dependents, &self.propagation_policy) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", policy.as_str(), detail));
        }
        let propagation = match self.propagation_policy.as_deref() {
            None => None,
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", other, &supported));
                None
            }
        };
        let dry_run = dry_run(&self.dry_run.unwrap_or_default(), &mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "", &errors));
        }
        Ok(DeleteOptions {
            dry_run,
            grace_period_seconds: self.grace_period_seconds,
            preconditions: self.preconditions.unwrap_or_default(),
            propagation,
            orphan_dependents: self.orphan_dependents,
        })
    }
}
