//! Console blocks: commands after `$ `, and the output that the reader should expect.
//!
//! In expected output `…` stands for any text, a line of nothing else for any number of lines. Runs of blanks are equal to
//! each other, as widths of columns depend on names. A command that should fail says so: `# exit code 1`.

use regex::Regex;

/// A command with what is expected of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) exit_code: i32,
    pub(crate) output: Vec<String>,
}

/// What a command really did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) exit_code: i32,
    pub(crate) output: String,
}

pub(crate) fn parse(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else {
            let step = steps.last_mut().expect("a console block begins with a command");
            step.output.push(line.to_owned());
            continue;
        };
        let mut command = first.to_owned();
        while command.ends_with('\\') {
            command.push('\n');
            command.push_str(lines.next().expect("a continued line is followed by another"));
        }
        if command.contains("<<EOF") {
            for line in lines.by_ref() {
                command.push('\n');
                command.push_str(line);
                if line == "EOF" {
                    break;
                }
            }
        }
        let code = first.split_once("# exit code ").map_or("0", |(_, code)| code.trim());
        let exit_code = code.parse().unwrap_or_else(|_| panic!("{code:?} is not an exit code"));
        steps.push(Step { command, exit_code, output: Vec::new() });
    }
    steps
}

/// A script that runs the steps one after another and marks where each begins and ends.
pub(crate) fn script(steps: &[Step]) -> String {
    let each = steps.iter().map(|step| format!("{}\nprintf '\\n\\036%d\\036\\n' $?\n", step.command));
    each.collect()
}

/// What [`script`] printed, step by step.
pub(crate) fn outcomes(printed: &str) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut parts = printed.split('\u{1e}');
    while let (Some(output), Some(code)) = (parts.next(), parts.next()) {
        let exit_code = code.parse().unwrap_or(-1);
        outcomes.push(Outcome { exit_code, output: output.trim_matches('\n').to_owned() });
    }
    outcomes
}

/// Why an outcome is not the expected one.
pub(crate) fn mismatch(step: &Step, outcome: &Outcome) -> Option<String> {
    let Step { command, exit_code, output } = step;
    if outcome.exit_code != *exit_code {
        return Some(format!(
            "$ {command}\nended with exit code {}, expected {exit_code}:\n{}",
            outcome.exit_code, outcome.output
        ));
    }
    let expected = output.join("\n");
    let expected = expected.trim_matches('\n');
    (!expected.is_empty() && !pattern(expected).is_match(&squeeze(&outcome.output)))
        .then(|| format!("$ {command}\nprinted\n{}\nwhere the page has\n{expected}", outcome.output))
}

fn pattern(expected: &str) -> Regex {
    let lines: Vec<String> = expected
        .lines()
        .map(|line| match line.trim() {
            "…" => "(?s:.*)".to_owned(),
            _ => squeeze(line).split('…').map(regex::escape).collect::<Vec<_>>().join(".*"),
        })
        .collect();
    Regex::new(&format!("^{}$", lines.join("\n"))).expect("escaped text is a pattern")
}

fn squeeze(text: &str) -> String {
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn commands_are_told_from_output() {
    let steps = parse("$ echo a\na\n$ cat <<EOF\nx\nEOF\nx\n$ false    # exit code 1\n");
    let commands: Vec<_> = steps.iter().map(|step| (&*step.command, step.exit_code)).collect();
    assert_eq!(commands, [("echo a", 0), ("cat <<EOF\nx\nEOF", 0), ("false    # exit code 1", 1)]);
    assert_eq!(steps[1].output, ["x"]);
}

#[test]
fn different_output_or_exit_code_is_a_mismatch() {
    let step = &parse("$ x\nNAME  AGE\nweb   …\n…\nend\n")[0];
    let printed = |exit_code, output: &str| Outcome { exit_code, output: output.to_owned() };
    assert_eq!(mismatch(step, &printed(0, "NAME AGE\nweb   12s\nmore\nand more\nend")), None);
    assert!(mismatch(step, &printed(0, "NAME AGE\ndb 12s\nmore\nend")).is_some());
    assert!(mismatch(step, &printed(1, "NAME AGE\nweb 12s\nmore\nend")).is_some());
}
