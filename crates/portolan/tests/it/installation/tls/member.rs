//! A member of `ovn-central` on a machine of its own. There is no kubelet: what it would start again is started again by the test.

use std::cell::Cell;
use std::path::Path;

use portolan_testbed::{Command, Daemon, Machine, Process, Ready, Result};
use serde_json::Value;

use super::stage::{NAMESPACE, Stage};
use crate::installation::PORTOLAN;

pub(super) const MAP: &str = "ovn-central";
pub(super) const DATABASES: [&str; 2] = ["northbound", "southbound"];
pub(super) const DATA: &str = "/var/lib/portolan/ovn";

/// Where a member is, and what runs there.
pub(super) struct Member<'a> {
    stage: &'a Stage<'a>,
    ordinal: u8,
    pub(super) machine: Machine,
    /// How often a pod was made, so that processes have names of their own.
    pods: Cell<u32>,
    pub(super) processes: Vec<Process>,
}

impl<'a> Member<'a> {
    pub(super) fn new(stage: &'a Stage<'a>, ordinal: u8, machine: &str) -> Result<Self> {
        let machine = Machine::builder(machine).start(&stage.underlay)?;
        machine.take_address()?;
        stage.node_object(machine.name(), &machine.address().to_string())?;
        Ok(Self { stage, ordinal, machine, pods: Cell::new(0), processes: Vec::new() })
    }

    pub(super) fn name(&self) -> String {
        format!("ovn-central-{}", self.ordinal)
    }

    /// Begins a pod of a StatefulSet of so many, with an empty directory of sockets; nothing of it is ready yet.
    pub(super) fn begin(&mut self, members: u8) -> Result<()> {
        self.kill()?;
        self.pods.set(self.pods.get() + 1);
        let run = self.machine.file("/run/ovn");
        let _ = std::fs::remove_dir_all(&run);
        std::fs::create_dir_all(&run).unwrap();
        let name = self.name();
        self.stage.kubectl(&["delete", "pod", &name, "-n", NAMESPACE, "--force", "--ignore-not-found"])?;
        let kubeconfig = self.stage.pod_named(&name, "ovn-central", self.machine.name())?;
        self.processes = self.start(members, &kubeconfig)?;
        Ok(())
    }

    /// Starts its containers again, which share what is in memory.
    pub(super) fn begin_containers(&mut self, members: u8) -> Result<()> {
        self.kill()?;
        self.pods.set(self.pods.get() + 1);
        let kubeconfig = self.stage.kubeconfig_of(&self.name());
        self.processes = self.start(members, &kubeconfig)?;
        Ok(())
    }

    /// Starts the containers of its databases again once they have ended; ovn-northd goes on as it is.
    pub(super) fn begin_databases(&mut self, members: u8) -> Result<()> {
        self.pods.set(self.pods.get() + 1);
        let kubeconfig = self.stage.kubeconfig_of(&self.name());
        let databases = self.start_databases(members, &kubeconfig)?;
        self.processes.splice(..2, databases);
        Ok(())
    }

    fn start(&self, members: u8, kubeconfig: &Path) -> Result<Vec<Process>> {
        let mut processes = self.start_databases(members, kubeconfig)?;
        processes.push(self.daemon("northd", members).spawn(self.machine.namespace())?);
        Ok(processes)
    }

    fn daemon(&self, kind: &str, members: u8) -> Daemon {
        let name = format!("{kind}-{}-{}-{}", self.ordinal, self.machine.name(), self.pods.get());
        Daemon::new(name, PORTOLAN)
            .env("RUST_BACKTRACE", "0")
            .args(["ovn-central", kind, "--run-dir=/run/ovn"])
            .arg(format!("--member={}", self.name()))
            .arg(format!("--members={members}"))
            .ready(Ready::Notify)
    }

    fn start_databases(&self, members: u8, kubeconfig: &Path) -> Result<Vec<Process>> {
        let uid = self.stage.kubectl(&[
            "get",
            "pod",
            &self.name(),
            "-n",
            NAMESPACE,
            "-o",
            "jsonpath={.metadata.uid}",
        ])?;
        let (name, address) = (self.name(), self.machine.address());
        let mut processes = Vec::new();
        for kind in DATABASES {
            let daemon = self
                .daemon(kind, members)
                .arg(format!("--listen={address}"))
                .args(["--tls=portolan-system", "--publish=portolan-system/ovn-central"])
                .arg(format!("--pod-uid={uid}"))
                .arg(format!("--data-dir={DATA}/{name}"))
                .arg(format!("--former-data-dir={DATA}"))
                .arg(format!("--kubeconfig={}", kubeconfig.display()));
            processes.push(daemon.spawn(self.machine.namespace())?);
        }
        Ok(processes)
    }

    /// All of it, without a word.
    pub(super) fn kill(&mut self) -> Result<()> {
        for process in self.processes.drain(..) {
            if process.is_alive() {
                process.kill()?;
            }
        }
        Ok(())
    }

    pub(super) fn wait_until_ready(&self) -> Result<()> {
        for process in &self.processes {
            process.wait_until_ready().inspect_err(|_| eprintln!("{}", process.log_tail()))?;
        }
        Ok(())
    }

    /// Its files are gone.
    pub(super) fn lose_disk(&self) {
        let _ = std::fs::remove_dir_all(self.machine.file(DATA));
    }

    pub(super) fn nbctl(&self, sockets: &str, arguments: &[&str]) -> Command {
        self.machine.command("ovn-nbctl").args([&format!("--db={sockets}"), "--timeout=60"]).args(arguments)
    }

    /// The switches by this member's own copy.
    pub(super) fn switches(&self) -> Result<String> {
        self.nbctl(
            "unix:/run/ovn/ovnnb_db.sock",
            &["--no-leader-only", "--bare", "--columns=name", "list", "Logical_Switch"],
        )
        .read()
    }

    pub(super) fn cluster(&self, stem: &str) -> Result<String> {
        let (control, database) = match stem {
            "northbound" => ("/run/ovn/ovnnb_db.ctl", "OVN_Northbound"),
            _ => ("/run/ovn/ovnsb_db.ctl", "OVN_Southbound"),
        };
        self.machine.command("ovs-appctl").args(["-t", control, "cluster/status", database]).read()
    }

    /// What it says of its own server in the ConfigMap.
    pub(super) fn published(&self, database: &str) -> Result<Value> {
        let said = &self.stage.map()?["metadata"]["annotations"]
            [&format!("{database}.portolan.dev/{}", self.name())];
        Ok(serde_json::from_str(said.as_str().unwrap_or("null")).unwrap())
    }
}

impl Stage<'_> {
    pub(super) fn map(&self) -> Result<Value> {
        let map = self.kubectl(&["get", "configmap", MAP, "-n", NAMESPACE, "-o", "json"])?;
        Ok(serde_json::from_str(&map).unwrap())
    }
}
