//! Makes HTTP requests of the steps of a case.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, Request as HttpRequest};
use http_body_util::Full;

use super::{Run, malformed};
use crate::case::{Request, Watch, with_query};
use crate::error::Result;

/// The manager of the fields that a case writes, unless it names another.
const USER_AGENT: &str = "conformance/1.0";

impl Run {
    pub(super) fn http_request(&self, request: &Request) -> Result<HttpRequest<Full<Bytes>>> {
        let line = self.variables.fill(&request.request)?;
        let (method, target) = line.split_once(' ').ok_or_else(|| malformed(&line, "no method"))?;
        let method: Method = method.parse().map_err(|_| malformed(&line, "no method"))?;
        let body = match (&request.body, &request.raw) {
            (Some(_), Some(_)) => return Err(malformed(&line, "two bodies")),
            (Some(body), None) => Some(self.variables.fill_value(body)?.to_string()),
            (None, Some(raw)) => Some(self.variables.fill(raw)?),
            (None, None) => None,
        };
        let mut headers = BTreeMap::from([("accept".to_owned(), "application/json".to_owned())]);
        if body.is_some() && method != Method::PATCH {
            headers.insert("content-type".into(), "application/json".into());
        }
        let target = with_query(target, &self.encoded(&request.query)?);
        self.http(method, &target, headers, &request.headers, body.unwrap_or_default())
    }

    pub(super) fn http_watch(&self, watch: &Watch) -> Result<HttpRequest<Full<Bytes>>> {
        let mut query = self.encoded(&watch.query)?;
        if !watch.watch.contains("/watch/") {
            query.push("watch=true".into());
        }
        let target = with_query(&self.variables.fill(&watch.watch)?, &query);
        let headers = BTreeMap::from([("accept".to_owned(), "application/json".to_owned())]);
        self.http(Method::GET, &target, headers, &watch.headers, String::new())
    }

    fn http(
        &self,
        method: Method,
        target: &str,
        mut headers: BTreeMap<String, String>,
        more: &BTreeMap<String, String>,
        body: String,
    ) -> Result<HttpRequest<Full<Bytes>>> {
        headers.insert("user-agent".into(), USER_AGENT.into());
        for (name, value) in more {
            headers.insert(name.to_lowercase(), self.variables.fill(value)?);
        }
        // An empty value takes a default away.
        headers.retain(|_, value| !value.is_empty());
        let mut request = HttpRequest::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(Full::new(Bytes::from(body))).map_err(|error| malformed(target, &error.to_string()))
    }

    fn encoded(&self, query: &BTreeMap<String, String>) -> Result<Vec<String>> {
        query
            .iter()
            .map(|(name, value)| Ok(format!("{name}={}", percent_encoded(&self.variables.fill(value)?))))
            .collect()
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}
