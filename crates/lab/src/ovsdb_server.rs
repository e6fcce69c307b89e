//! ovsdb-server, standing alone. A member of a raft cluster is one of these as well.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Error, Result, Trying};
use crate::json_rpc;
use crate::lab::Lab;
use crate::namespace::Namespace;
use crate::pki::{Authority, Identity};
use crate::process::{Daemon, Process};
use crate::readiness::Ready;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running ovsdb-server. It is also its [`Process`].
#[derive(Debug)]
pub struct OvsdbServer {
    process: Process,
    socket: PathBuf,
    control: PathBuf,
    tcp_port: Option<u16>,
    ssl_port: Option<u16>,
}

/// What an ovsdb-server shall serve, and how.
#[derive(Debug)]
#[must_use = "no server runs until it is started"]
pub struct OvsdbServerBuilder {
    name: String,
    schemas: Vec<Schema>,
    tcp_port: Option<u16>,
    ssl: Option<Ssl>,
}

#[derive(Debug)]
struct Ssl {
    port: u16,
    identity: Identity,
    authority: String,
}

/// The schema of a database, by its file or as JSON.
#[derive(Clone, Debug)]
pub(crate) enum Schema {
    File(PathBuf),
    Json(String),
}

/// Where one ovsdb-server keeps things.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) socket: PathBuf,
    pub(crate) control: PathBuf,
    pub(crate) pidfile: PathBuf,
    pub(crate) databases: Vec<PathBuf>,
}

impl OvsdbServer {
    /// A server of this name, which must be unique in the lab.
    pub fn builder(name: impl Into<String>) -> OvsdbServerBuilder {
        OvsdbServerBuilder { name: name.into(), schemas: Vec::new(), tcp_port: None, ssl: None }
    }

    /// Where clients on this machine reach it: `unix:<path>`.
    pub fn endpoint(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Where clients in its namespace reach it by TCP: `tcp:127.0.0.1:<port>`, if it was built so.
    pub fn tcp_endpoint(&self) -> Option<String> {
        self.tcp_port.map(|port| format!("tcp:127.0.0.1:{port}"))
    }

    /// Where clients in its namespace reach it by TLS: `ssl:127.0.0.1:<port>`, if it was built so.
    pub fn ssl_endpoint(&self) -> Option<String> {
        self.ssl_port.map(|port| format!("ssl:127.0.0.1:{port}"))
    }

    /// Its TCP port, if it was built with one.
    pub fn tcp_port(&self) -> Option<u16> {
        self.tcp_port
    }

    /// Its Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Runs a command on its control socket, such as `cluster/status OVN_Northbound`.
    pub fn control(&self, command: &str, arguments: &[&str]) -> Result<String> {
        json_rpc::control(&self.control, command, arguments, PATIENCE)
    }

    /// Calls a method of the OVSDB protocol.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value> {
        json_rpc::call(&self.socket, method, params, PATIENCE)
    }

    /// Runs operations on a database in one transaction, and returns their results. They must all succeed.
    pub fn transact(&self, database: &str, operations: &[Value]) -> Result<Vec<Value>> {
        let params: Vec<_> = std::iter::once(json!(database)).chain(operations.iter().cloned()).collect();
        let results = self.call("transact", &json!(params))?;
        let results = results.as_array().cloned().unwrap_or_default();
        match results.iter().find(|result| !result["error"].is_null()) {
            Some(error) => Err(Error::Refused { peer: self.name().into(), answer: error.to_string() }),
            None => Ok(results),
        }
    }

    /// Makes the daemon and its handle without waiting for it to be ready.
    pub(crate) fn spawn(
        name: &str,
        namespace: &Namespace,
        layout: Layout,
        tcp_port: Option<u16>,
        more: &[String],
    ) -> Result<Self> {
        let process = Daemon::new(name, "ovsdb-server")
            .args(["--no-chdir", "-vsyslog:off"])
            .arg(format!("--pidfile={}", layout.pidfile.display()))
            .arg(format!("--unixctl={}", layout.control.display()))
            .arg(format!("--remote=punix:{}", layout.socket.display()))
            .args(tcp_port.map(|port| format!("--remote=ptcp:{port}:0.0.0.0")))
            .args(more)
            .args(&layout.databases)
            .ready(Ready::Socket(layout.socket.clone()))
            .spawn(namespace)?;
        Ok(Self { process, socket: layout.socket, control: layout.control, tcp_port, ssl_port: None })
    }
}

