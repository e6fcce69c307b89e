//! Every reason that users find in an Event or a condition is explained: the word stands in the program as a literal, and on a page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::page::root;

/// The crates whose words become reasons.
const CRATES: [&str; 4] = ["agent", "controller", "ipam", "model"];

/// The page of all Events, and those that it refers to.
const EVENTS: &str = "docs/events.md";
const CONDITIONS: [&str; 3] = ["docs/status.md", "docs/networkattachments.md", "docs/ippools.md"];

/// Reasons of conditions that do not come as Events: what nobody but the operator of OVN can change, what passes, what is as it should be, and
/// `Invalid` of `Validated`, whose Event is `NotValidated`.
const OF_CONDITIONS: [&str; 18] = [
    "AllFieldsSupported",
    "FinalizersRemaining",
    "GatewayPending",
    "InEffect",
    "InUse",
    "Invalid",
    "MtuUnknown",
    "NoAddress",
    "NorthboundUnreachable",
    "NotAddressed",
    "NotInNodeNamespace",
    "NotPlugged",
    "OpenVSwitchUnreachable",
    "Pending",
    "SouthboundUnreachable",
    "Valid",
    "WaitingForNorthd",
    "WaitingForOvn",
];

/// Words that look like reasons: kinds, types of conditions and Events, tables, codes of the CNI specification, what the API server says.
const NO_REASONS: [&str; 45] = [
    "Add",
    "Addressed",
    "Attach",
    "Bridge",
    "ChangeHook",
    "CheckFailed",
    "ClientIP",
    "Decoding",
    "ExternalName",
    "Failed",
    "IncompatibleVersion",
    "Interface",
    "InternalIP",
    "InvalidConfig",
    "InvalidEnvironment",
    "Io",
    "LimitedConnectivity",
    "LoadBalancer",
    "Local",
    "Log",
    "NamespaceTerminating",
    "NetworkAttachment",
    "Node",
    "Normal",
    "NotAvailable",
    "Other",
    "Peered",
    "Plug",
    "Pod",
    "Port",
    "Proxy",
    "Service",
    "Setup",
    "StatefulSet",
    "StepHook",
    "Subnet",
    "Succeeded",
    "True",
    "TryAgainLater",
    "UnknownContainer",
    "UnsupportedField",
    "Vip",
    "VirtualMachine",
    "VirtualMachineInstance",
    "Warning",
];

#[test]
fn every_reason_of_an_event_or_a_condition_is_explained() {
    let read = |page: &str| std::fs::read_to_string(root().join(page)).unwrap();
    let (events, conditions) = (read(EVENTS), CONDITIONS.map(read).concat());
    let mut words = BTreeMap::new();
    for name in CRATES {
        for file in sources(&root().join("crates").join(name).join("src")) {
            for word in words_in(&std::fs::read_to_string(&file).unwrap()) {
                words.insert(word, file.clone());
            }
        }
    }
    assert!(words.contains_key("SubnetFull") && words.contains_key("InterfaceFailed"), "{words:?}");
    for (word, file) in &words {
        let (word, file) = (word.as_str(), file.display());
        if NO_REASONS.contains(&word) {
            continue;
        }
        if OF_CONDITIONS.contains(&word) {
            assert!(has_word(&conditions, word), "{file}: explain the condition's reason {word}");
            assert!(!is_row(&events, word), "{word} is no Event's reason; remove it from {EVENTS}");
        } else {
            assert!(has_word(&events, word), "{file}: explain the Event's reason {word} in {EVENTS}");
        }
    }
    for word in NO_REASONS.iter().chain(&OF_CONDITIONS) {
        assert!(words.contains_key(*word), "{word} is no word of the program any more; remove it here");
    }
}

/// What is compiled into the program, without its tests.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_test = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "tests" || stem == "fixtures");
    let below = directories.iter().filter(|path| !is_test(path)).flat_map(|path| sources(path));
    files.into_iter().filter(|path| !is_test(path)).chain(below).collect()
}

/// The literals of one capitalized word in a file, up to its tests.
fn words_in(source: &str) -> BTreeSet<String> {
    let code = source.split("\n#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    let is_reason = |text: &&str| {
        text.starts_with(|first: char| first.is_ascii_uppercase())
            && text.contains(|other: char| other.is_ascii_lowercase())
            && text.chars().all(|other| other.is_ascii_alphabetic())
    };
    literals.filter(is_reason).map(str::to_owned).collect()
}

/// Whether a row of a table begins with a word, alone or in a list.
fn is_row(page: &str, word: &str) -> bool {
    page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next()).any(|cell| has_word(cell, word))
}

/// Whether a text has a word as a name: in code, alone or in a list of such.
fn has_word(text: &str, word: &str) -> bool {
    text.split('`')
        .skip(1)
        .step_by(2)
        .any(|code| code.split(|other: char| !other.is_ascii_alphanumeric()).any(|part| part == word))
}
