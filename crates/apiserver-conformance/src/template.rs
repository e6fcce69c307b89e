//! Variables of a case: `{{ns}}` in a path, a query, a header or a body.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{Error, Result};

/// What `{{name}}` stands for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Fills in a text. `{{x*100}}` is a hundred times `x`, for what is too large to be written out.
    pub(crate) fn fill(&self, text: &str) -> Result<String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, (name, after))) =
            rest.split_once("{{").and_then(|(before, inside)| Some((before, inside.split_once("}}")?)))
        {
            filled.push_str(before);
            let repeated = name.split_once('*').and_then(|(text, times)| Some((text, times.parse().ok()?)));
            filled.push_str(&match (repeated, self.0.get(name)) {
                (Some((text, times)), _) => text.repeat(times),
                (None, Some(value)) => value.clone(),
                (None, None) => return Err(Error::UnknownVariable(name.to_owned())),
            });
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Fills in all texts and field names of a value.
    pub(crate) fn fill_value(&self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => Value::String(self.fill(text)?),
            Value::Array(elements) => {
                Value::Array(elements.iter().map(|element| self.fill_value(element)).collect::<Result<_>>()?)
            }
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(field, value)| Ok((self.fill(field)?, self.fill_value(value)?)))
                    .collect::<Result<_>>()?,
            ),
            other => other.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Variables;

    #[test]
    fn variables_are_filled_in_texts_and_field_names() {
        let mut variables = Variables::default();
        variables.set("ns", "harbour");
        assert_eq!(variables.fill("/namespaces/{{ns}}/{{a*3}}").unwrap(), "/namespaces/harbour/aaa");
        let filled = variables.fill_value(&json!({"{{ns}}": ["{{ns}}", 1]})).unwrap();
        assert_eq!(filled, json!({"harbour": ["harbour", 1]}));
        assert!(variables.fill("{{rv}}").is_err());
        assert_eq!(variables.fill("{{").unwrap(), "{{");
    }
}
