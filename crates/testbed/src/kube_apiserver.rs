//! A real kube-apiserver on a real etcd.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use portolan_lab::pki::{Authority, write_signing_keys};
use portolan_lab::{
    Command, Daemon, Error, Lab, Process, Ready, Result, Trying, built_program, program_or_built,
};
use rustls::ClientConfig;
use serde_json::json;

use crate::etcd::Etcd;
use crate::https;

/// How long it may take to become ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every request and, of writes, the object: what tests count and look at.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
"rules": [{"level": "Request", "verbs": ["create", "update", "patch", "delete", "deletecollection"]}, {"level": "Metadata"}]}"#;

/// A running kube-apiserver in a lab's home namespace. It is also its [`Process`].
#[derive(Debug)]
pub struct KubeApiServer {
    process: Process,
    etcd: Etcd,
    directory: PathBuf,
    authority: Authority,
    port: u16,
    kubeconfig: PathBuf,
    audit_log: Option<PathBuf>,
    admin: Arc<ClientConfig>,
}

/// How a kube-apiserver shall be.
#[derive(Debug)]
#[must_use = "nothing runs until it is started"]
pub struct KubeApiServerBuilder {
    name: String,
    etcd: Option<Etcd>,
    advertise: Option<IpAddr>,
    audit: bool,
    arguments: Vec<String>,
}

impl KubeApiServer {
    /// An API server on a new etcd of one member, with Node and RBAC authorization.
    pub fn builder() -> KubeApiServerBuilder {
        KubeApiServerBuilder {
            name: "kube-apiserver".into(),
            etcd: None,
            advertise: None,
            audit: false,
            arguments: Vec::new(),
        }
    }

    /// Its URL, on the loopback of the lab's home namespace.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Writes the kubeconfig of a user, with a certificate that names this group, for use at an address of the lab's home
    /// namespace. One at a time for each user: the files are named by it.
    pub fn kubeconfig_for(&self, user: &str, group: Option<&str>, address: IpAddr) -> Result<PathBuf> {
        let url = format!("https://{}", SocketAddr::new(address, self.port));
        write_kubeconfig(&self.directory, &self.authority, user, group, &url)
    }

    /// The authority that signed its certificate and signs its clients'.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The key that tokens of service accounts are signed with.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.directory.join("service-account.key")
    }

    /// The etcd that it keeps its objects in.
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// Its audit log, one JSON event per line, if it was built with one. All requests are in it, writes with their object.
    pub fn audit_log(&self) -> Option<&Path> {
        self.audit_log.as_deref()
    }

    /// Starts another one on the same etcd, with the same authority and keys, at an address of the lab's home namespace. API servers of one
    /// cluster have the same port: both must be told `--permit-port-sharing`, and connections to that address are the other's as long as it
    /// runs.
    pub fn another(&self, lab: &Lab, name: &str, address: IpAddr) -> Result<Process> {
        let directory = lab.directory(name)?;
        let (admin, at) = (Arc::clone(&self.admin), SocketAddr::new(address, self.port));
        let keys = ["key", "pub"].map(|end| self.directory.join(format!("service-account.{end}")));
        Daemon::new(name, built_program("kube-apiserver")?)
            .args(secure_serving(&directory, &self.authority, self.port, Some(address), &keys)?)
            .args(etcd_client(&self.etcd))
            .args([format!("--advertise-address={address}"), format!("--bind-address={address}")])
            .arg("--permit-port-sharing")
            .ready(Ready::Notify)
            .patience(PATIENCE)
            .probe(move || matches!(https::get(&admin, at, "/readyz", PATIENCE), Ok((200, _))))
            .start(lab.home())
    }

    /// Gets a path as the administrator; returns the HTTP status and the body.
    pub fn get(&self, path: &str) -> Result<(u16, String)> {
        self.try_get(path).trying(|| format!("get {path} from {}", self.url()))
    }

    /// A kubectl that runs as the administrator.
    pub fn kubectl(&self) -> Result<Command> {
        let kubectl = self.process.namespace().command(program_or_built("kubectl")?);
        // Its cache is kept in the home directory, keyed by address and port: it must not be that of another lab.
        Ok(kubectl.env("HOME", &self.directory).env("KUBECONFIG", &self.kubeconfig))
    }

    fn try_get(&self, path: &str) -> io::Result<(u16, String)> {
        let (admin, server) =
            (Arc::clone(&self.admin), SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.port));
        let (path, patience) = (path.to_owned(), self.process.patience());
        self.process.namespace().run(move || https::get(&admin, server, &path, patience))
    }
}

impl Deref for KubeApiServer {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl KubeApiServerBuilder {
    /// A name, for a lab with several; `kube-apiserver` unless set.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Keeps its objects in this etcd.
    pub fn etcd(mut self, etcd: Etcd) -> Self {
        self.etcd = Some(etcd);
        self
    }

