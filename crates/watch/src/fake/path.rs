//! What a request is about.

use http::request::Parts;

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) is_status: bool,
    pub(super) watches: bool,
    pub(super) from_version: Option<u64>,
    pub(super) field_selector: Option<String>,
    pub(super) limit: Option<usize>,
    pub(super) continues: Option<String>,
}

impl Target {
    pub(super) fn collection(group: &str, version: &str, plural: &str) -> Self {
        Target { group: group.into(), version: version.into(), plural: plural.into(), ..Target::default() }
    }

    pub(super) fn parse(parts: &Parts) -> Option<Self> {
        let mut segments = parts.uri.path().trim_start_matches('/').split('/');
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        let version = segments.next()?;
        let mut rest: Vec<&str> = segments.collect();
        let namespace = match rest.as_slice() {
            ["namespaces", namespace, _, ..] => {
                let namespace = (*namespace).to_owned();
                rest.drain(..2);
                Some(namespace)
            }
            _ => None,
        };
        let mut target = Target::collection(group, version, rest.first()?);
        target.namespace = namespace;
        target.name = rest.get(1).map(ToString::to_string);
        target.is_status = rest.get(2) == Some(&"status");
        for (key, value) in parts.uri.query().unwrap_or_default().split('&').filter_map(|p| p.split_once('='))
        {
            match key {
                "watch" => target.watches = value == "true",
                "resourceVersion" => target.from_version = value.parse().ok(),
                "fieldSelector" => target.field_selector = Some(value.replace("%3D", "=")),
                "limit" => target.limit = value.parse().ok(),
                "continue" => target.continues = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(target)
    }
}

/// A request as rules and the log know it: `GET /api/v1/pods`, `WATCH /api/v1/pods`, `PATCH /apis/…/status`.
pub(super) fn request_line(parts: &Parts) -> String {
    let watches = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
    let method = if watches { "WATCH" } else { parts.method.as_str() };
    format!("{method} {}", parts.uri.path())
}
