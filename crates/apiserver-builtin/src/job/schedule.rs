//! Schedules of CronJobs: five fields, or a word for them.

/// Says what is wrong with a schedule.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let rest = match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        Some(zoned) => zoned.split_once(' ').map_or("", |(_, rest)| rest.trim()),
        None => schedule,
    };
    if rest.starts_with('@') {
        return check_word(rest);
    }
    let fields: Vec<_> = rest.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    };
    check_field(minute, 0, 59, &[])?;
    check_field(hour, 0, 23, &[])?;
    check_field(day, 1, 31, &[])?;
    let months = ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    check_field(month, 1, 12, &months)?;
    check_field(weekday, 0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"])
}

fn check_word(word: &str) -> Result<(), String> {
    const WORDS: [&str; 7] =
        ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    match word.strip_prefix("@every ") {
        Some(duration) if is_duration(duration) => Ok(()),
        Some(duration) => {
            Err(format!("failed to parse duration {word}: time: invalid duration {duration:?}"))
        }
        None if WORDS.contains(&word) => Ok(()),
        None => Err(format!("unrecognized descriptor: {word}")),
    }
}

/// Whether a text is numbers with units: `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
        if number == 0 || rest[..number] == *"." {
            return false;
        }
        let unit =
            rest[number..].find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len() - number);
        if !["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&&rest[number..number + unit]) {
            return false;
        }
        rest = &rest[number + unit..];
    }
    true
}

fn check_field(field: &str, least: u64, most: u64, names: &[&str]) -> Result<(), String> {
    field
        .split(',')
        .filter(|part| !part.is_empty())
        .try_for_each(|part| check_range(part, least, most, names))
}

fn check_range(range: &str, least: u64, most: u64, names: &[&str]) -> Result<(), String> {
    let mut halves = range.split('/');
    let (bounds, step) = (halves.next().unwrap_or_default(), halves.next());
    let ends: Vec<_> = bounds.split('-').collect();
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (least, most)
    } else {
        let start = value(ends[0], names)?;
        match ends[..] {
            [_] => (start, start),
            [_, end] => (start, value(end, names)?),
            _ => return Err(format!("too many hyphens: {range}")),
        }
    };
    let step = match step {
        None => 1,
        Some(_) if halves.next().is_some() => return Err(format!("too many slashes: {range}")),
        Some(step) => {
            let step = integer(step)?;
            if ends.len() == 1 {
                end = most;
            }
            step
        }
    };
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {range}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn value(text: &str, names: &[&str]) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match names.iter().position(|name| !name.is_empty() && *name == lower) {
        Some(number) => Ok(number as u64),
        None => integer(text),
    }
}

fn integer(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number.unsigned_abs()),
        Err(_) => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_cron_reads_them() {
        for good in [
            "* * * * *",
            "*/5 0-23/2 1,15 jan-DEC sun",
            "?  1 2 3 4",
            "@hourly",
            "@every 1h30m",
            "@every 1.5s",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, message) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * * 5-3", "beginning of range (5) beyond end of range (3): 5-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@never", "unrecognized descriptor: @never"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ] {
            assert_eq!(check(bad), Err(message.to_owned()), "{bad}");
        }
    }
}
