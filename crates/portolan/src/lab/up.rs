//! `portolan lab up`: starts the process that keeps a lab up, and shows how far it is.

use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::place::Labs;
use super::protocol::Event;
use super::supervisor::Shape;
use crate::output;

pub(super) fn up(labs: &Labs, name: &str, shape: &Shape) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("a lab makes network namespaces and needs root for that: sudo portolan lab up");
    }
    labs.place(name)?;
    let begun = Instant::now();
    let mut supervisor = Command::new(std::env::current_exe()?)
        .args(["lab", "run", "--name", name, "--directory"])
        .arg(labs.directory())
        .args(shape.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the process that keeps the lab up")?;
    let events = supervisor.stdout.take().context("it has no standard output")?;
    let mut display = Display::new();
    for line in BufReader::new(events).lines() {
        let line = line.context("cannot hear how far the lab is")?;
        match serde_json::from_str(&line).with_context(|| format!("not understood: {line}"))? {
            Event::Step { step, seconds, steps } => display.step(&step, seconds, steps),
            Event::Failed { why } => {
                display.end();
                let _ = supervisor.wait();
                bail!(why);
            }
            Event::Ready { nodes, kubeconfig } => {
                display.end();
                return say(name, &nodes, &kubeconfig, begun.elapsed());
            }
        }
    }
    display.end();
    let status = supervisor.wait()?;
    bail!("the process that keeps the lab up ended ({status}) and did not say why")
}

fn say(
    name: &str,
    nodes: &[(String, String)],
    kubeconfig: &std::path::Path,
    took: Duration,
) -> anyhow::Result<()> {
    let mut text = format!("Lab {name:?} is up after {:.1} s:\n", took.as_secs_f64());
    for (node, address) in nodes {
        text += &format!("  {node}  {address}\n");
    }
    text += "\nNext:\n";
    text += &format!("  export KUBECONFIG={}\n", kubeconfig.display());
    text += "  kubectl get nodes --output wide\n";
    text += &format!("  portolan lab status --name {name}\n");
    output::print(&text)
}

/// How far the lab is: a bar on a terminal, lines elsewhere.
enum Display {
    Bar { bar: ProgressBar, running: Vec<String> },
    Lines,
}

impl Display {
    fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Display::Lines;
        }
        let style = ProgressStyle::with_template("{spinner} [{bar:24}] {pos}/{len} {elapsed} {msg}");
        let bar = ProgressBar::new(1);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.enable_steady_tick(Duration::from_millis(100));
        Display::Bar { bar, running: Vec::new() }
    }

    fn step(&mut self, step: &str, seconds: Option<f64>, steps: usize) {
        match (self, seconds) {
            (Display::Bar { bar, running }, seconds) => {
                bar.set_length(steps.try_into().unwrap_or(u64::MAX));
                match seconds {
                    None => running.push(step.to_owned()),
                    Some(_) => {
                        running.retain(|one| one != step);
                        bar.inc(1);
                    }
                }
                bar.set_message(running.join(", "));
            }
            (Display::Lines, None) => {}
            (Display::Lines, Some(seconds)) => eprintln!("{step}: ready after {seconds:.1} s"),
        }
    }

    fn end(&self) {
        if let Display::Bar { bar, .. } = self {
            bar.finish_and_clear();
        }
    }
}
