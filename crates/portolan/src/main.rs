//! `portolan`: the one binary. Each subcommand is one part of the system, as its own crate has it.

mod agent;
mod api_servers;
mod apiserver;
mod cluster;
mod completions;
mod controller;
mod daemon_certificates;
mod daemons;
mod describe;
mod doctor;
mod exit;
mod get;
mod install;
mod lab;
mod log;
mod near;
mod notify;
mod output;
mod ovn_addresses;
mod ovn_central;
mod ovn_tls;
mod plan;
#[cfg(test)]
mod scene;
mod support_bundle;
mod trace;
mod uninstall;
mod waiting;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use portolan_model::FirstInterface;
use tracing_subscriber::EnvFilter;

use crate::exit::Exit;

/// Who makes pods' first interfaces, by the flags `--primary` and `--remove-primary`.
fn first_interface(primary: bool, remove_primary: bool) -> FirstInterface {
    match (primary, remove_primary) {
        (true, _) => FirstInterface::Portolan,
        (false, true) => FirstInterface::NoLonger,
        (false, false) => FirstInterface::Other,
    }
}

/// Virtual networks for Kubernetes, on Open vSwitch and OVN.
#[derive(Debug, Parser)]
#[command(name = "portolan", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// What to log to standard error, as `level` or `target=level,…`. Servers log `info` by default, other commands nothing.
    #[arg(long, global = true, env = "PORTOLAN_LOG", value_name = "FILTER", value_parser = log_filter)]
    log: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller: it assigns addresses and writes OVN's northbound database.
    Controller(controller::Arguments),
    /// Run a Kubernetes API server that keeps everything in one directory, for labs and machines without Kubernetes.
    Apiserver(apiserver::Arguments),
    /// Run the node agent: it serves the CNI plugin and plugs pods into Open vSwitch.
    Agent(agent::Invocation),
    /// Run one of OVN's central daemons in a container: a database, or ovn-northd.
    OvnCentral(ovn_central::OvnCentral),
    /// Run ovn-controller in a container.
    OvnController(daemons::OvnController),
    /// Run Open vSwitch in a container: its database, or ovs-vswitchd.
    Ovs(daemons::Ovs),
    /// Install Portolan on a cluster, or bring an installation to this version.
    Install(install::Arguments),
    /// Bring an installation to this version, or to other options; what it does not have any more is removed.
    Upgrade(install::UpgradeArguments),
    /// Remove Portolan from a cluster and its nodes. Networks, their objects and their definitions stay.
    Uninstall(uninstall::Arguments),
    /// Run a whole cluster on this machine: start, inspect, break and stop it.
    Lab(lab::Arguments),
    /// Check a cluster and its nodes, before an installation or after it, and say what to do.
    Doctor(doctor::Arguments),
    /// Collect what a bug report needs into one file, without secrets.
    SupportBundle(support_bundle::Arguments),
    /// Show VPCs, subnets, interfaces of pods, and addresses that are taken.
    Get(get::Arguments),
    /// Show one of them, or a pod, in full: what uses it, what is wrong and what to do about it.
    Describe(describe::Arguments),
    /// Show whether and by which path traffic goes from a pod to another end, or where and why it stops.
    Trace(trace::Arguments),
    /// Show what would change in OVN if a manifest were applied.
    Plan(plan::Arguments),
    /// Print the completion script of a shell.
    Completions(completions::Arguments),
}

impl Command {
    /// What is logged by default. The output of commands for people is complete without a log.
    fn default_log(&self) -> &'static str {
        match self {
            Command::Controller(_)
            | Command::Apiserver(_)
            | Command::Agent(_)
            | Command::OvnCentral(_)
            | Command::OvnController(_)
            | Command::Ovs(_)
            | Command::Lab(_) => "info",
            Command::Get(_)
            | Command::Describe(_)
            | Command::Trace(_)
            | Command::Plan(_)
            | Command::Completions(_)
            | Command::Install(_)
            | Command::Upgrade(_)
            | Command::Doctor(_)
            | Command::SupportBundle(_)
            | Command::Uninstall(_) => "off",
        }
    }
}

/// Refused here, a wrong filter is an error of the command line, whether it comes from there or from the environment.
fn log_filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let filter =
        EnvFilter::try_new(arguments.log.as_deref().unwrap_or_else(|| arguments.command.default_log()))?;
    let log = log::start(filter);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Command::Agent(_) = arguments.command {
        agent::keep_small(&mut runtime);
    }
    runtime.enable_all().build()?.block_on(async {
        match arguments.command {
            Command::Controller(arguments) => controller::run(arguments, log, stop_signal()?).await?,
            Command::Apiserver(arguments) => apiserver::run(arguments, stop_signal()?).await?,
            Command::Agent(arguments) => agent::start(arguments, stop_signal()?).await?,
            Command::OvnCentral(arguments) => ovn_central::run(arguments, stop_signal()?).await?,
            Command::OvnController(arguments) => {
                daemons::run_ovn_controller(arguments, stop_signal()?).await?;
            }
            Command::Ovs(arguments) => daemons::run_ovs(arguments, stop_signal()?).await?,
            // Only one of its commands is to be stopped in an orderly way, so it decides about signals.
            Command::Lab(arguments) => lab::run(arguments, stop_signal).await?,
            Command::Get(arguments) => return Ok(end("get", succeeded(get::run(arguments).await))),
            Command::Describe(arguments) => {
                return Ok(end("describe", succeeded(describe::run(arguments).await)));
            }
            Command::Trace(arguments) => return Ok(end("trace", trace::run(arguments).await)),
            Command::Plan(arguments) => return Ok(end("plan", plan::run(arguments).await)),
            Command::Install(arguments) => {
                return Ok(end("install", succeeded(install::run(arguments).await)));
            }
            Command::Upgrade(arguments) => {
                return Ok(end("upgrade", succeeded(install::upgrade(arguments).await)));
            }
            Command::Uninstall(arguments) => {
                return Ok(end("uninstall", succeeded(uninstall::run(arguments).await)));
            }
            Command::Doctor(arguments) => {
                return Ok(end("doctor", doctor::run(arguments, stop_signal()?).await));
            }
            Command::SupportBundle(arguments) => {
                let ended = support_bundle::run(arguments, stop_signal()?).await;
                return Ok(end("support-bundle", succeeded(ended)));
            }
            Command::Completions(arguments) => {
                return Ok(end("completions", succeeded(completions::run::<Arguments>(&arguments))));
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn succeeded(result: anyhow::Result<()>) -> anyhow::Result<Exit> {
    result.map(|()| Exit::Success)
}

/// The exit code of a command, after its failure was printed.
fn end(command: &str, result: anyhow::Result<Exit>) -> ExitCode {
    let exit = result.unwrap_or_else(|error| {
        eprintln!("portolan {command}: {error:#}");
        Exit::of(&error)
    });
    exit.into()
}

/// Completes with SIGTERM or SIGINT.
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
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
