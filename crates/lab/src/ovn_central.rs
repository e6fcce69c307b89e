//! OVN's central part: the northbound and southbound databases, and ovn-northd between them.

use std::net::IpAddr;
use std::time::Duration;

use crate::error::Result;
use crate::installed::{OVN_NB_SCHEMA, OVN_SB_SCHEMA};
use crate::json_rpc;
use crate::lab::Lab;
use crate::ovsdb_server::OvsdbServer;
use crate::process::{Daemon, Process};
use crate::raft::RaftCluster;
use crate::readiness::Ready;

/// How long OVN is given to do what was asked of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running OVN central in a lab's home namespace.
#[derive(Debug)]
pub struct OvnCentral {
    lab: Lab,
    nb: Database,
    sb: Database,
    northd: Process,
    northd_control: std::path::PathBuf,
}

/// How an OVN central shall be.
#[derive(Debug)]
#[must_use = "nothing runs until it is started"]
pub struct OvnCentralBuilder {
    name: String,
    raft: bool,
    election_timer: Duration,
}

/// One of OVN's databases, served by one server or by three.
#[derive(Debug)]
pub enum Database {
    /// One server.
    Standalone(Box<OvsdbServer>),
    /// A raft cluster.
    Raft(RaftCluster),
}

impl OvnCentral {
    /// A central with standalone databases.
    pub fn builder() -> OvnCentralBuilder {
        OvnCentralBuilder { name: "central".into(), raft: false, election_timer: Duration::from_secs(1) }
    }

    /// The northbound database.
    pub fn nb(&self) -> &Database {
        &self.nb
    }

    /// The southbound database.
    pub fn sb(&self) -> &Database {
        &self.sb
    }

    /// ovn-northd.
    pub fn northd(&self) -> &Process {
        &self.northd
    }

    /// Runs a command on ovn-northd's control socket, such as `status`.
    pub fn northd_control(&self, command: &str, arguments: &[&str]) -> Result<String> {
        json_rpc::control(&self.northd_control, command, arguments, Duration::from_secs(10))
    }

    /// Runs ovn-nbctl with these arguments and returns what it prints.
    pub fn nbctl(&self, arguments: &[&str]) -> Result<String> {
        self.ctl("ovn-nbctl", &self.nb, arguments)
    }

    /// Runs ovn-sbctl with these arguments and returns what it prints.
    pub fn sbctl(&self, arguments: &[&str]) -> Result<String> {
        self.ctl("ovn-sbctl", &self.sb, arguments)
    }

    fn ctl(&self, program: &str, database: &Database, arguments: &[&str]) -> Result<String> {
        // These tools give up on a cluster when the first server they try is dead.
        let server = match database {
            Database::Standalone(server) => server,
            Database::Raft(cluster) => &cluster.members()[cluster.leader(PATIENCE)?],
        };
        self.lab
            .command(program)
            .arg(format!("--db={}", server.endpoint()))
            .arg(format!("--timeout={}", PATIENCE.as_secs()))
            .args(arguments)
            .read()
    }
}

impl OvnCentralBuilder {
    /// A name, for a lab with several; `central` unless set.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Both databases are raft clusters of three.
    pub fn raft(mut self) -> Self {
        self.raft = true;
        self
    }

    /// The raft clusters' election timer; one second unless set.
    pub fn election_timer(mut self, timer: Duration) -> Self {
        self.election_timer = timer;
        self
    }

    /// Starts it and waits until ovn-northd has done its first work.
    pub fn start(self, lab: &Lab) -> Result<OvnCentral> {
        let directory = lab.directory(&self.name)?;
        let nb = self.database(lab, "nb", OVN_NB_SCHEMA)?;
        let sb = self.database(lab, "sb", OVN_SB_SCHEMA)?;
        let northd_control = directory.join("northd.ctl");
        let northd = Daemon::new(format!("{}/ovn-northd", self.name), "ovn-northd")
            .arg("-vsyslog:off")
            .arg(format!("--pidfile={}", directory.join("northd.pid").display()))
            .arg(format!("--unixctl={}", northd_control.display()))
            .arg(format!("--ovnnb-db={}", nb.endpoint()))
            .arg(format!("--ovnsb-db={}", sb.endpoint()))
            .env("OVN_RUNDIR", &directory)
            .ready(Ready::Socket(northd_control.clone()))
            .start(lab.home())?;
        let central = OvnCentral { lab: lab.clone(), nb, sb, northd, northd_control };
        // Also makes the one row of NB_Global, as the packaged start script does.
        central
            .nbctl(&["--wait=sb", "init"])
            .map_err(|error| if central.northd.is_alive() { error } else { central.northd.not_ready() })?;
        Ok(central)
    }

    fn database(&self, lab: &Lab, kind: &str, schema: &str) -> Result<Database> {
        let name = format!("{}/{kind}", self.name);
        Ok(if self.raft {
            Database::Raft(
                RaftCluster::builder(name, schema).election_timer(self.election_timer).tcp().start(lab)?,
            )
        } else {
            Database::Standalone(Box::new(
                OvsdbServer::builder(name).schema_file(schema).tcp(lab.port()).start(lab)?,
            ))
        })
    }
}

impl Database {
    /// Where clients on this machine reach it, all members of a cluster included.
    pub fn endpoint(&self) -> String {
        match self {
            Database::Standalone(server) => server.endpoint(),
            Database::Raft(cluster) => cluster.endpoint(),
        }
    }

    /// Where clients reach it by TCP at an address of its namespace.
    pub fn tcp_endpoint(&self, address: IpAddr) -> String {
        let endpoints = self.servers().iter().filter_map(OvsdbServer::tcp_port);
        endpoints.map(|port| format!("tcp:{address}:{port}")).collect::<Vec<_>>().join(",")
    }

    /// The servers that serve it.
    pub fn servers(&self) -> &[OvsdbServer] {
        match self {
            Database::Standalone(server) => std::slice::from_ref(server.as_ref()),
            Database::Raft(cluster) => cluster.members(),
        }
    }
}
