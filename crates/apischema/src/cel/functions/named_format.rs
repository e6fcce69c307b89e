//! `format.dns1123Label().validate(…)`: what is wrong with a name, in Kubernetes' words.

use regex::Regex;

use super::super::value::{Evaluated, Val};
use super::{Implementation, constant, no_such_overload, traversal};
use crate::formats;

pub(super) const SIGNATURES: &str = "
    format.named(string) optional<Format>
    format.dns1123Label() Format
    format.dns1123Subdomain() Format
    format.dns1035Label() Format
    format.qualifiedName() Format
    format.dns1123LabelPrefix() Format
    format.dns1123SubdomainPrefix() Format
    format.dns1035LabelPrefix() Format
    format.labelValue() Format
    format.uri() Format
    format.uuid() Format
    format.byte() Format
    format.date() Format
    format.datetime() Format
    Format .validate(string) optional<list<string>>
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("format.named", constant(named)),
    ("format.dns1123Label", constant(|_, _| of("dns1123Label"))),
    ("format.dns1123Subdomain", constant(|_, _| of("dns1123Subdomain"))),
    ("format.dns1035Label", constant(|_, _| of("dns1035Label"))),
    ("format.qualifiedName", constant(|_, _| of("qualifiedName"))),
    ("format.dns1123LabelPrefix", constant(|_, _| of("dns1123LabelPrefix"))),
    ("format.dns1123SubdomainPrefix", constant(|_, _| of("dns1123SubdomainPrefix"))),
    ("format.dns1035LabelPrefix", constant(|_, _| of("dns1035LabelPrefix"))),
    ("format.labelValue", constant(|_, _| of("labelValue"))),
    ("format.uri", constant(|_, _| of("uri"))),
    ("format.uuid", constant(|_, _| of("uuid"))),
    ("format.byte", constant(|_, _| of("byte"))),
    ("format.date", constant(|_, _| of("date"))),
    ("format.datetime", constant(|_, _| of("datetime"))),
    ("validate", traversal(validate)),
];

/// A format by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedFormat(&'static str);

const NAMES: &[&str] = &[
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

fn find(name: &str) -> Option<NamedFormat> {
    NAMES.iter().find(|known| **known == name).map(|name| NamedFormat(name))
}

fn of<'a>(name: &str) -> Evaluated<'a> {
    find(name).map_or_else(no_such_overload, |format| Ok(Val::Format(format)))
}

fn named<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::String(name)] => Ok(Val::optional(find(name).map(Val::Format))),
        _ => no_such_overload(),
    }
}

fn validate<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let [Val::Format(format), Val::String(text)] = values else { return no_such_overload() };
    let errors = errors(*format, text);
    if errors.is_empty() {
        return Ok(Val::Optional(None));
    }
    Ok(Val::optional(Some(Val::list(errors.into_iter().map(Val::text).collect()))))
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                          alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                          regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                           and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                           '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                         an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                         validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn errors(NamedFormat(name): NamedFormat, text: &str) -> Vec<String> {
    let simple = |format: &str, message: &str| {
        if formats::matches(format, text) { vec![] } else { vec![message.to_owned()] }
    };
    // What a name starts with may end in a dash, because something follows.
    let prefix =
        || text.strip_suffix('-').filter(|rest| !rest.is_empty()).map_or(text, |_| &text[..text.len() - 1]);
    match name {
        "dns1123Label" => shaped(text, 63, is_label, LABEL),
        "dns1123LabelPrefix" => shaped(prefix(), 63, is_label, LABEL),
        "dns1123Subdomain" => shaped(text, 253, is_subdomain, SUBDOMAIN),
        "dns1123SubdomainPrefix" => shaped(prefix(), 253, is_subdomain, SUBDOMAIN),
        "dns1035Label" => shaped(text, 63, is_label_1035, LABEL_1035),
        "dns1035LabelPrefix" => shaped(prefix(), 63, is_label_1035, LABEL_1035),
        "labelValue" => shaped(text, 63, |text| text.is_empty() || is_qualified_part(text), LABEL_VALUE),
        "qualifiedName" => qualified_name(text),
        "uri" => simple("uri", &format!("parse {}: invalid URI for request", crate::go_text::quote(text))),
        "uuid" => simple("uuid", "does not match the UUID format"),
        "byte" => simple("byte", "invalid base64"),
        "date" => simple("date", "invalid date"),
        _ => simple("datetime", "invalid datetime"),
    }
}

fn shaped(text: &str, limit: usize, has_shape: fn(&str) -> bool, message: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > limit {
        errors.push(format!("must be no more than {limit} bytes"));
    }
    if !has_shape(text) {
        errors.push(message.to_owned());
    }
    errors
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_label_1035(text: &str) -> bool {
    is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase())
}

fn is_qualified_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(inner) && end(text.bytes().next()) && end(text.bytes().last())
}

fn qualified_name(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split('/').collect();
    let mut errors = Vec::new();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let wrong = shaped(prefix, 253, is_subdomain, SUBDOMAIN);
                errors.extend(wrong.into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
        _ => {
            let message = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and \
                           end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
                           for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain \
                           prefix and '/' (e.g. 'example.com/MyName')";
            return vec![message.to_owned()];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified_part(name) {
        errors.push(NAME_PART.to_owned());
    }
    errors
}
