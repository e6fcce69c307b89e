//! Quantities: numbers with a suffix, which have many notations for the same amount.

/// The notation that a quantity is written in: no fraction, and the largest suffix that allows it. Nothing if it is none, or one
/// too large to bother.
pub(super) fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    let quantity = Quantity::parse(text)?;
    if quantity.is_kept { Some(text.to_owned()) } else { quantity.write() }
}

#[derive(Clone, Copy, PartialEq)]
enum Format {
    /// `Ki`, `Mi`…
    Binary,
    /// `m`, `k`, `M`…
    Decimal,
    /// `e3`
    Exponent,
}

/// `mantissa` times ten to the `exponent`.
struct Quantity {
    mantissa: i128,
    exponent: i32,
    format: Format,
    /// Whether Kubernetes takes the notation for the canonical one at first sight, and so keeps it.
    is_kept: bool,
}

const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// With more digits a number is not looked at twice.
const MAX_SHORT: usize = 18;

/// Nothing smaller than this power of ten is kept.
const SMALLEST: i32 = -9;

impl Quantity {
    fn parse(text: &str) -> Option<Self> {
        let (sign, unsigned) = match text.as_bytes().first()? {
            b'-' => (-1, &text[1..]),
            b'+' => (1, &text[1..]),
            _ => (1, text),
        };
        let end = unsigned.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let mut mantissa: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            mantissa = mantissa.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let significant = whole.trim_start_matches('0');
        let digits = format!("{}{fraction}", if significant.is_empty() { "0" } else { significant });
        let is_short = digits.len() <= MAX_SHORT && !digits.starts_with('0');
        let mut exponent = -i32::try_from(fraction.len()).ok()?;
        let mut is_kept = is_short && !digits.ends_with("000");
        let format = if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            is_kept = is_short && fraction.is_empty() && mantissa & 0x07 != 0;
            mantissa = mantissa.checked_mul(1024i128.checked_pow(*power)?)?;
            if fraction.is_empty() {
                mantissa = mantissa.min(i128::from(i64::MAX));
            }
            Format::Binary
        } else if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            exponent += power;
            Format::Decimal
        } else {
            exponent +=
                suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok().filter(|power| power.abs() < 100)?;
            Format::Exponent
        };
        is_kept &= format == Format::Binary || (exponent % 3 == 0 && exponent >= SMALLEST);
        let mut quantity = Quantity { mantissa: sign * mantissa, exponent, format, is_kept };
        quantity.round()?;
        Some(quantity)
    }

    /// Rounds away from zero what is too small to keep.
    fn round(&mut self) -> Option<()> {
        while self.exponent < SMALLEST {
            let rest = self.mantissa % 10;
            self.mantissa = self.mantissa / 10 + rest.signum();
            self.exponent += 1;
        }
        Some(())
    }

    fn write(mut self) -> Option<String> {
        if self.format == Format::Binary {
            if let Some(whole) = self.whole().filter(|whole| whole.abs() >= 1024) {
                return Some(binary(whole));
            }
            self.format = Format::Decimal;
        }
        if self.mantissa == 0 {
            return Some("0".to_owned());
        }
        while self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.exponent += 1;
        }
        while self.exponent % 3 != 0 {
            self.mantissa = self.mantissa.checked_mul(10)?;
            self.exponent -= 1;
        }
        let Quantity { mantissa, exponent, format, .. } = self;
        match format {
            Format::Exponent if exponent == 0 => Some(mantissa.to_string()),
            Format::Exponent => Some(format!("{mantissa}e{exponent}")),
            _ => {
                let (suffix, _) = DECIMAL.iter().find(|(_, power)| *power == exponent)?;
                Some(format!("{mantissa}{suffix}"))
            }
        }
    }

    /// The amount, if it has no fraction.
    fn whole(&self) -> Option<i128> {
        let scale = 10i128.checked_pow(self.exponent.unsigned_abs())?;
        if self.exponent >= 0 {
            self.mantissa.checked_mul(scale)
        } else {
            (self.mantissa % scale == 0).then(|| self.mantissa / scale)
        }
    }
}

fn binary(mut whole: i128) -> String {
    let mut suffix = "";
    for (name, _) in BINARY {
        if whole % 1024 != 0 {
            break;
        }
        whole /= 1024;
        suffix = name;
    }
    format!("{whole}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_amount_has_one_notation() {
        let cases = [
            ("0", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("100m", "100m"),
            ("0.1", "100m"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1024", "1024"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("1023Ki", "1023Ki"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("10E2", "1e3"),
            ("1000e0", "1e3"),
            ("15e-1", "1500e-3"),
            ("-1", "-1"),
            ("-1500m", "-1500m"),
            ("+5", "+5"),
            ("1.", "1."),
            ("1.500", "1.500"),
            ("01.500", "01.500"),
            ("0.500", "500m"),
            (".5", "500m"),
            ("0.0000000001", "1n"),
            ("12345678901234567890", "12345678901234567890"),
            ("100000000000000000000", "100E"),
            ("1P", "1P"),
            ("1000T", "1P"),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
            assert_eq!(canonical(expected).as_deref(), Some(expected), "{expected}");
        }
        for bad in ["", "-", ".", "1.2.3", "1x", "x", "1 Ki", "1e", "1ee3", "1K", "1mi"] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
