//! One OVSDB atomic value.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Serialize, Serializer};
use smol_str::SmolStr;
use uuid::Uuid;

use crate::schema::AtomicType;

/// A value of one of OVSDB's five atomic types.
///
/// Atoms have a total order (the order in which a server sorts sets), so `Real` compares by its total order and
/// hashes by its bits.
#[derive(Clone, Debug)]
pub enum Atom {
    /// A 64-bit signed integer.
    Integer(i64),
    /// A finite floating-point number.
    Real(f64),
    /// A truth value.
    Boolean(bool),
    /// A Unicode string.
    String(SmolStr),
    /// The UUID of a row.
    Uuid(Uuid),
    /// A row that the same transaction inserts under this `uuid-name`. Servers never send it.
    NamedUuid(Box<str>),
}

impl Atom {
    /// The type this value belongs to.
    pub fn atomic_type(&self) -> AtomicType {
        match self {
            Atom::Integer(_) => AtomicType::Integer,
            Atom::Real(_) => AtomicType::Real,
            Atom::Boolean(_) => AtomicType::Boolean,
            Atom::String(_) => AtomicType::String,
            Atom::Uuid(_) | Atom::NamedUuid(_) => AtomicType::Uuid,
        }
    }

    /// The value that a column of type `of` holds when nobody set it.
    pub fn default_of(of: AtomicType) -> Atom {
        match of {
            AtomicType::Integer => Atom::Integer(0),
            AtomicType::Real => Atom::Real(0.0),
            AtomicType::Boolean => Atom::Boolean(false),
            AtomicType::String => Atom::String(SmolStr::default()),
            AtomicType::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }

    /// Whether this is the default value of its type.
    pub fn is_default(&self) -> bool {
        match self {
            Atom::Integer(value) => *value == 0,
            Atom::Real(value) => *value == 0.0,
            Atom::Boolean(value) => !value,
            Atom::String(value) => value.is_empty(),
            Atom::Uuid(value) => value.is_nil(),
            Atom::NamedUuid(_) => false,
        }
    }

    /// The string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Atom::String(value) => Some(value),
            _ => None,
        }
    }

    /// The row's UUID, if this is one.
    pub fn as_uuid(&self) -> Option<Uuid> {
        match self {
            Atom::Uuid(value) => Some(*value),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Atom::Integer(_) => 0,
            Atom::Real(_) => 1,
            Atom::Boolean(_) => 2,
            Atom::String(_) => 3,
            Atom::Uuid(_) => 4,
            Atom::NamedUuid(_) => 5,
        }
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Atom::Integer(a), Atom::Integer(b)) => a.cmp(b),
            (Atom::Real(a), Atom::Real(b)) => a.total_cmp(b),
            (Atom::Boolean(a), Atom::Boolean(b)) => a.cmp(b),
            (Atom::String(a), Atom::String(b)) => a.as_str().cmp(b.as_str()),
            (Atom::NamedUuid(a), Atom::NamedUuid(b)) => a.cmp(b),
            (Atom::Uuid(a), Atom::Uuid(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Atom {}

impl Hash for Atom {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Atom::Integer(value) => value.hash(state),
            Atom::Real(value) => value.to_bits().hash(state),
            Atom::Boolean(value) => value.hash(state),
            Atom::String(value) => value.as_str().hash(state),
            Atom::NamedUuid(value) => value.hash(state),
            Atom::Uuid(value) => value.hash(state),
        }
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Integer(value) => value.fmt(f),
            Atom::Real(value) => value.fmt(f),
            Atom::Boolean(value) => value.fmt(f),
            Atom::String(value) => fmt::Debug::fmt(value.as_str(), f),
            Atom::Uuid(value) => value.fmt(f),
            Atom::NamedUuid(value) => write!(f, "@{value}"),
        }
    }
}

impl Serialize for Atom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Atom::Integer(value) => serializer.serialize_i64(*value),
            Atom::Real(value) => serializer.serialize_f64(*value),
            Atom::Boolean(value) => serializer.serialize_bool(*value),
            Atom::String(value) => serializer.serialize_str(value),
            Atom::Uuid(value) => ("uuid", value).serialize(serializer),
            Atom::NamedUuid(value) => ("named-uuid", value).serialize(serializer),
        }
    }
}

macro_rules! atom_from {
    ($($ty:ty => |$value:ident| $atom:expr),* $(,)?) => {$(
        impl From<$ty> for Atom {
            fn from($value: $ty) -> Self {
                $atom
            }
        }
    )*};
}

atom_from! {
    i64 => |value| Atom::Integer(value),
    f64 => |value| Atom::Real(value),
    bool => |value| Atom::Boolean(value),
    &str => |value| Atom::String(SmolStr::new(value)),
    String => |value| Atom::String(SmolStr::from(value)),
    &String => |value| Atom::String(SmolStr::new(value)),
    SmolStr => |value| Atom::String(value),
    Uuid => |value| Atom::Uuid(value),
    &Uuid => |value| Atom::Uuid(*value),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_atom_is_three_words() {
        // Rows are arrays of data; a cache of a million rows feels every byte here.
        assert_eq!(size_of::<Atom>(), 24);
    }

    #[test]
    fn atoms_serialize_as_the_protocol_has_them() {
        let json = |atom: Atom| serde_json::to_string(&atom).unwrap();
        assert_eq!(json(Atom::from(-5)), "-5");
        assert_eq!(json(Atom::from("a\"b")), r#""a\"b""#);
        assert_eq!(json(Atom::from(Uuid::nil())), r#"["uuid","00000000-0000-0000-0000-000000000000"]"#);
        assert_eq!(json(Atom::NamedUuid("row1".into())), r#"["named-uuid","row1"]"#);
    }

    #[test]
    fn negative_zero_is_a_default_real() {
        assert!(Atom::Real(-0.0).is_default());
    }
}
