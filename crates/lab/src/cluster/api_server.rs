//! The API server of a cluster, whichever it is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::forward::Forward;
use super::kubeconfig;
use super::programs::Programs;
use crate::command::Command;
use crate::error::{Error, Result, Trying};
use crate::installed::program_or_built;
use crate::lab::Lab;
use crate::pki::Authority;
use crate::process::{Daemon, Process};
use crate::readiness::Ready;

/// Who may do everything, by the certificate's organization.
const ADMINISTRATORS: &str = "system:masters";

/// Which API server a cluster has.
#[derive(Clone, Debug, Default)]
pub enum Api {
    /// Portolan's own, on an embedded database.
    #[default]
    Portolan,
    /// Another one, by the current context of this kubeconfig. It is reached from the namespace of the caller.
    Other(PathBuf),
    /// One that the caller starts in the lab.
    Custom(Arc<dyn StartApiServer>),
}

/// Starts an API server in a lab's home namespace.
pub trait StartApiServer: fmt::Debug + Send + Sync {
    /// Starts it and waits until it is ready.
    fn start(&self, lab: &Lab, options: &ApiServerOptions) -> Result<Box<dyn LabApiServer>>;
}

/// An API server in a lab's home namespace, whose users have certificates of the lab's authority.
pub trait LabApiServer: fmt::Debug + Send + Sync {
    /// The authority that signed its certificate and signs its users'.
    fn authority(&self) -> &Authority;

    /// Its port, on every address of the home namespace.
    fn port(&self) -> u16;

    /// The port at which this user reaches it.
    fn port_for(&self, _user: &str) -> u16 {
        self.port()
    }

    /// Its audit log, one JSON event per line, if it has one.
    fn audit_log(&self) -> Option<&Path>;

    /// Its processes, the one that serves the API last.
    fn processes(&self) -> Vec<&Process>;
}

/// A running API server.
#[derive(Debug)]
pub enum ApiServer {
    /// One in the lab.
    Lab(Box<dyn LabApiServer>),
    /// One elsewhere.
    Other(OtherApiServer),
}

/// How an API server shall be.
#[derive(Clone, Debug)]
pub struct ApiServerOptions {
    /// The address at which nodes reach it.
    pub address: Ipv4Addr,
    /// Portolan's own binaries; [`Programs::built`] unless set.
    pub programs: Option<Programs>,
    /// Whether it writes an audit log.
    pub audit: Audit,
}

/// Whether requests are written to a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audit {
    /// They are not.
    #[default]
    Off,
    /// All are, writes with their object.
    On,
}

/// Builds an API server.
#[derive(Debug)]
#[must_use = "nothing runs until it is started"]
pub struct ApiServerBuilder {
    api: Api,
    options: ApiServerOptions,
}

/// Portolan's API server in a lab's home namespace.
#[derive(Debug)]
pub struct PortolanApiServer {
    process: Process,
    authority: Authority,
    port: u16,
    audit_log: Option<PathBuf>,
}

/// An API server outside of the lab, and the way to it from inside.
#[derive(Debug)]
pub struct OtherApiServer {
    config: Value,
    forward: Forward,
}

impl ApiServer {
    /// An API server that is reached at this address of a lab's home namespace.
    pub fn builder(api: Api, address: Ipv4Addr) -> ApiServerBuilder {
        let options = ApiServerOptions { address, programs: None, audit: Audit::Off };
        ApiServerBuilder { api, options }
    }

    /// Its audit log, one JSON event per line, if it was built with one.
    pub fn audit_log(&self) -> Option<&Path> {
        match self {
            Self::Lab(server) => server.audit_log(),
            Self::Other(_) => None,
        }
    }

    /// A kubectl that does as a kubeconfig says.
    pub fn kubectl(&self, kubeconfig: &Path, lab: &Lab) -> Result<Command> {
        // Its cache is kept in the home directory, keyed by address and port: it must not be that of another lab.
        let home = lab.directory("kubectl")?;
        let kubectl = lab.command(program_or_built("kubectl")?);
        Ok(kubectl.env("HOME", home).env("KUBECONFIG", kubeconfig))
    }

    /// The kubeconfig of a user who may do everything, for use in the home namespace and on nodes.
    pub fn kubeconfig_for(&self, user: &str, lab: &Lab, address: Ipv4Addr) -> Result<PathBuf> {
        let config = match self {
            Self::Lab(server) => {
                administrator(server.authority(), user, (address, server.port_for(user)).into())?
            }
            Self::Other(server) => server.config_in_lab(),
        };
        let path = lab.directory("kubeconfig")?.join(user.replace([':', '/'], "-"));
        kubeconfig::write(&config, &path)?;
        Ok(path)
    }

