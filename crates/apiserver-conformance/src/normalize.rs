//! What is not compared, and why. All of it is here.
//!
//! | value | becomes | because |
//! |---|---|---|
//! | the case's namespace and id | `{{ns}}`, `{{id}}` | they are new for every run |
//! | an object's `resourceVersion` | `<rv-1>`, `<rv-2>`, … in the order of their values | servers count differently; equality and order are kept |
//! | the `resourceVersion` of a list, a table or a bookmark | `<rv≥2>`: not before `<rv-2>`, and before `<rv-3>` | what other cases do counts too |
//! | a uid | `<uid-1>`, `<uid-2>`, … in the order of appearance | it is random; equality is kept |
//! | a time of today | `<time>`, or `<microtime>` with its six digits | the clock; the format is kept |
//! | the order of `managedFields` | by operation, manager, version, subresource | it follows the seconds of the clock |
//! | the order of an error's causes | by field and message | it is that of a hash map |
//! | an age in a table | `<age>` | the clock |
//! | the description of a table's column | `<description>` | it is prose |
//! | a name made from `generateName` | the prefix and `<generated>`, if five characters were added | they are random |
//! | a continue token | `<continue>` | it is opaque to clients |
//! | a `storageVersionHash` | `<hash>` | it is opaque to clients |
//! | an address of the services' range, a node port | `<ip-1>`, `<port>` | a server may choose any that is free |
//!
//! A value that is written in the case's own file is not volatile, and stays. Of the headers, those that clients act on are
//! recorded ([`HEADERS`]); YAML is compared as a value, not as a text.

mod mark;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jiff::Timestamp;
use regex::{Captures, Regex};
use serde_json::Value;

use crate::transcript::Transcript;
use mark::{OBJECT, SNAPSHOT};

/// The headers of an answer that are recorded.
pub(crate) const HEADERS: [&str; 7] =
    ["allow", "content-encoding", "content-type", "location", "retry-after", "warning", "www-authenticate"];

static UID: LazyLock<Regex> =
    LazyLock::new(|| regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?<fraction>\.\d+)?Z"));
static SERVICE_IP: LazyLock<Regex> = LazyLock::new(|| regex(r"\b10\.96\.\d{1,3}\.\d{1,3}\b"));
/// Resource versions in messages.
static VERSION_IN_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?<before>current: |ResourceVersion in (?:the precondition|record) \(|too old resource version: \d+ \()\d+",
    )
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a fixed pattern is well-formed")
}

/// Replaces what is volatile in the answers to one case. First each answer is [marked](Self::mark) as it comes, while its
/// structure is known; then the [whole transcript](Self::finish) gets its placeholders.
pub(crate) struct Normalizer {
    /// The case's own text.
    text: String,
    /// Names of this run, and what stands for them.
    names: BTreeMap<String, String>,
    start: Timestamp,
    seen: Vec<String>,
    versions: Vec<u64>,
}

impl Normalizer {
    pub(crate) fn new(case: &str, namespace: &str, id: &str) -> Self {
        let names = [(namespace, "{{ns}}"), (id, "{{id}}")];
        Self {
            text: case.to_owned(),
            names: names.map(|(name, placeholder)| (name.to_owned(), placeholder.to_owned())).into(),
            start: Timestamp::now(),
            seen: Vec::new(),
            versions: Vec::new(),
        }
    }

    /// The transcript with placeholders for all that is volatile.
    pub(crate) fn finish(mut self, transcript: &Transcript) -> Value {
        let mut value = serde_json::to_value(transcript).expect("a transcript has text keys only");
        let mut versions = BTreeSet::new();
        collect_versions(&value, &mut versions);
        self.versions = versions.into_iter().collect();
        self.replace(&mut value);
        value
    }

