//! Names of properties that CEL could not read as they are.

use super::parser::RESERVED;

/// Words that the language means something by.
const KEYWORDS: &[&str] = &["true", "false", "null", "in"];

fn is_reserved(word: &str) -> bool {
    KEYWORDS.contains(&word) || RESERVED.contains(&word)
}

/// How a rule writes a property's name; nothing if no rule can name it.
pub(crate) fn escape(name: &str) -> Option<String> {
    let starts_well = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    if !starts_well || !name.bytes().all(known) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let (written, length) = match first {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            _ => (&rest[..1], 1),
        };
        escaped.push_str(written);
        rest = &rest[length..];
    }
    Some(escaped)
}

/// The property that a rule's name stands for; nothing if it stands for none.
pub(super) fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(start) = rest.find("__") {
        name.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        // An escape sequence is two underscores, a word without any, and two underscores.
        let word = after.find('_').filter(|end| *end > 0 && after[*end..].starts_with("__"));
        let Some(end) = word else {
            name.push_str("__");
            rest = after;
            continue;
        };
        match &after[..end] {
            "underscores" => name.push_str("__"),
            "dot" => name.push('.'),
            "dash" => name.push('-'),
            "slash" => name.push('/'),
            word if is_reserved(word) && escaped.len() == end + 4 => name.push_str(word),
            _ => return None,
        }
        rest = &after[end + 2..];
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for (name, escaped) in [
            ("plain", "plain"),
            ("a_b", "a_b"),
            ("namespace", "__namespace__"),
            ("x-prop", "x__dash__prop"),
            ("redact__d", "redact__underscores__d"),
            ("a.b/c", "a__dot__b__slash__c"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(escaped));
            assert_eq!(unescape(escaped).as_deref(), Some(name));
        }
        for name in ["", "1a", "a b", "ä", "a$"] {
            assert_eq!(escape(name), None, "{name}");
        }
        assert_eq!(unescape("a__what__b"), None);
        assert_eq!(unescape("a__namespace__"), None);
    }
}
