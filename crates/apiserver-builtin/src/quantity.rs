//! Amounts of resources: `500m`, `1Gi`.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// An amount, exact to a billionth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

const NANOS: i128 = 1_000_000_000;
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    pub(super) const ZERO: Quantity = Quantity { nanos: 0, format: Format::Decimal };

    /// Reads an amount; a number counts as its text.
    pub(super) fn of(value: &Value) -> Option<Quantity> {
        match value {
            Value::String(text) => Quantity::parse(text),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Quantity> {
        let text = text.trim();
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (multiplier, divisor, format) = scale(suffix)?;
        let most = i128::from(i64::MAX) * NANOS;
        let nanos = amount(whole, fraction, multiplier, divisor).unwrap_or(most).min(most);
        Some(Quantity { nanos: if negative { -nanos } else { nanos }, format })
    }

    pub(super) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub(super) fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub(super) fn is_whole(self) -> bool {
        self.nanos % NANOS == 0
    }

    /// Rounded up to a whole number.
    pub(super) fn value(self) -> i64 {
        let (whole, rest) = (self.nanos / NANOS, self.nanos % NANOS);
        let rounded = whole + i128::from(rest > 0) - i128::from(rest < 0);
        i64::try_from(rounded).unwrap_or(i64::MAX)
    }

    /// Rounded up to thousandths.
    pub(super) fn thousandths(self) -> i64 {
        let (whole, rest) = (self.nanos / 1_000_000, self.nanos % 1_000_000);
        i64::try_from(whole + i128::from(rest > 0)).unwrap_or(i64::MAX)
    }
}

/// The digits times the multiplier, over the divisor, in billionths rounded up.
fn amount(whole: &str, fraction: &str, multiplier: i128, divisor: i128) -> Option<i128> {
    let fraction = fraction.trim_end_matches('0');
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let divisor = divisor.checked_mul(10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let scaled = digits.checked_mul(multiplier)?.checked_mul(NANOS)?;
    Some(scaled / divisor + i128::from(scaled % divisor != 0))
}

/// What a suffix multiplies and divides by.
fn scale(suffix: &str) -> Option<(i128, i128, Format)> {
    if let Some(at) = BINARY_SUFFIXES.iter().skip(1).position(|known| *known == suffix) {
        return Some((1 << (10 * (at + 1)), 1, Format::Binary));
    }
    if let Some(at) = DECIMAL_SUFFIXES.iter().position(|known| *known == suffix) {
        let power = |exponent: usize| 1000i128.pow(u32::try_from(exponent).unwrap_or(0));
        return Some(if at < 3 {
            (1, power(3 - at), Format::Decimal)
        } else {
            (power(at - 3), 1, Format::Decimal)
        });
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let power = 10i128.checked_pow(exponent.unsigned_abs().min(30))?;
    Some(if exponent < 0 { (1, power, Format::Exponent) } else { (power, 1, Format::Exponent) })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

/// The way that clients know: as few digits as will do.
impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return formatter.write_str("0");
        }
        let whole = self.nanos / NANOS;
        if self.format == Format::Binary && self.is_whole() && !(-1023..=1023).contains(&whole) {
            let (number, times) = without_factors(whole, 1024, BINARY_SUFFIXES.len() - 1);
            return write!(formatter, "{number}{}", BINARY_SUFFIXES[times]);
        }
        let (number, times) = without_factors(self.nanos, 1000, DECIMAL_SUFFIXES.len() - 1);
        match (self.format, times) {
            (Format::Exponent, 3) => write!(formatter, "{number}"),
            (Format::Exponent, _) => {
                write!(formatter, "{number}e{}", 3 * (i32::try_from(times).unwrap_or(3) - 3))
            }
            _ => write!(formatter, "{number}{}", DECIMAL_SUFFIXES[times]),
        }
    }
}

/// A number without a factor, and how often it was taken out.
fn without_factors(mut number: i128, factor: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_kubernetes_writes_them() {
        for (given, written) in [
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("100m", "100m"),
            ("1024Mi", "1Gi"),
            ("1Ki", "1Ki"),
            ("512", "512"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("1.5Gi", "1536Mi"),
            ("0.1Ki", "102400m"),
            ("1000", "1k"),
            ("128974848", "128974848"),
            ("129e6", "129e6"),
            ("1e3", "1e3"),
            ("12e0", "12"),
            ("-5", "-5"),
            ("+5", "5"),
            ("0", "0"),
            ("0m", "0"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("8Ei", "9223372036854775807"),
            ("1E", "1E"),
        ] {
            assert_eq!(Quantity::parse(given).unwrap().to_string(), written, "{given}");
        }
        for bad in ["", "-", "1.2.3", "1x", "Mi", "1 Gi", "1ei", "1e", "1KI"] {
            assert!(Quantity::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn amounts_are_compared_by_what_they_are_worth() {
        let quantity = |text| Quantity::parse(text).unwrap();
        assert_eq!(quantity("1"), quantity("1000m"));
        assert!(quantity("1Gi") > quantity("1G"));
        assert!(quantity("-1").is_negative());
        assert_eq!(quantity("1500m").value(), 2);
        assert_eq!(quantity("1500m").thousandths(), 1500);
        assert!(!quantity("1500m").is_whole());
        assert_eq!(Quantity::of(&serde_json::json!(2)), Some(quantity("2")));
        assert!(Quantity::ZERO.is_zero());
    }
}
