//! The parsed form of a database schema (RFC 7047 section 3.2).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use smol_str::SmolStr;

/// A database's tables and their columns.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DatabaseSchema {
    /// The database's name, such as `OVN_Northbound`.
    pub name: SmolStr,
    /// The schema's version, such as `7.0.0`.
    #[serde(default)]
    pub version: SmolStr,
    /// The tables by name.
    pub tables: BTreeMap<SmolStr, TableSchema>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableSchema {
    /// The columns by name, without the implied `_uuid` and `_version`.
    pub columns: BTreeMap<SmolStr, ColumnSchema>,
    /// How many rows the table may have.
    pub max_rows: Option<u64>,
    /// Whether rows live without being referenced.
    #[serde(default)]
    pub is_root: bool,
    /// Sets of columns whose values together are unique.
    #[serde(default)]
    pub indexes: Vec<Vec<SmolStr>>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ColumnSchema {
    /// What the column holds.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
    /// Whether the value is lost when the server restarts.
    #[serde(default)]
    pub ephemeral: bool,
    /// Whether the value may change after the row was inserted.
    #[serde(default = "yes")]
    pub mutable: bool,
}

fn yes() -> bool {
    true
}

/// What a column holds: `min` to `max` keys, or pairs of keys and values.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnType {
    /// The type of the atoms, or of a map's keys.
    pub key: BaseType,
    /// The type of a map's values.
    pub value: Option<BaseType>,
    /// The least number of elements; 0 or 1.
    pub min: u32,
    /// The greatest number of elements.
    pub max: Max,
}

/// The greatest number of elements of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Max {
    /// This many.
    Count(u32),
    /// As many as one likes.
    Unlimited,
}

/// An atomic type with its constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseType {
    /// The kind of atom.
    pub atomic_type: AtomicType,
    /// The table whose rows a UUID refers to.
    pub reference: Option<Reference>,
    /// The permitted values, as the schema writes them; `None` permits all.
    pub permitted: Option<serde_json::Value>,
}

/// What a UUID column refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The table.
    pub table: SmolStr,
    /// Whether the reference keeps the row alive.
    pub strength: Strength,
}

/// Whether a reference keeps the row alive that it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Strength {
    /// The row must exist, and lives as long as it is referenced.
    Strong,
    /// The reference disappears when the row does.
    Weak,
}

/// OVSDB's five kinds of atoms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AtomicType {
    /// A 64-bit signed integer.
    Integer,
    /// A floating-point number.
    Real,
    /// A truth value.
    Boolean,
    /// A Unicode string.
    String,
    /// A row's UUID.
    Uuid,
}

impl DatabaseSchema {
    /// Parses a schema as `.ovsschema` files and `get_schema` replies have it.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }
}

impl ColumnType {
    /// Whether the column holds exactly one atom.
    pub fn is_scalar(&self) -> bool {
        self.value.is_none() && self.min == 1 && self.max == Max::Count(1)
    }

    /// Whether the column holds one atom or none.
    pub fn is_optional(&self) -> bool {
        self.value.is_none() && self.min == 0 && self.max == Max::Count(1)
    }

    /// Whether the column holds pairs.
    pub fn is_map(&self) -> bool {
        self.value.is_some()
    }

    /// What matters for holding values: whatever servers permit today, they may permit more tomorrow.
    pub(crate) fn without_constraints(&self) -> Self {
        let plain = |base: &BaseType| BaseType { permitted: None, ..base.clone() };
        ColumnType {
            key: plain(&self.key),
            value: self.value.as_ref().map(plain),
            min: self.min,
            max: self.max,
        }
    }

    /// Whether the column may hold several elements, so that notifications carry differences of it.
    pub fn is_composite(&self) -> bool {
        self.max != Max::Count(1)
    }
}

impl BaseType {
    /// The type without any constraint.
    pub fn plain(atomic_type: AtomicType) -> Self {
        BaseType { atomic_type, reference: None, permitted: None }
    }
}

impl<'de> Deserialize<'de> for ColumnType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TypeVisitor;
        impl<'de> Visitor<'de> for TypeVisitor {
            type Value = ColumnType;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an atomic type's name or an object with key, value, min and max")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<ColumnType, E> {
                let key = BaseType::deserialize(de::value::StrDeserializer::new(name))?;
                Ok(ColumnType { key, value: None, min: 1, max: Max::Count(1) })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ColumnType, A::Error> {
                #[derive(Deserialize)]
                struct Object {
                    key: BaseType,
                    value: Option<BaseType>,
                    min: Option<u32>,
                    max: Option<Max>,
                }
                let o = Object::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let (min, max) = (o.min.unwrap_or(1), o.max.unwrap_or(Max::Count(1)));
                if min > 1 || matches!(max, Max::Count(max) if max < 1 || max < min) {
                    return Err(de::Error::custom("min must be 0 or 1, and max at least 1"));
                }
                Ok(ColumnType { key: o.key, value: o.value, min, max })
            }
        }
        deserializer.deserialize_any(TypeVisitor)
    }
}

impl<'de> Deserialize<'de> for BaseType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BaseVisitor;
        impl<'de> Visitor<'de> for BaseVisitor {
            type Value = BaseType;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an atomic type's name or an object with a type")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<BaseType, E> {
                AtomicType::deserialize(de::value::StrDeserializer::new(name)).map(BaseType::plain)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<BaseType, A::Error> {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Object {
                    #[serde(rename = "type")]
                    atomic_type: AtomicType,
                    ref_table: Option<SmolStr>,
                    ref_type: Option<Strength>,
                    #[serde(rename = "enum")]
                    permitted: Option<serde_json::Value>,
                }
                let o = Object::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let strength = o.ref_type.unwrap_or(Strength::Strong);
                let reference = o.ref_table.map(|table| Reference { table, strength });
                Ok(BaseType { atomic_type: o.atomic_type, reference, permitted: o.permitted })
            }
        }
        deserializer.deserialize_any(BaseVisitor)
    }
}

impl<'de> Deserialize<'de> for Max {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Count(u32),
            Word(SmolStr),
        }
        match Wire::deserialize(deserializer)? {
            Wire::Count(count) => Ok(Max::Count(count)),
            Wire::Word(word) if word == "unlimited" => Ok(Max::Unlimited),
            Wire::Word(word) => {
                Err(de::Error::custom(format!("max is {word:?}, neither a number nor unlimited")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(json: &str) -> Result<ColumnType, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn types_in_short_and_long_form() {
        assert!(column(r#""string""#).unwrap().is_scalar());
        assert!(column(r#"{"key":"uuid","min":0}"#).unwrap().is_optional());
        let ports =
            column(r#"{"key":{"type":"uuid","refTable":"Port","refType":"weak"},"min":0,"max":"unlimited"}"#)
                .unwrap();
        assert_eq!(ports.key.reference, Some(Reference { table: "Port".into(), strength: Strength::Weak }));
        assert!(ports.is_composite() && !ports.is_map());
        assert!(column(r#"{"key":"string","value":"string","min":0,"max":"unlimited"}"#).unwrap().is_map());
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [r#""text""#, r#"{"key":"string","max":0}"#, r#"{"key":"string","max":"many"}"#, "7", "{}"]
        {
            assert!(column(bad).is_err(), "{bad}");
        }
    }
}
