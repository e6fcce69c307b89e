//! The workspace keeps its shape: which crate may know which, and what no crate of a kind may link.
//!
//! [`MEMBERS`] is the rule; ARCHITECTURE.md has the reasons. A new crate gets a line there. Development dependencies are free:
//! a test may use what the crate itself may not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A crate of the workspace, with all that may be said about what it depends on.
struct Member {
    name: &'static str,
    /// The members that it may depend on directly.
    knows: &'static [&'static str],
    /// The kinds of foreign crates that it may not reach, however indirectly.
    never: &'static [&'static [&'static str]],
}

/// Top of the list knows least. A crate may know only crates above it.
const MEMBERS: &[Member] = &[
    // Publishable: these know nothing of Portolan.
    Member { name: "ovsdb-core", knows: &[], never: PURE },
    Member { name: "ovsdb", knows: &["ovsdb-core"], never: &[KUBE_CLIENT] },
    Member { name: "openflow", knows: &[], never: PURE },
    Member { name: "apischema", knows: &[], never: PURE },
    Member { name: "apimachinery", knows: &["apischema"], never: PURE },
    Member { name: "apistore", knows: &[], never: &[KUBE_CLIENT] },
    Member { name: "apiserver", knows: &["apischema", "apimachinery", "apistore"], never: &[KUBE_CLIENT] },
    Member {
        name: "apiserver-builtin",
        knows: &["apischema", "apimachinery", "apistore", "apiserver"],
        never: &[KUBE_CLIENT],
    },
    // Pure: values in, values out.
    Member { name: "ovn-schema", knows: &["ovsdb-core"], never: PURE },
    Member { name: "portolan-api", knows: &[], never: PURE },
    Member { name: "portolan-manifests", knows: &["portolan-api"], never: PURE },
    Member { name: "portolan-model", knows: &["portolan-api"], never: PURE },
    Member { name: "portolan-ipam", knows: &["portolan-api", "portolan-model"], never: PURE },
    Member {
        name: "portolan-plan",
        knows: &["ovsdb-core", "openflow", "ovn-schema", "portolan-api", "portolan-model", "portolan-ipam"],
        never: PURE,
    },
    // Drivers and edges.
    Member { name: "portolan-host", knows: &[], never: &[KUBE_CLIENT] },
    Member { name: "portolan-health", knows: &[], never: &[TLS, KUBE_CLIENT, KUBE] },
    Member { name: "portolan-daemons", knows: &["portolan-health"], never: &[TLS, KUBE_CLIENT, KUBE] },
    Member { name: "portolan-watch", knows: &[], never: &[] },
    Member { name: "portolan-cni", knows: &[], never: &[RUNTIME, TLS, KUBE_CLIENT, KUBE] },
    Member {
        name: "portolan-trace",
        knows: &["ovsdb-core", "ovsdb", "ovn-schema", "portolan-api", "portolan-model", "portolan-plan"],
        never: &[KUBE_CLIENT],
    },
    Member { name: "portolan-authority", knows: &["portolan-watch"], never: &[] },
    Member { name: "portolan-serving", knows: &["portolan-watch", "portolan-authority"], never: &[] },
    Member {
        name: "portolan-ovn-tls",
        knows: &["portolan-model", "portolan-watch", "portolan-authority"],
        never: &[],
    },
    Member {
        name: "portolan-trace-server",
        knows: &["portolan-watch", "portolan-serving", "portolan-trace"],
        never: &[],
    },
    Member {
        name: "portolan-webhook",
        knows: &["portolan-api", "portolan-model", "portolan-watch", "portolan-serving"],
        never: &[],
    },
    Member {
        name: "portolan-controller",
        knows: &[
            "ovsdb-core",
            "ovsdb",
            "ovn-schema",
            "portolan-api",
            "portolan-model",
            "portolan-ipam",
            "portolan-plan",
            "portolan-health",
            "portolan-watch",
        ],
        never: &[],
    },
    Member {
        name: "portolan-agent",
        knows: &[
            "ovsdb-core",
            "ovsdb",
            "openflow",
            "ovn-schema",
            "portolan-api",
            "portolan-model",
            "portolan-ipam",
            "portolan-plan",
            "portolan-host",
            "portolan-health",
            "portolan-watch",
            "portolan-cni",
        ],
        never: &[],
    },
    Member {
        name: "portolan-lab",
        knows: &["ovsdb-core", "ovsdb", "apiserver", "ovn-schema", "portolan-api", "portolan-host"],
        never: &[],
    },
    Member {
        name: "portolan",
        knows: &[
            "ovsdb-core",
            "ovsdb",
            "apimachinery",
            "apischema",
            "apistore",
            "apiserver",
            "apiserver-builtin",
            "ovn-schema",
            "portolan-api",
            "portolan-model",
            "portolan-ipam",
            "portolan-plan",
            "portolan-host",
            "portolan-health",
            "portolan-daemons",
            "portolan-manifests",
            "portolan-ovn-tls",
            "portolan-trace",
            "portolan-serving",
            "portolan-trace-server",
            "portolan-watch",
            "portolan-webhook",
            "portolan-controller",
            "portolan-agent",
            "portolan-lab",
        ],
        never: &[],
    },
    // Only ever development dependencies.
    Member {
        name: "portolan-testbed",
        knows: &["ovsdb-core", "ovsdb", "ovn-schema", "portolan-api", "portolan-lab"],
        never: &[],
    },
    Member {
        name: "apiserver-conformance",
        knows: &["apischema", "apimachinery", "apistore", "apiserver", "apiserver-builtin"],
        never: &[],
    },
    Member {
        name: "portolan-fuzz",
        knows: &["ovsdb-core", "openflow", "apischema", "apimachinery", "apiserver"],
        never: &[KUBE_CLIENT],
    },
    Member {
        name: "xtask",
        knows: &["ovsdb-core", "portolan-api", "portolan-manifests"],
        never: &[KUBE_CLIENT],
    },
];

