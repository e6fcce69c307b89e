//! Decodes one column's value in any of the forms that RFC 7047 gives it.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use smol_str::SmolStr;
use uuid::Uuid;

use crate::atom::Atom;
use crate::datum::{Datum, Map, Set};
use crate::schema::{AtomicType, ColumnType};

pub(super) fn element<T, E: de::Error>(
    element: Option<T>,
    at: usize,
    expected: &dyn de::Expected,
) -> Result<T, E> {
    element.ok_or_else(|| E::invalid_length(at, expected))
}

/// Runs a visitor that wants an array.
pub(super) struct SeqSeed<V>(pub(super) V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for SeqSeed<V> {
    type Value = V::Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_seq(self.0)
    }
}

/// Buffers that values are collected in before their size is known.
#[derive(Default)]
pub(super) struct Scratch {
    atoms: Vec<Atom>,
    pairs: Vec<(Atom, Atom)>,
}

/// Turns an object's key into something without allocating.
pub(super) struct NameSeed<F>(pub(super) F);

impl<'de, T, F: FnOnce(&str) -> T> DeserializeSeed<'de> for NameSeed<F> {
    type Value = T;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for NameSeed<F> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_str<E: de::Error>(self, name: &str) -> Result<T, E> {
        Ok((self.0)(name))
    }
}

/// A column's value in any of its forms.
pub(super) struct DatumSeed<'a> {
    pub(super) column: &'a ColumnType,
    pub(super) scratch: &'a mut Scratch,
}

impl<'de> DeserializeSeed<'de> for DatumSeed<'_> {
    type Value = Datum;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Datum, D::Error> {
        let key = self.column.key.atomic_type;
        if self.column.is_scalar() {
            return Ok(Datum::Atom(AtomSeed(key).deserialize(deserializer)?));
        }
        match &self.column.value {
            Some(value) => {
                let pairs = &mut self.scratch.pairs;
                pairs.clear();
                deserializer.deserialize_seq(MapVisitor { key, value: value.atomic_type, pairs })?;
                Ok(Datum::Map(Map::drain_from(pairs)))
            }
            None => {
                let atoms = &mut self.scratch.atoms;
                atoms.clear();
                deserializer.deserialize_any(SetVisitor { key, atoms })?;
                Ok(Datum::Set(Set::drain_from(atoms)))
            }
        }
    }
}

/// One atom, or `["set", [atom, …]]`.
struct SetVisitor<'a> {
    key: AtomicType,
    atoms: &'a mut Vec<Atom>,
}

impl SetVisitor<'_> {
    fn single<E>(self, atom: Result<Atom, E>) -> Result<(), E> {
        self.atoms.push(atom?);
        Ok(())
    }
}

impl<'de> Visitor<'de> for SetVisitor<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} or a set of them", Expected(self.key))
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        let key = AtomSeed(self.key);
        self.single(key.visit_bool(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        let key = AtomSeed(self.key);
        self.single(key.visit_i64(value))
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        let key = AtomSeed(self.key);
        self.single(key.visit_u64(value))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        let key = AtomSeed(self.key);
        self.single(key.visit_f64(value))
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        let key = AtomSeed(self.key);
        self.single(key.visit_str(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        match tag(&mut seq, &self)? {
            Tag::Set => {
                element(seq.next_element_seed(AtomsSeed { key: self.key, atoms: self.atoms })?, 1, &"a set")
            }
            Tag::Uuid if self.key == AtomicType::Uuid => {
                let uuid = element(seq.next_element_seed(UuidSeed)?, 1, &"a UUID")?;
                self.single(Ok(Atom::Uuid(uuid)))
            }
            _ => Err(de::Error::invalid_type(de::Unexpected::Seq, &self)),
        }
    }
}

/// `[atom, …]`.
struct AtomsSeed<'a> {
    key: AtomicType,
    atoms: &'a mut Vec<Atom>,
}

impl<'de> DeserializeSeed<'de> for AtomsSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AtomsSeed<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of {}", Expected(self.key))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(atom) = seq.next_element_seed(AtomSeed(self.key))? {
            self.atoms.push(atom);
        }
        Ok(())
    }
}

/// `["map", [[key, value], …]]`.
struct MapVisitor<'a> {
    key: AtomicType,
    value: AtomicType,
    pairs: &'a mut Vec<(Atom, Atom)>,
}

impl<'de> Visitor<'de> for MapVisitor<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a map of {} to {}", Expected(self.key), Expected(self.value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Tag::Map = tag(&mut seq, &self)? else {
            return Err(de::Error::invalid_type(de::Unexpected::Seq, &self));
        };
        element(seq.next_element_seed(SeqSeed(PairsVisitor(self)))?, 1, &"pairs")
    }
}

