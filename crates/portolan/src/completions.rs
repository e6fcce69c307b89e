//! `portolan completions`: what a shell needs to know to complete a command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Debug, Args)]
#[command(after_help = "Install them once:
  bash   portolan completions bash > /etc/bash_completion.d/portolan
  zsh    portolan completions zsh > \"${fpath[1]}/_portolan\"
  fish   portolan completions fish > ~/.config/fish/completions/portolan.fish
Or for this shell only:
  source <(portolan completions bash)")]
pub(crate) struct Arguments {
    /// The shell: bash, zsh or fish.
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

pub(crate) fn run<C: CommandFactory>(arguments: &Arguments) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut C::command(), "portolan", &mut script);
    crate::output::print(&String::from_utf8_lossy(&script))
}
