//! The formats of texts in core kinds, and what Kubernetes says when a text is not of one.

pub(super) use apimachinery::format::{
    dns1035_label, dns1123_label, dns1123_subdomain, label_value, path_segment, qualified_name,
};

use super::errors::Errors;
use apischema::Path;

/// A number of a port.
pub(super) fn port(errors: &mut Errors, path: Path<'_>, value: i64) {
    if !(1..=65535).contains(&value) {
        errors.invalid(path, value, "must be between 1 and 65535, inclusive");
    }
}

/// The number of a user or a group of Unix.
pub(super) fn unix_id(errors: &mut Errors, path: Path<'_>, value: Option<i64>) {
    if let Some(value) = value.filter(|value| !(0..=i64::from(i32::MAX)).contains(value)) {
        errors.invalid(path, value, "must be between 0 and 2147483647, inclusive");
    }
}

/// The name of a port.
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut say = |message: &str| wrong.push(message.to_owned());
    if text.len() > 15 {
        say("must be no more than 15 characters");
    }
    if text.is_empty() || !text.bytes().all(|byte| is_lower(byte) || byte.is_ascii_digit() || byte == b'-') {
        say("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !text.bytes().any(is_lower) {
        say("must contain at least one letter (a-z)");
    }
    if text.contains("--") {
        say("must not contain consecutive hyphens");
    }
    if text.starts_with('-') || text.ends_with('-') {
        say("must not begin or end with a hyphen");
    }
    wrong
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase()
}

/// The name of an environment variable.
pub(super) fn environment_name(text: &str) -> Vec<String> {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .into(),
    ]
}

/// A key of a ConfigMap or a Secret.
pub(super) fn config_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if text.is_empty() || !text.bytes().all(fits) {
        wrong.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .into(),
        );
    }
    match text {
        "." => wrong.push("must not be '.'".into()),
        ".." => wrong.push("must not be '..'".into()),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".into()),
        _ => {}
    }
    wrong
}

/// The name of a header of HTTP.
pub(super) fn header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Vec::new();
    }
    vec![
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
         validation is '[-A-Za-z0-9]+')"
            .into(),
    ]
}

/// A percentage: `25%`.
pub(super) fn percent(text: &str) -> Result<i64, String> {
    let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
    match digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(digits) => Ok(digits.parse().unwrap_or(i64::MAX)),
        None => Err(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
             used for validation is '[0-9]+%')"
                .into(),
        ),
    }
}

/// A DNS subdomain whose first label is `*`.
pub(super) fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    if !text.strip_prefix("*.").is_some_and(|rest| dns1123_subdomain(rest).is_empty()) {
        wrong.push(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist \
             of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
             '*.example.com', regex used for validation is \
             '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .into(),
        );
    }
    wrong
}

/// A DNS subdomain in which labels may have underscores.
pub(super) fn search_domain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| match label.strip_prefix('_').unwrap_or(label).as_bytes() {
        [] => false,
        [only] => edge(only),
        [first, middle @ .., last] => {
            edge(first) && edge(last) && middle.iter().all(|byte| edge(byte) || matches!(byte, b'-' | b'_'))
        }
    };
    if !text.split('.').all(is_label) {
        wrong.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
                .into(),
        );
    }
    wrong
}

/// A domain name of two labels or more, with or without a dot at its end.
pub(super) fn qualified_domain(errors: &mut Errors, path: Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = dns1123_subdomain(name);
    if !wrong.is_empty() {
        return errors.invalid(path, name, wrong.join(","));
    }
    if !name.contains('.') {
        return errors.invalid(path, name, "should be a domain with at least two segments separated by dots");
    }
    for label in name.split('.') {
        let wrong = dns1123_label(label);
        if !wrong.is_empty() {
            return errors.invalid(path, label, wrong.join(","));
        }
    }
}

/// A domain and a path in it: `example.com/signer`.
pub(super) fn domain_prefixed_path(errors: &mut Errors, path: Path<'_>, text: &str) {
    if text.is_empty() {
        return errors.required(path, "");
    }
    let Some((host, rest)) = text.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        return errors.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    errors.messages(path, host, dns1123_subdomain(host));
    if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        errors.invalid(
            path,
            rest,
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
        );
    }
}

/// A path that stays below where it starts.
pub(super) fn descending_path(errors: &mut Errors, path: Path<'_>, target: &str) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    no_backsteps(errors, path, target);
}

/// A path without `..`.
pub(super) fn no_backsteps(errors: &mut Errors, path: Path<'_>, target: &str) {
    if target.split('/').any(|part| part == "..") {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// A path that stays below where it starts, and is not one of those that are reserved.
pub(super) fn unreserved_path(errors: &mut Errors, path: Path<'_>, target: &str) {
    descending_path(errors, path, target);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_names_are_short_and_have_a_letter() {
        for good in ["http", "a", "p2p-1", "1a"] {
            assert!(port_name(good).is_empty(), "{good}");
        }
        assert_eq!(
            port_name("-8--0-"),
            [
                "must contain at least one letter (a-z)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen"
            ]
        );
        assert_eq!(port_name(&"a".repeat(16)), ["must be no more than 15 characters"]);
        assert_eq!(port_name("").len(), 2);
        assert_eq!(
            port_name("Http"),
            ["must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"]
        );
    }

    #[test]
    fn keys_of_configuration_are_file_names() {
        for good in ["a", "A_b-c.d", ".hidden", "a..b"] {
            assert!(config_key(good).is_empty(), "{good}");
        }
        assert_eq!(config_key("."), ["must not be '.'"]);
        assert_eq!(config_key("..x"), ["must not start with '..'"]);
        assert!(
            config_key("a b")[0].starts_with("a valid config key must consist of alphanumeric characters")
        );
        assert_eq!(config_key(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }

    #[test]
    fn domains_are_recognized() {
        assert!(wildcard_subdomain("*.example.com").is_empty());
        for bad in ["*", "*.*.com", "a.*.com", "*bar.com"] {
            assert_eq!(wildcard_subdomain(bad).len(), 1, "{bad}");
        }
        assert!(search_domain("_tcp.a_b.example.com").is_empty());
        assert_eq!(search_domain("a..b").len(), 1);
        let mut errors = Errors::default();
        let path = Path::root("a");
        qualified_domain(&mut errors, path, "example.com.");
        domain_prefixed_path(&mut errors, path, "example.com/x");
        assert!(errors.is_empty());
        qualified_domain(&mut errors, path, "localhost");
        domain_prefixed_path(&mut errors, path, "x");
        assert_eq!(
            errors.into_vec().iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "a: Invalid value: \"localhost\": should be a domain with at least two segments separated by dots",
                "a: Invalid value: \"x\": must be a domain-prefixed path (such as \"acme.io/foo\")"
            ]
        );
    }

    #[test]
    fn percentages_are_digits_and_a_sign() {
        assert_eq!(percent("25%"), Ok(25));
        assert!(percent("%").is_err());
        assert!(percent("25").is_err());
        assert!(percent("-1%").is_err());
    }
}
