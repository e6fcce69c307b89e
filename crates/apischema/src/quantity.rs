//! Quantities of Kubernetes: `1500m`, `1.5Gi`, `3e6`.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// An amount, exactly, in units of 10⁻⁹. Smaller parts are rounded away from zero, as Kubernetes does.
///
/// Quantities are equal if they are worth the same, however they are written. As text each is in the notation that Kubernetes
/// writes: with the greatest suffix that leaves a whole number, of the family of suffixes that it was read with.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    family: Family,
}

/// The smallest part that a quantity may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 10⁻⁹
    Nano,
    /// 10⁻³
    Milli,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// `Ki`, `Mi`…
    Binary,
    /// `m`, `k`, `M`…
    Decimal,
    /// `e3`
    Exponent,
}

const NANO: i128 = 1_000_000_000;
/// As much as can be.
const MOST: i128 = i128::MAX / 4;
/// Kubernetes holds what is written with a binary suffix to this.
const MOST_BINARY: i128 = i64::MAX as i128 * NANO;
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity { nano: 0, family: Family::Decimal };

    /// A whole number.
    pub fn from_int(value: i64) -> Quantity {
        Quantity { nano: i128::from(value) * NANO, family: Family::Decimal }
    }

    /// Reads a field of an object, where a number counts as its text.
    pub fn from_value(value: &Value) -> Option<Quantity> {
        match value {
            Value::String(text) => Quantity::parse(text.trim()),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        }
    }

    /// Reads a quantity; nothing if the text is none.
    pub fn parse(text: &str) -> Option<Quantity> {
        let (negative, rest) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let end = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let Multiplier { factor, exponent, family } = Multiplier::of(suffix)?;
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Quantity { nano: 0, family });
        }
        // Digits × factor × 10^scale, in units of 10⁻⁹.
        let scale = exponent - i32::try_from(fraction.len()).ok()? + 9;
        let size = digits.parse::<i128>().ok().and_then(|value| value.checked_mul(factor));
        let nano = match (size, scale) {
            (None, _) => MOST,
            (Some(size), 0..) => 10_i128
                .checked_pow(scale.unsigned_abs())
                .and_then(|power| size.checked_mul(power))
                .unwrap_or(MOST),
            (Some(size), _) => match 10_i128.checked_pow(scale.unsigned_abs()) {
                Some(power) => size / power + i128::from(size % power != 0),
                None => 1,
            },
        };
        let nano = nano.min(if family == Family::Binary { MOST_BINARY } else { MOST });
        Some(Quantity { nano: if negative { -nano } else { nano }, family })
    }

    /// With no smaller part than this, rounded away from zero.
    pub fn rounded(self, precision: Precision) -> Quantity {
        let unit = match precision {
            Precision::Nano => 1,
            Precision::Milli => NANO / 1000,
        };
        Quantity { nano: divided_away_from_zero(self.nano, unit) * unit, ..self }
    }

    /// -1, 0 or 1.
    pub fn sign(self) -> i64 {
        self.nano.signum() as i64
    }

    /// Whether it is less than nothing.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it has no fraction.
    pub fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// Whether it was larger than what can be counted here.
    pub fn is_capped(self) -> bool {
        self.nano.abs() == MOST
    }

    /// The value, if it is whole and fits.
    pub fn as_int(self) -> Option<i64> {
        self.is_whole().then(|| i64::try_from(self.nano / NANO).ok()).flatten()
    }

    /// The value, approximately.
    pub fn as_float(self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    /// Rounded away from zero to a whole number.
    pub fn value(self) -> i64 {
        i64::try_from(divided_away_from_zero(self.nano, NANO)).unwrap_or(i64::MAX)
    }

    /// Rounded away from zero to thousandths, in thousandths.
    pub fn milli_value(self) -> i64 {
        i64::try_from(divided_away_from_zero(self.nano, NANO / 1000)).unwrap_or(i64::MAX)
    }

    /// The sum, or as much as can be.
    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity { nano: self.nano.saturating_add(other.nano).clamp(-MOST, MOST), ..self }
    }

    /// The difference, or as much as can be.
    pub fn minus(self, other: Quantity) -> Quantity {
        Quantity { nano: self.nano.saturating_sub(other.nano).clamp(-MOST, MOST), ..self }
    }
}

fn divided_away_from_zero(nano: i128, unit: i128) -> i128 {
    nano / unit + (nano % unit).signum()
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return formatter.write_str("0");
        }
        if self.family == Family::Binary && self.is_whole() && self.nano.abs() >= 1024 * NANO {
            let (number, times) = without_factor(self.nano / NANO, 1024, BINARY_SUFFIXES.len() - 1);
            return write!(formatter, "{number}{}", BINARY_SUFFIXES[times]);
        }
        let (number, times) = without_factor(self.nano, 1000, DECIMAL_SUFFIXES.len() - 1);
        match (self.family, DECIMAL_SUFFIXES[times]) {
            (_, "") => write!(formatter, "{number}"),
            (Family::Exponent, _) => {
                write!(formatter, "{number}e{}", 3 * (i32::try_from(times).unwrap_or(3) - 3))
            }
            (_, suffix) => write!(formatter, "{number}{suffix}"),
        }
    }
}

/// A number without a factor, and how often it was taken out.
fn without_factor(mut number: i128, factor: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}

struct Multiplier {
    factor: i128,
    exponent: i32,
    family: Family,
}

impl Multiplier {
    fn of(suffix: &str) -> Option<Multiplier> {
        if let Some(at) = DECIMAL_SUFFIXES.iter().position(|known| *known == suffix) {
            let exponent = 3 * i32::try_from(at).ok()? - 9;
            return Some(Multiplier { factor: 1, exponent, family: Family::Decimal });
        }
        if let Some(power) = BINARY_SUFFIXES.iter().position(|known| *known == suffix) {
            return Some(Multiplier { factor: 1 << (10 * power), exponent: 0, family: Family::Binary });
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let exponent = is_number.then(|| exponent.parse::<i32>().ok()).flatten()?.clamp(-1000, 1000);
        Some(Multiplier { factor: 1, exponent, family: Family::Exponent })
    }
}

#[cfg(test)]
mod tests;
