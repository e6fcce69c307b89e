//! Where a transcript is not as it was recorded, and which of that is meant to be so.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// A difference from kube-apiserver that is deliberate: an entry of `differences.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The case, `topic/name`.
    pub case: String,
    /// The step, counted from 1.
    pub step: usize,
    /// Where in the step's record, such as `.body.metadata.generation`. It covers all that is below.
    pub path: String,
    /// Why it is right that the server differs.
    pub reason: String,
}

/// One value that is not as recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The step, counted from 1.
    pub step: usize,
    /// The step's request.
    pub request: String,
    /// Where in the step's record.
    pub path: String,
    /// What was recorded; none if there was nothing.
    pub recorded: Option<Value>,
    /// What the server answers; none if there is nothing.
    pub answered: Option<Value>,
}

impl Difference {
    /// Whether it explains a mismatch of this case.
    pub fn covers(&self, case: &str, mismatch: &Mismatch) -> bool {
        self.case == case
            && self.step == mismatch.step
            && mismatch
                .path
                .strip_prefix(&self.path)
                .is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        write!(
            formatter,
            "step {} {}\n    {}\n      recorded: {}\n      answered: {}",
            self.step,
            self.request,
            self.path,
            text(&self.recorded),
            text(&self.answered)
        )
    }
}

/// Compares a transcript with the recorded one, value by value.
pub(crate) fn mismatches(recorded: &Value, answered: &Value) -> Vec<Mismatch> {
    let records = |transcript: &Value| transcript.as_array().cloned().unwrap_or_default();
    let (recorded, answered) = (records(recorded), records(answered));
    let mut found = Vec::new();
    for step in 0..recorded.len().max(answered.len()) {
        let (recorded, answered) = (recorded.get(step), answered.get(step));
        let request = recorded.or(answered).and_then(|record| record["request"].as_str()).unwrap_or_default();
        compare(recorded, answered, "", &mut |path, recorded, answered| {
            found.push(Mismatch {
                step: step + 1,
                request: request.to_owned(),
                path: path.to_owned(),
                recorded: recorded.cloned(),
                answered: answered.cloned(),
            });
        });
    }
    found
}

fn compare(
    recorded: Option<&Value>,
    answered: Option<&Value>,
    path: &str,
    found: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) {
    match (recorded, answered) {
        (Some(Value::Object(recorded)), Some(Value::Object(answered))) => {
            let mut fields: Vec<&String> = recorded.keys().chain(answered.keys()).collect();
            fields.sort_unstable();
            fields.dedup();
            for field in fields {
                compare(recorded.get(field), answered.get(field), &below(path, field), found);
            }
        }
        (Some(Value::Array(recorded)), Some(Value::Array(answered))) => {
            for index in 0..recorded.len().max(answered.len()) {
                compare(recorded.get(index), answered.get(index), &format!("{path}[{index}]"), found);
            }
        }
        (recorded, answered) if recorded == answered => {}
        (recorded, answered) => found(path, recorded, answered),
    }
}

fn below(path: &str, field: &str) -> String {
    if field.contains(['.', '[', '/']) { format!("{path}['{field}']") } else { format!("{path}.{field}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Difference, mismatches};

    #[test]
    fn every_value_that_differs_is_named_by_step_and_path() {
        let recorded = json!([{"request": "GET /a", "status": 200, "body": {"l": [1, 2], "x.y": 1}}]);
        let answered = json!([{"request": "GET /a", "status": 404, "body": {"l": [1], "x.y": 2}}]);
        let found = mismatches(&recorded, &answered);
        let paths: Vec<&str> = found.iter().map(|mismatch| mismatch.path.as_str()).collect();
        assert_eq!(paths, [".body.l[1]", ".body['x.y']", ".status"]);
        assert_eq!((found[0].step, &found[0].recorded, &found[0].answered), (1, &Some(json!(2)), &None));
        assert_eq!(mismatches(&recorded, &recorded), []);
    }

    #[test]
    fn a_missing_step_is_a_mismatch() {
        let recorded = json!([{"request": "GET /a"}, {"request": "GET /b"}]);
        let found = mismatches(&recorded, &json!([{"request": "GET /a"}]));
        assert_eq!((found.len(), found[0].step, found[0].request.as_str()), (1, 2, "GET /b"));
    }

    #[test]
    fn a_difference_covers_what_is_below_its_path_and_no_more() {
        let covers = |path: &str| {
            let found = mismatches(&json!([{"ab": {"c": 1}}]), &json!([{"ab": {"c": 2}}]));
            let (case, reason) = ("t/n".into(), String::new());
            Difference { case, step: 1, path: path.into(), reason }.covers("t/n", &found[0])
        };
        assert!(covers(".ab") && covers(".ab.c") && covers(""));
        assert!(!covers(".a") && !covers(".ab.d"));
    }
}
