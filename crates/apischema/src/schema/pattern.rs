//! Regular expressions of schemas and rules. They are written for Go's engine, whose dialect differs in a few places.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// How large a compiled expression may be. Whoever writes a schema must not be able to make the server hold gigabytes.
const SIZE_LIMIT: usize = 4 << 20;
/// The same for expressions that are computed anew for each object.
const COMPUTED_SIZE_LIMIT: usize = 256 << 10;

/// A place for the compiled form of a pattern. It says nothing that the pattern does not, so two of them are always equal.
#[derive(Clone, Debug, Default)]
pub struct CompiledPattern(OnceLock<Option<Regex>>);

impl CompiledPattern {
    /// The compiled form of `pattern`, or nothing if it cannot be compiled. A place belongs to one pattern.
    pub(crate) fn get(&self, pattern: &str) -> Option<&Regex> {
        self.0.get_or_init(|| compile(pattern).ok()).as_ref()
    }
}

impl PartialEq for CompiledPattern {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Compiles an expression, within limits.
pub(crate) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&translate(pattern)).size_limit(SIZE_LIMIT).build()
}

/// Compiles an expression that is thrown away soon, within narrower limits.
pub(crate) fn compile_computed(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&translate(pattern)).size_limit(COMPUTED_SIZE_LIMIT).build()
}

/// An expression of Go's dialect in that of Rust's engine: digits, words and blanks are those of ASCII, anything may be
/// escaped, and in brackets nothing is special but the end, the dash and named classes.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    // The number of characters of a class so far, if the place is in one.
    let mut class: Option<usize> = None;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        match (first, class) {
            ('\\', _) => {
                if let Some(quoted) = after.strip_prefix('Q').filter(|_| class.is_none()) {
                    let (text, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                    out.push_str(&regex::escape(text));
                    rest = after;
                    continue;
                }
                rest = escape(after, class.is_some(), &mut out);
                class = class.map(|count| count + 1);
                continue;
            }
            ('[', None) => {
                out.push('[');
                let negated = after.starts_with('^');
                if negated {
                    out.push('^');
                }
                rest = &after[usize::from(negated)..];
                class = Some(0);
                continue;
            }
            // The first one in a class does not end it.
            (']', Some(0)) => out.push_str("\\]"),
            (']', Some(_)) => {
                out.push(']');
                class = None;
                rest = after;
                continue;
            }
            ('[', Some(_)) => {
                let named = after.starts_with(':').then(|| after.find(":]")).flatten();
                if let Some(end) = named {
                    out.push_str(&rest[..end + 3]);
                    rest = &rest[end + 3..];
                    class = class.map(|count| count + 1);
                    continue;
                }
                out.push_str("\\[");
            }
            ('&' | '~', Some(_)) => out.extend(['\\', first]),
            _ => out.push(first),
        }
        class = class.map(|count| count + 1);
        rest = after;
    }
    out
}

/// What follows a backslash, translated; and what is left behind it.
fn escape<'a>(after: &'a str, in_class: bool, out: &mut String) -> &'a str {
    let Some(escaped) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    let rest = &after[escaped.len_utf8()..];
    let members = match escaped.to_ascii_lowercase() {
        'd' => Some("0-9"),
        'w' => Some("0-9A-Za-z_"),
        's' => Some("\\t\\n\\x0c\\r "),
        _ => None,
    };
    match (escaped, members) {
        ('d' | 'w' | 's', Some(members)) if in_class => out.push_str(members),
        ('d' | 'w' | 's', Some(members)) => out.push_str(&format!("[{members}]")),
        ('D' | 'W' | 'S', Some(members)) => out.push_str(&format!("[^{members}]")),
        ('b', _) if !in_class => out.push_str("(?-u:\\b)"),
        ('<' | '>', _) => out.push(escaped),
        ('0'..='7', _) => {
            let digits = after.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            // A digit alone would refer back to a group, which neither engine does.
            if digits == 1 && escaped != '0' {
                out.extend(['\\', escaped]);
                return rest;
            }
            let code = u32::from_str_radix(&after[..digits], 8).unwrap_or_default();
            out.push_str(&format!("\\x{{{code:x}}}"));
            return &after[digits..];
        }
        _ => out.extend(['\\', escaped]),
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_go_means() {
        for (pattern, good, bad) in [
            (r"^\d+$", "123", "١٢٣"),
            (r"^\w$", "_", "é"),
            (r"^[\w-]+$", "a-b", "ä"),
            (r"^[^\s]$", "\u{a0}", " "),
            (r"^\S+$", "a\u{2003}b", "a b"),
            (r"^[^\D]+$", "1", "a"),
            (r"^[[a]+$", "[a[", "b"),
            (r"^[]a]+$", "]a", "b"),
            (r"^[^]a]+$", "b", "]"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^[[:alpha:]_]+$", "aB_", "1"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            (r"^\<a\>$", "<a>", "a"),
            (r"^\/\_\-$", "/_-", "a"),
            (r"^\101\x41\x{41}$", "AAA", "a"),
            (r"\bcat\b", "a cat.", "concat"),
            (r"^(?i)AbC$", "aBc", "abd"),
            (r"^\p{Greek}+$", "αβ", "ab"),
            (r"^[\]\[]+$", "[]", "a"),
        ] {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(regex.is_match(good), "{pattern} {good}");
            assert!(!regex.is_match(bad), "{pattern} {bad}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for pattern in ["[", "(", ")", "*", "a**", r"\8", r"\", "[b-a]", "(?=a)", r"\1", "(?<!a)"] {
            assert!(compile(pattern).is_err() || pattern == "a**", "{pattern}");
        }
    }
}