    /// Announces itself to the cluster, as the Service `kubernetes`, at this address of the lab's home namespace.
    pub fn advertise(mut self, address: impl Into<IpAddr>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// Writes an audit log.
    pub fn audit_log(mut self) -> Self {
        self.audit = true;
        self
    }

    /// Adds an argument to its command line.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts it and waits until it is ready.
    pub fn start(self, lab: &Lab) -> Result<KubeApiServer> {
        let program = built_program("kube-apiserver")?;
        let directory = lab.directory(&self.name)?;
        let etcd = match self.etcd {
            Some(etcd) => etcd,
            None => Etcd::builder().name(format!("{}/etcd", self.name)).start(lab)?,
        };
        let port = lab.port();
        let authority = Authority::new("kubernetes")?;
        let kubeconfig = write_kubeconfig(
            &directory,
            &authority,
            "admin",
            Some("system:masters"),
            &format!("https://127.0.0.1:{port}"),
        )?;
        let audit_log = self.audit.then(|| directory.join("audit.log"));
        let keys: [PathBuf; 2] = write_signing_keys(&directory, "service-account")?.into();
        let mut daemon = Daemon::new(&self.name, program)
            .args(secure_serving(&directory, &authority, port, self.advertise, &keys)?)
            .args(etcd_client(&etcd))
            .args(match self.advertise {
                Some(address) => vec![format!("--advertise-address={address}")],
                // It must be given some address; nobody is told this one.
                None => {
                    vec!["--advertise-address=192.0.2.1".into(), "--endpoint-reconciler-type=none".into()]
                }
            })
            .ready(Ready::Notify)
            .patience(PATIENCE);
        if let Some(log) = &audit_log {
            let policy = directory.join("audit-policy.json");
            std::fs::write(&policy, AUDIT_POLICY).trying(|| format!("write {}", policy.display()))?;
            daemon = daemon
                .arg(format!("--audit-policy-file={}", policy.display()))
                .arg(format!("--audit-log-path={}", log.display()));
        }
        let identity = authority.client("lab", Some("system:masters"))?;
        let admin = https::client(&authority, &identity).trying(|| "make a TLS client".into())?;
        // It gives notice when it serves, but is ready only after its start-up hooks, which make no event.
        let (asking, at) = (Arc::clone(&admin), SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        let is_ready = move || matches!(https::get(&asking, at, "/readyz", PATIENCE), Ok((200, _)));
        let process = daemon.args(&self.arguments).probe(is_ready).start(lab.home())?;
        Ok(KubeApiServer { process, etcd, directory, authority, port, kubeconfig, audit_log, admin })
    }
}

fn secure_serving(
    directory: &Path,
    authority: &Authority,
    port: u16,
    advertise: Option<IpAddr>,
    [signing_key, public_key]: &[PathBuf; 2],
) -> Result<Vec<String>> {
    let advertised = advertise.map(|address| address.to_string());
    let mut names = vec![
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "localhost",
        "127.0.0.1",
        "172.31.0.1",
    ];
    names.push("10.96.0.1");
    names.extend(advertised.as_deref());
    let ca = authority.write(directory, "ca")?;
    let server = authority.server("kube-apiserver", &names)?.write(directory, "server")?;
    let kubelet_client = authority
        .client("kube-apiserver-kubelet-client", Some("system:masters"))?
        .write(directory, "kubelet-client")?;
    let front_proxy_authority = Authority::new("front-proxy")?;
    let front_proxy_ca = front_proxy_authority.write(directory, "front-proxy-ca")?;
    let front_proxy =
        front_proxy_authority.client("front-proxy-client", None)?.write(directory, "front-proxy")?;
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    Ok(vec![
        format!("--secure-port={port}"),
        file("cert-dir", directory),
        file("client-ca-file", &ca),
        file("tls-cert-file", &server.certificate),
        file("tls-private-key-file", &server.key),
        file("kubelet-client-certificate", &kubelet_client.certificate),
        file("kubelet-client-key", &kubelet_client.key),
        "--kubelet-preferred-address-types=InternalIP".into(),
        file("requestheader-client-ca-file", &front_proxy_ca),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        file("proxy-client-cert-file", &front_proxy.certificate),
        file("proxy-client-key-file", &front_proxy.key),
        "--enable-aggregator-routing=true".into(),
        file("service-account-key-file", public_key),
        file("service-account-signing-key-file", signing_key),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        "--authorization-mode=Node,RBAC".into(),
        "--allow-privileged=true".into(),
    ])
}

fn etcd_client(etcd: &Etcd) -> Vec<String> {
    let mut arguments = vec![format!("--etcd-servers={}", etcd.urls().join(","))];
    if let (Some(authority), Some(client)) = (etcd.authority_file(), etcd.client()) {
        arguments.push(format!("--etcd-cafile={}", authority.display()));
        arguments.push(format!("--etcd-certfile={}", client.certificate.display()));
        arguments.push(format!("--etcd-keyfile={}", client.key.display()));
    }
    arguments
}

/// JSON is YAML too.
fn write_kubeconfig(
    directory: &Path,
    authority: &Authority,
    user: &str,
    group: Option<&str>,
    url: &str,
) -> Result<PathBuf> {
    let name = user.replace([':', '/'], "-");
    let identity = authority.client(user, group)?.write(directory, &name)?;
    // Written as the server started, which follows it: not to be touched again.
    let ca = directory.join("ca.crt");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": url, "certificate-authority": ca}}],
        "users": [{"name": user, "user": {"client-certificate": identity.certificate, "client-key": identity.key}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
    });
    let path = directory.join(format!("{name}.kubeconfig"));
    std::fs::write(&path, format!("{kubeconfig:#}"))
        .map_err(|source| Error::System { what: format!("write {}", path.display()), source })?;
    Ok(path)
}
