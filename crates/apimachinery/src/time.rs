//! Times as objects hold them: RFC 3339.

/// Seconds since 1970 in UTC. Fractions are dropped, as the API does. Absent if it is no time.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let fixed = |from: usize, length: usize| -> Option<i64> {
        let digits = bytes.get(from..from + length)?;
        digits.iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
        })
    };
    let at = |index: usize, expected: u8| bytes.get(index).filter(|byte| **byte == expected).map(|_| ());
    let (year, month, day) = (fixed(0, 4)?, fixed(5, 2)?, fixed(8, 2)?);
    let (hour, minute, second) = (fixed(11, 2)?, fixed(14, 2)?, fixed(17, 2)?);
    at(4, b'-')?;
    at(7, b'-')?;
    at(10, b'T')?;
    at(13, b':')?;
    at(16, b':')?;
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !in_range {
        return None;
    }
    let mut zone = 19;
    if bytes.get(zone) == Some(&b'.') {
        let digits = bytes[zone + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        zone += 1 + digits;
    }
    let offset = match (bytes.get(zone)?, bytes.len() - zone) {
        (b'Z', 1) => 0,
        (sign @ (b'+' | b'-'), 6) => {
            at(zone + 3, b':')?;
            let (hours, minutes) = (fixed(zone + 1, 2)?, fixed(zone + 4, 2)?);
            if hours > 24 || minutes >= 60 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'+' { 60 } else { -60 }
        }
        _ => return None,
    };
    Some(days_since_epoch(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset)
}

/// The same time in UTC and whole seconds, as the API writes it. Absent if it is no time.
pub(crate) fn normal(text: &str) -> Option<String> {
    let seconds = seconds(text)?;
    // Almost always it is so already.
    if text.len() == 20 && text.ends_with('Z') {
        return Some(text.to_owned());
    }
    Some(written(seconds))
}

/// A time in UTC and whole seconds, given in seconds since 1970. Its year should have four digits.
pub(crate) fn written(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86400), seconds.rem_euclid(86400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The same time in UTC and microseconds, as the API writes it where seconds are too coarse. Absent if it is no time.
pub(crate) fn normal_micro(text: &str) -> Option<String> {
    let mut whole = normal(text)?;
    let fraction = text.get(20..).filter(|_| text.as_bytes()[19] == b'.').unwrap_or_default();
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).take(6).map(char::from);
    let fraction: String = digits.chain("000000".chars()).take(6).collect();
    whole.pop();
    Some(format!("{whole}.{fraction}Z"))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // Years count from March, so that the leap day is a year's last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let of_months = (153 * month + 2) / 5;
    of_years + of_months + day - 1 - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    // A first guess that is never too late.
    let mut year = days.div_euclid(366).min(days.div_euclid(365)) + 1970;
    while days >= days_since_epoch(year + 1, 1, 1) {
        year += 1;
    }
    let mut rest = days - days_since_epoch(year, 1, 1);
    let mut month = 1;
    while rest >= days_in_month(year, month) {
        rest -= days_in_month(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_told_apart_whatever_their_zone() {
        let cases = [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2024-02-29T12:34:56Z", Some(1_709_210_096)),
            ("2024-02-29T12:34:56.789Z", Some(1_709_210_096)),
            ("2024-02-29T14:34:56+02:00", Some(1_709_210_096)),
            ("2024-02-29T07:04:56-05:30", Some(1_709_210_096)),
            ("1969-12-31T23:59:59Z", Some(-1)),
            ("0001-01-01T00:00:00Z", Some(-62_135_596_800)),
            ("2023-02-29T00:00:00Z", None),
            ("2024-13-01T00:00:00Z", None),
            ("2024-01-01T24:00:00Z", None),
            ("2024-01-01 00:00:00Z", None),
            ("2024-01-01T00:00:00", None),
            ("2024-01-01T00:00:00.Z", None),
            ("2024-01-01T00:00:00+0100", None),
            ("é024-01-01T00:00:00Z", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text), expected, "{text}");
        }
        assert_eq!(normal("2024-03-01T00:30:00.5+01:00").as_deref(), Some("2024-02-29T23:30:00Z"));
        assert_eq!(normal("nonsense"), None);
        let micro = |text| normal_micro(text).unwrap();
        assert_eq!(micro("2024-03-01T00:30:00.5+01:00"), "2024-02-29T23:30:00.500000Z");
        assert_eq!(micro("2024-03-01T00:30:00.1234567Z"), "2024-03-01T00:30:00.123456Z");
        assert_eq!(micro("2024-03-01T00:30:00Z"), "2024-03-01T00:30:00.000000Z");
    }

    proptest! {
        #[test]
        fn a_normal_time_is_the_same_time(
            year in 1i64..9999, month in 1i64..13, day in 1i64..29, hour in 0..24, offset in 0..12
        ) {
            let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:05:06-{offset:02}:30");
            let normal = normal(&text).unwrap();
            prop_assert_eq!(seconds(&normal), seconds(&text));
            prop_assert!(normal.ends_with('Z'));
        }
    }
}
