//! Paths to fields as CRDs write them: `.spec.ports`, `.metadata.labels['a/b']`.

use crate::schema::{AdditionalProperties, Schema};

/// The field that a path leads to, and the path as Statuses write it; or why there is none.
///
/// A path has only fields and keys of maps: what is in a list has no place of its own.
pub fn resolve<'a>(path: &str, schema: &'a Schema) -> Result<(String, &'a Schema), String> {
    let mut found = String::new();
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            // A delimiter right after the dot is taken for the name, and never found.
            let end = if end == 0 { after.chars().next().map_or(0, char::len_utf8) } else { end };
            if end == 0 {
                return Err("unexpected end of JSON path".to_owned());
            }
            name = after[..end].to_owned();
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            let (quoted, after) = quoted(after)?;
            name = quoted;
            rest = match after.strip_prefix(']') {
                Some(rest) => rest,
                None if after.is_empty() => return Err("unexpected end of JSON path".to_owned()),
                None => return Err(format!("expected ] but got {}", token(after))),
            };
        } else {
            return Err(format!("expected [ or . but got: {}", token(rest)));
        }
        schema = step(schema, &name, &mut found)?;
    }
    Ok((found, schema))
}

fn step<'a>(schema: &'a Schema, name: &str, found: &mut String) -> Result<&'a Schema, String> {
    let nowhere = || "does not refer to a valid field".to_owned();
    if !schema.properties.is_empty() {
        if !found.is_empty() {
            found.push('.');
        }
        found.push_str(name);
        return schema.properties.get(name).map(|property| &**property).ok_or_else(nowhere);
    }
    let AdditionalProperties::Of(values) = &schema.additional else { return Err(nowhere()) };
    found.push_str(&format!("[{name}]"));
    Ok(values)
}

fn token(rest: &str) -> &str {
    let end = rest.char_indices().skip(1).find(|(_, character)| matches!(character, '.' | '[' | ']'));
    &rest[..end.map_or(rest.len(), |(index, _)| index)]
}

/// A text between single quotation marks, and what follows it.
fn quoted(rest: &str) -> Result<(String, &str), String> {
    let Some(inner) = rest.strip_prefix('\'') else {
        if rest.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        return Err(format!("expected single quoted string but got {}", token(rest)));
    };
    let mut text = String::new();
    let mut characters = inner.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\'' => return Ok((text, &inner[index + 1..])),
            '\\' => {
                let escaped = characters.next().map(|(_, escaped)| escaped);
                text.push(match escaped {
                    Some('a') => '\u{7}',
                    Some('b') => '\u{8}',
                    Some('f') => '\u{c}',
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some('v') => '\u{b}',
                    Some(plain @ ('\'' | '\\')) => plain,
                    Some(other) => {
                        return Err(format!("invalid string literal: invalid escape char \\{other}"));
                    }
                    None => break,
                });
            }
            plain => text.push(plain),
        }
    }
    Err(format!("expected single quoted string but got '{inner}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_followed_or_refused() {
        let schema = Schema::from_json(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a.b": {"type": "string"},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            }},
        }}))
        .unwrap();
        for (path, found) in [
            (".spec", "spec"),
            (".spec['a.b']", "spec.a.b"),
            ("['spec'].map.key", "spec.map[key]"),
            (".spec.map['it\\'s']", "spec.map[it's]"),
        ] {
            assert_eq!(resolve(path, &schema).unwrap().0, found, "{path}");
        }
        for (path, error) in [
            ("spec", "expected [ or . but got: spec"),
            (".none", "does not refer to a valid field"),
            (".spec.", "unexpected end of JSON path"),
            (".spec[0]", "expected single quoted string but got 0"),
            (".spec['map'", "unexpected end of JSON path"),
            (".spec['\\z']", "invalid string literal: invalid escape char \\z"),
            (".spec..map", "does not refer to a valid field"),
        ] {
            assert_eq!(resolve(path, &schema).unwrap_err(), error, "{path}");
        }
    }
}