const RUNTIME: &[&str] = &["tokio", "mio", "async-std", "smol", "hyper", "reqwest", "tower", "axum"];
const TLS: &[&str] = &["rustls", "aws-lc-rs", "tokio-rustls", "native-tls"];
const KUBE_CLIENT: &[&str] = &["kube-client", "kube-runtime"];
const KUBE: &[&str] = &["kube", "kube-core", "k8s-openapi"];
/// The standard library's clock cannot be kept out this way; randomness and other people's clocks can.
const RANDOM: &[&str] = &["rand", "getrandom", "fastrand", "quanta", "coarsetime"];
const PURE: &[&[&str]] = &[RUNTIME, TLS, KUBE_CLIENT, RANDOM];

/// Nothing here is built with these, tests and build scripts included.
const BANNED: &[&str] = &["ring", "openssl", "openssl-sys", "native-tls"];

/// What only tests need: crates, and features of crates.
const TEST_ONLY: &[&str] = &[
    "portolan-testbed",
    "apiserver-conformance",
    "insta",
    "proptest",
    "portolan-model feature \"fixtures\"",
    "portolan-plan feature \"memdb\"",
];

/// The binaries that run with privileges on users' machines.
const PRODUCTS: &[&str] = &["portolan", "portolan-cni"];

/// The one crate that calls the kernel, and so has lints of its own.
const MAY_BE_UNSAFE: &str = "portolan-host";

/// A package as its manifest has it.
#[derive(Debug, Default)]
struct Package {
    manifest: PathBuf,
    /// The names of its dependencies, without those for development and build scripts.
    dependencies: BTreeSet<String>,
}

#[test]
fn every_crate_has_a_line_in_the_table() {
    for name in packages().keys() {
        assert!(
            MEMBERS.iter().any(|member| member.name == name),
            "crate {name} has no line in MEMBERS of xtask/tests/workspace_shape.rs: \
             say there which crates it may know and what it may never link"
        );
    }
}

#[test]
fn the_table_itself_points_in_one_direction() {
    for (at, member) in MEMBERS.iter().enumerate() {
        for known in member.knows {
            assert!(
                MEMBERS[..at].iter().any(|above| above.name == *known),
                "{} knows {known}, which does not stand above it",
                member.name
            );
        }
    }
}