/// `[[key, value], …]`.
struct PairsVisitor<'a>(MapVisitor<'a>);

impl<'de> Visitor<'de> for PairsVisitor<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of pairs")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let MapVisitor { key, value, pairs } = self.0;
        while let Some(pair) = seq.next_element_seed(SeqSeed(PairVisitor { key, value }))? {
            pairs.push(pair);
        }
        Ok(())
    }
}

/// `[key, value]`.
struct PairVisitor {
    key: AtomicType,
    value: AtomicType,
}

impl<'de> Visitor<'de> for PairVisitor {
    type Value = (Atom, Atom);
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pair")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(Atom, Atom), A::Error> {
        let key = element(seq.next_element_seed(AtomSeed(self.key))?, 0, &self)?;
        let value = element(seq.next_element_seed(AtomSeed(self.value))?, 1, &self)?;
        Ok((key, value))
    }
}

/// What stands first in OVSDB's tagged arrays.
enum Tag {
    Set,
    Map,
    Uuid,
    Other,
}

fn tag<'de, A: SeqAccess<'de>>(seq: &mut A, expected: &dyn de::Expected) -> Result<Tag, A::Error> {
    let tag = seq.next_element_seed(NameSeed(|name: &str| match name {
        "set" => Tag::Set,
        "map" => Tag::Map,
        "uuid" => Tag::Uuid,
        _ => Tag::Other,
    }))?;
    element(tag, 0, expected)
}

/// One atom.
#[derive(Clone, Copy)]
pub(super) struct AtomSeed(pub(super) AtomicType);

/// An atomic type as error messages call it.
struct Expected(AtomicType);

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            AtomicType::Integer => "an integer",
            AtomicType::Real => "a real",
            AtomicType::Boolean => "a boolean",
            AtomicType::String => "a string",
            AtomicType::Uuid => "a UUID",
        })
    }
}

impl<'de> DeserializeSeed<'de> for AtomSeed {
    type Value = Atom;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Atom, D::Error> {
        match self.0 {
            AtomicType::String => deserializer.deserialize_str(self),
            AtomicType::Uuid => deserializer.deserialize_seq(self),
            AtomicType::Integer | AtomicType::Real | AtomicType::Boolean => {
                deserializer.deserialize_any(self)
            }
        }
    }
}

impl<'de> Visitor<'de> for AtomSeed {
    type Value = Atom;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Expected(self.0), f)
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Atom, E> {
        match self.0 {
            AtomicType::Boolean => Ok(Atom::Boolean(value)),
            _ => Err(E::invalid_type(de::Unexpected::Bool(value), &self)),
        }
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Atom, E> {
        match self.0 {
            AtomicType::Integer => Ok(Atom::Integer(value)),
            AtomicType::Real => Ok(Atom::Real(value as f64)),
            _ => Err(E::invalid_type(de::Unexpected::Signed(value), &self)),
        }
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Atom, E> {
        match (self.0, i64::try_from(value)) {
            (AtomicType::Integer, Ok(value)) => Ok(Atom::Integer(value)),
            (AtomicType::Real, _) => Ok(Atom::Real(value as f64)),
            _ => Err(E::invalid_type(de::Unexpected::Unsigned(value), &self)),
        }
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Atom, E> {
        match self.0 {
            AtomicType::Real => Ok(Atom::Real(value)),
            _ => Err(E::invalid_type(de::Unexpected::Float(value), &self)),
        }
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Atom, E> {
        match self.0 {
            AtomicType::String => Ok(Atom::String(smol(value))),
            _ => Err(E::invalid_type(de::Unexpected::Str(value), &self)),
        }
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Atom, A::Error> {
        match (self.0, tag(&mut seq, &self)?) {
            (AtomicType::Uuid, Tag::Uuid) => {
                Ok(Atom::Uuid(element(seq.next_element_seed(UuidSeed)?, 1, &"a UUID")?))
            }
            _ => Err(de::Error::invalid_type(de::Unexpected::Seq, &self)),
        }
    }
}

/// A UUID's text.
struct UuidSeed;

impl<'de> DeserializeSeed<'de> for UuidSeed {
    type Value = Uuid;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Uuid, D::Error> {
        NameSeed(|text: &str| Uuid::try_parse(text).map_err(|_| text.to_owned()))
            .deserialize(deserializer)?
            .map_err(|text| de::Error::invalid_value(de::Unexpected::Str(&text), &"a UUID"))
    }
}

/// The longest string that needs no memory of its own.
const INLINE: usize = 23;

/// Without the search for rarer forms that `SmolStr::new` makes: most strings of a database are short.
fn smol(text: &str) -> SmolStr {
    if text.len() <= INLINE { SmolStr::new_inline(text) } else { SmolStr::from(Arc::<str>::from(text)) }
}
