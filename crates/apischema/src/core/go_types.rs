//! The Go types that kube-apiserver reads core kinds into.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// The fields of a struct by their names in JSON.
pub(super) type Struct = BTreeMap<String, Field>;

/// A field of a struct.
#[derive(Debug)]
pub(super) struct Field {
    /// Whether it is written out even if it is zero.
    pub(super) always: bool,
    /// Whether zero and nothing are not the same.
    pub(super) pointer: bool,
    /// As Go's messages name it.
    pub(super) go_type: String,
}

/// The struct behind a component.
pub(super) fn of(component: &str) -> Option<&'static Struct> {
    static STRUCTS: LazyLock<HashMap<String, Struct>> = LazyLock::new(|| {
        let types: HashMap<String, BTreeMap<String, String>> =
            serde_json::from_str(include_str!("go_types.json"))
                .expect("invariant: the generated file is JSON; tests read all of it");
        let fields = |fields: BTreeMap<String, String>| {
            fields.into_iter().map(|(name, written)| (name, Field::parse(&written))).collect()
        };
        types.into_iter().map(|(name, described)| (name, fields(described))).collect()
    });
    STRUCTS.get(component)
}

impl Field {
    fn parse(written: &str) -> Field {
        let (always, rest) = written.strip_prefix('!').map_or((false, written), |rest| (true, rest));
        let (pointer, go_type) = rest.strip_prefix('*').map_or((false, rest), |rest| (true, rest));
        Field { always, pointer, go_type: go_type.to_owned() }
    }
}
