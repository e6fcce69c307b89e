//! What a client wants to be answered with: the `Accept` header.

use apimachinery::Status;
use apischema::FieldError;

use crate::request::Query;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

/// What of an object an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All of it.
    Object,
    /// Its metadata, as a `PartialObjectMetadata` of that version or a list of them.
    Metadata(MetaVersion, MetadataOf),
    /// A row of a `Table` of that version.
    Table(MetaVersion, TableObject),
}

/// Whether metadata is asked for as that of one object or of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataOf {
    /// `PartialObjectMetadata`
    One,
    /// `PartialObjectMetadataList`
    Many,
}

/// The version of `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// `meta.k8s.io/v1`
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What a row of a table has of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableObject {
    /// Nothing.
    None,
    /// The metadata.
    Metadata,
    /// All of it.
    Object,
}

/// What a client wants to be answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// How it is written.
    pub format: Format,
    /// What it shows.
    pub shape: Shape,
    /// Whether it is for people.
    pub pretty: bool,
}

/// What the request is for, which limits what it can be answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An object.
    One,
    /// A list.
    Many,
    /// A stream of events.
    Stream,
}

/// The media types that answers are said to come in. Protobuf is named as Kubernetes does, whose clients all take JSON too.
pub(crate) const FORMATS: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// The same for streams.
pub(crate) const STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

impl Accepted {
    /// Reads the `Accept` header, and what the query says about tables.
    pub fn negotiate(
        header: &str,
        query: &Query,
        user_agent: &str,
        purpose: Purpose,
    ) -> Result<Accepted, Status> {
        let pretty = is_pretty(query, user_agent);
        if header.trim().is_empty() {
            return Ok(Accepted { format: Format::Json, shape: Shape::Object, pretty });
        }
        for clause in clauses(header) {
            if let Some(mut accepted) = clause.accepted(purpose) {
                accepted.pretty |= pretty;
                if let Shape::Table(version, _) = accepted.shape {
                    accepted.shape = Shape::Table(version, table_object(query)?);
                }
                return Ok(accepted);
            }
        }
        // What would do for a list does not for a stream.
        let listed = purpose == Purpose::Stream
            && clauses(header).iter().any(|clause| clause.accepted(Purpose::Many).is_some());
        Err(Status::not_acceptable(if listed { &STREAMS } else { &FORMATS }))
    }

    /// The same where there is nothing to choose but the format; absent if the client takes none.
    pub fn plain(header: &str, query: &Query, user_agent: &str) -> Option<Accepted> {
        let format = if header.trim().is_empty() {
            Format::Json
        } else {
            let clauses = clauses(header);
            let accepted = clauses.iter().filter_map(|clause| clause.accepted(Purpose::One));
            accepted.into_iter().find(|accepted| accepted.shape == Shape::Object)?.format
        };
        Some(Accepted { format, shape: Shape::Object, pretty: is_pretty(query, user_agent) })
    }
}

/// Whether the answer is for people.
fn is_pretty(query: &Query, user_agent: &str) -> bool {
    match query.text("pretty") {
        Some(pretty) => matches!(pretty, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => ["curl", "Wget", "Mozilla/5.0"].iter().any(|start| user_agent.starts_with(start)),
    }
}

fn table_object(query: &Query) -> Result<TableObject, Status> {
    match query.get("includeObject").unwrap_or_default() {
        "" | "Metadata" => Ok(TableObject::Metadata),
        "None" => Ok(TableObject::None),
        "Object" => Ok(TableObject::Object),
        other => {
            let error =
                FieldError::invalid("includeObject", other, "must be 'Metadata', 'Object', 'None', or empty");
            Err(Status::bad_request(format!("Unable to convert to Table as requested: {error}")))
        }
    }
}

struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// The clauses of an `Accept` header, the most wanted first.
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header
        .split(',')
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let mut quality = 1.0;
            let mut parameters = Vec::new();
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                if name == "q" {
                    quality = value.parse().unwrap_or(1.0);
                } else {
                    parameters.push((name, value.trim_matches('"')));
                }
            }
            Clause { media_type, parameters, quality }
        })
        .collect();
    // The sort is stable: equally wanted ones stay in order.
    clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    clauses
}

impl Clause<'_> {
    fn accepted(&self, purpose: Purpose) -> Option<Accepted> {
        let format = match self.media_type {
            "application/json" | "application/*" | "*/*" => Format::Json,
            "application/yaml" if purpose != Purpose::Stream => Format::Yaml,
            _ => return None,
        };
        let parameter =
            |wanted: &str| self.parameters.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        if parameter("stream").is_some_and(|stream| stream != "watch") {
            return None;
        }
        let shape = match (parameter("as"), parameter("g"), parameter("v")) {
            (None, None, None) => Shape::Object,
            (Some(kind), Some("meta.k8s.io"), Some(version)) => {
                let version = match version {
                    "v1" => MetaVersion::V1,
                    "v1beta1" => MetaVersion::V1Beta1,
                    _ => return None,
                };
                match (kind, purpose) {
                    ("Table", _) => Shape::Table(version, TableObject::Metadata),
                    ("PartialObjectMetadata", _) => Shape::Metadata(version, MetadataOf::One),
                    ("PartialObjectMetadataList", Purpose::One | Purpose::Many) => {
                        Shape::Metadata(version, MetadataOf::Many)
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(Accepted { format, shape, pretty: parameter("pretty") == Some("1") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiate(header: &str, purpose: Purpose) -> Option<Accepted> {
        Accepted::negotiate(header, &Query::default(), "kubectl", purpose).ok()
    }

    fn json(shape: Shape) -> Option<Accepted> {
        Some(Accepted { format: Format::Json, shape, pretty: false })
    }

    #[test]
    fn kubectl_gets_tables_and_others_get_objects() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let table = Shape::Table(MetaVersion::V1, TableObject::Metadata);
        assert_eq!(negotiate(kubectl, Purpose::Many), json(table));
        for header in ["", "*/*", "application/json", "application/*", "text/html, */*;q=0.1"] {
            assert_eq!(negotiate(header, Purpose::One), json(Shape::Object), "{header}");
        }
    }

    #[test]
    fn clients_that_want_protobuf_fall_back_to_json_if_they_can() {
        assert_eq!(
            negotiate("application/vnd.kubernetes.protobuf, application/json", Purpose::One),
            json(Shape::Object)
        );
        assert_eq!(negotiate("application/vnd.kubernetes.protobuf", Purpose::One), None);
    }

    #[test]
    fn the_most_wanted_comes_first() {
        assert_eq!(
            negotiate("application/json;q=0.5, application/yaml", Purpose::One)
                .map(|accepted| accepted.format),
            Some(Format::Yaml)
        );
    }

    #[test]
    fn streams_are_json() {
        assert_eq!(negotiate("application/json;stream=watch", Purpose::Stream), json(Shape::Object));
        assert_eq!(negotiate("application/yaml", Purpose::Stream), None);
        assert_eq!(negotiate("application/json;stream=other", Purpose::Stream), None);
    }

    #[test]
    fn metadata_of_lists_and_of_objects_are_called_differently() {
        let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let many = json(Shape::Metadata(MetaVersion::V1, MetadataOf::Many));
        assert_eq!(negotiate(list, Purpose::Many), many);
        assert_eq!(
            negotiate(list, Purpose::One),
            many,
            "who is asked for one object finds out when it is shown"
        );
        assert_eq!(negotiate(list, Purpose::Stream), None);
    }
}
