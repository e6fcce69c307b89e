//! Which of the names that a definition asks for it gets: those that no other definition of its group has.

use std::collections::HashSet;

use super::condition::{Condition, ESTABLISHED, NAMES_ACCEPTED};
use super::definition::{Definition, Names};

/// The names that definitions of a group have.
#[derive(Debug, Default)]
pub(super) struct Taken<'a> {
    resources: HashSet<&'a str>,
    kinds: HashSet<&'a str>,
}

impl<'a> Taken<'a> {
    /// The names that these have been given.
    pub(super) fn of(accepted: impl IntoIterator<Item = &'a Names>) -> Taken<'a> {
        let mut taken = Taken::default();
        for names in accepted {
            taken.resources.extend([names.plural.as_str(), names.singular.as_str()]);
            taken.resources.extend(names.short_names.iter().map(String::as_str));
            taken.kinds.extend([names.kind.as_str(), names.list_kind.as_str()]);
        }
        taken
    }
}

/// What a definition's status shall say about its names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Naming {
    pub(super) accepted: Names,
    pub(super) names_accepted: Condition,
    pub(super) established: Condition,
}

/// Decides on the names of a definition; absent if its status says all there is to say.
///
/// What was given once is kept until it is no longer asked for, whatever others ask for since.
pub(super) fn decide(definition: &Definition, taken: &Taken<'_>) -> Option<Naming> {
    let (asked, has) = (&definition.spec.names, &definition.status.accepted_names);
    if asked == has {
        return None;
    }
    let mut accepted = has.clone();
    let mut conflict = None;
    let mut claim = |reason: &'static str, asked: &str, had: &str, taken: &HashSet<&str>, to: &mut String| {
        if asked != had && taken.contains(asked) {
            conflict = Some((reason, in_use(asked)));
        } else {
            asked.clone_into(to);
        }
    };
    claim("PluralConflict", &asked.plural, &has.plural, &taken.resources, &mut accepted.plural);
    claim("SingularConflict", &asked.singular, &has.singular, &taken.resources, &mut accepted.singular);
    let short_conflicts: Vec<String> = asked
        .short_names
        .iter()
        .filter(|name| !has.short_names.contains(name) && taken.resources.contains(name.as_str()))
        .map(|name| in_use(name))
        .collect();
    claim("KindConflict", &asked.kind, &has.kind, &taken.kinds, &mut accepted.kind);
    claim("ListKindConflict", &asked.list_kind, &has.list_kind, &taken.kinds, &mut accepted.list_kind);
    if short_conflicts.is_empty() {
        accepted.short_names.clone_from(&asked.short_names);
    } else if !matches!(conflict, Some(("KindConflict" | "ListKindConflict", _))) {
        // The last conflict is told, and these come before those of kinds.
        conflict = Some(("ShortNamesConflict", aggregate(short_conflicts)));
    }
    accepted.categories.clone_from(&asked.categories);

    let names_accepted = match conflict {
        Some((reason, message)) => Condition::new(NAMES_ACCEPTED, false, reason, message),
        None => Condition::new(NAMES_ACCEPTED, true, "NoConflicts", "no conflicts found"),
    };
    let existing = |kind: &str| definition.status.conditions.iter().find(|condition| condition.kind == kind);
    let unchanged = existing(NAMES_ACCEPTED).is_some_and(|existing| existing.says(&names_accepted));
    if unchanged && accepted == *has {
        return None;
    }
    let established = match existing(ESTABLISHED) {
        Some(existing) if existing.status == "True" => existing.clone(),
        _ if names_accepted.status == "True" => installing(),
        Some(existing) => existing.clone(),
        None => Condition::new(ESTABLISHED, false, "NotAccepted", "not all names are accepted"),
    };
    Some(Naming { accepted, names_accepted, established })
}

fn installing() -> Condition {
    Condition::new(ESTABLISHED, false, "Installing", "the initial names have been accepted")
}

fn in_use(name: &str) -> String {
    format!("{name:?} is already in use")
}

fn aggregate(mut messages: Vec<String>) -> String {
    if messages.len() == 1 { messages.remove(0) } else { format!("[{}]", messages.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
    fn definition(asked: Value, accepted: Value, conditions: Value) -> Definition {
        let status = json!({"acceptedNames": accepted, "conditions": conditions});
        Definition::read(&json!({"spec": {"group": "g.io", "names": asked}, "status": status})).unwrap()
    }

    fn names(plural: &str, kind: &str, short: &[&str]) -> Value {
        json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": short})
    }

    #[test]
    fn free_names_are_accepted() {
        let fresh = definition(names("foos", "Foo", &["f"]), json!({}), json!(null));
        let naming = decide(&fresh, &Taken::default()).unwrap();
        assert_eq!(naming.accepted, fresh.spec.names);
        assert_eq!(
            (naming.names_accepted.status.as_str(), naming.names_accepted.reason.as_str()),
            ("True", "NoConflicts")
        );
        assert_eq!(
            (naming.established.status.as_str(), naming.established.reason.as_str()),
            ("False", "Installing")
        );
        let settled = definition(names("foos", "Foo", &["f"]), names("foos", "Foo", &["f"]), json!([]));
        assert_eq!(decide(&settled, &Taken::default()), None);
    }

    #[test]
    fn a_name_that_is_taken_is_not_accepted_but_the_others_are() {
        let other = definition(json!({}), names("bars", "Foo", &["f", "g"]), json!(null));
        let taken = Taken::of([&other.status.accepted_names]);
        let kind = decide(&definition(names("foos", "Foo", &["h"]), json!({}), json!(null)), &taken).unwrap();
        assert_eq!(kind.names_accepted.reason, "ListKindConflict");
        assert_eq!(kind.names_accepted.message, "\"FooList\" is already in use");
        assert_eq!((kind.accepted.plural.as_str(), kind.accepted.kind.as_str()), ("foos", ""));
        assert_eq!(kind.established.reason, "NotAccepted");

        let short =
            decide(&definition(names("bazs", "Baz", &["f", "h", "g"]), json!({}), json!(null)), &taken);
        let short = short.unwrap();
        assert_eq!(short.names_accepted.reason, "ShortNamesConflict");
        assert_eq!(short.names_accepted.message, "[\"f\" is already in use, \"g\" is already in use]");
        assert!(short.accepted.short_names.is_empty());
    }

    #[test]
    fn what_is_served_stays_served_when_new_names_are_not_given() {
        let other = definition(json!({}), names("bars", "Bar", &["b"]), json!(null));
        let established =
            json!([{"type": "Established", "status": "True", "reason": "InitialNamesAccepted"}]);
        let changed = definition(names("foos", "Foo", &["b"]), names("foos", "Foo", &[]), established);
        let own = changed.status.accepted_names.clone();
        let naming = decide(&changed, &Taken::of([&other.status.accepted_names, &own])).unwrap();
        assert_eq!(
            (naming.names_accepted.status.as_str(), naming.established.status.as_str()),
            ("False", "True")
        );
        assert_eq!(naming.accepted.short_names, Vec::<String>::new());
        // Told once, it is not told again.
        let mut told = changed;
        told.status.conditions.push(naming.names_accepted);
        assert_eq!(decide(&told, &Taken::of([&other.status.accepted_names, &own])), None);
    }
}
