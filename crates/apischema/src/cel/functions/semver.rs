//! Semantic versions.

use std::cmp::Ordering;
use std::rc::Rc;

use regex::Regex;

use super::super::value::{Evaluated, Val};
use super::{Implementation, fail, no_such_overload, traversal};

pub(super) const SIGNATURES: &str = "
    isSemver(string) bool
    isSemver(string, bool) bool
    semver(string) Semver
    semver(string, bool) Semver
    Semver .major() int
    Semver .minor() int
    Semver .patch() int
    Semver .isGreaterThan(Semver) bool
    Semver .isLessThan(Semver) bool
    Semver .compareTo(Semver) int
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("isSemver", traversal(is_semver)),
    ("semver", traversal(semver)),
    ("major", traversal(|values, _| part(values, |version| version.numbers[0]))),
    ("minor", traversal(|values, _| part(values, |version| version.numbers[1]))),
    ("patch", traversal(|values, _| part(values, |version| version.numbers[2]))),
    // Quantities are compared by functions of the same names, which know versions too.
    ("isGreaterThan", traversal(|_, _| no_such_overload())),
    ("isLessThan", traversal(|_, _| no_such_overload())),
    ("compareTo", traversal(|_, _| no_such_overload())),
];

/// A version by the rules of semver.org. What follows a plus sign does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    pre_release: Vec<Identifier>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    // Numbers come before words.
    Number(u64),
    Word(String),
}

impl Semver {
    fn parse(text: &str) -> Option<Semver> {
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        if build.is_some_and(|build| !build.split('.').all(is_identifier)) {
            return None;
        }
        let (numbers, pre_release) =
            text.split_once('-').map_or((text, None), |(text, pre)| (text, Some(pre)));
        let mut parts = numbers.split('.').map(number);
        let mut next = || parts.next().flatten();
        let numbers = [next()?, next()?, next()?];
        if parts.next().is_some() {
            return None;
        }
        let pre_release = pre_release.into_iter().flat_map(|pre| pre.split('.')).map(identifier);
        Some(Semver { numbers, pre_release: pre_release.collect::<Option<_>>()? })
    }

    /// Reads what is nearly a version: with a `v` before it, with leading zeros, or too short.
    fn parse_tolerant(text: &str) -> Option<Semver> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in &mut parts {
            if part.len() > 1 {
                let trimmed = part.trim_start_matches('0');
                let starts_well = trimmed.starts_with(|first: char| first.is_ascii_digit());
                *part = if starts_well { trimmed.to_owned() } else { format!("0{trimmed}") };
            }
        }
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return None;
        }
        parts.resize(3, "0".to_owned());
        Semver::parse(&parts.join("."))
    }
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        let released = self.pre_release.is_empty().cmp(&other.pre_release.is_empty());
        self.numbers.cmp(&other.numbers).then(released).then_with(|| self.pre_release.cmp(&other.pre_release))
    }
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn number(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    (canonical && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn identifier(text: &str) -> Option<Identifier> {
    if !is_identifier(text) {
        return None;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(text).map(Identifier::Number);
    }
    Some(Identifier::Word(text.to_owned()))
}

fn parsed(values: &[Val<'_>]) -> Option<Option<Semver>> {
    match values {
        [Val::String(text)] | [Val::String(text), Val::Bool(false)] => Some(Semver::parse(text)),
        [Val::String(text), Val::Bool(true)] => Some(Semver::parse_tolerant(text)),
        _ => None,
    }
}

fn is_semver<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    parsed(values).map_or_else(no_such_overload, |version| Ok(Val::Bool(version.is_some())))
}

fn semver<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match parsed(values) {
        Some(Some(version)) => Ok(Val::Semver(Rc::new(version))),
        Some(None) => fail("No Major.Minor.Patch elements found"),
        None => no_such_overload(),
    }
}

fn part<'a>(values: &[Val<'a>], of: fn(&Semver) -> u64) -> Evaluated<'a> {
    match values {
        [Val::Semver(version)] => Ok(Val::Int(of(version) as i64)),
        _ => no_such_overload(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_order_of_semver_org() {
        let ordered = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.2.3",
        ];
        for pair in ordered.windows(2) {
            assert!(Semver::parse(pair[0]).unwrap() < Semver::parse(pair[1]).unwrap(), "{pair:?}");
        }
        assert_eq!(Semver::parse("1.0.0+a"), Semver::parse("1.0.0+b"));
        for text in ["", "1", "1.0", "01.0.0", "v1.0.0", "1.0.0-", "1.0.0-01", "1.0.0+", "1.0.0.0"] {
            assert_eq!(Semver::parse(text), None, "{text}");
        }
        assert_eq!(Semver::parse_tolerant("v01.2"), Semver::parse("1.2.0"));
        assert_eq!(Semver::parse_tolerant("1.0-rc"), None);
    }
}
