//! A case: a file of requests.
//!
//! ```yaml
//! # A deleted object is not found any more.
//! given:                                    # what must succeed first; it is not recorded
//! - request: POST /api/v1/namespaces/{{ns}}/configmaps
//!   body: {metadata: {name: chart}}
//! steps:
//! - request: DELETE /api/v1/namespaces/{{ns}}/configmaps/chart
//! - request: GET /api/v1/namespaces/{{ns}}/configmaps/chart
//! ```

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::path::Path;

/// What a client relies on, and the requests that show it.
///
/// Its variables are `{{ns}}`, a namespace of its own that exists; `{{id}}`, a DNS label of its own, for what is not in a
/// namespace; `{{group}}`, an API group of its own, for a [`Crd`]; and what its steps capture.
#[derive(Clone, Debug)]
pub struct Case {
    /// `topic/name`, after its file.
    pub name: String,
    /// What a client relies on.
    pub purpose: String,
    /// What must succeed before the steps, and is not recorded.
    pub given: Vec<Step>,
    /// What is recorded.
    pub steps: Vec<Step>,
    /// The file's text. A value that is written in it is not taken for a volatile one.
    pub(crate) text: String,
}

/// One step of a case.
#[derive(Clone, Debug)]
pub enum Step {
    /// A request and its answer.
    Request(Request),
    /// A watch and its events.
    Watch(Watch),
    /// A CRD that is made, and awaited until it is served.
    Crd(Crd),
}

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Method, path and, if it needs no encoding, query.
    pub request: String,
    /// The query, not encoded.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// Headers. The defaults are `Accept: application/json` and, with a body and unless it is a patch,
    /// `Content-Type: application/json`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Who asks: one of the [`USERS`](crate::USERS), `pilot` (by certificate), `stranger` (by a token that nobody knows) or
    /// `anonymous`.
    #[serde(default = "admin", rename = "as")]
    pub user: String,
    /// The body, sent as JSON.
    pub body: Option<Value>,
    /// The body, sent as it is.
    pub raw: Option<String>,
    /// Variables, and where in the answer their values are.
    #[serde(default)]
    pub capture: BTreeMap<String, Path>,
    /// If not empty, only these parts of the answer are recorded.
    #[serde(default)]
    pub pick: Vec<Path>,
    /// The request is repeated until the answer has these values; for what a server does after it has answered.
    #[serde(default)]
    pub until: BTreeMap<Path, Value>,
}

/// A watch. It lasts for a number of events, until a certain event, or else until the server ends it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// The path and, if it needs no encoding, query; `watch=true` is added.
    pub watch: String,
    /// The query, not encoded.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// Headers, as of a [`Request`].
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Who asks, as of a [`Request`].
    #[serde(default = "admin", rename = "as")]
    pub user: String,
    /// Steps to do as soon as the server has accepted the watch.
    #[serde(default, deserialize_with = "steps")]
    pub during: Vec<Step>,
    /// How many events to wait for.
    pub events: Option<usize>,
    /// The last event to wait for has these values.
    #[serde(default)]
    pub until: BTreeMap<Path, Value>,
    /// Variables, and where in the list of events their values are.
    #[serde(default)]
    pub capture: BTreeMap<String, Path>,
    /// If not empty, only these parts of each event are recorded.
    #[serde(default)]
    pub pick: Vec<Path>,
}

/// A CRD in the group `{{group}}` with one version, `v1`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crd {
    /// Its kind; the plural name is that in lower case with an `s`.
    pub crd: String,
    /// `Namespaced` unless set.
    #[serde(default = "namespaced")]
    pub scope: String,
    /// The schemas of an object's top-level fields.
    #[serde(default)]
    pub schema: BTreeMap<String, Value>,
    /// What else the version has, such as subresources.
    #[serde(default)]
    pub version: BTreeMap<String, Value>,
}

impl Step {
    /// What is asked, as the recording says it, variables not filled in; none of a CRD.
    pub fn title(&self) -> Option<String> {
        match self {
            Step::Request(request) => Some(request.title()),
            Step::Watch(watch) => Some(watch.title()),
            Step::Crd(_) => None,
        }
    }
}

impl Request {
    pub(crate) fn title(&self) -> String {
        title(&self.request, &self.query, &self.user)
    }
}

impl Watch {
    pub(crate) fn title(&self) -> String {
        title(&format!("WATCH {}", self.watch), &self.query, &self.user)
    }
}

