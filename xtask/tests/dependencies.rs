//! What the workspace is made of keeps to `deny.toml`: licences and banned crates.
//!
//! `cargo deny` does the same and more; this needs nothing but cargo.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(args).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The strings between quotes in the list that `key` begins in `deny.toml`.
fn listed(key: &str) -> Vec<String> {
    let policy = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let start = policy.find(&format!("\n{key} = [")).unwrap_or_else(|| panic!("deny.toml has no {key}"));
    let list = &policy[start..start + policy[start..].find(']').unwrap()];
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether a licence expression can be satisfied: `OR` needs one side, `AND` both.
fn satisfied(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ");
    let tokens = expression.replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = tokens.split_whitespace().collect();
    let (good, rest) = any(&tokens, allowed);
    assert!(rest.is_empty(), "cannot read the licence expression {expression:?}");
    good
}

fn any<'a, 'b>(tokens: &'a [&'b str], allowed: &[String]) -> (bool, &'a [&'b str]) {
    let (mut good, mut rest) = all(tokens, allowed);
    while let ["OR", tail @ ..] = rest {
        let (other, tail) = all(tail, allowed);
        (good, rest) = (good | other, tail);
    }
    (good, rest)
}

fn all<'a, 'b>(tokens: &'a [&'b str], allowed: &[String]) -> (bool, &'a [&'b str]) {
    let (mut good, mut rest) = one(tokens, allowed);
    while let ["AND", tail @ ..] = rest {
        let (other, tail) = one(tail, allowed);
        (good, rest) = (good & other, tail);
    }
    (good, rest)
}

fn one<'a, 'b>(tokens: &'a [&'b str], allowed: &[String]) -> (bool, &'a [&'b str]) {
    match tokens {
        ["(", tail @ ..] => {
            let (good, rest) = any(tail, allowed);
            (good, rest.strip_prefix(&[")"]).unwrap_or(rest))
        }
        [licence, "WITH", exception, rest @ ..] => {
            (allowed.contains(&format!("{licence} WITH {exception}")), rest)
        }
        [licence, rest @ ..] => (allowed.iter().any(|name| name == licence), rest),
        [] => (false, tokens),
    }
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = listed("allow");
    assert!(allowed.len() > 3, "{allowed:?}");
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version=1", "--all-features"])).unwrap();
    let refused: Vec<String> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(|licence| satisfied(licence, &allowed)))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "not allowed by deny.toml: {refused:#?}");
}

#[test]
fn nothing_banned_is_built() {
    let banned = listed("deny");
    assert!(banned.contains(&"ring".to_owned()), "{banned:?}");
    let tree =
        cargo(&["tree", "--workspace", "--all-features", "--edges=all", "--prefix=none", "--format={p}"]);
    let built = |name: &String| tree.lines().any(|line| line.split(' ').next() == Some(name));
    let found: Vec<_> = banned.iter().filter(|name| built(name)).collect();
    assert!(found.is_empty(), "banned by deny.toml and built all the same: {found:?}");
}

#[test]
fn licence_expressions_are_read_right() {
    let allowed = ["MIT".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned(), "ISC".to_owned()];
    for good in
        ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "ISC AND (GPL-3.0 OR MIT)", "Apache-2.0 WITH LLVM-exception"]
    {
        assert!(satisfied(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(GPL-3.0 OR LGPL-2.1) AND MIT"] {
        assert!(!satisfied(bad, &allowed), "{bad}");
    }
}
