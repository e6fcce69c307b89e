//! The order and the equality of values in server-side apply: numbers are numbers, whatever their notation.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// A total order: numbers, strings, booleans, lists, objects, null.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let mut orders = left.iter().zip(right).map(|(left, right)| compare(left, right));
            orders.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let pairs = left.iter().zip(right);
            let mut orders = pairs.map(|((left_name, left), (right_name, right))| {
                left_name.cmp(right_name).then_with(|| compare(left, right))
            });
            orders.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (left, right) => rank(left).cmp(&rank(right)),
    }
}

/// Whether two values are the same.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|((left_name, left), (right_name, right))| {
                    left_name == right_name && equal(left, right)
                })
        }
        (left, right) => left == right,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or_default();
            float(left).total_cmp(&float(right))
        }
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::test_values::json_value;

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(equal(&json!({"a": [1]}), &json!({"a": [1.0]})));
        assert!(!equal(&json!({"a": [1]}), &json!({"a": [1.5]})));
        assert_eq!(compare(&json!(2), &json!(1.5)), Ordering::Greater);
        assert_eq!(compare(&json!(i64::MAX), &json!(i64::MAX - 1)), Ordering::Greater);
        assert!(!equal(&json!(0), &json!(null)));
    }

    proptest! {
        #[test]
        fn it_is_an_order(a in json_value(), b in json_value(), c in json_value()) {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            prop_assert_eq!(compare(&a, &b).is_eq(), equal(&a, &b));
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }
}
