//! Reading YAML as Kubernetes reads it: the first document, with the scalars of YAML 1.1.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::{Map, Value};

use super::{Decoded, StrictError};
use crate::patch::MAX_DEPTH;

mod scalar;

/// How many bytes of memory anchors and aliases may copy in one document. A body has at most 3 MiB, and whatever it repeats is
/// stored in full, so a document that needs more than this could not be stored anyway.
const MAX_COPIED_BYTES: usize = 8 << 20;
/// How many duplicate keys are reported. Kubernetes stops there too.
const MAX_DUPLICATES: usize = 100;

/// Reads YAML and notices keys that are there twice.
pub fn decode_yaml(body: &[u8]) -> Result<Decoded, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid UTF-8".to_owned())?;
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        copied_bytes: 0,
        duplicates: Vec::new(),
    };
    let value = reader.document()?;
    let strict_errors =
        if reader.duplicates.is_empty() { Vec::new() } else { vec![StrictError::Yaml(reader.duplicates)] };
    Ok(Decoded { value, strict_errors })
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Value>,
    /// The bytes of all values that were copied for an anchor or an alias.
    copied_bytes: usize,
    duplicates: Vec<String>,
}

impl<'t> Reader<'t> {
    fn document(&mut self) -> Result<Value, String> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd | Event::DocumentEnd => return Ok(Value::Null),
                Event::StreamStart | Event::DocumentStart(..) => {}
                node => return self.node(node, span, MAX_DEPTH),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), String> {
        loop {
            match self.parser.next_event() {
                // Nothing of the document. The parser is built to tell them whether or not anyone else here wants them.
                Some(Ok((Event::Comment(..) | Event::Anchor(..), _))) => {}
                Some(event) => return event.map_err(|error| syntax(&error)),
                None => return Ok((Event::StreamEnd, Span::default())),
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Value, String> {
        let line = span.start.line();
        let Some(depth) = depth.checked_sub(1) else {
            return Err(format!("yaml: line {line}: exceeded max depth of {MAX_DEPTH}"));
        };
        let (anchor, value) = match event {
            Event::Alias(id) => return self.alias(id, line),
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag
                    .as_deref()
                    .and_then(|tag| tag.core_suffix().map(str::to_owned).or(Some(String::new())));
                let is_plain = style == ScalarStyle::Plain;
                let value = scalar::resolve(&text, is_plain, tag.as_deref())
                    .map_err(|why| format!("yaml: line {line}: {why}"))?;
                (anchor, value)
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.sequence(depth)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.mapping(depth)?),
            _ => return Err(format!("yaml: line {line}: did not find expected node content")),
        };
        if anchor != 0 {
            // Anchors nest, so the copies that are kept for them count like those that aliases make.
            self.count_copy(&value)?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn count_copy(&mut self, value: &Value) -> Result<(), String> {
        self.copied_bytes = self.copied_bytes.saturating_add(memory_of(value));
        if self.copied_bytes > MAX_COPIED_BYTES {
            return Err("yaml: document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, line: usize) -> Result<Value, String> {
        // Only an anchor whose value is still being read is not there.
        let Some(value) = self.anchors.remove(&id) else {
            return Err(format!("yaml: line {line}: anchor value contains itself"));
        };
        self.count_copy(&value)?;
        let copy = value.clone();
        self.anchors.insert(id, value);
        Ok(copy)
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::Array(items)),
                (event, span) => items.push(self.node(event, span, depth)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, String> {
        let mut fields = Map::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Value::Object(fields));
            }
            let is_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.node(event, span, depth)?;
            let (event, span) = self.next()?;
            let line = span.start.line();
            let value = self.node(event, span, depth)?;
            if is_merge {
                merge_into(&mut fields, value, line)?;
                continue;
            }
            let (name, shown) = scalar::key(&key).map_err(|why| format!("yaml: line {line}: {why}"))?;
            if fields.insert(name, value).is_some() && self.duplicates.len() < MAX_DUPLICATES {
                self.duplicates.push(format!("line {line}: key {shown} already set in map"));
            }
        }
    }
}

/// Adds the fields that a merge key (`<<`) names.
fn merge_into(fields: &mut Map<String, Value>, merged: Value, line: usize) -> Result<(), String> {
    match merged {
        Value::Object(merged) => fields.extend(merged),
        Value::Array(items) => {
            // The first one counts most.
            for item in items.into_iter().rev() {
                match item {
                    Value::Object(merged) => fields.extend(merged),
                    _ => {
                        return Err(format!(
                            "yaml: line {line}: map merge requires map or sequence of maps as the value"
                        ));
                    }
                }
            }
        }
        _ => {
            return Err(format!(
                "yaml: line {line}: map merge requires map or sequence of maps as the value"
            ));
        }
    }
    Ok(())
}

/// The memory that a copy of a value takes, roughly.
fn memory_of(value: &Value) -> usize {
    let content = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory_of).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| size_of::<String>() + name.len() + memory_of(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + content
}

fn syntax(error: &ScanError) -> String {
    format!("yaml: line {}: {}", error.marker().line(), error.info())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::test_values::json_value;

    fn read(text: &str) -> Value {
        decode_yaml(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}")).value
    }

    #[test]
    fn documents_are_read() {
        assert_eq!(
            read("# comment\na: 1\nb:\n- x\n- {c: d}\ntext: |\n  two\n  lines\n"),
            json!({"a": 1, "b": ["x", {"c": "d"}], "text": "two\nlines\n"})
        );
        assert_eq!(read("a: 1\n---\nb: 2\n"), json!({"a": 1}), "the first one");
        assert_eq!(read(""), Value::Null);
        assert_eq!(read("---\n..."), Value::Null);
        assert_eq!(read(r#"{"a": [1, "2", null, true]}"#), json!({"a": [1, "2", null, true]}));
    }

    #[test]
    fn anchors_aliases_and_merge_keys_are_followed() {
        assert_eq!(read("a: &x {b: 1}\nc: *x\n"), json!({"a": {"b": 1}, "c": {"b": 1}}));
        assert_eq!(
            read("base: &b {x: 1, z: 2}\nd:\n  <<: *b\n  z: 3\n"),
            json!({"base": {"x": 1, "z": 2}, "d": {"x": 1, "z": 3}})
        );
        assert_eq!(
            read("a: &a {x: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b]}\n")["c"],
            json!({"x": 1, "z": 2})
        );
        assert_eq!(read("\"<<\": 1"), json!({"<<": 1}));
    }

    #[test]
    fn keys_are_text() {
        assert_eq!(read("1: a\ntrue: b\n1.5: c\nyes: d\n"), json!({"1": "a", "true": "d", "1.5": "c"}));
        assert!(decode_yaml(b"? [a]\n: b\n").is_err());
        assert!(decode_yaml(b"~: b\n").is_err());
    }

    #[test]
    fn keys_that_are_there_twice_are_noticed() {
        let decoded = decode_yaml(b"a: 1\nb:\n  c: 1\n  c:\n    2\na: 3\n1: x\n1: z\n").unwrap();
        assert_eq!(decoded.value, json!({"a": 3, "b": {"c": 2}, "1": "z"}));
        assert_eq!(
            decoded.strict_errors,
            [StrictError::Yaml(vec![
                "line 5: key \"c\" already set in map".to_owned(),
                "line 6: key \"a\" already set in map".to_owned(),
                "line 8: key 1 already set in map".to_owned(),
            ])]
        );
    }

    #[test]
    fn hostile_documents_are_refused() {
        let mut laughs = "a0: &a0 [x, x]\n".to_owned();
        for level in 1..40 {
            laughs.push_str(&format!("a{level}: &a{level} [*a{}, *a{}]\n", level - 1, level - 1));
        }
        assert_eq!(decode_yaml(laughs.as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
        let one_mebibyte = "x".repeat(1 << 20);
        let repeated = format!("a: &a {one_mebibyte}\nb: [{}]\n", "*a,".repeat(99_000));
        assert_eq!(
            decode_yaml(repeated.as_bytes()).unwrap_err(),
            "yaml: document contains excessive aliasing"
        );
        let fields: String = (0..1000).map(|number| format!("{number:01000}: 1, ")).collect();
        let keys = format!("a: &a {{{fields}}}\nb: [{}]\n", "*a,".repeat(99_000));
        assert_eq!(decode_yaml(keys.as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
        let nested: String = (0..100).map(|level| format!("&a{level} [")).collect();
        let nested = format!("{nested}{one_mebibyte}{}", "]".repeat(100));
        assert_eq!(decode_yaml(nested.as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
        assert!(decode_yaml("[".repeat(100_000).as_bytes()).is_err());
        assert!(decode_yaml("- ".repeat(100_000).as_bytes()).is_err());
        assert!(decode_yaml(b"a: &a [*a]").is_err());
        assert!(decode_yaml(b"a: *nobody").is_err());
        assert!(decode_yaml(b"a: \xff").is_err());
        assert!(decode_yaml(b"a: [1").unwrap_err().starts_with("yaml: line "));
        let long: String = (0..100_000).map(|number| format!("- {number}\n")).collect();
        assert_eq!(read(&long).as_array().unwrap().len(), 100_000);
    }

    #[test]
    fn aliases_of_ordinary_size_are_followed() {
        let template = "x".repeat(10_000);
        let list = "*a,".repeat(100);
        let value = read(&format!("a: &a {{image: {template}}}\nb: [{list}]\n"));
        assert_eq!(value["b"].as_array().unwrap().len(), 100);
        assert_eq!(value["b"][99]["image"], template);
    }

    #[test]
    fn only_the_first_hundred_duplicate_keys_are_reported() {
        let decoded = decode_yaml("a: 1\n".repeat(100_000).as_bytes()).unwrap();
        let [StrictError::Yaml(duplicates)] = &decoded.strict_errors[..] else { panic!("one error") };
        assert_eq!(duplicates.len(), 100);
    }

    proptest! {
        #[test]
        fn json_is_yaml(value in json_value()) {
            prop_assert_eq!(read(&value.to_string()), value);
        }

        #[test]
        fn nothing_stops_it(text in "[a-c:\\-\\[\\]{}&*!|>'\"#,? \n]{0,40}") {
            let _ = decode_yaml(text.as_bytes());
        }
    }
}
