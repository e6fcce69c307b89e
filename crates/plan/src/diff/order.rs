//! The order in which desired units come, from what their rows need and from what others leave.

use ovsdb_core::{SmolStr, Uuid};

use super::{Differ, Obstacle, Waiting};
use crate::rows::DesiredRow;

/// Something that a unit has to wait for, within a diff: another unit of it.
struct Dependency {
    /// The place of the other unit.
    on: usize,
    /// What stands in the way if the other unit has to wait itself.
    otherwise: Obstacle,
    bond: Bond,
}

/// How much a unit depends on another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bond {
    /// It cannot come before the other.
    Firm,
    /// It cannot come without the other; if both wait for each other, either may come first.
    EitherFirst,
    /// It comes after the other, if that comes.
    IfItComes,
}

/// How far the search has come with a unit.
enum Visit {
    Not,
    Started,
    Done(Result<(), Obstacle>),
}

impl Differ<'_> {
    /// The places of the desired units that can be brought about, in their order; and the others.
    pub(super) fn order(&mut self) -> (Vec<usize>, Vec<Waiting>) {
        let dependencies = (0..self.desired.len()).map(|at| self.dependencies(at)).collect();
        let visits = self.desired.iter().map(|_| Visit::Not).collect();
        let units = self.desired.iter().map(|rows| rows.unit().clone()).collect();
        let mut search = Search { units, dependencies, visits, path: Vec::new(), order: Vec::new() };
        let mut waiting = Vec::new();
        for at in 0..self.desired.len() {
            search.visit(at);
        }
        for (unit, visit) in search.units.into_iter().zip(search.visits) {
            if let Visit::Done(Err(obstacle)) = visit {
                waiting.push(Waiting { unit, obstacle });
            }
        }
        (search.order, waiting)
    }

    /// The units that have to come before a unit, or why it cannot come at all.
    fn dependencies(&self, at: usize) -> Result<Vec<Dependency>, Obstacle> {
        let mut dependencies = Vec::new();
        let rows = &self.desired[at];
        let of_members = rows.memberships().iter().map(|member| (member.table.name, member.row));
        for (table, uuid) in rows.iter().flat_map(DesiredRow::needs).chain(of_members) {
            dependencies.extend(self.need(at, table, uuid)?);
        }
        for pair in rows.pairs() {
            let is_there = self.table(pair.table.name).get(pair.row).is_some();
            let on = self.wanted.get(&pair.row).filter(|on| **on != at && !is_there);
            let otherwise = Obstacle::Missing { table: pair.table.name, uuid: pair.row };
            dependencies.extend(on.map(|on| Dependency { on: *on, otherwise, bond: Bond::IfItComes }));
        }
        for row in rows {
            let first = row.unique_value().and_then(|name| self.names.get(&(row.table.name, name)));
            if let Some(first) = first.filter(|first| **first != row.uuid) {
                return Err(taken(row, *first));
            }
            for rival in self.rivals(row) {
                dependencies.extend(self.succeed(at, row, rival)?);
            }
            dependencies.extend(self.take_over(at, row)?);
        }
        Ok(dependencies)
    }

    /// What has to come first for a row to have its exclusive values.
    fn take_over(&self, at: usize, row: &DesiredRow) -> Result<Vec<Dependency>, Obstacle> {
        let mut dependencies = Vec::new();
        for value in self.exclusive_values(row) {
            let name = SmolStr::new(value.as_str().unwrap_or_default());
            let taken = |by| Obstacle::NameTaken { table: row.table.name, name: name.clone(), by };
            let holders = self.holders_of(row.table, &value);
            let first = self.exclusive.get(&(row.table.name, value)).copied();
            if let Some(first) = first.filter(|first| *first != row.uuid) {
                return Err(taken(first));
            }
            for holder in holders.into_iter().filter(|holder| *holder != row.uuid) {
                let on = match (self.dropped.get(&holder), self.wanted.get(&holder)) {
                    // Stale units leave before anything comes.
                    (Some(None), _) => continue,
                    (Some(Some(on)), _) | (None, Some(on)) => *on,
                    (None, None) => return Err(taken(holder)),
                };
                if on != at {
                    dependencies.push(Dependency { on, otherwise: taken(holder), bond: Bond::EitherFirst });
                }
            }
        }
        Ok(dependencies)
    }

    /// What has to come first for a row that is needed.
    fn need(&self, at: usize, table: &'static str, uuid: Uuid) -> Result<Option<Dependency>, Obstacle> {
        let otherwise = Obstacle::Missing { table, uuid };
        let present = self.table(table).get(uuid).is_some();
        match self.wanted.get(&uuid) {
            Some(on) if *on == at || present => Ok(None),
            Some(on) => Ok(Some(Dependency { on: *on, otherwise, bond: Bond::Firm })),
            None if present && !self.dropped.contains_key(&uuid) => Ok(None),
            None => Err(otherwise),
        }
    }

    /// What has to come first for a row to have the unique value that `rival` has now.
    fn succeed(&self, at: usize, row: &DesiredRow, rival: Uuid) -> Result<Option<Dependency>, Obstacle> {
        let taken = taken(row, rival);
        match (self.dropped.get(&rival), self.wanted.get(&rival)) {
            // Stale units leave before anything comes, and a unit leaves and comes at once.
            (Some(None), _) => Ok(None),
            (Some(Some(on)), _) if *on == at => Ok(None),
            (Some(Some(on)), _) => Ok(Some(Dependency { on: *on, otherwise: taken, bond: Bond::Firm })),
            (None, Some(on)) => {
                let renamed = self.desired[*on].iter().find(|other| other.uuid == rival);
                if renamed.is_none_or(|other| other.unique_value() == row.unique_value()) {
                    Err(taken)
                } else if *on == at {
                    Ok(None)
                } else {
                    Ok(Some(Dependency { on: *on, otherwise: taken, bond: Bond::Firm }))
                }
            }
            (None, None) => Err(taken),
        }
    }
}

