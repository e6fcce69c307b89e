//! Decodes rows and monitor updates straight from JSON text into column values, guided by the schema.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use smol_str::SmolStr;
use uuid::Uuid;

use self::value::{AtomSeed, DatumSeed, NameSeed, Scratch, SeqSeed, element};
use crate::atom::Atom;
use crate::datum::Datum;
use crate::row::{Layout, Row};
use crate::schema::{AtomicType, ColumnType};

mod value;

/// A monitor's tables, by which updates are decoded.
pub type Layouts = [Arc<Layout>];

/// What happened to one row.
#[derive(Debug, PartialEq)]
pub enum RowUpdate {
    /// The row is there, with these values.
    Insert(Row),
    /// Columns changed; see [`Datum::apply_diff`].
    Modify {
        /// The row.
        uuid: Uuid,
        /// The columns' positions in the layout, with their differences.
        diff: Vec<(usize, Datum)>,
    },
    /// The row is gone.
    Delete {
        /// The row.
        uuid: Uuid,
    },
}

impl RowUpdate {
    /// The row.
    pub fn uuid(&self) -> Uuid {
        match self {
            RowUpdate::Insert(row) => row.uuid,
            RowUpdate::Modify { uuid, .. } | RowUpdate::Delete { uuid } => *uuid,
        }
    }
}

/// The updates of one transaction: the table's position in the layouts, and what happened to one of its rows.
pub type Updates = Vec<(usize, RowUpdate)>;

/// The form in which a server tells updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateFormat {
    /// `update`, of RFC 7047: old and new values.
    Old,
    /// `update2` and `update3`: differences.
    Diff,
}

/// The answer to `monitor_cond_since`.
#[derive(Debug, PartialEq)]
pub struct SinceReply {
    /// Whether the updates continue from the transaction that was asked for; otherwise they are everything.
    pub found: bool,
    /// The transaction up to which the updates go.
    pub last_transaction: Uuid,
    /// The updates.
    pub updates: Updates,
}

/// An `update`, `update2` or `update3` notification.
#[derive(Debug, PartialEq)]
pub struct UpdateNotification {
    /// Which monitor it belongs to.
    pub monitor: SmolStr,
    /// The transaction up to which the updates go, in `update3`.
    pub last_transaction: Option<Uuid>,
    /// The updates; none if the monitor is unknown.
    pub updates: Option<Updates>,
}

/// Decodes the result of `monitor` or `monitor_cond`.
pub fn table_updates(
    json: &[u8],
    format: UpdateFormat,
    layouts: &Layouts,
) -> Result<Updates, serde_json::Error> {
    from_json(json, UpdatesSeed { format, layouts })
}

/// Decodes the result of `monitor_cond_since`.
pub fn since_reply(json: &[u8], layouts: &Layouts) -> Result<SinceReply, serde_json::Error> {
    struct ReplyVisitor<'a>(&'a Layouts);
    impl<'de> Visitor<'de> for ReplyVisitor<'_> {
        type Value = SinceReply;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("[<found>, <last-txn-id>, <table-updates2>]")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<SinceReply, A::Error> {
            let seed = UpdatesSeed { format: UpdateFormat::Diff, layouts: self.0 };
            Ok(SinceReply {
                found: element(seq.next_element()?, 0, &self)?,
                last_transaction: element(seq.next_element()?, 1, &self)?,
                updates: element(seq.next_element_seed(seed)?, 2, &self)?,
            })
        }
    }
    from_json(json, SeqSeed(ReplyVisitor(layouts)))
}

