//! What a check found.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Level {
    /// It is as it should be.
    Ok,
    /// It could not be found out.
    Unknown,
    /// It works, and may not be what somebody wants.
    Warning,
    /// Something does not work, or will not.
    Error,
}

/// What it is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Group {
    /// The cluster.
    Cluster,
    /// A node.
    Node(String),
    /// The ways between nodes.
    BetweenNodes,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub(crate) group: Group,
    /// The name of the check, one word: docs/doctor.md has a line for each.
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    /// The object that it is about, if it is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) object: String,
    /// What was found.
    pub(crate) found: String,
    /// Why that matters.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) why: &'static str,
    /// What to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) remedy: String,
}

impl Finding {
    /// Something is as it should be.
    pub(crate) fn ok(group: Group, check: &'static str, found: impl Into<String>) -> Self {
        Self {
            group,
            check,
            level: Level::Ok,
            object: String::new(),
            found: found.into(),
            why: "",
            remedy: String::new(),
        }
    }

    /// It could not be found out, for this reason.
    pub(crate) fn unknown(group: Group, check: &'static str, reason: impl Into<String>) -> Self {
        Self { level: Level::Unknown, ..Self::ok(group, check, reason) }
    }

    /// It may not be what somebody wants.
    pub(crate) fn warning(
        group: Group,
        check: &'static str,
        found: impl Into<String>,
        why: &'static str,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Warning, why, remedy: remedy.into(), ..Self::ok(group, check, found) }
    }

    /// Something does not work.
    pub(crate) fn error(
        group: Group,
        check: &'static str,
        found: impl Into<String>,
        why: &'static str,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Error, ..Self::warning(group, check, found, why, remedy) }
    }

    /// The object that it is about.
    pub(crate) fn of(mut self, object: impl Into<String>) -> Self {
        self.object = object.into();
        self
    }
}
