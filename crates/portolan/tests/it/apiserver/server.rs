//! The server as a process of its own, and clients of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use portolan_testbed::{Daemon, Lab, Process, Ready};
use serde_json::Value;

pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    data: PathBuf,
}

impl Server {
    pub(crate) fn start(lab: &Lab) -> Self {
        Self::start_with(lab, &[])
    }

    /// The server with further arguments.
    pub(crate) fn start_with(lab: &Lab, arguments: &[&str]) -> Self {
        Server::run(lab, Daemon::new("apiserver", env!("CARGO_BIN_EXE_portolan")), arguments)
    }

    /// A server that cannot write beyond the first so many blocks of a file, as a shell counts them.
    pub(crate) fn start_with_file_limit(lab: &Lab, blocks: usize, arguments: &[&str]) -> Self {
        // Without the signal, a write beyond the limit is an error like that of a full disk.
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let shell =
            Daemon::new("apiserver", "/bin/sh").args(["-c", &limited, env!("CARGO_BIN_EXE_portolan")]);
        Server::run(lab, shell, arguments)
    }

    fn run(lab: &Lab, daemon: Daemon, arguments: &[&str]) -> Self {
        let data = lab.directory("apiserver").unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, lab.port()));
        let process = daemon
            .args(["apiserver", "--listen", &address.to_string(), "--data-dir"])
            .arg(&data)
            .args(arguments)
            .ready(Ready::Notify)
            .start(lab.home())
            .unwrap();
        Self { process, address, data }
    }

    /// A client with connections of its own.
    pub(crate) async fn client(&self) -> kube::Client {
        kube::Client::try_from(self.config().await).unwrap()
    }

    /// A client that shows no credentials.
    pub(crate) async fn anonymous(&self) -> kube::Client {
        let mut config = self.config().await;
        config.auth_info = kube::config::AuthInfo::default();
        kube::Client::try_from(config).unwrap()
    }

    async fn config(&self) -> kube::Config {
        let file = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap()
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.data.join("admin.kubeconfig")
    }

    /// The certificate of the server's authority, in PEM.
    pub(crate) fn authority(&self) -> String {
        std::fs::read_to_string(self.data.join("ca.crt")).unwrap()
    }

    /// Its resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most resident memory it ever had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> u64 {
        let pid = self.process.pid().unwrap().to_string();
        let status = std::fs::read_to_string(Path::new("/proc").join(pid).join("status")).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

pub(crate) fn request(method: Method, path: &str, body: Option<&Value>) -> Request<Vec<u8>> {
    let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
    Request::builder().method(method).uri(path).header("Content-Type", "application/json").body(body).unwrap()
}
