//! The project's own tasks, run as `cargo xtask <task>`.
//!
//! Start at [`codegen`], which has the list of what is generated. The dependency rules between the workspace's crates are
//! in `tests/workspace_shape.rs`.

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod codegen;
mod instructions;
mod plugin;

/// Tasks of the Portolan workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write the generated files that are committed: typed OVN and Open vSwitch rows, CRD manifests, tables in the
    /// docs, schemas of Kubernetes' core kinds.
    Codegen,
    /// Count the instructions of single steps at three sizes, and fail if one grows with the size (needs valgrind).
    Instructions,
    /// Build the CNI plugin as it is installed on nodes, and fail if it is too large or not static.
    Plugin,
}

fn main() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("invariant: xtask is a folder of the workspace");
    match Cli::parse().task {
        Task::Codegen => {
            for problem in codegen::write(root)? {
                println!("{problem}: fixed");
            }
            Ok(ExitCode::SUCCESS)
        }
        Task::Instructions => {
            Ok(if instructions::report(root)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Task::Plugin => {
            plugin::build(root)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
