//! Findings, as they are printed.

use std::fmt::Write as _;

use super::finding::{Finding, Group, Level};
use crate::output::{plain, width, wrap};

/// Grouped, the good ones short, the bad ones with what to do.
pub(super) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    let mut group = None;
    for finding in findings {
        if group != Some(&finding.group) {
            let gap = if group.is_none() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{}", title(&finding.group));
            group = Some(&finding.group);
        }
        let object =
            if finding.object.is_empty() { String::new() } else { format!("{}: ", plain(&finding.object)) };
        let line =
            format!("  {:<8} {:<15} {object}{}", word(finding.level), finding.check, plain(&finding.found));
        let _ = writeln!(text, "{}", wrap(&line, width(), 27));
        for (name, more) in [("why", finding.why), ("do", finding.remedy.as_str())] {
            if !more.is_empty() {
                let _ = writeln!(text, "{}", wrap(&format!("{:27}{name}: {}", "", plain(more)), width(), 32));
            }
        }
    }
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let _ = writeln!(
        text,
        "\n{} ok, {} unknown, {} warnings, {} errors",
        count(Level::Ok),
        count(Level::Unknown),
        count(Level::Warning),
        count(Level::Error)
    );
    text
}

pub(super) fn json(findings: &[Finding]) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(findings)?))
}

fn title(group: &Group) -> String {
    match group {
        Group::Cluster => "Cluster".to_owned(),
        Group::Node(name) => format!("Node {name}"),
        Group::BetweenNodes => "Between nodes".to_owned(),
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Unknown => "unknown",
        Level::Warning => "warning",
        Level::Error => "ERROR",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_grouped_and_bad_ones_say_what_to_do() {
        let findings = [
            Finding::ok(Group::Cluster, "version", "Kubernetes v1.34.4"),
            Finding::unknown(Group::Cluster, "webhook", "forbidden"),
            Finding::error(
                Group::Node("node1".into()),
                "ports",
                "TCP port 9444 is taken by nginx",
                "pods use it",
                "stop nginx",
            )
            .of("Node node1"),
        ];
        insta::assert_snapshot!(text(&findings));
        let json: serde_json::Value =
            serde_json::from_str(&json(&findings).expect("it is JSON")).expect("it is JSON");
        assert_eq!(json[2]["group"]["node"], "node1");
        assert_eq!(json[2]["level"], "error");
        assert_eq!(json[0].get("remedy"), None);
    }
}