impl Deref for OvsdbServer {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl OvsdbServerBuilder {
    /// Serves a database of the schema in this file.
    pub fn schema_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.schemas.push(Schema::File(path.into()));
        self
    }

    /// Serves a database of this schema.
    pub fn schema_json(mut self, schema: impl Into<String>) -> Self {
        self.schemas.push(Schema::Json(schema.into()));
        self
    }

    /// Listens on a TCP port too.
    pub fn tcp(mut self, port: u16) -> Self {
        self.tcp_port = Some(port);
        self
    }

    /// Listens for TLS on a port too, as `identity`, and admits clients with a certificate of `authority` only.
    pub fn ssl(mut self, port: u16, identity: &Identity, authority: &Authority) -> Self {
        self.ssl = Some(Ssl { port, identity: identity.clone(), authority: authority.certificate().into() });
        self
    }

    /// Starts it in the lab's home namespace.
    pub fn start(self, lab: &Lab) -> Result<OvsdbServer> {
        self.start_in(lab, lab.home())
    }

    /// Starts it in a namespace.
    pub fn start_in(self, lab: &Lab, namespace: &Namespace) -> Result<OvsdbServer> {
        let directory = lab.directory(&self.name)?;
        let mut layout = Layout::in_directory(&directory);
        for (index, schema) in self.schemas.iter().enumerate() {
            let database = directory.join(format!("{index}.db"));
            let schema = schema.file(&directory, index)?;
            lab.command("ovsdb-tool").arg("create").args([&database, &schema]).read()?;
            layout.databases.push(database);
        }
        let mut more = Vec::new();
        if let Some(ssl) = &self.ssl {
            let files = ssl.identity.write(&directory, "server")?;
            let authority = directory.join("ca.crt");
            std::fs::write(&authority, &ssl.authority).trying(|| format!("write {}", authority.display()))?;
            more.push(format!("--private-key={}", files.key.display()));
            more.push(format!("--certificate={}", files.certificate.display()));
            more.push(format!("--ca-cert={}", authority.display()));
            more.push(format!("--remote=pssl:{}:0.0.0.0", ssl.port));
        }
        let mut server = OvsdbServer::spawn(&self.name, namespace, layout, self.tcp_port, &more)?;
        server.ssl_port = self.ssl.map(|ssl| ssl.port);
        server.wait_until_ready()?;
        Ok(server)
    }
}

impl Layout {
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self {
            socket: directory.join("db.sock"),
            control: directory.join("db.ctl"),
            pidfile: directory.join("db.pid"),
            databases: Vec::new(),
        }
    }
}

impl Schema {
    /// The schema as a file, which is written to `directory` if there is none yet.
    pub(crate) fn file(&self, directory: &Path, index: usize) -> Result<PathBuf> {
        match self {
            Schema::File(path) => Ok(path.clone()),
            Schema::Json(text) => {
                let path = directory.join(format!("{index}.ovsschema"));
                std::fs::write(&path, text).trying(|| format!("write {}", path.display()))?;
                Ok(path)
            }
        }
    }

    /// The name of the database that the schema describes.
    pub(crate) fn database(&self) -> Result<String> {
        let text = match self {
            Schema::File(path) => {
                &std::fs::read_to_string(path).trying(|| format!("read {}", path.display()))?
            }
            Schema::Json(text) => text,
        };
        let schema: Value = serde_json::from_str(text)
            .map_err(std::io::Error::from)
            .trying(|| "read a database schema".into())?;
        schema["name"]
            .as_str()
            .map(Into::into)
            .ok_or_else(|| Error::Refused { peer: "a database schema".into(), answer: "no name".into() })
    }
}
