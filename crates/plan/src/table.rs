//! What there is to know about Portolan's rows of a table: which columns it owns, what may hold a row, and how a row is
//! found again.

use ovsdb_core::TypedRow;

use crate::tag::{self, Tags};

/// A table with the rules for Portolan's rows in it.
#[derive(Debug)]
pub struct Table {
    /// The table's name.
    pub name: &'static str,
    /// The columns that Portolan writes. Whatever others write into the rest stays.
    pub owned: &'static [Owned],
    /// The columns that may hold a row of this table; none for a root table. Each row names the one that holds it.
    pub parents: &'static [ParentColumn],
    /// The column that no two rows may share, if there is one.
    pub unique: Option<&'static str>,
    /// Where a row says whose it is.
    pub ownership: Ownership,
}

/// Where a row says whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// In `external_ids`.
    ExternalIds,
    /// In its name, which Portolan chooses, because the table has no `external_ids`.
    Name,
}

/// A column that Portolan writes, in full or in part.
#[derive(Debug)]
pub struct Owned {
    /// The column's name.
    pub column: &'static str,
    /// Which part of it.
    pub part: Part,
    /// What the column refers to, if it does.
    pub refers_to: Option<RefersTo>,
}

/// The rows that a column refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefersTo {
    /// Their table.
    pub table: &'static str,
    /// What happens when one of them is missing.
    pub strength: Strength,
}

/// What happens when a row is missing that is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// The server drops the reference without a word.
    Weak,
    /// The server refuses the transaction.
    Strong,
}

/// Which part of a column is Portolan's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// These keys of a map.
    Keys(&'static [&'static str]),
    /// The keys of a map that begin like this.
    KeysWithPrefix(&'static str),
    /// The elements of a set that units contribute as [memberships](crate::Membership). The unit that the row belongs to
    /// does not write it.
    Members,
    /// The pairs of a map that units contribute as [pairs](crate::Pair), each for a row of this table. The unit that the row belongs to does
    /// not write it.
    Pairs(&'static str),
}

/// A column that keeps rows of a table that is not a root table alive: a set of strong references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParentColumn {
    /// The parent's table.
    pub table: &'static str,
    /// The column.
    pub column: &'static str,
}

/// A row type that Portolan plans. Declare it with `planned!`.
pub trait Planned: TypedRow {
    /// The rules for its table.
    const RULES: &'static Table;
    /// Says in the row whose it is.
    fn tag(&mut self, tags: &Tags<'_>);
}

impl Table {
    /// Whether rows live without being referred to.
    pub fn is_root(&self) -> bool {
        self.parents.is_empty()
    }

    /// The columns to which units contribute elements.
    pub fn member_columns(&self) -> impl Iterator<Item = &'static Owned> {
        self.owned.iter().filter(|owned| owned.part == Part::Members)
    }

    /// The map to which units contribute pairs, if there is one, and the table of the rows that these are for.
    pub fn pairs(&self) -> Option<(&'static str, &'static str)> {
        self.owned.iter().find_map(|owned| match owned.part {
            Part::Pairs(carriers) => Some((owned.column, carriers)),
            _ => None,
        })
    }
}

impl Part {
    /// Whether a map's key is Portolan's.
    pub fn has_key(self, key: &str) -> bool {
        match self {
            Part::Whole => true,
            Part::Keys(keys) => keys.contains(&key),
            Part::KeysWithPrefix(prefix) => key.starts_with(prefix),
            Part::Members | Part::Pairs(_) => false,
        }
    }
}

impl Owned {
    /// All of a column.
    pub const fn whole(column: &'static str) -> Self {
        Owned { column, part: Part::Whole, refers_to: None }
    }

    /// These keys of a map.
    pub const fn keys(column: &'static str, keys: &'static [&'static str]) -> Self {
        Owned { column, part: Part::Keys(keys), refers_to: None }
    }

    /// All of a column of weak references.
    pub const fn weak(column: &'static str, table: &'static str) -> Self {
        let refers_to = Some(RefersTo { table, strength: Strength::Weak });
        Owned { column, part: Part::Whole, refers_to }
    }

    /// All of a column of strong references to rows of a root table.
    pub const fn strong(column: &'static str, table: &'static str) -> Self {
        let refers_to = Some(RefersTo { table, strength: Strength::Strong });
        Owned { column, part: Part::Whole, refers_to }
    }

    /// A set of references to which units contribute their own rows.
    pub const fn row_members(column: &'static str, table: &'static str, strength: Strength) -> Self {
        Owned { column, part: Part::Members, refers_to: Some(RefersTo { table, strength }) }
    }

    /// A set of texts to which units contribute elements.
    pub const fn text_members(column: &'static str) -> Self {
        Owned { column, part: Part::Members, refers_to: None }
    }

    /// A map to which units contribute pairs for rows of a table.
    pub const fn pairs(column: &'static str, carriers: &'static str) -> Self {
        Owned { column, part: Part::Pairs(carriers), refers_to: None }
    }

    /// Portolan's keys of `external_ids`.
    pub const TAGS: Owned =
        Owned { column: "external_ids", part: Part::KeysWithPrefix(tag::PREFIX), refers_to: None };
}

/// Declares the rules for a table: `planned!(Row, held by [Parent::COLUMN, …], unique: Some("name"), owns [Owned, …])`.
/// `planned!(named Row, …)` is for a table without `external_ids`.
macro_rules! planned {
    (named $row:ident, held by [$($parent:ident::$column:ident),*], unique: $unique:expr, owns [$($owned:expr),* $(,)?]) => {
        planned!(@ $row, Name, |row: &mut $row, tags: &$crate::tag::Tags<'_>| row.name = tags.name(), $unique,
            [$($parent::$column),*], [$crate::table::Owned::whole("name"), $($owned),*]);
    };
    ($row:ident, held by [$($parent:ident::$column:ident),*], unique: $unique:expr, owns [$($owned:expr),* $(,)?]) => {
        planned!(@ $row, ExternalIds,
            |row: &mut $row, tags: &$crate::tag::Tags<'_>| row.external_ids.extend(tags.external_ids()), $unique,
            [$($parent::$column),*], [$crate::table::Owned::TAGS, $($owned),*]);
    };
    (@ $row:ident, $ownership:ident, $tag:expr, $unique:expr, [$($parent:ident::$column:ident),*], [$($owned:expr),*]) => {
        impl $crate::table::Planned for $row {
            const RULES: &'static $crate::table::Table = &$crate::table::Table {
                name: <$row as ovsdb_core::TypedRow>::TABLE,
                owned: &[$($owned),*],
                parents: &[$($crate::table::ParentColumn {
                    table: <$parent as ovsdb_core::TypedRow>::TABLE,
                    column: $parent::$column.name(),
                }),*],
                unique: $unique,
                ownership: $crate::table::Ownership::$ownership,
            };

            fn tag(&mut self, tags: &$crate::tag::Tags<'_>) {
                let tag: fn(&mut $row, &$crate::tag::Tags<'_>) = $tag;
                tag(self, tags);
            }
        }
    };
}
pub(crate) use planned;
