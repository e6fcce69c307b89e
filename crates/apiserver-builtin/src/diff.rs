//! The difference of two values, for people: a unified diff of their JSON.

use std::fmt::Write as _;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 3;
/// Above so many pairs of lines, all lines that differ are shown as replaced.
const MOST_PAIRS: usize = 4_000_000;

/// What one value has that the other has not.
pub(super) fn diff(old: &Value, new: &Value) -> String {
    let (old, new) = (pretty(old), pretty(new));
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    write_hunks(&old, &new, &edits(&old, &new))
}

fn pretty(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b" "));
    value.serialize(&mut serializer).expect("a JSON value is always serialised to memory");
    String::from_utf8(bytes).expect("JSON is text")
}

/// A run of lines of the old text that become a run of lines of the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edit {
    old: (usize, usize),
    new: (usize, usize),
}

fn edits(old: &[&str], new: &[&str]) -> Vec<Edit> {
    let head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let tail =
        old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let (left, right) = (&old[head..old_end], &new[head..new_end]);
    if left.is_empty() && right.is_empty() {
        return Vec::new();
    }
    if left.len().saturating_mul(right.len()) > MOST_PAIRS {
        return vec![Edit { old: (head, old_end), new: (head, new_end) }];
    }

    // common[i][j]: the most lines that left[i..] and right[j..] have in common, in order.
    let width = right.len() + 1;
    let mut common = vec![0u32; (left.len() + 1) * width];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            common[i * width + j] = if left[i] == right[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let mut edits: Vec<Edit> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left[i] == right[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let start = (i, j);
        while (i < left.len() || j < right.len())
            && !(i < left.len() && j < right.len() && left[i] == right[j])
        {
            let drop_old = j == right.len()
                || (i < left.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]);
            if drop_old { i += 1 } else { j += 1 }
        }
        edits.push(Edit { old: (head + start.0, head + i), new: (head + start.1, head + j) });
    }
    edits
}

fn write_hunks(old: &[&str], new: &[&str], edits: &[Edit]) -> String {
    let mut text = String::new();
    let mut rest = edits;
    while let Some(first) = rest.first() {
        let near =
            rest.windows(2).take_while(|pair| pair[1].old.0 - pair[0].old.1 <= 2 * CONTEXT).count() + 1;
        let (hunk, after) = rest.split_at(near);
        rest = after;
        let last = hunk[near - 1];
        let before = first.old.0.min(CONTEXT);
        let behind = (old.len() - last.old.1).min(CONTEXT);
        let (old_start, old_end) = (first.old.0 - before, last.old.1 + behind);
        let (new_start, new_end) = (first.new.0 - before, last.new.1 + behind);
        let _ = writeln!(text, "@@ -{} +{} @@", range(old_start, old_end), range(new_start, new_end));
        let mut at = old_start;
        for edit in hunk {
            push_lines(&mut text, ' ', &old[at..edit.old.0]);
            push_lines(&mut text, '-', &old[edit.old.0..edit.old.1]);
            push_lines(&mut text, '+', &new[edit.new.0..edit.new.1]);
            at = edit.old.1;
        }
        push_lines(&mut text, ' ', &old[at..old_end]);
    }
    text
}

fn push_lines(text: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        let _ = writeln!(text, "{mark}{line}");
    }
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        let old = json!({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8, "i": 9, "j": 10, "k": 11, "l": 12});
        let mut new = old.clone();
        assert_eq!(diff(&old, &new), "");
        new["a"] = json!(0);
        new["l"] = json!("x");
        assert_eq!(
            diff(&old, &new),
            "@@ -1,5 +1,5 @@\n {\n- \"a\": 1,\n+ \"a\": 0,\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4,\n\
             @@ -10,5 +10,5 @@\n  \"i\": 9,\n  \"j\": 10,\n  \"k\": 11,\n- \"l\": 12\n+ \"l\": \"x\"\n }\n"
        );
    }

    #[test]
    fn a_line_more_or_less_moves_nothing_else() {
        let old = json!(["a", "b", "c"]);
        assert_eq!(
            diff(&old, &json!(["a", "x", "b", "c"])),
            "@@ -1,5 +1,6 @@\n [\n  \"a\",\n+ \"x\",\n  \"b\",\n  \"c\"\n ]\n"
        );
        assert_eq!(diff(&old, &json!(["a", "c"])), "@@ -1,5 +1,4 @@\n [\n  \"a\",\n- \"b\",\n  \"c\"\n ]\n");
    }
}