    fn replace(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.replaced(text),
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.replace(element)),
            Value::Object(fields) => {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(field, mut value)| {
                        let field = self.replaced(&field);
                        self.replace(&mut value);
                        (field, value)
                    })
                    .collect();
            }
            _ => {}
        }
    }

    fn replaced(&mut self, text: &str) -> String {
        let position = |version: &str| {
            let version: u64 = version.parse().unwrap_or_default();
            self.versions.partition_point(|known| *known <= version)
        };
        if let Some(version) = text.strip_prefix(OBJECT) {
            return format!("<rv-{}>", position(version));
        }
        if let Some(version) = text.strip_prefix(SNAPSHOT) {
            return format!("<rv≥{}>", position(version));
        }
        let mut text = text.to_owned();
        for (name, placeholder) in &self.names {
            text = text.replace(name, placeholder);
        }
        text = UID.replace_all(&text, |found: &Captures<'_>| self.numbered("uid", &found[0])).into_owned();
        text =
            SERVICE_IP.replace_all(&text, |found: &Captures<'_>| self.numbered("ip", &found[0])).into_owned();
        text = TIME.replace_all(&text, |found: &Captures<'_>| self.time(found)).into_owned();
        VERSION_IN_TEXT.replace_all(&text, "${before}<rv>").into_owned()
    }

    fn numbered(&mut self, what: &str, value: &str) -> String {
        if self.text.contains(value) {
            return value.to_owned();
        }
        let seen = format!("{what} {value}");
        if !self.seen.contains(&seen) {
            self.seen.push(seen.clone());
        }
        let of_its_kind = self.seen.iter().filter(|other| other.starts_with(what));
        let number = of_its_kind.take_while(|other| **other != seen).count() + 1;
        format!("<{what}-{number}>")
    }

    fn time(&self, found: &Captures<'_>) -> String {
        let is_of_today = found[0]
            .parse::<Timestamp>()
            .is_ok_and(|time| (time.as_second() - self.start.as_second()).abs() < 24 * 60 * 60);
        match found.name("fraction").map(|fraction| fraction.len() - 1) {
            _ if !is_of_today || self.text.contains(&found[0]) => found[0].to_owned(),
            None => "<time>".to_owned(),
            Some(6) => "<microtime>".to_owned(),
            Some(digits) => format!("<time with {digits} digits>"),
        }
    }
}

fn collect_versions(value: &Value, versions: &mut BTreeSet<u64>) {
    match value {
        Value::String(text) => {
            versions.extend(text.strip_prefix(OBJECT).and_then(|version| version.parse::<u64>().ok()));
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect_versions(element, versions)),
        Value::Object(fields) => fields.values().for_each(|field| collect_versions(field, versions)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::Normalizer;
    use crate::transcript::{Record, Transcript};

    fn normalized(case: &str, bodies: Vec<Value>) -> Vec<Value> {
        let mut normalizer = Normalizer::new(case, "sea-1", "ship-1");
        let record = |mut body: Value| {
            normalizer.mark(&mut body);
            Record {
                request: String::new(),
                status: 200,
                headers: BTreeMap::new(),
                body: Some(body),
                ..Record::default()
            }
        };
        let records = bodies.into_iter().map(record).collect();
        let transcript = normalizer.finish(&Transcript { records });
        let records = transcript.as_array().unwrap().iter();
        records.map(|record| record["body"].clone()).collect()
    }

    fn object(name: &str, version: &str) -> Value {
        json!({"kind": "ConfigMap", "metadata": {"name": name, "resourceVersion": version}})
    }

    #[test]
    fn resource_versions_keep_their_order_and_equality() {
        let bodies = vec![object("a", "90"), object("b", "100"), object("c", "90"), object("d", "9")];
        let versions: Vec<Value> =
            normalized("", bodies).iter().map(|body| body["metadata"]["resourceVersion"].clone()).collect();
        assert_eq!(versions, ["<rv-2>", "<rv-3>", "<rv-2>", "<rv-1>"]);
    }

    #[test]
    fn the_version_of_a_list_is_only_between_those_of_objects() {
        let list = |version: &str| {
            let metadata = json!({"resourceVersion": version});
            json!({"kind": "ConfigMapList", "metadata": metadata, "items": [object("a", "20")]})
        };
        for version in ["20", "25"] {
            let bodies = normalized("", vec![list(version), object("b", "30")]);
            assert_eq!(bodies[0]["metadata"]["resourceVersion"], "<rv≥1>");
        }
        let bodies = normalized("", vec![list("30"), object("b", "30")]);
        assert_eq!(bodies[0]["metadata"]["resourceVersion"], "<rv≥2>");
    }

    #[test]
    fn what_the_case_itself_says_is_kept() {
        let uid = "11111111-2222-3333-4444-555555555555";
        let body = json!({"a": uid, "b": "99999999-2222-3333-4444-555555555555", "c": "10.96.0.7", "d": "10.96.0.8"});
        let bodies = normalized(&format!("{uid} 10.96.0.7"), vec![body]);
        assert_eq!(bodies[0], json!({"a": uid, "b": "<uid-1>", "c": "10.96.0.7", "d": "<ip-1>"}));
    }

    #[test]
    fn times_of_today_go_and_others_stay() {
        let now = jiff::Timestamp::now();
        let (second, micro) = (format!("{now:.0}"), format!("{now:.6}"));
        let bodies = normalized("", vec![json!([second, micro, "2001-01-01T00:00:00Z"])]);
        assert_eq!(bodies[0], json!(["<time>", "<microtime>", "2001-01-01T00:00:00Z"]));
    }

    #[test]
    fn names_of_the_run_and_generated_names_go() {
        let metadata = json!({"generateName": "a-", "name": "a-xyz12", "namespace": "sea-1"});
        let bodies = normalized("", vec![json!({"metadata": metadata}), json!("ships.ship-1 and a-xyz12")]);
        assert_eq!(bodies[0]["metadata"]["name"], "a-<generated>");
        assert_eq!(bodies[0]["metadata"]["namespace"], "{{ns}}");
        assert_eq!(bodies[1], "ships.{{id}} and a-<generated>");
    }

    #[test]
    fn causes_are_sorted_in_the_message_too() {
        let cause = |field: &str| json!({"field": field, "message": "Required value"});
        let status = |first: &str, second: &str| {
            let message = format!("no: [{first}: Required value, {second}: Required value]");
            let details = json!({"causes": [cause(first), cause(second)]});
            json!({"kind": "Status", "message": message, "details": details})
        };
        assert_eq!(normalized("", vec![status("b", "a")]), normalized("", vec![status("a", "b")]));
    }
}
