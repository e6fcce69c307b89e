use std::borrow::Cow;
use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn element() -> impl Strategy<Value = PathElement<'static>> {
    prop_oneof![
        "[a-c]".prop_map(|name| PathElement::Field(Cow::Owned(name))),
        "[a-b]".prop_map(|name| PathElement::Key([(Cow::Borrowed("name"), Cow::Owned(json!(name)))].into())),
        (0i64..3).prop_map(|number| PathElement::Value(Cow::Owned(Value::from(number)))),
        (0i64..2).prop_map(PathElement::Index),
    ]
}

fn path() -> impl Strategy<Value = Path<'static>> {
    proptest::collection::vec(element(), 1..4).prop_map(Path)
}

fn set() -> impl Strategy<Value = FieldSet<'static>> {
    proptest::collection::vec(path(), 0..12).prop_map(FieldSet::of)
}

/// The same set as a plain set of paths: what the algebra is checked against.
fn flat(set: &FieldSet<'static>) -> BTreeSet<Path<'static>> {
    set.paths().into_iter().collect()
}

fn is_prefix(prefix: &Path<'_>, path: &Path<'_>) -> bool {
    prefix.0.len() <= path.0.len() && prefix.0.iter().zip(&path.0).all(|(left, right)| left == right)
}

/// Whether the invariant of the tree holds.
fn is_sound(set: &FieldSet<'_>) -> bool {
    set.nodes.is_sorted_by(|left, right| left.element < right.element)
        && set.nodes.iter().all(|node| !node.branch.is_empty() && is_sound(&node.branch.children))
}

proptest! {
    #[test]
    fn the_algebra_is_that_of_sets_of_paths(left in set(), right in set()) {
        let (flat_left, flat_right) = (flat(&left), flat(&right));
        let union = left.clone().union(right.clone());
        prop_assert!(is_sound(&union));
        prop_assert_eq!(flat(&union), flat_left.union(&flat_right).cloned().collect());

        let intersection = left.intersection(&right);
        prop_assert!(is_sound(&intersection));
        prop_assert_eq!(flat(&intersection), flat_left.intersection(&flat_right).cloned().collect());
        prop_assert_eq!(left.intersects(&right), !intersection.is_empty());

        let difference = left.clone().difference(&right);
        prop_assert!(is_sound(&difference));
        prop_assert_eq!(flat(&difference), flat_left.difference(&flat_right).cloned().collect());

        let recursive = left.clone().recursive_difference(&right);
        prop_assert!(is_sound(&recursive));
        let kept = |path: &&Path<'static>| !flat_right.iter().any(|taken| is_prefix(taken, path));
        prop_assert_eq!(flat(&recursive), flat_left.iter().filter(kept).cloned().collect());

        let leaves = left.clone().leaves();
        prop_assert!(is_sound(&leaves));
        let leaf = |path: &&Path<'static>| {
            !flat_left.iter().any(|other| other != *path && is_prefix(path, other))
        };
        prop_assert_eq!(flat(&leaves), flat_left.iter().filter(leaf).cloned().collect());
    }

    #[test]
    fn laws_hold(a in set(), b in set(), c in set()) {
        let union = |a: &FieldSet<'static>, b: &FieldSet<'static>| a.clone().union(b.clone());
        prop_assert_eq!(union(&a, &b), union(&b, &a));
        prop_assert_eq!(union(&union(&a, &b), &c), union(&a, &union(&b, &c)));
        prop_assert_eq!(union(&a, &a), a.clone());
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersection(&union(&b, &c)), union(&a.intersection(&b), &a.intersection(&c)));
        prop_assert_eq!(a.clone().difference(&a), FieldSet::new());
        prop_assert_eq!(union(&a.clone().difference(&b), &a.intersection(&b)), a);
    }

    #[test]
    fn a_set_has_what_was_put_in(paths in proptest::collection::vec(path(), 0..12), other in path()) {
        let set = FieldSet::of(paths.clone());
        prop_assert!(is_sound(&set));
        prop_assert!(paths.iter().all(|path| set.contains(path)));
        prop_assert_eq!(set.contains(&other), paths.contains(&other));
        prop_assert_eq!(set.len(), paths.iter().collect::<BTreeSet<_>>().len());
        prop_assert_eq!(set.is_empty(), paths.is_empty());
        prop_assert_eq!(set.clone().into_owned(), set);
    }
}

#[test]
fn a_level_is_listed_before_what_is_below_it() {
    let set = FieldSet::of([
        Path::of_fields(&["spec", "a", "x"]),
        Path::of_fields(&["spec", "b"]),
        Path::of_fields(&["metadata"]),
        Path::of_fields(&["spec"]),
        Path::of_fields(&[]),
    ]);
    assert_eq!(set.to_string(), ".metadata\n.spec\n.spec.b\n.spec.a.x");
}

#[test]
fn nodes_in_any_order_make_a_set() {
    let node = |name: &'static str, member, child: Option<&'static str>| Node {
        element: PathElement::field(name),
        branch: Branch { member, children: FieldSet::of(child.map(|child| Path::of_fields(&[child]))) },
    };
    let set =
        FieldSet::of_nodes(vec![node("b", true, None), node("a", true, None), node("b", false, Some("c"))]);
    assert_eq!(set.to_string(), ".a\n.b\n.b.c");
}

#[test]
fn large_sets_are_combined_in_time() {
    let large = |offset: i64| {
        let nodes = (0..100_000).map(|number| Node {
            element: PathElement::Value(Cow::Owned(json!((number * 7919 + offset) % 200_000))),
            branch: Branch::member(),
        });
        FieldSet::of_nodes(nodes.collect())
    };
    let (left, right) = (large(0), large(1));
    assert_eq!(left.clone().union(right.clone()).len() + left.intersection(&right).len(), 200_000);
    assert_eq!(left.clone().difference(&right).len(), 100_000 - left.intersection(&right).len());
}
