//! Numbers with a check digit, and colours.

pub(super) fn is_isbn10(text: &str) -> bool {
    let digits: Vec<u8> = without_separators(text).collect();
    let [first @ .., last] = digits.as_slice() else { return false };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let check = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(first).map(|(weight, digit)| weight * u32::from(digit - b'0')).sum();
    (sum + 10 * check).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let digits: Vec<u8> = without_separators(text).collect();
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weighted =
        |(index, digit): (usize, &u8)| u32::from(digit - b'0') * if index % 2 == 0 { 1 } else { 3 };
    digits.iter().enumerate().map(weighted).sum::<u32>().is_multiple_of(10)
}

fn without_separators(text: &str) -> impl Iterator<Item = u8> {
    text.bytes().filter(|byte| !matches!(byte, b'-' | b' ' | b'\t' | b'\n' | b'\r' | b'\x0c'))
}

/// A number of one of the known issuers whose digits sum up as they should.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|character| character.to_digit(10)).collect();
    let doubled = |(index, digit): (usize, &u32)| match (index % 2, digit * 2) {
        (0, _) => *digit,
        (_, twice) if twice > 9 => twice - 9,
        (_, twice) => twice,
    };
    has_issuer(&digits) && digits.iter().rev().enumerate().map(doubled).sum::<u32>().is_multiple_of(10)
}

fn has_issuer(digits: &[u32]) -> bool {
    match digits {
        [4, ..] => matches!(digits.len(), 13 | 16),
        [5, 1..=5, ..] => digits.len() == 16,
        [6, 0, 1, 1, ..] | [6, 5, ..] => digits.len() == 16,
        [3, 4 | 7, ..] => digits.len() == 15,
        [3, 0, 0..=5, ..] | [3, 6 | 8, ..] => digits.len() == 14,
        [2, 1, 3, 1, ..] | [1, 8, 0, 0, ..] => digits.len() == 15,
        [3, 5, ..] => digits.len() == 16,
        _ => false,
    }
}

/// `111-22-3333` or with spaces.
pub(super) fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    let part = |part: &str| {
        let digits = part.trim_matches([' ', '\t', '\n', '\r', '\x0c']);
        let canonical = digits == "0" || !digits.starts_with('0');
        canonical && digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u8>().is_ok()
    };
    inner.is_some_and(|inner| inner.split(',').count() == 3 && inner.split(',').all(part))
}
