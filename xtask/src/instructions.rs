//! Counts the instructions of single steps at three sizes: the cost has to follow the change, not the size of the world.
//!
//! Each step is an example program of a crate that takes the size as its argument, builds a world of that size, says
//! `ready`, waits for a line, and does the step once in a function called `measured`; callgrind counts what that function
//! does. Counts hardly depend on the machine, and not at all on what else it is doing.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// A step whose cost is measured.
struct Step {
    what: &'static str,
    package: &'static str,
    example: &'static str,
    /// Further arguments.
    more: &'static [&'static str],
    sizes: [u64; 3],
}

const STEPS: &[Step] = &[
    Step {
        what: "one row's change in a cache of rows",
        package: "ovsdb-core",
        example: "change_cost",
        more: &[],
        sizes: [1_000, 10_000, 100_000],
    },
    Step {
        what: "what uses a subnet that is deleted",
        package: "portolan-model",
        example: "users_cost",
        more: &[],
        // Each lock is looked up by its name, which costs the logarithm: noticeable where the step is this small.
        sizes: [10_000, 30_000, 100_000],
    },
    Step {
        what: "one node's new address",
        package: "portolan-model",
        example: "node_cost",
        more: &[],
        sizes: [1_000, 3_000, 10_000],
    },
    Step {
        what: "choosing an address, others spread",
        package: "portolan-ipam",
        example: "decide_cost",
        more: &["spread"],
        sizes: [1_000, 100_000, 1_000_000],
    },
    Step {
        what: "choosing an address, prefix all but full",
        package: "portolan-ipam",
        example: "decide_cost",
        more: &["packed"],
        sizes: [1_000, 100_000, 1_000_000],
    },
    Step {
        what: "planning and diffing one attachment",
        package: "portolan-plan",
        example: "plan_cost",
        more: &[],
        sizes: [1_000, 100_000, 1_000_000],
    },
    Step {
        what: "diffing a port that joins large groups",
        package: "portolan-plan",
        example: "member_cost",
        more: &[],
        sizes: [1_000, 100_000, 1_000_000],
    },
    Step {
        what: "one endpoint of a Service",
        package: "portolan-plan",
        example: "service_cost",
        more: &["cluster"],
        sizes: [100, 1_000, 5_000],
    },
    Step {
        what: "the same under policy Local",
        package: "portolan-plan",
        example: "service_cost",
        more: &["local"],
        sizes: [100, 1_000, 5_000],
    },
    Step {
        what: "waking one of many units that wait",
        package: "portolan-plan",
        example: "wake_cost",
        more: &[],
        sizes: [1_000, 100_000, 1_000_000],
    },
];

/// How much the step may cost at the largest size, compared with the smallest.
const LIMIT: f64 = 1.2;

/// Prints the counts, and says whether all steps keep to the limit.
pub(crate) fn report(root: &Path) -> anyhow::Result<bool> {
    let mut good = true;
    println!(
        "instructions of one step, by the size of the world (goal: at most {LIMIT} times from left to right)\n"
    );
    for step in STEPS {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "--quiet", "--package", step.package, "--example", step.example])
            .current_dir(root)
            .status()?;
        ensure!(built.success(), "cannot build {}", step.example);
        let counts = step.sizes.map(|size| count(root, step, size));
        let [small, middle, large] = counts;
        let (small, middle, large) = (small?, middle?, large?);
        let ratio = large as f64 / small as f64;
        let verdict = if ratio <= LIMIT { "" } else { "  TOO MUCH" };
        println!("  {:<40} at {:>9}   {:>9}   {:>9}", step.what, step.sizes[0], step.sizes[1], step.sizes[2]);
        println!("  {:<40}    {small:>9}   {middle:>9}   {large:>9}   {ratio:.2} times{verdict}", "");
        good &= ratio <= LIMIT;
    }
    Ok(good)
}

fn count(root: &Path, step: &Step, size: u64) -> anyhow::Result<u64> {
    let example = step.example;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    // Counting slows a program down fifty times, so it begins only when the world is built.
    let mut run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--instr-atstart=no", "--toggle-collect=*::measured"])
        .arg(target.join("release/examples").join(example))
        .arg(size.to_string())
        .args(step.more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run valgrind; run `make setup`")?;
    let mut ready = String::new();
    if let Some(stdout) = run.stdout.as_mut() {
        BufReader::new(stdout).read_line(&mut ready)?;
    }
    if ready == "ready\n" {
        let switched =
            Command::new("callgrind_control").arg("--instr=on").arg(run.id().to_string()).output()?;
        ensure!(switched.status.success(), "{}", String::from_utf8_lossy(&switched.stderr));
        if let Some(stdin) = run.stdin.as_mut() {
            stdin.write_all(b"\n")?;
        }
    }
    let run = run.wait_with_output()?;
    let said = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "{example} {size} failed: {said}");
    let collected = said.lines().find_map(|line| line.split("Collected :").nth(1));
    let count = collected.and_then(|text| text.trim().parse().ok()).filter(|count| *count > 0);
    count.with_context(|| format!("{example} {size}: nothing was counted: {said}"))
}