#[test]
fn crates_know_only_the_crates_they_may() {
    let violations = unknown_to_the_table(&packages());
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn crates_never_link_what_their_kind_must_not() {
    let packages = packages();
    let mut violations = Vec::new();
    for member in
        MEMBERS.iter().filter(|member| packages.contains_key(member.name) && !member.never.is_empty())
    {
        // What this crate needs by itself: in one build of everything, features that others ask for would count too.
        let linked = tree(&["--package", member.name, "--all-features", "--edges", "normal,no-proc-macro"]);
        assert!(linked.contains(member.name), "what {} links is not a list: {linked:?}", member.name);
        violations.extend(never_linked(member, &linked));
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn the_product_links_nothing_that_only_tests_need() {
    for product in PRODUCTS {
        let arguments = ["--package", product, "--edges", "normal,features"];
        let linked = cargo(&[&["tree", "--locked", "--prefix", "none"][..], &arguments].concat());
        assert!(linked.contains(&format!("{product} v")), "what {product} links is not a list: {linked}");
        assert_eq!(
            test_only(&linked),
            Vec::<&str>::new(),
            "linked by {product}; `cargo tree --package {product} --edges normal,features` says why"
        );
    }
}

#[test]
fn a_crate_or_feature_for_tests_is_found_in_what_is_linked() {
    let linked = "portolan v0.1.0 (/p)\nportolan-model feature \"fixtures\"\n└── portolan-model v0.1.0 (/m)\ninsta v1.49.0";
    assert_eq!(test_only(linked), ["insta", "portolan-model feature \"fixtures\""]);
    assert_eq!(
        test_only("portolan v0.1.0 (/p)\nportolan-model v0.1.0 (/m)\ninstant v1.0.0"),
        Vec::<&str>::new()
    );
}

#[test]
fn nothing_is_built_with_a_second_crypto_library() {
    let built = tree(&["--workspace", "--all-features", "--edges", "normal,build,dev"]);
    assert!(built.contains("ovsdb-core"), "the list of crates is not one: {built:?}");
    for banned in BANNED {
        assert!(
            !built.contains(*banned),
            "{banned} is built; `cargo tree --workspace --invert {banned}` says why"
        );
    }
}

#[test]
fn every_crate_has_the_lints_of_the_workspace() {
    for (name, package) in packages().iter().filter(|(name, _)| *name != MAY_BE_UNSAFE) {
        let manifest = std::fs::read_to_string(&package.manifest).unwrap();
        assert!(
            manifest.contains("\n[lints]\nworkspace = true\n"),
            "{} lacks `[lints]` with `workspace = true`: crate {name} could contain unsafe code",
            package.manifest.display()
        );
    }
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(
        workspace.contains("\nunsafe_code = \"forbid\"\n"),
        "the workspace's lints no longer forbid unsafe code"
    );
}

#[test]
fn a_crate_that_knows_too_much_is_named() {
    let package = |dependencies: &[&str]| Package {
        dependencies: dependencies.iter().map(ToString::to_string).collect(),
        ..Package::default()
    };
    let packages = BTreeMap::from([
        ("portolan-plan".to_owned(), package(&["ovn-schema", "ovsdb", "serde"])),
        ("ovn-schema".to_owned(), package(&["ovsdb-core"])),
        ("ovsdb".to_owned(), package(&["ovsdb-core", "tokio"])),
        ("ovsdb-core".to_owned(), package(&[])),
    ]);
    assert_eq!(unknown_to_the_table(&packages), ["portolan-plan depends on ovsdb, which it must not know"]);

    let ipam = MEMBERS.iter().find(|member| member.name == "portolan-ipam").unwrap();
    let linked = ["serde", "tokio"].map(str::to_owned).into();
    assert_eq!(
        never_linked(ipam, &linked),
        ["portolan-ipam links tokio; `cargo tree --package portolan-ipam --invert tokio` says why"]
    );
}

/// Dependencies between members that the table does not have.
fn unknown_to_the_table(packages: &BTreeMap<String, Package>) -> Vec<String> {
    let mut violations = Vec::new();
    for member in MEMBERS {
        let Some(package) = packages.get(member.name) else { continue };
        for known in package.dependencies.iter().filter(|name| packages.contains_key(*name)) {
            if !member.knows.contains(&known.as_str()) {
                violations.push(format!("{} depends on {known}, which it must not know", member.name));
            }
        }
    }
    violations
}

fn never_linked(member: &Member, linked: &BTreeSet<String>) -> Vec<String> {
    let never = member.never.iter().copied().flatten().filter(|name| linked.contains(**name));
    never
        .map(|name| {
            format!("{0} links {name}; `cargo tree --package {0} --invert {name}` says why", member.name)
        })
        .collect()
}

/// What is for tests only in a dependency tree with features.
fn test_only(tree: &str) -> Vec<&'static str> {
    let is_linked = |name: &&&str| {
        tree.lines().any(|line| {
            line.strip_prefix(**name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
    };
    TEST_ONLY.iter().filter(is_linked).copied().collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The workspace's packages by name.
fn packages() -> BTreeMap<String, Package> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps", "--locked"]))
            .unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let package = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
        Package {
            manifest: text(&package["manifest_path"]).into(),
            dependencies: normal.map(|dependency| text(&dependency["name"])).collect(),
        }
    };
    metadata["packages"].as_array().unwrap().iter().map(|p| (text(&p["name"]), package(p))).collect()
}

/// The names of the packages in a dependency tree.
fn tree(arguments: &[&str]) -> BTreeSet<String> {
    let output = cargo(&[&["tree", "--locked", "--prefix", "none"], arguments].concat());
    output.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(
        output.status.success(),
        "cargo {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
