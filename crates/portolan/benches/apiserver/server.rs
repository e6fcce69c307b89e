//! The servers that are compared.

use std::path::PathBuf;
use std::time::Duration;

use crate::process;
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
        self.pids().into_iter().map(process::cpu).sum()
    }

    /// The resident memory of its processes, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.pids().into_iter().map(process::memory).sum()
    }
}
