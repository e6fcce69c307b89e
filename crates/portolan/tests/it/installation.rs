//! Installing Portolan on a cluster: the manifests, the command, and the daemons that its pods run. Real binaries and real API servers;
//! `crates/portolan/tests/kubernetes` installs it on a cluster with real nodes.

mod command;
mod daemons;
mod doctor;
mod manifest;
mod support_bundle;
mod tls;
mod upgrade;

use portolan_testbed::{Command, Daemon, KubeApiServer, Process, TestLab, built_program};

pub(crate) const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");

/// A kube-apiserver without anything else.
pub(crate) struct Stage<'a> {
    lab: &'a TestLab,
    pub(crate) api: KubeApiServer,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(lab: &'a TestLab) -> Self {
        let api = KubeApiServer::builder().start(lab).unwrap();
        Self { lab, api }
    }

    /// The controllers of Kubernetes that an installation and its removal wait for.
    pub(crate) fn controllers(&self) -> Process {
        let controllers = ["daemonset-controller", "garbage-collector-controller", "namespace-controller"];
        Daemon::new("kube-controller-manager", built_program("kube-controller-manager").unwrap())
            .arg("--kubeconfig")
            .arg(self.api.kubeconfig())
            .arg(format!("--controllers={}", controllers.join(",")))
            .args(["--leader-elect=false", "--secure-port=0"])
            .start(self.lab.home())
            .unwrap()
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.api.kubectl().unwrap().args(arguments).read().unwrap()
    }

    pub(crate) fn portolan(&self, arguments: &[&str]) -> Command {
        self.lab.command(PORTOLAN).args(arguments).env("KUBECONFIG", self.api.kubeconfig())
    }

    /// What a command printed, which must have succeeded.
    pub(crate) fn read(&self, arguments: &[&str]) -> String {
        self.portolan(arguments).read().unwrap()
    }

    /// What a command said that must have failed.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        self.portolan(arguments).read().unwrap_err().to_string()
    }
}
