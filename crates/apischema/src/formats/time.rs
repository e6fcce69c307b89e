//! Dates, times of day and durations.

use std::sync::LazyLock;

use regex::Regex;

/// A day of the calendar, `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let number = |range: std::ops::Range<usize>| text[range].parse::<u32>().unwrap_or_default();
    shape && {
        let (year, month, day) = (number(0..4), number(5..7), number(8..10));
        (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day)
    }
}

/// How many days a month has; `month` starts at 1.
pub(crate) fn days_in_month(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A day, `T`, a time of day and a zone. Not quite RFC 3339: kube-apiserver lets any character stand before the fraction.
pub(super) fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
            .expect("invariant: the pattern is fixed; tests compile it")
    });
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date)
        && TIME
            .captures(time)
            .is_some_and(|parts| &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59")
}

/// A duration as Go writes it, or numbers with units in words.
pub(super) fn is_duration(text: &str) -> bool {
    parse_duration(text).is_some()
}

/// The nanoseconds of a duration as Go writes it, or as numbers with units in words: `3 days`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    static PART: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"([0-9]+)\s*([A-Za-zµ]+)").expect("invariant: the pattern is fixed; tests compile it")
    });
    if let Some(duration) = parse_go_duration(text) {
        return Some(duration);
    }
    let mut total = None;
    for part in PART.captures_iter(text) {
        let factor = part[1].parse::<i64>().ok()?;
        if let Some(unit) = unit(&part[2].to_lowercase()) {
            total = Some(total.unwrap_or(0_i64).wrapping_add(factor.wrapping_mul(unit)));
        }
    }
    total
}

/// The nanoseconds of a unit. The long forms may go on: `seconds`, `hours`.
fn unit(unit: &str) -> Option<i64> {
    const UNITS: &[(&[&str], &str, i64)] = &[
        (&["ns"], "nano", 1),
        (&["us", "µs"], "micro", 1_000),
        (&["ms"], "milli", 1_000_000),
        (&["s"], "sec", 1_000_000_000),
        (&["m"], "min", 60_000_000_000),
        (&["h", "hr"], "hour", 3_600_000_000_000),
        (&["d"], "day", 86_400_000_000_000),
        (&["w", "wk"], "week", 604_800_000_000_000),
    ];
    let (.., size) = UNITS.iter().find(|(short, long, _)| short.contains(&unit) || unit.starts_with(long))?;
    Some(*size)
}

/// The nanoseconds of a duration as Go writes it: `1h2m3.5s`, `-10ms`, `0`.
pub(crate) fn parse_go_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (if text.starts_with('-') { -1 } else { 1 }, rest),
        None => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after
            .find(|character: char| character.is_ascii_digit() || character == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let nanoseconds: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        if !whole.is_empty() {
            total += whole.parse::<i64>().ok().map(i128::from)? * nanoseconds;
        }
        // More digits than these say nothing about a nanosecond.
        let digits = &fraction[..fraction.len().min(18)];
        if !digits.is_empty() {
            total += digits.parse::<i128>().ok()? * nanoseconds / 10_i128.pow(digits.len() as u32);
        }
        if total > i128::from(i64::MAX) + 1 {
            return None;
        }
        rest = after;
    }
    i64::try_from(total * sign).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanoseconds) in [
            ("1h2m3.5s", 3_723_500_000_000),
            ("-10ms", -10_000_000),
            ("+5s", 5_000_000_000),
            ("0", 0),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("9223372036854775807ns", i64::MAX),
        ] {
            assert_eq!(parse_go_duration(text), Some(nanoseconds), "{text}");
        }
        for text in ["", "-", "1", "s", ".s", "1d", "1..5s", "9223372036854775808ns", "3000000h", "1 s"] {
            assert_eq!(parse_go_duration(text), None, "{text}");
        }
    }
}
