//! Memberships: elements that units contribute to sets of other rows. [`Membership`](crate::Membership) has the rules.

use std::collections::{HashMap, HashSet};

use ovsdb_core::{Atom as Value, Datum, Row, Uuid};

use super::atom::Atom;
use super::{Differ, Present};
use crate::rows::Membership;
use crate::table::{Owned, ParentColumn, Strength, Table};
use crate::tag::{self, TextMember};

/// What becomes of memberships in a diff.
pub(super) struct Members {
    /// The texts that units which can be brought about contribute.
    wanted: HashMap<TextMember, HashSet<usize>>,
    /// The desired units that can be brought about.
    coming: HashSet<usize>,
    /// The texts that leave a set, and may come back with another unit.
    lost: HashSet<TextMember>,
    /// Those of them that a desired unit loses, with its place.
    losses: HashMap<usize, Vec<TextMember>>,
}

impl Members {
    /// `order` has the places of the units that can be brought about.
    pub(super) fn of(differ: &Differ<'_>, order: &[usize]) -> Self {
        let (wanted, coming) = (HashMap::new(), order.iter().copied().collect());
        let mut members = Members { wanted, coming, lost: HashSet::new(), losses: HashMap::new() };
        if !differ.database.has_text_members() {
            return members;
        }
        for &at in order {
            for member in differ.desired[at].memberships().iter().filter_map(text_of) {
                members.wanted.entry(member).or_default().insert(at);
            }
        }
        for (_, row) in differ.stale.iter().flatten() {
            let lost: Vec<_> =
                tag::text_members(row).filter(|member| members.is_lost(differ, member, row)).collect();
            members.lost.extend(lost);
        }
        for &at in order {
            let rows = differ.desired[at].iter().filter_map(|row| differ.table(row.table.name).get(row.uuid));
            for row in rows.chain(differ.unwanted[at].iter().map(|(_, row)| *row)) {
                let lost = tag::text_members(row).filter(|member| {
                    let wanted = members.wanted.get(member).is_some_and(|by| by.contains(&at));
                    !wanted && members.is_lost(differ, member, row)
                });
                let lost: Vec<_> = lost.collect();
                members.lost.extend(lost.iter().cloned());
                members.losses.entry(at).or_default().extend(lost);
            }
        }
        members
    }

    /// Whether a desired unit can be brought about.
    pub(super) fn is_coming(&self, at: usize) -> bool {
        self.coming.contains(&at)
    }

    /// Whether a text that `carrier` no longer contributes leaves its set: it is there, and no other row contributes it.
    fn is_lost(&self, differ: &Differ<'_>, member: &TextMember, carrier: &Row) -> bool {
        let unit = tag::unit_of(carrier);
        let keeps = |other: &&Row| {
            let Some(other_unit) = tag::unit_of(other).filter(|other| Some(*other) != unit) else {
                return false;
            };
            match differ.compared.get(other_unit) {
                None => true,
                Some(None) => false,
                Some(Some(at)) if !self.coming.contains(at) => true,
                Some(Some(at)) => self.wanted.get(member).is_some_and(|by| by.contains(at)),
            }
        };
        let in_set = set_of(differ, member)
            .is_some_and(|(_, set)| set.contains(&Value::String(member.element.clone())));
        in_set && !differ.database.carriers(member, differ.cache).iter().any(keeps)
    }