    /// Writes the kubeconfig of an administrator outside of the lab, who reaches the server at `address`.
    pub fn write_kubeconfig(&self, address: SocketAddr, path: &Path) -> Result<()> {
        let config = match self {
            Self::Lab(server) => administrator(server.authority(), "admin", address)?,
            Self::Other(server) => server.config.clone(),
        };
        kubeconfig::write(&config, path)
    }

    /// A forward from `listener`, which may be in any namespace, to the server; none if it is not the lab's.
    pub fn forward(&self, listener: TcpListener, lab: &Lab) -> Result<Option<Forward>> {
        let Self::Lab(server) = self else { return Ok(None) };
        Forward::start(listener, Some(lab.home()), "127.0.0.1", server.port()).map(Some)
    }
}

/// The kubeconfig of a user who may do everything.
fn administrator(authority: &Authority, user: &str, server: SocketAddr) -> Result<Value> {
    let identity = authority.client(user, Some(ADMINISTRATORS))?;
    Ok(kubeconfig::of_user(authority, user, &identity, &format!("https://{server}")))
}

impl ApiServerBuilder {
    /// Portolan's own binaries; [`Programs::built`] unless set.
    pub fn programs(mut self, programs: Programs) -> Self {
        self.options.programs = Some(programs);
        self
    }

    /// Whether it writes an audit log; not unless set.
    pub fn audit(mut self, audit: Audit) -> Self {
        self.options.audit = audit;
        self
    }

    /// Starts it and waits until it is ready.
    pub fn start(self, lab: &Lab) -> Result<ApiServer> {
        match &self.api {
            Api::Portolan => {
                let server = PortolanApiServer::start(lab, &self.options)?;
                Ok(ApiServer::Lab(Box::new(server)))
            }
            Api::Custom(starter) => starter.start(lab, &self.options).map(ApiServer::Lab),
            Api::Other(file) => OtherApiServer::reach(file, lab, self.options.address).map(ApiServer::Other),
        }
    }
}

impl PortolanApiServer {
    /// Starts it and waits until it is ready.
    pub fn start(lab: &Lab, options: &ApiServerOptions) -> Result<Self> {
        let programs = options.programs.clone().map_or_else(Programs::built, Ok)?;
        let (directory, port) = (lab.directory("apiserver")?, lab.port());
        let audit_log = (options.audit == Audit::On).then(|| directory.join("audit.log"));
        let process = Daemon::new("apiserver", programs.portolan())
            .args(["apiserver", "--data-dir"])
            .arg(&directory)
            .args(["--listen", &format!("0.0.0.0:{port}"), "--name", &options.address.to_string()])
            .args(audit_log.iter().flat_map(|log| ["--audit-log".as_ref(), log.as_os_str()]))
            .ready(Ready::Notify)
            .start(lab.home())?;
        let authority = Authority::read(&directory.join("ca.crt"), &directory.join("ca.key"))?;
        Ok(Self { process, authority, port, audit_log })
    }
}

impl LabApiServer for PortolanApiServer {
    fn authority(&self) -> &Authority {
        &self.authority
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn audit_log(&self) -> Option<&Path> {
        self.audit_log.as_deref()
    }

    fn processes(&self) -> Vec<&Process> {
        vec![&self.process]
    }
}

impl OtherApiServer {
    fn reach(file: &Path, lab: &Lab, address: Ipv4Addr) -> Result<Self> {
        let config = kubeconfig::read(file)?;
        let (host, port) = kubeconfig::server_of(&config)
            .ok_or_else(|| Error::Kubeconfig { file: file.into(), why: "its server has no URL".into() })?;
        let listen = SocketAddr::new(IpAddr::V4(address), lab.port());
        let listener =
            lab.home().run(move || TcpListener::bind(listen)).trying(|| format!("listen at {listen}"))?;
        let forward = Forward::start(listener, None, &host, port)?;
        Ok(Self { config, forward })
    }

    fn config_in_lab(&self) -> Value {
        let url = self.config["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default();
        let scheme = url.split_once("://").map_or("https", |(scheme, _)| scheme);
        kubeconfig::pointed_at(self.config.clone(), &format!("{scheme}://{}", self.forward.address()))
    }
}
