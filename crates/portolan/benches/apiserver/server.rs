//! The servers that are compared.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use portolan_testbed::{Daemon, Etcd, KubeApiServer, Lab, Process, Ready};

/// A server, and whatever must live as long.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    kubeconfig: PathBuf,
    parts: Parts,
}

enum Parts {
    Kubernetes(Box<KubeApiServer>),
    Portolan(Box<Process>),
}

impl Server {
    pub(crate) fn kubernetes(lab: &Lab) -> Self {
        let etcd = Etcd::builder().fsync().start(lab).unwrap();
        let api = KubeApiServer::builder().etcd(etcd).start(lab).unwrap();
        Self {
            name: "kube-apiserver",
            kubeconfig: api.kubeconfig().into(),
            parts: Parts::Kubernetes(Box::new(api)),
        }
    }

    pub(crate) fn portolan(lab: &Lab) -> Self {
        let data = lab.directory("portolan-apiserver").unwrap();
        let process = Daemon::new("portolan-apiserver", env!("CARGO_BIN_EXE_portolan"))
            .args(["apiserver", "--log=warn", "--listen", &format!("127.0.0.1:{}", lab.port()), "--data-dir"])
            .arg(&data)
            .ready(Ready::Notify)
            .start(lab.home())
            .unwrap();
        Self {
            name: "portolan",
            kubeconfig: data.join("admin.kubeconfig"),
            parts: Parts::Portolan(Box::new(process)),
        }
    }

    /// A client with connections of its own.
    pub(crate) async fn client(&self) -> kube::Client {
        let file = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let mut config =
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        config.read_timeout = None;
        kube::Client::try_from(config).unwrap()
    }

    fn pids(&self) -> Vec<u32> {
        match &self.parts {
            Parts::Kubernetes(api) => std::iter::once(api.pid())
                .chain(api.etcd().members().iter().map(Process::pid))
                .flatten()
                .collect(),
            Parts::Portolan(process) => process.pid().into_iter().collect(),
        }
    }

    /// The CPU time that its processes have had.
    pub(crate) fn cpu(&self) -> Duration {
        self.pids().into_iter().map(cpu_of).sum()
    }

    /// The resident memory of its processes, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.pids().into_iter().map(memory_of).sum()
    }
}

fn cpu_of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The command's name, in parentheses, may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