    /// What stale rows contributed.
    pub(super) fn leave(&self, differ: &Differ<'_>, unwanted: &[Present<'_>], atom: &mut Atom) {
        for (table, row) in unwanted {
            for member in tag::text_members(row).filter(|member| self.lost.contains(member)) {
                lose_text(differ, &member, atom);
            }
            leave_strong(differ, table, row.uuid(), atom);
        }
    }

    /// What rows contributed that vanish with a row that held them, though their units are not compared.
    pub(super) fn leave_with(&self, differ: &Differ<'_>, table: &Table, row: &Row, atom: &mut Atom) {
        if !differ.database.has_text_members() {
            return;
        }
        for (child_table, child) in differ.children(table, row) {
            let Some(child) = differ.table(child_table.name).get(child) else { continue };
            let compared = tag::unit_of(child).is_some_and(|unit| differ.compared.contains_key(unit));
            if !compared {
                for member in tag::text_members(child).filter(|member| self.is_lost(differ, member, child)) {
                    lose_text(differ, &member, atom);
                }
                self.leave_with(differ, child_table, child, atom);
            }
        }
    }

    /// Texts that one unit loses and another gains, so that losing them comes first.
    pub(super) fn contested(&self, differ: &Differ<'_>) -> Vec<Atom> {
        let mut losers: Vec<_> = self.losses.keys().copied().collect();
        losers.sort_unstable();
        let atom = |at: usize| {
            let mut atom = Atom::new(differ.desired[at].unit().clone());
            for member in self.losses[&at].iter().filter(|member| self.wanted.contains_key(*member)) {
                lose_text(differ, member, &mut atom);
            }
            atom
        };
        losers.into_iter().map(atom).collect()
    }

    /// Makes the memberships of a desired unit as they should be.
    pub(super) fn change(&self, differ: &Differ<'_>, at: usize, atom: &mut Atom) {
        let rows = &differ.desired[at];
        for member in rows.memberships() {
            let group = differ.table(member.table.name).get(member.row);
            let is_there = group.is_some_and(|group| has(group, member.column, &member.element));
            let comes_back = text_of(member).is_some_and(|member| self.lost.contains(&member));
            if !is_there || comes_back {
                atom.gain(member.column(), member.row, member.element.clone());
            }
        }
        for member in self.losses.get(&at).into_iter().flatten() {
            if !self.wanted.contains_key(member) {
                lose_text(differ, member, atom);
            }
        }
        for row in rows.iter().filter(|row| differ.table(row.table.name).get(row.uuid).is_some()) {
            for (by, group) in groups_of(differ, row.table, row.uuid) {
                let wanted = rows.memberships().iter().any(|member| {
                    member.row == group && member.column() == by && member.element == Value::Uuid(row.uuid)
                });
                if !wanted {
                    lose(differ, by, group, Value::Uuid(row.uuid), atom);
                }
            }
            self.drop_orphans(differ, row.table, row.uuid, atom);
        }
        for (table, row) in &differ.unwanted[at] {
            leave_strong(differ, table, row.uuid(), atom);
        }
    }

    /// Takes texts out of a set that no row contributes.
    fn drop_orphans(&self, differ: &Differ<'_>, table: &'static Table, row: Uuid, atom: &mut Atom) {
        let Some(owned) = text_column(table) else { return };
        let Some(Datum::Set(set)) = differ.table(table.name).get(row).and_then(|row| row.datum(owned.column))
        else {
            return;
        };
        for element in set {
            let Value::String(text) = element else { continue };
            let member = TextMember { table: table.name.into(), row, element: text.clone() };
            if !self.wanted.contains_key(&member)
                && differ.database.carriers(&member, differ.cache).is_empty()
            {
                lose_text(differ, &member, atom);
            }
        }
    }
}

fn text_of(member: &Membership) -> Option<TextMember> {
    match &member.element {
        Value::String(element) => {
            Some(TextMember { table: member.table.name.into(), row: member.row, element: element.clone() })
        }
        _ => None,
    }
}

/// The column of a table to which texts are contributed.
fn text_column(table: &'static Table) -> Option<&'static Owned> {
    table.member_columns().find(|owned| owned.refers_to.is_none())
}

/// The set that a text is contributed to, if it is there.
fn set_of<'a>(differ: &Differ<'a>, member: &TextMember) -> Option<(ParentColumn, &'a ovsdb_core::Set)> {
    let table = differ.database.table(&member.table)?;
    let column = text_column(table)?.column;
    match differ.table(table.name).get(member.row)?.datum(column)? {
        Datum::Set(set) => Some((ParentColumn { table: table.name, column }, set)),
        _ => None,
    }
}

/// Our sets that have a row, by the indexes of their columns.
fn groups_of(differ: &Differ<'_>, table: &Table, row: Uuid) -> Vec<(ParentColumn, Uuid)> {
    let (mut groups, element) = (Vec::new(), Value::Uuid(row));
    for group_table in differ.database.tables {
        let refers = |owned: &&Owned| owned.refers_to.is_some_and(|to| to.table == table.name);
        for owned in group_table.member_columns().filter(refers) {
            let by = ParentColumn { table: group_table.name, column: owned.column };
            let found = differ.table(group_table.name).find(owned.column, &element);
            groups
                .extend(found.filter(|group| tag::unit_of(group).is_some()).map(|group| (by, group.uuid())));
        }
    }
    groups.sort_unstable();
    groups
}

/// Takes a row that goes out of sets that would refuse to lose it. Others lose it by themselves.
fn leave_strong(differ: &Differ<'_>, table: &Table, row: Uuid, atom: &mut Atom) {
    for (by, group) in groups_of(differ, table, row) {
        let owned = differ.database.table(by.table).into_iter().flat_map(Table::member_columns);
        let is_strong = owned
            .filter(|owned| owned.column == by.column)
            .any(|owned| owned.refers_to.is_some_and(|to| to.strength == Strength::Strong));
        if is_strong {
            lose(differ, by, group, Value::Uuid(row), atom);
        }
    }
}

fn lose_text(differ: &Differ<'_>, member: &TextMember, atom: &mut Atom) {
    if let Some((by, set)) = set_of(differ, member) {
        let element = Value::String(member.element.clone());
        if set.contains(&element) {
            lose(differ, by, member.row, element, atom);
        }
    }
}

/// Takes an element out of a set, unless the set goes itself.
fn lose(differ: &Differ<'_>, by: ParentColumn, row: Uuid, element: Value, atom: &mut Atom) {
    if !differ.dropped.contains_key(&row) {
        atom.lose(by, row, element);
    }
}

fn has(row: &Row, column: &str, element: &Value) -> bool {
    matches!(row.datum(column), Some(Datum::Set(set)) if set.contains(element))
}
