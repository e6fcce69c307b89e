//! What a request asks for besides its verb: the options of a query, or of a body where a deletion has one.

mod delete;

pub use apimachinery::options::FieldValidation;
use apimachinery::options::{DryRun, validate_field_manager};
use apimachinery::{GroupKind, Status};
use apischema::FieldError;

pub use delete::{DeleteOptions, Preconditions, Propagation};

use crate::request::{Query, QueryError};

/// The options of a create, update or patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether everything is done but the write.
    pub dry_run: bool,
    /// Who owns the fields; empty if the client does not say.
    pub field_manager: String,
    /// What happens to unknown fields.
    pub field_validation: FieldValidation,
    /// Whether an apply takes fields from other managers; absent if the client does not say.
    pub force: Option<bool>,
}

/// Whose options they are, which is how errors call them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionsKind {
    /// `CreateOptions`
    Create,
    /// `UpdateOptions`
    Update,
    /// `PatchOptions` of a patch that is no apply.
    Patch,
    /// `PatchOptions` of an apply.
    Apply,
}

impl OptionsKind {
    fn kind(self) -> &'static str {
        match self {
            OptionsKind::Create => "CreateOptions",
            OptionsKind::Update => "UpdateOptions",
            OptionsKind::Patch | OptionsKind::Apply => "PatchOptions",
        }
    }
}

impl WriteOptions {
    /// Reads a query.
    pub fn parse(query: &Query, kind: OptionsKind) -> Result<WriteOptions, Status> {
        let mut errors = Vec::new();
        let options = WriteOptions {
            dry_run: dry_run(&query.all("dryRun").collect::<Vec<_>>(), &mut errors),
            field_manager: query.get("fieldManager").unwrap_or_default().to_owned(),
            field_validation: FieldValidation::parse(query.get("fieldValidation").unwrap_or_default())
                .unwrap_or_else(|error| {
                    errors.push(error);
                    FieldValidation::default()
                }),
            force: query.flag("force"),
        };
        match kind {
            OptionsKind::Apply if options.field_manager.is_empty() => {
                errors.insert(0, FieldError::required("fieldManager", "is required for apply patch"));
            }
            OptionsKind::Patch if options.force.is_some() => {
                errors.insert(0, FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
            _ => {}
        }
        errors.splice(0..0, validate_field_manager(&options.field_manager, "fieldManager"));
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind.kind()), "", &errors))
        }
    }
}

fn dry_run<S: AsRef<str>>(values: &[S], errors: &mut Vec<FieldError>) -> bool {
    let dry_run = DryRun::parse(values).unwrap_or_else(|error| {
        errors.push(error);
        DryRun::All
    });
    dry_run == DryRun::All
}

/// How a list or watch relates to a resourceVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// At that very revision.
    Exact,
    /// At that revision or later.
    NotOlderThan,
}

/// The options of a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Empty for all.
    pub label_selector: String,
    /// Empty for all.
    pub field_selector: String,
    /// Absent if not given; zero for any.
    pub resource_version: Option<u64>,
    /// Absent if not given.
    pub resource_version_match: Option<VersionMatch>,
    /// Zero for no limit.
    pub limit: usize,
    /// Where the next page starts; empty for the first.
    pub continuation: String,
    /// Absent if not given.
    pub timeout_seconds: Option<u64>,
    /// Whether a watch tells its progress.
    pub allow_bookmarks: bool,
    /// Whether a watch begins with what is there; absent if not given.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads a query, for a list or a watch.
    pub fn parse(query: &Query, watch: bool) -> Result<ListOptions, Status> {
        let bad_request = |error: QueryError| Status::bad_request(error.to_string());
        let limit = query.number("limit").map_err(bad_request)?.unwrap_or(0);
        let timeout = query.number("timeoutSeconds").map_err(bad_request)?;

        let resource_version = query.get("resourceVersion").unwrap_or_default();
        let version_match = query.get("resourceVersionMatch").unwrap_or_default();
        let continuation = query.get("continue").unwrap_or_default();
        let send_initial_events = query.flag("sendInitialEvents");

        let errors = if watch {
            watch_errors(version_match, continuation, send_initial_events)
        } else {
            list_errors(resource_version, version_match, continuation, send_initial_events)
        };
        if !errors.is_empty() {
            return Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", &errors));
        }

        Ok(ListOptions {
            label_selector: query.get("labelSelector").unwrap_or_default().to_owned(),
            field_selector: query.get("fieldSelector").unwrap_or_default().to_owned(),
            resource_version: parse_resource_version(resource_version).map_err(|error| {
                // Only of lists Kubernetes expects that it may be no version.
                if watch {
                    return Status::unexpected(error.to_string());
                }
                Status::bad_request(format!("invalid resource version: {error}"))
            })?,
            resource_version_match: match version_match {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            limit: usize::try_from(limit).unwrap_or(0),
            continuation: continuation.to_owned(),
            timeout_seconds: timeout
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0),
            allow_bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events,
        })
    }
}

/// Reads a resourceVersion of a query; absent if it is empty.
pub fn parse_resource_version(text: &str) -> Result<Option<u64>, FieldError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
        let reason = match error.kind() {
            std::num::IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let message = format!("strconv.ParseUint: parsing {text:?}: {reason}");
        FieldError::invalid("resourceVersion", text, message)
    })
}

fn list_errors(
    resource_version: &str,
    version_match: &str,
    continuation: &str,
    send_initial_events: Option<bool>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = "resourceVersionMatch";
    if !version_match.is_empty() {
        if resource_version.is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
        if !continuation.is_empty() {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(version_match, "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(field, version_match, &["Exact", "NotOlderThan", ""]));
        }
        if version_match == "Exact" && resource_version == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    if send_initial_events.is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    errors
}

fn watch_errors(
    version_match: &str,
    continuation: &str,
    send_initial_events: Option<bool>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = "resourceVersionMatch";
    if send_initial_events.is_some() && version_match != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(field, detail));
    }
    if !version_match.is_empty() {
        if send_initial_events.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
        if version_match != "NotOlderThan" {
            errors.push(FieldError::not_supported(field, version_match, &["NotOlderThan"]));
        }
        if !continuation.is_empty() {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
    }
    errors
}
