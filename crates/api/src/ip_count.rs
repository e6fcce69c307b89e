//! Counts of addresses in a status, as Kube-OVN's clients read them.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How many addresses: a JSON number.
///
/// Kube-OVN's clients decode it as a floating-point number or as a big integer, by version; both read an
/// integer without a fraction. What exceeds 64 bits, as in any IPv6 /63, is written as a floating-point
/// number: the API server would store it as one anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpCount(pub u128);

impl Serialize for IpCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // i64, not u64: a number that only fits the latter becomes a float in the API server too.
        match i64::try_from(self.0) {
            Ok(small) => serializer.serialize_i64(small),
            Err(_) => serializer.serialize_f64(self.0 as f64),
        }
    }
}

impl<'de> Deserialize<'de> for IpCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = IpCount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count of addresses")
            }
            fn visit_u64<E>(self, count: u64) -> Result<IpCount, E> {
                Ok(IpCount(count.into()))
            }
            fn visit_i64<E>(self, count: i64) -> Result<IpCount, E> {
                Ok(IpCount(u128::try_from(count).unwrap_or(0)))
            }
            fn visit_f64<E>(self, count: f64) -> Result<IpCount, E> {
                Ok(IpCount(count as u128)) // saturates; not-a-number is 0
            }
            fn visit_str<E: de::Error>(self, count: &str) -> Result<IpCount, E> {
                // One development version of Kube-OVN wrote strings.
                count.parse().map(IpCount).map_err(|_| E::invalid_value(de::Unexpected::Str(count), &self))
            }
            fn visit_unit<E>(self) -> Result<IpCount, E> {
                Ok(IpCount(0))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for IpCount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "IpCount".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(count: u128) -> String {
        serde_json::to_string(&IpCount(count)).unwrap()
    }

    #[test]
    fn small_counts_are_integers_and_huge_ones_floats() {
        assert_eq!(json(253), "253");
        assert_eq!(json(i64::MAX as u128), "9223372036854775807");
        assert_eq!(json(1 << 64), "1.8446744073709552e+19");
    }

    #[test]
    fn every_version_of_kube_ovn_is_read() {
        for (text, count) in [
            ("253", 253),
            ("253.0", 253),
            ("\"253\"", 253),
            ("-1", 0),
            ("null", 0),
            ("1.8446744073709552e19", 1 << 64),
        ] {
            assert_eq!(serde_json::from_str::<IpCount>(text).unwrap(), IpCount(count), "{text}");
        }
        assert!(serde_json::from_str::<IpCount>("\"many\"").is_err());
    }
}
