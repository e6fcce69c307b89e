//! What commands for people write to standard output: tables, ages, texts.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use comfy_table::Table;
use comfy_table::presets::NOTHING;

/// Writes to standard output. Whoever reads it may have seen enough before the end.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// A table without lines, as kubectl's are.
pub(crate) fn table<T: Into<comfy_table::Cell>>(columns: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    let columns: Vec<comfy_table::Cell> = columns.into_iter().map(Into::into).collect();
    table.load_style(NOTHING).set_header(columns);
    table
}

/// Without the space that a table has around and after its cells.
pub(crate) fn trimmed(table: &Table) -> String {
    let lines = table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// How long ago something was, as Kubernetes writes it; both in seconds since 1970.
pub(crate) fn age(since: Option<i64>, now: i64) -> String {
    let Some(since) = since else { return "-".into() };
    let seconds = now.saturating_sub(since).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// A text from elsewhere, fit for a terminal: no control characters, which could move the cursor or worse, and not without end.
pub(crate) fn plain(text: &str) -> String {
    const LONGEST: usize = 500;
    let mut chars = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut plain: String = chars.by_ref().take(LONGEST).collect();
    if chars.next().is_some() {
        plain.push('…');
    }
    plain
}

/// How wide the terminal is that standard output goes to; none where it goes elsewhere.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    // Narrower than that, wrapping by words helps nobody.
    Some(usize::from(size.ws_col)).filter(|width| *width >= 40)
}

/// A line broken between words so that it fits; all lines but the first are indented by `indent`.
pub(crate) fn wrap(line: &str, width: Option<usize>, indent: usize) -> String {
    let Some(width) = width.filter(|width| line.chars().count() > *width) else { return line.to_owned() };
    let begin = line.len() - line.trim_start().len();
    let mut wrapped = line[..begin].to_owned();
    let mut used = begin;
    for (number, word) in line[begin..].split(' ').enumerate() {
        let length = word.chars().count();
        if number > 0 && used + 1 + length > width {
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if number > 0 {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(word);
        used += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_those_of_kubectl() {
        for (seconds, text) in
            [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_800, "2d"), (-5, "0s")]
        {
            assert_eq!(age(Some(1_000_000 - seconds), 1_000_000), text);
        }
        assert_eq!(age(None, 5), "-");
        assert_eq!(age(Some(i64::MIN), i64::MAX), format!("{}d", i64::MAX / 86400));
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(wrap("  ab cd ef", Some(7), 4), "  ab cd\n    ef");
        assert_eq!(wrap("  ab cd ef", None, 4), "  ab cd ef");
        assert_eq!(wrap("abcdefghijkl m", Some(5), 1), "abcdefghijkl\n m");
    }

    #[test]
    fn no_text_from_elsewhere_moves_the_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
        assert_eq!(plain(&"x".repeat(10_000)).chars().count(), 501);
    }
}
