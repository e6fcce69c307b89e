//! A raft cluster of ovsdb-servers.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::error::{Error, Result, Trying};
use crate::json_rpc::Question;
use crate::lab::Lab;
use crate::ovsdb_server::{Layout, OvsdbServer, Schema};
use crate::readiness::readable_of;

/// A running raft cluster that serves one database.
#[derive(Debug)]
pub struct RaftCluster {
    database: String,
    members: Vec<OvsdbServer>,
}

/// What a raft cluster shall serve, and how.
#[derive(Debug)]
#[must_use = "no cluster runs until it is started"]
pub struct RaftClusterBuilder {
    name: String,
    schema: Schema,
    members: usize,
    election_timer: Duration,
    tcp: bool,
}

impl RaftCluster {
    /// A cluster of three members that serves a database of the schema in this file. Its name must be unique in the lab.
    pub fn builder(name: impl Into<String>, schema_file: impl Into<PathBuf>) -> RaftClusterBuilder {
        RaftClusterBuilder {
            name: name.into(),
            schema: Schema::File(schema_file.into()),
            members: 3,
            election_timer: Duration::from_secs(1),
            tcp: false,
        }
    }

    /// A cluster of three members that serves a database of this schema. Its name must be unique in the lab.
    pub fn builder_json(name: impl Into<String>, schema: impl Into<String>) -> RaftClusterBuilder {
        RaftClusterBuilder { schema: Schema::Json(schema.into()), ..Self::builder(name, "") }
    }

    /// The database it serves.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Its members, dead or alive.
    pub fn members(&self) -> &[OvsdbServer] {
        &self.members
    }

    /// Where clients on this machine reach the members: `unix:<path>,unix:<path>,…`.
    pub fn endpoint(&self) -> String {
        self.members.iter().map(OvsdbServer::endpoint).collect::<Vec<_>>().join(",")
    }

    /// Waits until a living member is the leader and returns its index in [`RaftCluster::members`].
    pub fn leader(&self, patience: Duration) -> Result<usize> {
        let deadline = Instant::now() + patience;
        let until_leader = json!({
            "op": "wait", "table": "Database", "where": [["name", "==", self.database]],
            "columns": ["leader"], "until": "==", "rows": [{"leader": true}],
            "timeout": u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
        });
        let params = json!(["_Server", until_leader]);
        let ask = |(index, member): (usize, &OvsdbServer)| {
            Some((index, Question::ask(member.socket(), "transact", &params).ok()?))
        };
        // Each living member answers when it becomes the leader.
        let mut asked: Vec<_> = self.members.iter().enumerate().filter_map(ask).collect();
        while !asked.is_empty() && Instant::now() < deadline {
            let sockets: Vec<_> = asked.iter().map(|(_, question)| question.as_fd()).collect();
            let left = deadline.saturating_duration_since(Instant::now());
            let answered = readable_of(&sockets, left).trying(|| "wait for a leader".into())?;
            for position in answered.into_iter().rev() {
                let (index, question) = asked.swap_remove(position);
                if question.answer(left).is_ok_and(|results| results[0]["error"].is_null()) {
                    return Ok(index);
                }
            }
        }
        Err(Error::Refused { peer: self.database.clone(), answer: "that it has no leader".into() })
    }

    /// Waits until every living member is in contact with a majority.
    pub fn wait_until_connected(&self) -> Result<()> {
        for member in self.members.iter().filter(|member| member.is_alive()) {
            let command = member.namespace().command("ovsdb-client");
            let timeout = format!("--timeout={}", member.patience().as_secs());
            command
                .args([&timeout, "wait", &member.endpoint(), &self.database, "connected"])
                .read()
                .map_err(|_| member.not_ready())?;
        }
        Ok(())
    }
}

impl RaftClusterBuilder {
    /// How many members it has; three unless set.
    pub fn members(mut self, members: usize) -> Self {
        self.members = members;
        self
    }

    /// How long followers wait for a leader before they elect another; one second unless set. Less makes failover quicker
    /// and, on a busy machine, elections more frequent than failures.
    pub fn election_timer(mut self, timer: Duration) -> Self {
        self.election_timer = timer;
        self
    }

    /// Every member listens on a TCP port too: see [`OvsdbServer::tcp_port`].
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Starts it in the lab's home namespace and waits until all members have joined.
    pub fn start(self, lab: &Lab) -> Result<RaftCluster> {
        let directory = lab.directory(&self.name)?;
        let schema = self.schema.file(&directory, 0)?;
        let database = self.schema.database()?;
        let addresses: Vec<_> = (0..self.members).map(|_| format!("tcp:127.0.0.1:{}", lab.port())).collect();
        let mut members = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let name = format!("{}/{}", self.name, index + 1);
            let mut layout = Layout::in_directory(&lab.directory(&name)?);
            let file = layout.socket.with_file_name("0.db");
            let tool = lab.command("ovsdb-tool");
            let tool = if index == 0 {
                tool.arg(format!("--election-timer={}", self.election_timer.as_millis()))
                    .arg("create-cluster")
                    .args([&file, &schema])
                    .arg(address)
            } else {
                tool.arg("join-cluster").arg(&file).args([&database, address, &addresses[0]])
            };
            tool.read()?;
            layout.databases.push(file);
            let port = self.tcp.then(|| lab.port());
            members.push(OvsdbServer::spawn(&name, lab.home(), layout, port, &[])?);
        }
        for member in &members {
            member.wait_until_ready()?;
        }
        let cluster = RaftCluster { database, members };
        cluster.wait_until_connected()?;
        Ok(cluster)
    }
}