fn title(request: &str, query: &BTreeMap<String, String>, user: &str) -> String {
    let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let request = with_query(request, &query);
    if user == "admin" { request } else { format!("{request} as {user}") }
}

/// A path, or a path with a query, with more of a query.
pub(crate) fn with_query(target: &str, query: &[String]) -> String {
    match query.join("&") {
        query if query.is_empty() => target.to_owned(),
        query if target.contains('?') => format!("{target}&{query}"),
        query => format!("{target}?{query}"),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, deserialize_with = "steps")]
    given: Vec<Step>,
    #[serde(deserialize_with = "steps")]
    steps: Vec<Step>,
}

fn admin() -> String {
    "admin".into()
}

fn namespaced() -> String {
    "Namespaced".into()
}

impl Case {
    /// Reads a case from its file below the directory of all cases.
    pub fn read(directory: &FilePath, name: &str) -> Result<Self> {
        let file = directory.join(format!("{name}.yaml"));
        let text = std::fs::read_to_string(&file)
            .map_err(|source| Error::File { file: file.display().to_string(), source })?;
        Self::parse(name, text)
    }

    fn parse(name: &str, text: String) -> Result<Self> {
        let malformed = |problem: String| Error::Malformed { file: format!("{name}.yaml"), problem };
        let purpose: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
        if purpose.is_empty() {
            return Err(malformed("the first line does not say what a client relies on".into()));
        }
        let file: File = yaml(&text).map_err(malformed)?;
        if file.steps.is_empty() {
            return Err(malformed("there are no steps".into()));
        }
        Ok(Self {
            name: name.to_owned(),
            purpose: purpose.join(" "),
            given: file.given,
            steps: file.steps,
            text,
        })
    }

    /// The directory that its file is in.
    pub fn topic(&self) -> &str {
        self.name.split_once('/').map_or("", |(topic, _)| topic)
    }
}

/// Reads YAML by way of a JSON value: its errors name the field.
pub(crate) fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    // YAML 1.2: `no` is a word.
    let options = serde_saphyr::options! { strict_booleans: true };
    let value: Value =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn steps<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    let steps = Vec::<Value>::deserialize(deserializer)?;
    steps.into_iter().map(|value| step(value).map_err(serde::de::Error::custom)).collect()
}

fn step(value: Value) -> Result<Step, String> {
    let whole = value.to_string();
    if value.get("watch").is_some() {
        serde_json::from_value(value).map(Step::Watch)
    } else if value.get("crd").is_some() {
        serde_json::from_value(value).map(Step::Crd)
    } else {
        serde_json::from_value(value).map(Step::Request)
    }
    .map_err(|error| format!("{error} in {whole}"))
}

#[cfg(test)]
mod tests {
    use super::{Case, Step};

    #[test]
    fn a_case_is_its_purpose_and_its_steps() {
        let text = "# One line,\n# and another.\nsteps:\n- request: GET /api\n  as: alice\n- watch: /api/v1/pods\n  \
                    events: 2\n  during:\n  - request: GET /version\n";
        let case = Case::parse("topic/name", text.into()).unwrap();
        assert_eq!((case.topic(), case.purpose.as_str()), ("topic", "One line, and another."));
        let [Step::Request(request), Step::Watch(watch)] = &case.steps[..] else {
            panic!("{:?}", case.steps)
        };
        assert_eq!((request.request.as_str(), request.user.as_str()), ("GET /api", "alice"));
        assert_eq!((watch.during.len(), watch.events), (1, Some(2)));
    }

    #[test]
    fn a_misspelled_field_is_an_error_that_names_it() {
        let text = "# Purpose.\nsteps:\n- request: GET /api\n  pik: [.a]\n";
        let error = Case::parse("topic/name", text.into()).unwrap_err().to_string();
        assert!(error.contains("pik"), "{error}");
        assert!(Case::parse("topic/name", "steps: [{request: GET /api}]".into()).is_err());
    }

    #[test]
    fn words_are_texts_and_not_booleans() {
        let text =
            "# Purpose.\nsteps:\n- request: GET /api\n  body: {a: y, b: no, c: on, d: true, e: 12, f: 1.0}\n";
        let case = Case::parse("topic/name", text.into()).unwrap();
        let Step::Request(request) = &case.steps[0] else { panic!() };
        let body = request.body.as_ref().unwrap().to_string();
        assert_eq!(body, r#"{"a":"y","b":"no","c":"on","d":true,"e":12,"f":1.0}"#);
    }
}
