//! Points in time and durations, without a clock.

use std::fmt::Write;

use crate::formats::{days_in_month, parse_go_duration};

const NANOSECONDS: i128 = 1_000_000_000;
const DAY: i64 = 86_400;

/// A point in time, in seconds since 1970 and nanoseconds beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp {
    seconds: i64,
    nanoseconds: u32,
}

/// Years 1 to 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

impl Timestamp {
    pub(crate) fn from_seconds(seconds: i64) -> Option<Timestamp> {
        (FIRST..=LAST).contains(&seconds).then_some(Timestamp { seconds, nanoseconds: 0 })
    }

    pub(crate) fn seconds(self) -> i64 {
        self.seconds
    }

    /// RFC 3339, or its day alone.
    pub(crate) fn parse(text: &str) -> Option<Timestamp> {
        let (date, rest) = text.split_at_checked(10)?;
        let mut seconds = parse_date(date)? * DAY;
        let mut nanoseconds = 0;
        if !rest.is_empty() {
            let rest = rest.strip_prefix(['T', 't'])?;
            let (time, rest) = rest.split_at_checked(8)?;
            let mut parts = time.split(':');
            let mut next = |limit: i64| {
                let part = parts.next().filter(|part| part.len() == 2)?;
                part.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
                part.parse::<i64>().ok().filter(|part| *part < limit)
            };
            seconds += next(24)? * 3600 + next(60)? * 60 + next(60)?;
            let digits = rest.strip_prefix('.').map_or(0, |fraction| {
                fraction.find(|character: char| !character.is_ascii_digit()).unwrap_or(fraction.len())
            });
            let mut zone = rest;
            if rest.starts_with('.') {
                let fraction = rest.get(1..=digits).filter(|fraction| !fraction.is_empty())?;
                nanoseconds = format!("{fraction:0<9.9}").parse().ok()?;
                zone = &rest[1 + digits..];
            }
            seconds -= parse_zone(zone)?;
        }
        (FIRST..=LAST).contains(&seconds).then_some(Timestamp { seconds, nanoseconds })
    }

    /// The time after a number of nanoseconds.
    pub(crate) fn plus(self, duration: i64) -> Option<Timestamp> {
        let total = self.total() + i128::from(duration);
        let seconds = i64::try_from(total.div_euclid(NANOSECONDS)).ok()?;
        let nanoseconds = total.rem_euclid(NANOSECONDS) as u32;
        (FIRST..=LAST).contains(&seconds).then_some(Timestamp { seconds, nanoseconds })
    }

    /// The nanoseconds since another time.
    pub(crate) fn minus(self, other: Timestamp) -> Option<i64> {
        i64::try_from(self.total() - other.total()).ok()
    }

    fn total(self) -> i128 {
        i128::from(self.seconds) * NANOSECONDS + i128::from(self.nanoseconds)
    }

    /// The calendar and the clock at a distance of some seconds from UTC.
    pub(crate) fn civil(self, offset: i64) -> Civil {
        let seconds = self.seconds + offset;
        let days = seconds.div_euclid(DAY);
        let (year, month, day) = civil_from_days(days);
        let first = days_from_civil(year, 1, 1);
        Civil {
            year,
            month,
            day,
            day_of_year: days - first,
            day_of_week: (days + 4).rem_euclid(7),
            second_of_day: seconds.rem_euclid(DAY),
            milliseconds: i64::from(self.nanoseconds) / 1_000_000,
        }
    }

    /// As RFC 3339 has it, in UTC.
    pub(crate) fn to_text(self) -> String {
        let fraction = format!("{:09}", self.nanoseconds);
        self.to_text_with(fraction.trim_end_matches('0').len())
    }

    /// As RFC 3339 has it, in UTC, with so many digits of a second.
    pub(crate) fn to_text_with(self, digits: usize) -> String {
        let Civil { year, month, day, second_of_day, .. } = self.civil(0);
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        if digits > 0 {
            let fraction = format!("{:09}", self.nanoseconds);
            let _ = write!(text, ".{}", &fraction[..digits.min(9)]);
        }
        text.push('Z');
        text
    }
}

/// A time on the calendar.
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    /// From 0.
    pub(crate) day_of_year: i64,
    /// From 0, which is Sunday.
    pub(crate) day_of_week: i64,
    pub(crate) second_of_day: i64,
    pub(crate) milliseconds: i64,
}

/// The seconds that a zone is ahead of UTC. Zones have no names here: what they mean is not a matter of arithmetic.
pub(crate) fn parse_zone(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z" | "UTC" | "") {
        return (!zone.is_empty()).then_some(0);
    }
    let sign = match zone.as_bytes()[0] {
        b'-' => -1,
        b'+' => 1,
        _ if zone.as_bytes()[0].is_ascii_digit() => return parse_zone(&format!("+{zone}")),
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    let number = |text: &str, limit: i64| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<i64>().ok())?.filter(|number| *number < limit)
    };
    Some(sign * (number(hours, 24)? * 3600 + number(minutes, 60)? * 60))
}

fn parse_date(date: &str) -> Option<i64> {
    let mut parts = date.splitn(3, '-');
    let mut next = |length: usize| {
        let part = parts.next().filter(|part| part.len() == length)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
        part.parse::<u32>().ok()
    };
    let (year, month, day) = (next(4)?, next(2)?, next(2)?);
    let real = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    real.then(|| days_from_civil(i64::from(year), i64::from(month), i64::from(day)))
}

/// The days since 1970-01-01. Years are counted from March, so that the leap day is the last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The nanoseconds of a duration as expressions write it.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    parse_go_duration(text)
}

/// A duration in seconds, as expressions turn it into text: `90.5s`.
pub(crate) fn duration_text(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let size = nanoseconds.unsigned_abs();
    let (seconds, fraction) = (size / 1_000_000_000, size % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{fraction:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        for text in
            ["1970-01-01T00:00:00Z", "2024-02-29T23:59:59.5Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]
        {
            assert_eq!(Timestamp::parse(text).unwrap().to_text(), text);
        }
        assert_eq!(Timestamp::parse("2024-01-01T01:30:00+02:00").unwrap().to_text(), "2023-12-31T23:30:00Z");
        assert_eq!(Timestamp::parse("2000-03-01T00:00:00Z").unwrap().seconds(), 951_868_800);
        for text in
            ["", "2024", "2024-13-01T00:00:00Z", "2024-01-01T00:00:00", "2024-01-01T24:00:00Z", "2023-02-29"]
        {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_calendar_is_right() {
        let civil = Timestamp::parse("2024-12-31T12:34:56.789Z").unwrap().civil(0);
        assert_eq!((civil.year, civil.month, civil.day), (2024, 12, 31));
        assert_eq!((civil.day_of_year, civil.day_of_week), (365, 2));
        assert_eq!((civil.second_of_day, civil.milliseconds), (45_296, 789));
        let later = Timestamp::parse("2024-12-31T23:00:00Z").unwrap().civil(7200);
        assert_eq!((later.year, later.day_of_year), (2025, 0));
    }

    #[test]
    fn durations_are_written_in_seconds() {
        assert_eq!(duration_text(90_500_000_000), "90.5s");
        assert_eq!(duration_text(-1), "-0.000000001s");
        assert_eq!(duration_text(3_600_000_000_000), "3600s");
    }
}
