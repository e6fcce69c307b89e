//! The notation that quantities are stored in.

use apischema::Quantity;

/// With more digits a number is not looked at twice.
const MAX_SHORT: usize = 18;
/// Nothing smaller than this power of ten is kept.
const SMALLEST: i32 = -9;

/// The notation that a quantity is stored in. Nothing if the text is none, or one too large to count.
pub(super) fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    let quantity = Quantity::parse(text).filter(|quantity| !quantity.is_capped())?;
    Some(if is_kept(text) { text.to_owned() } else { quantity.to_string() })
}

/// Whether Kubernetes takes the notation of a quantity for the canonical one at first sight, and so keeps it.
fn is_kept(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = unsigned.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let significant = whole.trim_start_matches('0');
    let digits = format!("{}{fraction}", if significant.is_empty() { "0" } else { significant });
    if digits.len() > MAX_SHORT || digits.starts_with('0') {
        return false;
    }
    if suffix.ends_with('i') {
        return fraction.is_empty() && digits.parse::<u64>().is_ok_and(|mantissa| mantissa & 0x07 != 0);
    }
    let Ok(places) = i32::try_from(fraction.len()) else { return false };
    let exponent = exponent(suffix) - places;
    !digits.ends_with("000") && exponent % 3 == 0 && exponent >= SMALLEST
}

/// The power of ten that a suffix stands for.
fn exponent(suffix: &str) -> i32 {
    let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    match suffixes.into_iter().zip((-9..).step_by(3)).find(|(known, _)| *known == suffix) {
        Some((_, exponent)) => exponent,
        None => suffix[1..].parse().unwrap_or(0),
    }
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
