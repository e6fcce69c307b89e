//! What a schema makes of objects, as a short mark.
//!
//! Objects are stored pruned and defaulted by the schema of their time, and marked with it. An object whose mark is not that of
//! the schema now is pruned and defaulted again whenever it is read; all others are shown as they are stored.

use apischema::{AdditionalProperties, Schema};
use sha2::{Digest as _, Sha256};

/// Bytes of the digest that are shown: enough that no two schemas of a definition ever have the same.
const SHOWN: usize = 8;

/// The mark of objects of an apiVersion that were completed by a schema. Only what pruning and defaulting look at counts.
pub(super) fn mark(api_version: &str, schema: &Schema) -> String {
    let mut digest = Sha256::new();
    add(&mut digest, schema);
    let digest: [u8; 32] = digest.finalize().into();
    let shown: String = digest[..SHOWN].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{api_version}#{shown}")
}

fn add(digest: &mut Sha256, schema: &Schema) {
    let flags = [schema.preserve_unknown_fields, schema.embedded_resource, schema.nullable];
    digest.update(flags.map(u8::from));
    if let Some(default) = &schema.default {
        digest.update(b"=");
        digest.update(default.to_string());
    }
    for (name, property) in &schema.properties {
        digest.update(b".");
        digest.update(name);
        digest.update(b"{");
        add(digest, property);
        digest.update(b"}");
    }
    if let Some(items) = &schema.items {
        digest.update(b"[");
        add(digest, items);
        digest.update(b"]");
    }
    match &schema.additional {
        AdditionalProperties::None => {}
        AdditionalProperties::Any => digest.update(b"*"),
        AdditionalProperties::Of(values) => {
            digest.update(b"*{");
            add(digest, values);
            digest.update(b"}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
    fn of(properties: Value) -> String {
        let schema = json!({"type": "object", "properties": properties});
        mark("ex.io/v1", &Schema::from_json(&schema).unwrap())
    }

    #[test]
    fn the_mark_changes_with_what_is_kept_and_filled_in_and_with_nothing_else() {
        let plain = of(json!({"a": {"type": "string"}}));
        assert!(plain.starts_with("ex.io/v1#") && plain.len() == "ex.io/v1#".len() + 2 * SHOWN);
        assert_eq!(plain, of(json!({"a": {"type": "string", "description": "d", "maxLength": 3}})));
        for other in [
            json!({}),
            json!({"a": {"type": "string", "default": "x"}}),
            json!({"a": {"type": "string", "nullable": true}}),
            json!({"a": {"type": "string"}, "b": {"type": "string"}}),
            json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}}}),
            json!({"a": {"type": "array", "items": {"type": "string", "default": "x"}}}),
            json!({"a": {"x-kubernetes-preserve-unknown-fields": true}}),
        ] {
            assert_ne!(plain, of(other.clone()), "{other}");
        }
    }
}
