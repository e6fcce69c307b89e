//! The API server of a cluster, whichever it is.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::forward::Forward;
use super::kubeconfig;
use super::programs::Programs;
use crate::command::Command;
use crate::error::{Error, Result, Trying};
use crate::etcd::Etcd;
use crate::installed::program_or_built;
use crate::kube_apiserver::KubeApiServer;
use crate::lab::Lab;
use crate::pki::Authority;
use crate::process::{Daemon, Process};
use crate::readiness::Ready;

/// Who may do everything, by the certificate's organization.
const ADMINISTRATORS: &str = "system:masters";

/// Which API server a cluster has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Api {
    /// Portolan's own, on an embedded database.
    #[default]
    Portolan,
    /// Kubernetes' own, on etcd. Without its controllers: namespaces that are deleted stay, and nothing is collected.
    Kubernetes,
    /// Another one, by the current context of this kubeconfig. It is reached from the namespace of the caller.
    Other(PathBuf),
}

/// A running API server.
#[derive(Debug)]
pub enum ApiServer {
    /// Portolan's own.
    Portolan(Box<PortolanApiServer>),
    /// Kubernetes' own.
    Kubernetes(Box<KubeApiServer>),
    /// Another one.
    Other(OtherApiServer),
}

/// How an API server shall be.
#[derive(Debug)]
#[must_use = "nothing runs until it is started"]
pub struct ApiServerBuilder {
    api: Api,
    address: Ipv4Addr,
    programs: Option<Programs>,
    audit: bool,
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

/// Whose an API server is.
enum Origin<'a> {
    /// The lab's, which signs its users' certificates.
    Lab {
        authority: &'a Authority,
        port: u16,
    },
    Elsewhere(&'a OtherApiServer),
}

impl ApiServer {
    fn origin(&self) -> Origin<'_> {
        match self {
            Self::Portolan(server) => Origin::Lab { authority: &server.authority, port: server.port },
            Self::Kubernetes(server) => Origin::Lab { authority: server.authority(), port: server.port() },
            Self::Other(server) => Origin::Elsewhere(server),
        }
    }

    /// An API server that is reached at this address of a lab's home namespace.
    pub fn builder(api: Api, address: Ipv4Addr) -> ApiServerBuilder {
        ApiServerBuilder { api, address, programs: None, audit: false }
    }

    /// Its audit log, one JSON event per line, if it was built with one.
    pub fn audit_log(&self) -> Option<&Path> {
        match self {
            Self::Portolan(server) => server.audit_log.as_deref(),
            Self::Kubernetes(server) => server.audit_log(),
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
        let config = match self.origin() {
            Origin::Lab { authority, port } => administrator(authority, user, (address, port).into())?,
            Origin::Elsewhere(server) => server.config_in_lab(),
        };
        let path = lab.directory("kubeconfig")?.join(user.replace([':', '/'], "-"));
        kubeconfig::write(&config, &path)?;
        Ok(path)
    }

    /// Writes the kubeconfig of an administrator outside of the lab, who reaches the server at `address`.
    pub fn write_kubeconfig(&self, address: SocketAddr, path: &Path) -> Result<()> {
        let config = match self.origin() {
            Origin::Lab { authority, .. } => administrator(authority, "admin", address)?,
            Origin::Elsewhere(server) => server.config.clone(),
        };
        kubeconfig::write(&config, path)
    }

    /// A forward from `listener`, which may be in any namespace, to the server; none if it is not the lab's.
    pub fn forward(&self, listener: TcpListener, lab: &Lab) -> Result<Option<Forward>> {
        let Origin::Lab { port, .. } = self.origin() else { return Ok(None) };
        Forward::start(listener, Some(lab.home()), "127.0.0.1", port).map(Some)
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
        self.programs = Some(programs);
        self
    }

    /// Writes an audit log.
    pub fn audit_log(mut self) -> Self {
        self.audit = true;
        self
    }

    /// Starts it and waits until it is ready.
    pub fn start(self, lab: &Lab) -> Result<ApiServer> {
        match &self.api {
            Api::Portolan => {
                let server = PortolanApiServer::start(lab, &self)?;
                Ok(ApiServer::Portolan(Box::new(server)))
            }
            Api::Kubernetes => {
                let etcd = Etcd::builder().start(lab)?;
                let server = KubeApiServer::builder()
                    .etcd(etcd)
                    .advertise(self.address)
                    // Nobody makes service accounts, and nobody takes the taint off a node that became ready.
                    .arg("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition");
                let server = if self.audit { server.audit_log() } else { server };
                Ok(ApiServer::Kubernetes(Box::new(server.start(lab)?)))
            }
            Api::Other(file) => OtherApiServer::reach(file, lab, self.address).map(ApiServer::Other),
        }
    }
}

impl PortolanApiServer {
    fn start(lab: &Lab, how: &ApiServerBuilder) -> Result<Self> {
        let programs = how.programs.clone().map_or_else(Programs::built, Ok)?;
        let (directory, port) = (lab.directory("apiserver")?, lab.port());
        let audit_log = how.audit.then(|| directory.join("audit.log"));
        let process = Daemon::new("apiserver", programs.portolan())
            .args(["apiserver", "--data-dir"])
            .arg(&directory)
            .args(["--listen", &format!("0.0.0.0:{port}"), "--name", &how.address.to_string()])
            .args(audit_log.iter().flat_map(|log| ["--audit-log".as_ref(), log.as_os_str()]))
            .ready(Ready::Notify)
            .start(lab.home())?;
        let authority = Authority::read(&directory.join("ca.crt"), &directory.join("ca.key"))?;
        Ok(Self { process, authority, port, audit_log })
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
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
