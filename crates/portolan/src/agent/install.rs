//! `portolan agent install`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use portolan_agent::install::{Installation, Mode, Places, Then, run as install};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How the plugin is called.
    #[arg(long, value_enum, default_value_t = ModeName::Chained)]
    mode: ModeName,
    /// Stay, and keep the network configuration as it should be: chained, it follows that of the primary network.
    #[arg(long)]
    follow: bool,
    /// The plugin's binary; `portolan-cni` beside this program unless given.
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    #[command(flatten)]
    directories: Directories,
}

#[derive(Debug, Args)]
pub(super) struct Directories {
    /// The runtime's directory of network configurations.
    #[arg(long, value_name = "DIRECTORY", default_value = "/etc/cni/net.d")]
    conf_dir: PathBuf,
    /// The runtime's directory of CNI plugins.
    #[arg(long, value_name = "DIRECTORY", default_value = "/opt/cni/bin")]
    bin_dir: PathBuf,
    /// The agent's socket.
    #[arg(long, value_name = "PATH", default_value = "/run/portolan/cni.sock")]
    cni_socket: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ModeName {
    /// By the runtime, as the only plugin.
    Alone,
    /// By the runtime, after the plugins of the primary network.
    Chained,
    /// By another plugin, such as Multus: no network configuration is written.
    Delegate,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Alone => Mode::Alone,
            ModeName::Chained => Mode::Chained,
            ModeName::Delegate => Mode::Delegate,
        }
    }
}

impl From<Directories> for Places {
    fn from(directories: Directories) -> Self {
        Self {
            configurations: directories.conf_dir,
            programs: directories.bin_dir,
            socket: directories.cni_socket,
        }
    }
}

pub(crate) async fn run(arguments: Arguments, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let beside = || {
        let own = std::env::current_exe().context("find the program that runs")?;
        anyhow::Ok(own.with_file_name("portolan-cni"))
    };
    let installation = Installation {
        plugin: arguments.plugin.map_or_else(beside, Ok)?,
        places: arguments.directories.into(),
        mode: arguments.mode.into(),
    };
    let then = if arguments.follow { Then::Follow } else { Then::End };
    tokio::select! {
        ended = install(installation, then) => ended,
        () = stop => Ok(()),
    }
}