fn taken(row: &DesiredRow, by: Uuid) -> Obstacle {
    let name = row.unique_value().and_then(|value| value.as_str()).unwrap_or_default().into();
    Obstacle::NameTaken { table: row.table.name, name, by }
}

/// A search through the dependencies, depth first.
struct Search {
    units: Vec<SmolStr>,
    dependencies: Vec<Result<Vec<Dependency>, Obstacle>>,
    visits: Vec<Visit>,
    /// The units whose dependencies are being visited, each because the one before depends on it.
    path: Vec<usize>,
    order: Vec<usize>,
}

impl Search {
    fn visit(&mut self, at: usize) {
        if !matches!(self.visits[at], Visit::Not) {
            return;
        }
        self.visits[at] = Visit::Started;
        self.path.push(at);
        let result = match std::mem::replace(&mut self.dependencies[at], Ok(Vec::new())) {
            Ok(dependencies) => dependencies.into_iter().try_for_each(|dependency| self.follow(dependency)),
            Err(obstacle) => Err(obstacle),
        };
        self.path.pop();
        if result.is_ok() {
            self.order.push(at);
        }
        self.visits[at] = Visit::Done(result);
    }

    fn follow(&mut self, dependency: Dependency) -> Result<(), Obstacle> {
        let Dependency { on, otherwise, bond } = dependency;
        self.visit(on);
        if bond == Bond::IfItComes {
            return Ok(());
        }
        match &self.visits[on] {
            Visit::Done(Ok(())) => Ok(()),
            Visit::Done(Err(Obstacle::Cycle { units, .. })) if units.contains(self.current()) => {
                Err(Obstacle::Cycle { units: units.clone(), uuid: otherwise.row() })
            }
            Visit::Done(Err(_)) | Visit::Not => Err(otherwise),
            Visit::Started if bond == Bond::EitherFirst => Ok(()),
            Visit::Started => {
                let from = self.path.iter().position(|at| *at == on).unwrap_or(0);
                let units = self.path[from..].iter().map(|at| self.units[*at].clone()).collect();
                Err(Obstacle::Cycle { units, uuid: otherwise.row() })
            }
        }
    }

    fn current(&self) -> &SmolStr {
        let at = self.path.last().expect("invariant: a unit is being visited");
        &self.units[*at]
    }
}
