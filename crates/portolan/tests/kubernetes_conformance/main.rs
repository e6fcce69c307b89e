//! The tests of Kubernetes itself, on a cluster of real Kubernetes: `make conformance`.
//!
//! What to run is said by the environment: `FOCUS` and `SKIP` are regular expressions over the names of tests, `CNI` is `bridge` or
//! `portolan`, `NODES` and `PROCS` are numbers of nodes and of tests at a time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use portolan_testbed::kubernetes::{Image, Kubernetes, Network, Portolan};
use portolan_testbed::{Lab, Result, built_program, program_or_built};

fn main() -> ExitCode {
    let Some(focus) = variable("FOCUS") else {
        eprintln!(
            "FOCUS is not set: say which tests to run, as in `make conformance FOCUS='sig-network.*Conformance'`"
        );
        return ExitCode::FAILURE;
    };
    let Some(network) = network() else {
        eprintln!("CNI must be bridge or portolan");
        return ExitCode::FAILURE;
    };
    match run(&focus, network) {
        Ok(passed) => ExitCode::from(u8::from(!passed)),
        Err(error) => {
            eprintln!("{error}\n{error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Whether tests ran and all of them passed.
fn run(focus: &str, network: Network) -> Result<bool> {
    let reports = reports();
    std::fs::create_dir_all(&reports).unwrap();
    let lab = Lab::new()?;
    let nodes = variable("NODES").map_or(2, |number| number.parse().unwrap());
    let builder = Kubernetes::builder().nodes(nodes).network(network);
    let cluster = match network {
        Network::Bridge => builder.start(&lab)?,
        Network::None => builder.open_vswitch().start(&lab)?,
    };
    let passed = test(&cluster, focus, &reports);
    if !matches!(passed, Ok(true)) {
        let overview = reports.join("overview");
        std::fs::write(&overview, cluster.overview() + &lab.log_tails()).unwrap();
        println!("how the cluster was is in {}", overview.display());
    }
    passed
}

fn test(cluster: &Kubernetes, focus: &str, reports: &Path) -> Result<bool> {
    let portolan = match cluster.network() {
        Network::Bridge => None,
        Network::None => Some(Portolan::start(cluster)?),
    };
    cluster.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s"])?;
    cluster.load(&Image::agnhost_of_conformance()?)?;
    cluster.load(&Image::busybox()?)?;
    cluster.start_dns()?;

    let lab = cluster.lab();
    let mut ginkgo = lab.command(built_program("ginkgo")?).env("HOME", lab.path());
    ginkgo = ginkgo.args(["--no-color", "--timeout=6h", "--procs"]);
    ginkgo = ginkgo.arg(variable("PROCS").unwrap_or_else(|| "1".into())).arg("--focus").arg(focus);
    if let Some(skip) = variable("SKIP") {
        ginkgo = ginkgo.arg("--skip").arg(skip);
    }
    let output = ginkgo
        .arg(built_program("e2e.test")?)
        .args(["--", "--provider=skeleton", "--kubeconfig"])
        .arg(cluster.api_server().kubeconfig())
        .arg("--kubectl-path")
        .arg(program_or_built("kubectl")?)
        .arg("--report-dir")
        .arg(reports)
        .output()?;
    drop(portolan);
    let log = reports.join("log");
    std::fs::write(&log, [&output.stdout[..], &output.stderr].concat()).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    print_verdict(&said);
    println!("the whole log is {}", log.display());
    let ran = !said.contains("Ran 0 of ");
    if !ran {
        println!("no test is called so");
    }
    Ok(output.status.success() && ran)
}

/// Each failure once, and the count.
fn print_verdict(log: &str) {
    let failed: BTreeSet<_> = log.lines().map(str::trim).filter(|line| line.starts_with("[FAIL]")).collect();
    failed.iter().for_each(|line| println!("{line}"));
    let counts =
        log.lines().map(str::trim).filter(|line| line.starts_with("Ran ") || line.contains("Passed |"));
    counts.for_each(|line| println!("{line}"));
}

fn network() -> Option<Network> {
    match variable("CNI").as_deref() {
        None | Some("bridge") => Some(Network::Bridge),
        Some("portolan") => Some(Network::None),
        Some(_) => None,
    }
}

/// Where logs and reports go: they stay.
fn reports() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(3).unwrap_or(Path::new("/tmp")).join("conformance")
}

/// A variable that is set, and not to nothing.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