/// Decodes the parameters of a notification; `update3` has a transaction's id. `layouts` tells a monitor's tables.
pub fn update_notification<'a>(
    json: &[u8],
    method: &str,
    layouts: impl Fn(&str) -> Option<&'a Layouts>,
) -> Result<UpdateNotification, serde_json::Error> {
    struct ParamsVisitor<F> {
        format: UpdateFormat,
        has_transaction: bool,
        layouts: F,
    }
    impl<'de, 'a, F: Fn(&str) -> Option<&'a Layouts>> Visitor<'de> for ParamsVisitor<F> {
        type Value = UpdateNotification;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("[<monitor-id>, <last-txn-id> in update3, <table-updates>]")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<UpdateNotification, A::Error> {
            let monitor: SmolStr = element(seq.next_element()?, 0, &self)?;
            let last_transaction =
                if self.has_transaction { Some(element(seq.next_element()?, 1, &self)?) } else { None };
            let updates = match (self.layouts)(&monitor) {
                Some(layouts) => {
                    let seed = UpdatesSeed { format: self.format, layouts };
                    Some(element(seq.next_element_seed(seed)?, 2, &self)?)
                }
                None => {
                    seq.next_element::<IgnoredAny>()?;
                    None
                }
            };
            Ok(UpdateNotification { monitor, last_transaction, updates })
        }
    }
    let format = if method == "update" { UpdateFormat::Old } else { UpdateFormat::Diff };
    from_json(json, SeqSeed(ParamsVisitor { format, has_transaction: method == "update3", layouts }))
}

/// Decodes one column's value.
pub fn datum<'de, D: Deserializer<'de>>(json: D, column: &ColumnType) -> Result<Datum, D::Error> {
    DatumSeed { column, scratch: &mut Scratch::default() }.deserialize(json)
}

/// Decodes a row as `select` answers it: an object that also has `_uuid`, and perhaps `_version`.
pub fn selected_row<'de, D: Deserializer<'de>>(json: D, layout: &Arc<Layout>) -> Result<Row, D::Error> {
    let mut uuid = Uuid::nil();
    let mut values = layout.defaults();
    RowSeed {
        layout,
        scratch: &mut Scratch::default(),
        uuid: Some(&mut uuid),
        each: |at, value| values[at] = value,
    }
    .deserialize(json)?;
    Ok(Row { layout: layout.clone(), uuid, values })
}

fn from_json<'de, S: DeserializeSeed<'de>>(json: &'de [u8], seed: S) -> Result<S::Value, serde_json::Error> {
    // Checking the whole text at once is much cheaper than checking each of its strings.
    let text = std::str::from_utf8(json).map_err(de::Error::custom)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// `{table: {uuid: row update}}`.
struct UpdatesSeed<'a> {
    format: UpdateFormat,
    layouts: &'a Layouts,
}

impl<'de> DeserializeSeed<'de> for UpdatesSeed<'_> {
    type Value = Updates;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Updates, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for UpdatesSeed<'_> {
    type Value = Updates;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of table updates")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Updates, A::Error> {
        let mut updates = Updates::new();
        let mut scratch = Scratch::default();
        while let Some(at) = map.next_key_seed(NameSeed(|name: &str| {
            self.layouts.iter().position(|layout| layout.table() == name).ok_or_else(|| name.to_owned())
        }))? {
            let table = at.map_err(|name| {
                de::Error::custom(format_args!("an update of table {name}, not monitored"))
            })?;
            map.next_value_seed(TableSeed {
                format: self.format,
                table,
                layout: &self.layouts[table],
                scratch: &mut scratch,
                updates: &mut updates,
            })?;
        }
        Ok(updates)
    }
}

/// `{uuid: row update}`.
struct TableSeed<'a> {
    format: UpdateFormat,
    table: usize,
    layout: &'a Arc<Layout>,
    scratch: &'a mut Scratch,
    updates: &'a mut Updates,
}

impl<'de> DeserializeSeed<'de> for TableSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TableSeed<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of row updates")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(uuid) =
            map.next_key_seed(NameSeed(|name: &str| Uuid::try_parse(name).map_err(|_| name.to_owned())))?
        {
            let uuid = uuid.map_err(|name| {
                de::Error::custom(format_args!("row {name:?} of table {} has no UUID", self.layout.table()))
            })?;
            let update = map.next_value_seed(RowUpdateSeed {
                format: self.format,
                layout: self.layout,
                uuid,
                scratch: self.scratch,
            })?;
            self.updates.push((self.table, update));
        }
        Ok(())
    }
}

