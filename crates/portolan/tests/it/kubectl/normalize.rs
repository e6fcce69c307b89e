//! What is not compared in what kubectl writes, and why. All of it is here.
//!
//! | text | becomes | because |
//! |---|---|---|
//! | a uid | `<uid-1>`, `<uid-2>`, … in the order of appearance | it is random; equality is kept |
//! | a `resourceVersion` | `<rv>` | servers count differently |
//! | a time, a date | `<time>` | the clock |
//! | an age | `<age>` | the clock |
//! | an address of the services' range, a node port | `<ip>`, `<port>` | a server may choose any that is free |
//! | the server's address | `<server>` | there are two |
//! | directories of the run and random names in them | `<directory>` | they are new for every run |
//! | the end of a name that a server made from `generateName: gen-` | `<generated>` | it is random |
//! | what the values of an enumeration mean | nothing | the sentences are those of `k8s-openapi`, which has none for values; the values are compared |
//! | several spaces within a line | two | columns are as wide as the widest age |

use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

static UID: LazyLock<Regex> =
    LazyLock::new(|| regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));

/// Patterns and what they become, in this order.
static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?(Z| \+0000)?", "<time>"),
        (r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} \+0000", "<time>"),
        (r#"((?:resourceV|Resource V)ersion"?:\s*)"?\d+"?"#, "$1<rv>"),
        (r"(LIVE|MERGED)-\d+", "$1"),
        (r"(<directory>/kubectl)[.0-9]*-edit-\d+", "$1-edit"),
        (r"https?://172\.31\.0\.1:\d+|172\.31\.0\.1:\d+", "<server>"),
        (r"\b10\.96\.\d{1,3}\.\d{1,3}\b", "<ip>"),
        (r"\b3[0-2]\d{3}(/TCP|/UDP)", "<port>$1"),
        (r"(nodePort: |NodePort: .*)3[0-2]\d{3}", "$1<port>"),
        (r"(^|[\s(])(\d+[smhd]){1,2}(?<after>[\s)]|$)", "$1<age>${after}"),
        (r"<invalid>", "<age>"),
        (r" *Possible enum values:\n(?:.*\S.*\n)*(?:[ \t]*\n)?", ""),
        (r"(\bgen-)[a-z0-9]{5}\b", "${1}<generated>"),
        (r"(?P<before>\S) {2,}", "${before}  "),
        (r" +$", ""),
    ];
    patterns.map(|(pattern, becomes)| (regex(&format!("(?m){pattern}")), becomes)).into()
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a fixed pattern is well-formed")
}

/// A transcript without what is volatile.
pub(crate) fn normalize(text: &str, directory: &Path) -> String {
    let mut text = text.replace(&*directory.to_string_lossy(), "<directory>");
    for (pattern, becomes) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *becomes).into_owned();
    }
    let mut seen: Vec<String> = Vec::new();
    let numbered = UID.replace_all(&text, |found: &Captures<'_>| {
        let place = seen.iter().position(|uid| *uid == found[0]).unwrap_or_else(|| {
            seen.push(found[0].to_owned());
            seen.len() - 1
        });
        format!("<uid-{}>", place + 1)
    });
    numbered.into_owned()
}
