//! The formats of strings that Kubernetes checks. Others (`int32`, `int64`…) are ignored, as kube-apiserver does.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::schema::{AdditionalProperties, Schema, Type};
use crate::url::Url;

mod address;
mod numbers;
mod time;

pub(crate) use address::{parse_ip_sloppy, parse_mac};
pub(crate) use time::{days_in_month, parse_duration, parse_go_duration};

/// The formats of strings in a schema that mean nothing to kube-apiserver; it warns of them.
pub fn unrecognized_formats(schema: &Schema) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect_unrecognized(schema, &mut found);
    found
}

fn collect_unrecognized(schema: &Schema, found: &mut BTreeSet<String>) {
    if schema.kind == Some(Type::String) && !schema.format.is_empty() && !is_checked(&schema.format) {
        found.insert(schema.format.clone());
    }
    let additional = match &schema.additional {
        AdditionalProperties::Of(values) => Some(values),
        AdditionalProperties::Any | AdditionalProperties::None => None,
    };
    let inside = schema.properties.values().chain(&schema.items).chain(additional);
    inside.for_each(|schema| collect_unrecognized(schema, found));
}

/// Whether a format is one that is checked.
pub(crate) fn is_checked(format: &str) -> bool {
    !format.is_empty() && check(format).is_some()
}

/// Whether a text has a format; true for formats that are not checked.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    check(format).is_none_or(|check| check(text))
}

/// Dashes in a format's name mean nothing.
fn check(format: &str) -> Option<fn(&str) -> bool> {
    let mut name = [0; 16];
    let mut length = 0;
    for byte in format.bytes().filter(|byte| *byte != b'-') {
        *name.get_mut(length)? = byte;
        length += 1;
    }
    Some(match &name[..length] {
        b"bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        b"uri" => |text| Url::parse(text).is_some(),
        b"email" => address::is_email,
        b"hostname" => is_hostname,
        b"ipv4" => |text| text.contains('.') && parse_ip_sloppy(text).is_some(),
        b"ipv6" => |text| text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        b"cidr" => is_cidr,
        b"mac" => |text| parse_mac(text).is_some(),
        b"uuid" => |text| is_uuid(text, None),
        b"uuid3" => |text| is_uuid(text, Some(b'3')),
        b"uuid4" => |text| is_uuid(text, Some(b'4')),
        b"uuid5" => |text| is_uuid(text, Some(b'5')),
        b"isbn" => |text| numbers::is_isbn10(text) || numbers::is_isbn13(text),
        b"isbn10" => numbers::is_isbn10,
        b"isbn13" => numbers::is_isbn13,
        b"creditcard" => numbers::is_credit_card,
        b"ssn" => numbers::is_ssn,
        b"hexcolor" => numbers::is_hex_color,
        b"rgbcolor" => numbers::is_rgb_color,
        b"byte" => is_base64,
        b"password" => |_| true,
        b"date" => time::is_date,
        b"duration" => time::is_duration,
        b"datetime" => time::is_date_time,
        _ => return None,
    })
}

fn is_hostname(text: &str) -> bool {
    static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
        let label = r"[a-zA-Z0-9\p{S}\p{L}]";
        let inner = r"[a-zA-Z0-9\-\p{S}\p{L}]";
        let pattern = format!(
            r"^({label}((-?{label}{{0,62}})?)|({label}(({inner}{{0,61}}{label})?)(\.))+([a-zA-Z\p{{L}}]){{2,63}})$"
        );
        Regex::new(&pattern).expect("invariant: the pattern is fixed; tests compile it")
    });
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Some(address) = parse_ip_sloppy(address) else { return false };
    let bits = if matches!(address, IpAddr::V4(_)) { 32 } else { 128 };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    digits && length.parse::<u32>().is_ok_and(|length| length <= bits)
}

/// Groups of 8, 4, 4, 4 and 12 hexadecimal digits, with or without dashes between any of them.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let bytes = text.as_bytes();
    let mut rest = bytes;
    for (group, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if group > 0 && rest.first() == Some(&b'-') {
            rest = &rest[1..];
        }
        if rest.len() < length || !rest[..length].iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        let first = rest[0].to_ascii_lowercase();
        let wrong = match (group, version) {
            (2, Some(version)) => first != version,
            // Version 3 is older than the variant.
            (3, Some(b'4' | b'5')) => !matches!(first, b'8' | b'9' | b'a' | b'b'),
            _ => false,
        };
        if wrong {
            return false;
        }
        rest = &rest[length..];
    }
    rest.is_empty()
}

