//! What commands print on standard output: tables, ages, texts.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use comfy_table::Table;
use comfy_table::presets::NOTHING;

/// Writes to standard output. A reader that closed it early is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Completes when nobody reads standard output any more: the pipe's reader has ended, or the terminal is gone.
pub(crate) async fn reader_gone() {
    use rustix::event::{PollFd, PollFlags, poll};
    let (gone, is_gone) = tokio::sync::oneshot::channel();
    // Not every standard output can be polled by the runtime: a file cannot. The thread ends with the process.
    std::thread::spawn(move || {
        let stdout = std::io::stdout();
        // Nothing is asked for: errors and hang-ups are always reported.
        let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
        let ended = loop {
            match poll(&mut polled, None) {
                Err(rustix::io::Errno::INTR) => {}
                ended => break ended,
            }
        };
        if ended.is_ok() {
            let _ = gone.send(());
        }
    });
    if is_gone.await.is_err() {
        // It cannot be found out.
        std::future::pending::<()>().await;
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

/// How long ago something was, as kubectl prints it; both in seconds since 1970.
pub(crate) fn age(since: Option<i64>, now: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let Some(since) = since else { return "-".into() };
    let seconds = now.saturating_sub(since);
    // The larger unit, with as much of the smaller one as kubectl shows.
    let two = |large: i64, large_name: char, small: i64, small_name: char| {
        let (number, rest) = (seconds / large, seconds % large / small);
        if rest == 0 {
            format!("{number}{large_name}")
        } else {
            format!("{number}{large_name}{rest}{small_name}")
        }
    };
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(MINUTE, 'm', 1, 's'),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(HOUR, 'h', MINUTE, 'm'),
        _ if seconds < 48 * HOUR => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(DAY, 'd', HOUR, 'h'),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// A text from elsewhere, safe for a terminal: without control characters and not longer than a few lines.
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
    // Narrower terminals wrap by themselves.
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
    fn ages_are_what_kubectl_prints() {
        // From TestHumanDuration of k8s.io/apimachinery/pkg/util/duration.
        for (seconds, text) in [
            (0, "0s"),
            (1, "1s"),
            (70, "70s"),
            (119, "119s"),
            (120, "2m"),
            (190, "3m10s"),
            (70 * 60, "70m"),
            (7200, "120m"),
            (10 * 3600, "10h"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (3 * 3600, "3h"),
            (3 * 3600 + 300, "3h5m"),
            (8 * 86400 + 2 * 3600, "8d"),
            (365 * 86400, "365d"),
            (2 * 365 * 86400, "2y"),
            (2 * 365 * 86400 + 2 * 86400, "2y2d"),
            (10 * 365 * 86400 + 86400, "10y"),
            (-1, "0s"),
            (-2, "<invalid>"),
        ] {
            assert_eq!(age(Some(1_000_000_000 - seconds), 1_000_000_000), text, "{seconds}");
        }
        assert_eq!(age(None, 5), "-");
        assert_eq!(age(Some(i64::MIN), i64::MAX), format!("{}y", i64::MAX / 86400 / 365));
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
