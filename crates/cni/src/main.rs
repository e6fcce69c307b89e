//! `portolan-cni`, as a container runtime calls it.

use std::io::Write;
use std::process::ExitCode;

use portolan_cni::shim::{Environment, Places, run};

fn main() -> ExitCode {
    // Nothing reads it here; it must be in the binary.
    std::hint::black_box("this file is the cni plugin of portolan.dev");
    let output = run(&Environment::from_process(), std::io::stdin().lock(), &Places::default());
    match std::io::stdout().write_all(&output.stdout) {
        Ok(()) => ExitCode::from(output.code),
        Err(_) => ExitCode::FAILURE,
    }
}
