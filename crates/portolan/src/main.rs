//! `portolan`: the one binary. Each subcommand is one part of the system, as its own crate has it.

mod agent;
mod apiserver;
mod cluster;
mod completions;
mod controller;
mod describe;
mod get;
mod lab;
mod near;
mod notify;
mod output;
#[cfg(test)]
mod scene;
mod trace;
mod waiting;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// The MTU of pods unless a flag says otherwise: 1500 less what geneve takes, with room for IPv6 between the nodes.
const DEFAULT_MTU: u16 = 1400;

/// Virtual networks for Kubernetes, on Open vSwitch and OVN.
#[derive(Debug, Parser)]
#[command(name = "portolan", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// What to log, as `level` or `target=level,…`; to standard error. Servers log `info` unless told otherwise.
    #[arg(long, global = true, env = "PORTOLAN_LOG", value_name = "FILTER")]
    log: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watches what users ask for, takes addresses, and writes OVN's northbound database.
    Controller(controller::Arguments),
    /// Serves the Kubernetes API by itself, from one directory: for the lab, and wherever there is no Kubernetes.
    Apiserver(apiserver::Arguments),
    /// Runs on every node: answers the CNI plugin and plugs pods into Open vSwitch.
    Agent(agent::Arguments),
    /// A whole cluster on this machine: raise it, look into it, break it, end it.
    Lab(lab::Arguments),
    /// Shows VPCs, subnets, interfaces and the addresses that are taken.
    Get(get::Arguments),
    /// Shows one of them, or a pod, in full: what uses it, what is wrong, what to do about it.
    Describe(describe::Arguments),
    /// Says whether and by which way traffic goes from a pod to another, or where and why it stops.
    Trace(trace::Arguments),
    /// Prints what a shell needs to complete command lines.
    Completions(completions::Arguments),
}

impl Command {
    /// What is logged unless someone says otherwise. What people read is for them, and complete without a log.
    fn default_log(&self) -> &'static str {
        match self {
            Command::Controller(_) | Command::Apiserver(_) | Command::Agent(_) | Command::Lab(_) => "info",
            Command::Get(_) | Command::Describe(_) | Command::Trace(_) | Command::Completions(_) => "off",
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let filter =
        EnvFilter::try_new(arguments.log.as_deref().unwrap_or_else(|| arguments.command.default_log()))?;
    // Colours are for people, not for files.
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.command {
            Command::Controller(arguments) => controller::run(arguments, stop_signal()?).await?,
            Command::Apiserver(arguments) => apiserver::run(arguments, stop_signal()?).await?,
            Command::Agent(arguments) => agent::run(arguments, stop_signal()?).await?,
            // Signals are its own business: of its commands only one is to be stopped in an orderly way.
            Command::Lab(arguments) => lab::run(arguments, stop_signal).await?,
            Command::Get(arguments) => return Ok(told("get", get::run(arguments).await)),
            Command::Describe(arguments) => return Ok(told("describe", describe::run(arguments).await)),
            Command::Trace(arguments) => {
                return Ok(trace::run(arguments).await.map_or_else(
                    |error| {
                        eprintln!("portolan trace: {error:#}");
                        ExitCode::from(2)
                    },
                    ExitCode::from,
                ));
            }
            Command::Completions(arguments) => {
                return Ok(told("completions", completions::run::<Arguments>(&arguments)));
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The end of a command for people: what went wrong is said in a line.
fn told(command: &str, ended: anyhow::Result<()>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("portolan {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Comes with SIGTERM or SIGINT.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Arguments::command().debug_assert();
    }
}
