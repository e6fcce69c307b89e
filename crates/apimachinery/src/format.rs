//! The formats of names and labels, and what Kubernetes says when a text is not of one.
//!
//! Each function returns what is wrong, in words that follow the path and the value in a message; nothing means that the text
//! is fine. Nothing is allocated for a fine text.

/// The longest DNS label, label value and name part of a label key.
pub const MAX_LABEL: usize = 63;
/// The longest DNS subdomain.
pub const MAX_SUBDOMAIN: usize = 253;

const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";

/// A label of DNS (RFC 1123): the name of a Namespace.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > MAX_LABEL {
        wrong.push(too_long(MAX_LABEL));
    }
    if !is_dns1123_label(text) {
        wrong.push(if is_dns1123_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character",
                &["my-name", "123-abc"],
                DNS1123_LABEL,
            )
        });
    }
    wrong
}

/// Labels of DNS with dots between them (RFC 1123): the name of most objects.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > MAX_SUBDOMAIN {
        wrong.push(too_long(MAX_SUBDOMAIN));
    }
    if !is_dns1123_subdomain(text) {
        wrong.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            &["example.com"],
            DNS1123_SUBDOMAIN,
        ));
    }
    wrong
}

/// A label of DNS that starts with a letter (RFC 1035): the name of a Service.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > MAX_LABEL {
        wrong.push(too_long(MAX_LABEL));
    }
    if !(is_dns1123_label(text) && text.as_bytes()[0].is_ascii_lowercase()) {
        wrong.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            &["my-name", "abc-123"],
            DNS1035_LABEL,
        ));
    }
    wrong
}

/// A name with or without a DNS subdomain before it: the key of a label or an annotation, a finalizer.
pub fn qualified_name(text: &str) -> Vec<String> {
    let pattern_of_name = || {
        pattern(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character",
            &["MyName", "my.name", "123-abc"],
            QUALIFIED_NAME,
        )
    };
    let mut wrong = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                pattern_of_name()
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let of_prefix = dns1123_subdomain(prefix);
                wrong.extend(of_prefix.into_iter().map(|message| format!("prefix part {message}")));
            }
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_LABEL {
        wrong.push(format!("name part {}", too_long(MAX_LABEL)));
    }
    if !is_name_part(name) {
        wrong.push(format!("name part {}", pattern_of_name()));
    }
    wrong
}

/// The value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > MAX_LABEL {
        wrong.push(too_long(MAX_LABEL));
    }
    if !(text.is_empty() || is_name_part(text)) {
        wrong.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            &["MyValue", "my_value", "12345"],
            &format!("({QUALIFIED_NAME})?"),
        ));
    }
    wrong
}

/// Something that can stand between the slashes of a URL's path: the least that any name must be.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_prefix(text)
}

/// Something that a path segment may start with.
pub fn path_segment_prefix(text: &str) -> Vec<String> {
    let contained = ['/', '%'].into_iter().filter(|illegal| text.contains(*illegal));
    contained.map(|illegal| format!("may not contain '{illegal}'")).collect()
}

fn is_dns1123_label(text: &str) -> bool {
    is_between(text, |edge| edge.is_ascii_lowercase() || edge.is_ascii_digit(), |inner| inner == b'-')
}

fn is_dns1123_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns1123_label)
}

fn is_name_part(text: &str) -> bool {
    is_between(text, |edge| edge.is_ascii_alphanumeric(), |inner| matches!(inner, b'-' | b'_' | b'.'))
}

/// Whether the text starts and ends with edge characters and has only edge and inner characters between.
fn is_between(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => edge(*only),
        [first, middle @ .., last] => {
            edge(*first) && edge(*last) && middle.iter().all(|byte| edge(*byte) || inner(*byte))
        }
    }
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn pattern(rule: &str, examples: &[&str], regex: &str) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_dns_are_told_from_others() {
        for good in ["a", "a-b", "0", "a0-9z"] {
            assert_eq!(dns1123_label(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "é", "a b", "a\n"] {
            assert!(!dns1123_label(bad).is_empty(), "{bad:?}");
        }
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns1123_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
              end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        for good in ["a.b", "example.com", "1.2.3"] {
            assert_eq!(dns1123_subdomain(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a.-b"] {
            assert!(!dns1123_subdomain(bad).is_empty(), "{bad:?}");
        }
        assert_eq!(dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert!(dns1035_label("a1").is_empty());
        assert!(!dns1035_label("1a").is_empty());
        assert!(!dns1035_label("").is_empty());
    }

    #[test]
    fn a_label_key_may_have_a_domain() {
        for good in ["a", "A_b.c-1", "example.com/x", "a/B"] {
            assert_eq!(qualified_name(good), Vec::<String>::new(), "{good}");
        }
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        let name = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        assert_eq!(
            qualified_name(""),
            ["name part must be non-empty".to_owned(), format!("name part {name}")]
        );
        assert_eq!(
            qualified_name("a/b/c"),
            [format!(
                "a qualified name {name} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )]
        );
        assert!(qualified_name("B/a")[0].starts_with("prefix part a lowercase RFC 1123 subdomain"));
        assert_eq!(qualified_name(&"a".repeat(64)), ["name part must be no more than 63 characters"]);
    }

    #[test]
    fn a_label_value_may_be_empty() {
        for good in ["", "a", "A.b_c-9"] {
            assert_eq!(label_value(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["-", "a b", ".a", "a."] {
            assert_eq!(label_value(bad).len(), 1, "{bad}");
        }
        assert_eq!(label_value(&"-".repeat(64)).len(), 2);
    }

    #[test]
    fn a_path_segment_has_nothing_that_a_path_would_take_for_its_own() {
        assert_eq!(path_segment("."), ["may not be '.'"]);
        assert_eq!(path_segment(".."), ["may not be '..'"]);
        assert_eq!(path_segment("a/%"), ["may not contain '/'", "may not contain '%'"]);
        assert_eq!(path_segment_prefix(".."), Vec::<String>::new());
        assert_eq!(path_segment("a.b:C é"), Vec::<String>::new());
    }
}
