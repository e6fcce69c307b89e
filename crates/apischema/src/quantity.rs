//! Quantities of Kubernetes: `1500m`, `1.5Gi`, `3e6`.

use std::cmp::Ordering;

/// An amount, exactly, in units of 10⁻⁹. Smaller parts are rounded up, as Kubernetes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    nano: i128,
}

const NANO: i128 = 1_000_000_000;

impl Quantity {
    pub(crate) fn from_int(value: i64) -> Quantity {
        Quantity { nano: i128::from(value) * NANO }
    }

    /// Reads a quantity; nothing if it is none.
    pub(crate) fn parse(text: &str) -> Option<Quantity> {
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
        let Multiplier { factor, exponent } = Multiplier::of(suffix)?;
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Quantity { nano: 0 });
        }
        // Digits × factor × 10^scale, in units of 10⁻⁹. What does not fit is as much as can be.
        let scale = exponent - i32::try_from(fraction.len()).ok()? + 9;
        let most = Quantity { nano: i128::MAX / 4 };
        let size = digits.parse::<i128>().ok().and_then(|value| value.checked_mul(factor));
        let nano = match (size, scale) {
            (None, _) => most.nano,
            (Some(size), 0..) => 10_i128
                .checked_pow(scale as u32)
                .and_then(|power| size.checked_mul(power))
                .unwrap_or(most.nano),
            (Some(size), _) => match 10_i128.checked_pow(scale.unsigned_abs()) {
                Some(power) => size / power + i128::from(size % power != 0),
                None => 1,
            },
        };
        let nano = nano.min(most.nano);
        Some(Quantity { nano: if negative { -nano } else { nano } })
    }

    pub(crate) fn sign(self) -> i64 {
        self.nano.signum() as i64
    }

    /// The value, if it is whole and fits.
    pub(crate) fn as_int(self) -> Option<i64> {
        (self.nano % NANO == 0).then(|| i64::try_from(self.nano / NANO).ok()).flatten()
    }

    pub(crate) fn as_float(self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    pub(crate) fn plus(self, other: Quantity) -> Quantity {
        Quantity { nano: self.nano.saturating_add(other.nano) }
    }

    pub(crate) fn minus(self, other: Quantity) -> Quantity {
        Quantity { nano: self.nano.saturating_sub(other.nano) }
    }

    pub(crate) fn compare(self, other: Quantity) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

/// How a quantity is written: it stays in the family of suffixes that it came in.
#[derive(Clone, Copy, PartialEq)]
enum Family {
    Binary,
    Decimal,
    Exponent,
}

impl Family {
    fn of(suffix: &str) -> Family {
        if suffix.ends_with('i') {
            Family::Binary
        } else if suffix.len() > 1 {
            Family::Exponent
        } else {
            Family::Decimal
        }
    }
}

/// The smallest part that a quantity may have.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Precision {
    Nano,
    Milli,
}

/// A quantity as Kubernetes writes it: with the greatest suffix that leaves a whole number.
pub(crate) fn canonical(text: &str, precision: Precision) -> Option<String> {
    let Quantity { mut nano } = Quantity::parse(text)?;
    let suffix =
        text.trim_start_matches(['-', '+']).trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let mut family = Family::of(suffix);
    if precision == Precision::Milli {
        // Away from zero, as what is rounded is asked for.
        let unit = NANO / 1000;
        let rest = nano % unit;
        nano += if rest > 0 {
            unit - rest
        } else if rest < 0 {
            -unit - rest
        } else {
            0
        };
    }
    if family == Family::Binary && (nano.abs() < 1024 * NANO || nano % NANO != 0) {
        family = Family::Decimal;
    }
    if nano == 0 {
        return Some("0".to_owned());
    }
    if family == Family::Binary {
        let mut number = nano / NANO;
        let mut power = 0;
        while number % 1024 == 0 && power < 6 {
            number /= 1024;
            power += 1;
        }
        return Some(format!("{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]));
    }
    let (mut number, mut exponent) = (nano, -9);
    while number % 1000 == 0 && exponent < 18 {
        number /= 1000;
        exponent += 3;
    }
    Some(match (family, exponent) {
        (_, 0) => number.to_string(),
        (Family::Exponent, exponent) => format!("{number}e{exponent}"),
        (_, exponent) => {
            let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
            format!("{number}{}", suffixes[((exponent + 9) / 3) as usize])
        }
    })
}

struct Multiplier {
    factor: i128,
    exponent: i32,
}

impl Multiplier {
    fn of(suffix: &str) -> Option<Multiplier> {
        let decimal = |exponent| Some(Multiplier { factor: 1, exponent });
        let binary = |power: u32| Some(Multiplier { factor: 1 << (10 * power), exponent: 0 });
        match suffix {
            "" => decimal(0),
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(1),
            "Mi" => binary(2),
            "Gi" => binary(3),
            "Ti" => binary(4),
            "Pi" => binary(5),
            "Ei" => binary(6),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
                let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                decimal(number.then(|| exponent.parse::<i32>().ok()).flatten()?.clamp(-1000, 1000))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_kubernetes_writes_them() {
        for (text, written) in [
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("0.5Gi", "512Mi"),
            ("1024Mi", "1Gi"),
            ("100Ki", "100Ki"),
            ("1023", "1023"),
            ("1000", "1k"),
            ("2048Mi", "2Gi"),
            ("512", "512"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("0.000", "0"),
            ("-2000", "-2k"),
            ("0.1m", "100u"),
            ("1.5Ki", "1536"),
            ("110", "110"),
        ] {
            assert_eq!(canonical(text, Precision::Nano).as_deref(), Some(written), "{text}");
        }
        assert_eq!(canonical("0.1m", Precision::Milli).as_deref(), Some("1m"));
        assert_eq!(canonical("x", Precision::Nano), None);
    }

    #[test]
    fn quantities_are_worth_what_they_say() {
        let same = |a: &str, b: &str| assert_eq!(Quantity::parse(a), Quantity::parse(b), "{a} {b}");
        same("1.5", "1500m");
        same("1Ki", "1024");
        same("200M", "0.2G");
        same("3e6", "3M");
        same("-1E3", "-1k");
        same("1E", "1000P");
        same("0.0000000001", "1n");
        same("+5", "5");
        assert_eq!(Quantity::parse("50k").unwrap().as_int(), Some(50_000));
        assert_eq!(Quantity::parse("1.5").unwrap().as_int(), None);
        assert!(Quantity::parse("50M").unwrap().compare(Quantity::parse("50Mi").unwrap()).is_lt());
        assert!(Quantity::parse("9999999999999999999999999999999999999G").unwrap().as_int().is_none());
        for text in ["", "K", "200K", "Three", "Mi", "1.2.3", "1,3G", "e3", "1e", "--1", " 1"] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }
}
