//! `kubectl` cannot tell Portolan's API server from kube-apiserver: the scripts beside this file run on both, and what kubectl
//! wrote and how it ended must be the same, but for what is [volatile](normalize).
//!
//! `SCRIPT=apply` runs the scripts whose names contain that; `PORTOLAN_KUBECTL` names another kubectl. A script that fails
//! shows the difference from kube-apiserver's transcript.

mod normalize;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use portolan_testbed::cluster::ApiServer;
use portolan_testbed::{ApiKind, Lab, Test, Underlay};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/kubectl/scripts");
const PRELUDE: &str = include_str!("kubectl/prelude.sh");
/// How many scripts run at once on each server.
const AT_ONCE: usize = 3;

#[test]
fn kubectl_says_the_same_of_both_servers() {
    Test::new().deadline(Duration::from_secs(600)).run(async |lab| {
        tokio::task::spawn_blocking(move || compare(&lab)).await.unwrap();
    });
}

/// What is the same on both servers because it runs on neither must not pass.
#[test]
fn a_script_that_cannot_do_its_work_fails_the_test() {
    Test::new().run(async |lab| {
        let ran = move || {
            let underlay = Underlay::start(&lab).unwrap();
            let ours = Server::start(ApiKind::Portolan, underlay.home_address(), &lab);
            let directory = lab.directory("scripts").unwrap();
            for (name, text, complaint) in [
                ("absent-program", "run no-such-program", "no-such-program does not run (127)"),
                (
                    "quiet-failure",
                    "quietly kubectl get nothing-such\nrun true",
                    "the script fails: kubectl get",
                ),
                (
                    "quiet-in-pipe",
                    "quietly kubectl get nothing-such | cat\nrun true",
                    "the script fails: kubectl get",
                ),
                ("unset-variable", "run true\necho $NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE: unbound variable"),
                ("nothing-run", "true", "nothing-run on portolan shows nothing"),
            ] {
                let script = directory.join(format!("{name}.sh"));
                std::fs::write(&script, text).unwrap();
                let said = ours.run(&script, &lab).expect_err(name);
                assert!(said.contains(complaint), "{name}: {said}");
            }
        };
        tokio::task::spawn_blocking(ran).await.unwrap();
    });
}

#[test]
fn deletions_go_as_far_as_kubectl_says() {
    Test::new().run(async |lab| {
        let ran = move || {
            let underlay = Underlay::start(&lab).unwrap();
            let ours = Server::start(ApiKind::Portolan, underlay.home_address(), &lab);
            let script: &Path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/kubectl/cascade.sh").as_ref();
            // Later kubectls name the namespace too.
            let is = ours.run(script, &lab).unwrap().replace(" from cascade namespace", "");
            assert_eq!(is, include_str!("kubectl/cascade.expected"));
        };
        tokio::task::spawn_blocking(ran).await.unwrap();
    });
}

fn compare(lab: &Lab) {
    let wanted = std::env::var("SCRIPT").unwrap_or_default();
    let scripts: Vec<PathBuf> =
        files(SCRIPTS.as_ref()).into_iter().filter(|path| name_of(path).contains(&wanted)).collect();
    assert!(!scripts.is_empty(), "no script is called like {wanted:?}");
    let underlay = Underlay::start(lab).unwrap();
    let home = underlay.home_address();
    let (ours, kubes) = std::thread::scope(|scope| {
        let start = |api| scope.spawn(move || Server::start(api, home, lab));
        let (ours, kubes) = (start(ApiKind::Portolan), start(ApiKind::Kubernetes));
        (ours.join().unwrap(), kubes.join().unwrap())
    });
    let (left, different) = (Mutex::new(scripts), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(script) = left.lock().unwrap().pop() else { return };
                    let shown = match (ours.run(&script, lab), kubes.run(&script, lab)) {
                        (Ok(is), Ok(should_be)) if is == should_be => continue,
                        (Ok(is), Ok(should_be)) => difference(&should_be, &is, lab, &name_of(&script)),
                        (is, should_be) => is.err().into_iter().chain(should_be.err()).collect(),
                    };
                    different.lock().unwrap().push((name_of(&script), shown));
                }
            });
        }
    });
    let different = different.into_inner().unwrap();
    let mut report = String::new();
    for (name, difference) in &different {
        let _ = writeln!(report, "=== {name}: kube-apiserver (-) and Portolan's (+)\n{difference}");
    }
    assert!(different.is_empty(), "kubectl tells the servers apart:\n{report}");
}

/// An API server with an administrator.
struct Server {
    // Held for its processes.
    _server: ApiServer,
    kubeconfig: PathBuf,
    name: &'static str,
}

impl Server {
    fn start(api: ApiKind, address: std::net::Ipv4Addr, lab: &Lab) -> Server {
        let name = if api == ApiKind::Portolan { "portolan" } else { "kubernetes" };
        let server = ApiServer::builder(api.into(), address).start(lab).unwrap();
        let kubeconfig = server.kubeconfig_for(&format!("admin-{name}"), lab, address).unwrap();
        Server { _server: server, kubeconfig, name }
    }

    /// What a script writes, without what is volatile; or why it says nothing about the server. It runs in a directory and a namespace of
    /// its own.
    fn run(&self, script: &Path, lab: &Lab) -> Result<String, String> {
        let name = name_of(script);
        let directory = lab.directory(format!("{}/{name}", self.name)).unwrap();
        let whole = format!("{PRELUDE}\n{}\nexit 0\n", std::fs::read_to_string(script).unwrap());
        let (file, transcript) = (directory.join("script.sh"), directory.join("transcript"));
        std::fs::write(&file, whole).unwrap();
        let output = std::fs::File::create(&transcript).unwrap();
        let kubectl = std::env::var("PORTOLAN_KUBECTL").unwrap_or_else(|_| "kubectl".into());
        let mut bash = lab
            .command("bash")
            .arg(&file)
            .env("HOME", &directory)
            .env("TMPDIR", &directory)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECTL", kubectl)
            .env("NAMESPACE", &name)
            .env("TZ", "UTC")
            .spawn_with(std::process::Stdio::null(), output.try_clone().unwrap(), output)
            .unwrap();
        let status = bash.wait().unwrap();
        let text = String::from_utf8_lossy(&std::fs::read(&transcript).unwrap()).into_owned();
        if !status.success() {
            return Err(format!("{name} on {} ends with {status}:\n{text}", self.name));
        }
        if text.is_empty() {
            return Err(format!("{name} on {} shows nothing", self.name));
        }
        Ok(normalize::normalize(&text, &directory))
    }
}

fn difference(should_be: &str, is: &str, lab: &Lab, name: &str) -> String {
    let directory = lab.directory(format!("difference/{name}")).unwrap();
    let (before, after) = (directory.join("kubernetes"), directory.join("portolan"));
    std::fs::write(&before, should_be).unwrap();
    std::fs::write(&after, is).unwrap();
    let shown = lab.command("diff").arg("-U4").arg(&before).arg(&after).output().unwrap();
    String::from_utf8_lossy(&shown.stdout).lines().skip(2).map(|line| format!("{line}\n")).collect()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn name_of(script: &Path) -> String {
    script.file_stem().unwrap().to_string_lossy().into_owned()
}