/// Standard base64 with padding. The empty string is none.
fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &bytes[..bytes.len() - padding];
    let alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !bytes.is_empty() && bytes.len().is_multiple_of(4) && padding <= 2 && digits.iter().all(alphabet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_takes_what_kubernetes_takes() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            (
                "date-time",
                &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20z", "2014-12-15T19:30:20+02:00"],
                &["", "2014-12-15", "2014-12-15T25:30:20Z", "2014-12-15T19:30:20", "2014-02-30T19:30:20Z"],
            ),
            ("date", &["2024-02-29"], &["2023-02-29", "2024-2-29", "24-02-29", "2024-02-29T"]),
            ("duration", &["22 ns", "1h2m", "1.5h", "-3s", "2 weeks", "3 days"], &["", "abc", "12"]),
            (
                "ipv4",
                &["10.0.0.1", "010.000.0.1"],
                &["10.0.0", "10.0.0.256", "::1", "10.0.0.1/8", "1.2.3.4.5"],
            ),
            ("ipv6", &["::1", "fe80::1", "::ffff:1.2.3.4"], &["1.2.3.4", "fe80::1%eth0", ":::1"]),
            (
                "cidr",
                &["10.0.0.0/8", "10.0.0.1/08", "fd00::/64"],
                &["10.0.0.0", "10.0.0.0/33", "fd00::/129", "/8", "1.1.1.1/"],
            ),
            (
                "mac",
                &["01:02:03:04:05:06", "01-02-03-04-05-AB", "0102.0304.0506", "01:02:03:04:05:06:07:08"],
                &["01:02:03:04:05", "01:02:03:04:05:0g", "1:2:3:4:5:6"],
            ),
            (
                "uuid",
                &["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B8109DAD11D180B400C04FD430C8"],
                &["6ba7b810", "6ba7b810-9dad-11d1-80b4-00c04fd430cg", ""],
            ),
            ("uuid4", &["025b0d74-00a2-4048-bf57-227c5111bb34"], &["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]),
            (
                "hostname",
                &["a", "example.com", "1a.example", "localhost"],
                &["", "-a", "a-.com", "a..b", "under_score.com"],
            ),
            ("byte", &["YQ==", "YWJj"], &["", "YQ=", "YQ", "Y Q="]),
            (
                "uri",
                &["http://a.b/c?d=e#f", "/abs/path", "urn:x"],
                &["", "relative", "http://a b/", "http://[::1", ":x"],
            ),
            ("email", &["a@b.c", "A B <a@b.c>", "\"a b\"@c"], &["", "a", "a@", "@b", "a@b@c"]),
            ("hexcolor", &["#fff", "A0b1C2"], &["#ffff", "ggg"]),
            ("rgbcolor", &["rgb(1, 2 ,255)"], &["rgb(1,2,256)", "rgb(1,2)"]),
            ("creditcard", &["4556 7375 8689 9855"], &["4556737586899856", "1"]),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751042", "9780321751042"]),
            ("ssn", &["111-22-3333"], &["111223333", "aaa-bb-cccc"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901"]),
            ("password", &["anything"], &[]),
        ];
        for (format, good, bad) in cases {
            assert!(is_checked(format), "{format}");
            for text in *good {
                assert!(matches(format, text), "{format} {text:?}");
            }
            for text in *bad {
                assert!(!matches(format, text), "{format} {text:?}");
            }
        }
    }

    #[test]
    fn unknown_formats_of_strings_are_found() {
        let schema = serde_json::json!({"type": "object", "properties": {
            "a": {"type": "array", "items": {"type": "string", "format": "odd"}},
            "b": {"type": "integer", "format": "int32"},
            "c": {"type": "string", "format": "date-time"},
        }});
        let schema = Schema::from_json(&schema).unwrap();
        assert_eq!(unrecognized_formats(&schema), BTreeSet::from(["odd".to_owned()]));
    }

    #[test]
    fn formats_that_kubernetes_ignores_are_ignored() {
        for format in
            ["int32", "int64", "double", "k8s-short-name", "made-up", "", "a-very-long-name-of-a-format"]
        {
            assert!(!is_checked(format), "{format}");
            assert!(matches(format, "anything"));
        }
    }
}
