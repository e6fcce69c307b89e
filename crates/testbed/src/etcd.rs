//! etcd, one member or three.

use std::path::PathBuf;

use portolan_lab::pki::{Authority, IdentityFiles};
use portolan_lab::{Daemon, Lab, Process, Ready, Result, built_program};

/// A running etcd in a lab's home namespace.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Process>,
    urls: Vec<String>,
    tls: Option<Tls>,
}

/// How an etcd shall be.
#[derive(Debug)]
#[must_use = "nothing runs until it is started"]
pub struct EtcdBuilder {
    name: String,
    members: usize,
    security: Security,
    durability: Durability,
}

#[derive(Debug)]
enum Security {
    Plain,
    Tls,
}

#[derive(Debug)]
enum Durability {
    Fsync,
    None,
}

impl Durability {
    /// Without waits for the disk, members can be sooner sure that a leader is dead; the first election is sooner too.
    fn arguments(&self) -> &'static [&'static str] {
        match self {
            Durability::Fsync => &[],
            Durability::None => &["--unsafe-no-fsync", "--heartbeat-interval=50", "--election-timeout=500"],
        }
    }
}

#[derive(Debug)]
struct Tls {
    authority: Authority,
    authority_file: PathBuf,
    client: IdentityFiles,
}

impl Etcd {
    /// One member, without TLS, which does not wait for the disk.
    pub fn builder() -> EtcdBuilder {
        EtcdBuilder {
            name: "etcd".into(),
            members: 1,
            security: Security::Plain,
            durability: Durability::None,
        }
    }

    /// Its members, dead or alive.
    pub fn members(&self) -> &[Process] {
        &self.members
    }

    /// The members' client URLs, in the same order.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The authority that its clients' certificates must be signed by, with TLS.
    pub fn authority(&self) -> Option<&Authority> {
        self.tls.as_ref().map(|tls| &tls.authority)
    }

    /// The file of the authority's certificate, with TLS.
    pub fn authority_file(&self) -> Option<&PathBuf> {
        self.tls.as_ref().map(|tls| &tls.authority_file)
    }

    /// The certificate of a client that is admitted, with TLS.
    pub fn client(&self) -> Option<&IdentityFiles> {
        self.tls.as_ref().map(|tls| &tls.client)
    }
}

impl EtcdBuilder {
    /// A name, for a lab with several; `etcd` unless set.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many members it has.
    pub fn members(mut self, members: usize) -> Self {
        self.members = members;
        self
    }

    /// TLS with client certificates, towards clients and between members.
    pub fn tls(mut self) -> Self {
        self.security = Security::Tls;
        self
    }

    /// Waits for the disk as in earnest: for benchmarks, and for tests that kill more than processes.
    pub fn fsync(mut self) -> Self {
        self.durability = Durability::Fsync;
        self
    }

    /// Starts it and waits until all members serve.
    pub fn start(self, lab: &Lab) -> Result<Etcd> {
        let directory = lab.directory(&self.name)?;
        let program = built_program("etcd")?;
        let (scheme, tls, more) = match self.security {
            Security::Plain => ("http", None, Vec::new()),
            Security::Tls => {
                let authority = Authority::new("etcd")?;
                let server =
                    authority.server("etcd", &["localhost", "127.0.0.1"])?.write(&directory, "server")?;
                let client = authority.client("client", None)?.write(&directory, "client")?;
                let authority_file = authority.write(&directory, "ca")?;
                let more = ["", "peer-"].into_iter().flat_map(|who| {
                    [
                        format!("--{who}cert-file={}", server.certificate.display()),
                        format!("--{who}key-file={}", server.key.display()),
                        format!("--{who}trusted-ca-file={}", authority_file.display()),
                        format!("--{who}client-cert-auth"),
                    ]
                });
                let more = more.collect();
                ("https", Some(Tls { authority, authority_file, client }), more)
            }
        };
        let url = |_| format!("{scheme}://127.0.0.1:{}", lab.port());
        let urls: Vec<_> = (0..self.members).map(url).collect();
        let peers: Vec<_> = (0..self.members).map(url).collect();
        let cluster = peers.iter().enumerate().map(|(index, peer)| format!("{}={peer}", index + 1));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        let members = (0..self.members).map(|index| {
            Daemon::new(format!("{}/{}", self.name, index + 1), &program)
                .arg(format!("--name={}", index + 1))
                .arg(format!("--data-dir={}", directory.join(format!("{}", index + 1)).display()))
                .args(["--listen-client-urls", &urls[index], "--advertise-client-urls", &urls[index]])
                .args(["--listen-peer-urls", &peers[index], "--initial-advertise-peer-urls", &peers[index]])
                .args(["--initial-cluster", &cluster])
                .args(self.durability.arguments())
                .args(&more)
                .ready(Ready::Notify)
                .spawn(lab.home())
        });
        // None is ready before a majority runs.
        let members = members.collect::<Result<Vec<_>>>()?;
        members.iter().try_for_each(Process::wait_until_ready)?;
        Ok(Etcd { members, urls, tls })
    }
}
