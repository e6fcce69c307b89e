//! Where examples run: own network, mounts, processes and files, so that pages can use the usual paths and ports, and whatever
//! an example starts ends with it.

use std::path::Path;
use std::process::Command;

use crate::docs::page::root;

/// A minute is plenty on a quiet machine; continuous integration may be busy.
const DEADLINE: &str = "300";

/// Runs a shell script and answers its exit code with all that it printed.
pub(crate) fn run(script: &str) -> (Option<i32>, String) {
    let scratch = tempfile::Builder::new().prefix("portolan-docs-").tempdir().unwrap();
    let file = scratch.path().join("example.sh");
    // `/run` and `/var/lib` are the example's own: a lab, and a server's data, stand at the paths that the page names.
    let prepare = "ip link set lo up\nmount -t tmpfs run /run\nmount -t tmpfs lib /var/lib\nexec 2>&1\n";
    std::fs::write(&file, format!("{prepare}{script}")).unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_portolan")).parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("timeout")
        .args(["--kill-after=10", DEADLINE])
        .args(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg("bash")
        .arg(&file)
        .current_dir(root())
        .env("PATH", format!("{}:{}/bin:{path}", binaries.display(), cache()))
        .env("TMPDIR", scratch.path())
        .env("HOME", scratch.path())
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn cache() -> String {
    std::env::var("PORTOLAN_CACHE").unwrap_or_else(|_| "/var/cache/portolan".to_owned())
}
