//! What is recorded of an HTTP answer.

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use http::{HeaderMap, header};
use serde_json::Value;

use super::malformed;
use crate::client::Answer;
use crate::error::Result;
use crate::normalize::HEADERS;

/// The body as a value: of JSON and YAML what it says, of anything else its text.
pub(super) fn decoded(answer: &Answer) -> Result<Value> {
    let header = |name| answer.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let unreadable = |problem: String| malformed("the answer", &problem);
    let body = if header(header::CONTENT_ENCODING) == "gzip" {
        let mut body = Vec::new();
        GzDecoder::new(answer.body.as_ref())
            .read_to_end(&mut body)
            .map_err(|error| unreadable(error.to_string()))?;
        body
    } else {
        answer.body.to_vec()
    };
    let text = String::from_utf8(body).map_err(|error| unreadable(error.to_string()))?;
    let content_type = header(header::CONTENT_TYPE);
    if content_type.starts_with("application/json") {
        serde_json::from_str(&text).map_err(|error| unreadable(format!("{error} in {text:?}")))
    } else if content_type.starts_with("application/yaml") {
        serde_saphyr::from_str(&text).map_err(|error| unreadable(format!("{error} in {text:?}")))
    } else {
        Ok(Value::String(text))
    }
}

/// The headers that are recorded.
pub(super) fn recorded(headers: &HeaderMap) -> BTreeMap<String, Value> {
    let texts = |name: &str| -> Vec<Value> {
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into()).collect()
    };
    HEADERS
        .iter()
        .filter_map(|name| match &texts(name)[..] {
            [] => None,
            [one] => Some(((*name).to_owned(), one.clone())),
            several => Some(((*name).to_owned(), Value::Array(several.to_vec()))),
        })
        .collect()
}
