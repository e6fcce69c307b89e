//! The API server of a cluster, whichever it is.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::forward::Forward;
use super::kubeconfig;
use super::programs::Programs;
use crate::error::{Error, Result, Trying};
use crate::etcd::Etcd;
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
    Portolan,
    /// Kubernetes' own, on etcd. Without its controllers: namespaces that are deleted stay, and nothing is collected.
    #[default]
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

/// Portolan's API server in a lab's home namespace.
#[derive(Debug)]
pub struct PortolanApiServer {
    process: Process,
    authority: Authority,
    port: u16,
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

    /// Starts one in a lab, to be reached at this address of its home namespace.
    pub(super) fn start(api: &Api, lab: &Lab, address: Ipv4Addr, programs: &Programs) -> Result<Self> {
        match api {
            Api::Portolan => PortolanApiServer::start(lab, address, programs)
                .map(|server| Self::Portolan(Box::new(server))),
            Api::Kubernetes => {
                let etcd = Etcd::builder().start(lab)?;
                let server = KubeApiServer::builder()
                    .etcd(etcd)
                    .advertise(address)
                    // Nobody makes service accounts, and nobody takes the taint off a node that became ready.
                    .arg("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
                    .start(lab)?;
                Ok(Self::Kubernetes(Box::new(server)))
            }
            Api::Other(file) => OtherApiServer::reach(file, lab, address).map(Self::Other),
        }
    }

    /// The kubeconfig of a user who may do everything, for use in the home namespace and on nodes.
    pub(super) fn kubeconfig_for(&self, user: &str, lab: &Lab, address: Ipv4Addr) -> Result<PathBuf> {
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

impl PortolanApiServer {
    fn start(lab: &Lab, address: Ipv4Addr, programs: &Programs) -> Result<Self> {
        let (directory, port) = (lab.directory("apiserver")?, lab.port());
        let process = Daemon::new("apiserver", programs.portolan())
            .args(["apiserver", "--data-dir"])
            .arg(&directory)
            .args(["--listen", &format!("0.0.0.0:{port}"), "--name", &address.to_string()])
            .ready(Ready::Notify)
            .start(lab.home())?;
        let authority = Authority::read(&directory.join("ca.crt"), &directory.join("ca.key"))?;
        Ok(Self { process, authority, port })
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
