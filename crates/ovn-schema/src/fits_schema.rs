//! Holds a generated struct against the schema; each database's module runs it over all its tables.

use ovsdb_core::schema::{AtomicType, ColumnType};
use ovsdb_core::{Atom, DatabaseSchema, Datum, Layout, Row, SmolStr, TypedRow, Uuid};

pub(crate) fn check<R: TypedRow + PartialEq + std::fmt::Debug>(schema: &DatabaseSchema) {
    let table = &schema.tables[R::TABLE];
    let names: Vec<&str> = table.columns.keys().map(SmolStr::as_str).collect();
    assert_eq!(R::COLUMNS, names, "columns of {}", R::TABLE);

    let (layout, _) = Layout::new(R::TABLE, table, names);
    let row = |values| Row::new(layout.clone(), Uuid::nil(), values);

    for ((name, column), datum) in layout.columns().iter().zip(R::default().encode()) {
        if column.min == 1 && !column.is_scalar() {
            // No struct's default can have an element for which the schema has no value.
            assert_eq!(datum, Datum::Set([].into_iter().collect()), "default of {}.{name}", R::TABLE);
        } else {
            assert_eq!(datum, Datum::default_of(column), "default of {}.{name}", R::TABLE);
        }
    }

    let samples: Box<[Datum]> = layout.columns().iter().map(|(_, column)| sample(column)).collect();
    let decoded = R::decode(&row(samples.clone())).unwrap();
    for ((name, _), (sample, encoded)) in layout.columns().iter().zip(samples.iter().zip(decoded.encode())) {
        assert_eq!(*sample, encoded, "round trip of {}.{name}", R::TABLE);
    }

    let (without_columns, _) = Layout::new(R::TABLE, table, []);
    assert_eq!(R::decode(&Row::new(without_columns, Uuid::nil(), Box::new([]))).unwrap(), R::default());
}

/// A value with as many different elements as the type takes, up to two.
fn sample(column: &ColumnType) -> Datum {
    let key = |at| atom(column.key.atomic_type, at);
    match &column.value {
        Some(value) => Datum::Map(
            [(key(0), atom(value.atomic_type, 0)), (key(1), atom(value.atomic_type, 1))]
                .into_iter()
                .collect(),
        ),
        None if column.is_scalar() => Datum::Atom(key(1)),
        None if column.is_composite() => Datum::Set([key(0), key(1)].into_iter().collect()),
        None => Datum::Set([key(1)].into_iter().collect()),
    }
}

fn atom(atomic_type: AtomicType, at: u8) -> Atom {
    match atomic_type {
        AtomicType::Integer => Atom::from(i64::from(at)),
        AtomicType::Real => Atom::from(f64::from(at) + 0.5),
        AtomicType::Boolean => Atom::from(at == 1),
        AtomicType::String => Atom::from(format!("text {at}")),
        AtomicType::Uuid => Atom::from(Uuid::from_u128(u128::from(at) + 1)),
    }
}