/// `{"insert": row}` and its siblings, or `{"old": row, "new": row}`.
struct RowUpdateSeed<'a> {
    format: UpdateFormat,
    layout: &'a Arc<Layout>,
    uuid: Uuid,
    scratch: &'a mut Scratch,
}

#[derive(Clone, Copy)]
enum Kind {
    Whole,
    Modify,
    Delete,
    Old,
    Unknown,
}

impl<'de> DeserializeSeed<'de> for RowUpdateSeed<'_> {
    type Value = RowUpdate;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RowUpdate, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowUpdateSeed<'_> {
    type Value = RowUpdate;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row update")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RowUpdate, A::Error> {
        let (layout, uuid, scratch) = (self.layout, self.uuid, self.scratch);
        let mut update = None;
        while let Some(kind) = map.next_key_seed(NameSeed(|name: &str| match (self.format, name) {
            (UpdateFormat::Diff, "initial" | "insert") | (UpdateFormat::Old, "new") => Kind::Whole,
            (UpdateFormat::Diff, "modify") => Kind::Modify,
            (UpdateFormat::Diff, "delete") => Kind::Delete,
            (UpdateFormat::Old, "old") => Kind::Old,
            _ => Kind::Unknown,
        }))? {
            match kind {
                Kind::Whole => {
                    let mut values = layout.defaults();
                    let each = |at: usize, value| values[at] = value;
                    map.next_value_seed(RowSeed { layout, scratch, uuid: None, each })?;
                    update = Some(RowUpdate::Insert(Row { layout: layout.clone(), uuid, values }));
                }
                Kind::Modify => {
                    let mut diff = Vec::new();
                    let each = |at, value| diff.push((at, value));
                    map.next_value_seed(RowSeed { layout, scratch, uuid: None, each })?;
                    update = Some(RowUpdate::Modify { uuid, diff });
                }
                Kind::Delete | Kind::Old => {
                    map.next_value::<IgnoredAny>()?;
                    update = update.or(Some(RowUpdate::Delete { uuid }));
                }
                Kind::Unknown => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        update.ok_or_else(|| {
            de::Error::custom(format_args!(
                "the update of row {uuid} of table {} says nothing",
                layout.table()
            ))
        })
    }
}

/// `{column: value}`; columns that the layout does not have are skipped.
struct RowSeed<'a, F> {
    layout: &'a Layout,
    scratch: &'a mut Scratch,
    uuid: Option<&'a mut Uuid>,
    each: F,
}

impl<'de, F: FnMut(usize, Datum)> DeserializeSeed<'de> for RowSeed<'_, F> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(usize, Datum)> Visitor<'de> for RowSeed<'_, F> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        enum Name {
            Column(usize),
            Uuid,
            Other,
        }
        let layout = self.layout;
        while let Some(name) = map.next_key_seed(NameSeed(|name: &str| match layout.position(name) {
            Some(at) => Name::Column(at),
            None if name == "_uuid" => Name::Uuid,
            None => Name::Other,
        }))? {
            match (name, &mut self.uuid) {
                (Name::Column(at), _) => {
                    let (name, column) = &layout.columns()[at];
                    let value =
                        map.next_value_seed(DatumSeed { column, scratch: self.scratch }).map_err(|e| {
                            de::Error::custom(format_args!("column {name} of table {}: {e}", layout.table()))
                        })?;
                    (self.each)(at, value);
                }
                (Name::Uuid, Some(uuid)) => {
                    if let Atom::Uuid(value) = map.next_value_seed(AtomSeed(AtomicType::Uuid))? {
                        **uuid = value;
                    }
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}
