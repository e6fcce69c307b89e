//! How rows say whose they are, and how they are found again by that.
//!
//! A row of a table with `external_ids` has its tags there. A row of another table has them in its name.
//!
//! ```text
//!  external_ids: portolan/unit = "subnet/web", portolan/owner = "<uid>", portolan/parent = "vpc/blue"
//!  name:         portolan/vpc/blue@<uid>/services
//! ```
//!
//! A row that contributes texts to sets of other rows lists them, so that they are found again when it goes:
//!
//! ```text
//!  external_ids: portolan/member/Address_Set/<uuid of the set's row> = "10.0.0.4 10.0.0.5"
//! ```

use ovsdb_core::{Atom, Index, Row, SmolStr, Uuid};

use crate::table::Ownership;

/// The unit that a row belongs to, such as `subnet/web`.
pub const UNIT: &str = "portolan/unit";
/// The UID of the Kubernetes object that a row is for.
pub const OWNER: &str = "portolan/owner";
/// The unit that the row's parent belongs to, unless that is the row's own.
pub const PARENT: &str = "portolan/parent";

/// The keys of `external_ids` that are ours, and the names of rows that have none; others belong to others.
pub(crate) const PREFIX: &str = "portolan/";
/// Followed by the table and UUID of a row to which texts are contributed.
const MEMBER: &str = "portolan/member/";

/// The index by which rows are found by their unit, where they have `external_ids`.
pub const BY_UNIT: &str = "external_ids:portolan/unit";
/// The same for rows that have their unit in their name.
const BY_NAMED_UNIT: &str = "name:portolan/unit";
/// The index by which rows are found by the texts that they contribute.
pub(crate) const BY_TEXT_MEMBER: &str = "portolan/member";

/// What a row says about whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Tags<'a> {
    /// The unit that it belongs to.
    pub unit: &'a str,
    /// The UID of the object that it is for.
    pub owner: &'a str,
    /// The unit of its parent, if that is another.
    pub parent: Option<&'a str>,
    /// What tells it from the unit's other rows of its table.
    pub key: &'a str,
}

impl Tags<'_> {
    /// The tags for `external_ids`.
    pub fn external_ids(&self) -> impl Iterator<Item = (String, String)> {
        let parent = self.parent.map(|parent| (PARENT, parent));
        let tags = [(UNIT, self.unit), (OWNER, self.owner)].into_iter().chain(parent);
        tags.map(|(key, value)| (key.to_owned(), value.to_owned()))
    }

    /// The tags as a name.
    pub fn name(&self) -> String {
        let separator = if self.key.is_empty() { "" } else { "/" };
        format!("{PREFIX}{}@{}{separator}{}", self.unit, self.owner, self.key)
    }
}

/// A text that a row contributes to a set of another row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TextMember {
    pub(crate) table: SmolStr,
    pub(crate) row: Uuid,
    pub(crate) element: SmolStr,
}

impl TextMember {
    /// The key of [`BY_TEXT_MEMBER`].
    pub(crate) fn index_key(&self) -> Atom {
        Atom::String(format!("{}/{} {}", self.table, self.row, self.element).into())
    }
}

/// The tag of a row that contributes these texts to one set.
pub(crate) fn member_tag(table: &str, row: Uuid, elements: &[SmolStr]) -> (Atom, Atom) {
    (Atom::String(format!("{MEMBER}{table}/{row}").into()), Atom::String(elements.join(" ").into()))
}

/// The texts that a row says it contributes.
pub(crate) fn text_members(row: &Row) -> impl Iterator<Item = TextMember> {
    let ids = match row.datum("external_ids") {
        Some(ovsdb_core::Datum::Map(map)) => Some(map),
        _ => None,
    };
    ids.into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let (table, row) = key.as_str()?.strip_prefix(MEMBER)?.split_once('/')?;
            Some((SmolStr::new(table), row.parse::<Uuid>().ok()?, value.as_str()?))
        })
        .flat_map(|(table, row, elements)| {
            elements.split(' ').map(move |element| TextMember {
                table: table.clone(),
                row,
                element: element.into(),
            })
        })
}

/// The index of a table's rows by unit.
pub(crate) fn unit_index(ownership: Ownership) -> Index {
    match ownership {
        Ownership::ExternalIds => Index::map_key("external_ids", UNIT),
        Ownership::Name => Index::function(BY_NAMED_UNIT, |row| {
            in_name(row).map(|(unit, _)| Atom::from(unit)).into_iter().collect()
        }),
    }
}

/// The name of a table's index by unit.
pub(crate) fn unit_index_name(ownership: Ownership) -> &'static str {
    match ownership {
        Ownership::ExternalIds => BY_UNIT,
        Ownership::Name => BY_NAMED_UNIT,
    }
}

/// The index of a table's rows by the texts that they contribute.
pub(crate) fn text_member_index() -> Index {
    Index::function(BY_TEXT_MEMBER, |row| text_members(row).map(|member| member.index_key()).collect())
}

/// The unit of a row, if it is one of ours.
pub fn unit_of(row: &Row) -> Option<&str> {
    external_id(row, UNIT).or_else(|| in_name(row).map(|(unit, _)| unit))
}

/// The UID of the object that a row is for, if it is one of ours.
pub fn owner_of(row: &Row) -> Option<&str> {
    external_id(row, OWNER).or_else(|| in_name(row).map(|(_, owner)| owner))
}

/// The unit that holds a row, if the row is one of ours.
pub(crate) fn parent_unit_of(row: &Row) -> Option<&str> {
    external_id(row, PARENT).or_else(|| unit_of(row))
}

fn external_id<'a>(row: &'a Row, key: &str) -> Option<&'a str> {
    row.datum("external_ids")?.map_get(key)?.as_str()
}

/// Unit and owner in the name of a row that has no `external_ids`.
fn in_name(row: &Row) -> Option<(&str, &str)> {
    if row.datum("external_ids").is_some() {
        return None;
    }
    let name = row.datum("name")?.keys().next()?.as_str()?.strip_prefix(PREFIX)?;
    let (unit, rest) = name.split_once('@')?;
    Some((unit, rest.split('/').next().unwrap_or(rest)))
}
