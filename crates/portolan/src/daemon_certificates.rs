//! Certificates of OVN's daemons in containers: `--tls` of `portolan ovn-central` and `portolan ovn-controller`.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use portolan_daemons::{Daemon, Listen, OvnDatabase, TlsFiles, chassis_name, ovn_controller};
use portolan_ovn_tls::{Clients, Credentials, Files, Front, Request, Role, Wanted};
use tokio::sync::{oneshot, watch};

use crate::api_servers::ApiServerArguments;
use crate::ovn_addresses::CONTROLLERS_PORT;

/// By whom certificates are signed.
#[derive(Debug, Args)]
pub(crate) struct Certificates {
    /// Speak TLS, with a certificate that is asked for by a CertificateSigningRequest; controllers with `--ovn-tls` of this namespace
    /// sign it. It is kept in the directory of sockets, which should be in memory, and replaced in time.
    #[arg(long = "tls", value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

/// What goes on beside a daemon. It ends only with an error.
pub(crate) type Beside = Pin<Box<dyn Future<Output = anyhow::Result<Infallible>> + Send>>;

/// The certificate of the server of a database.
pub(crate) struct DatabaseCertificate {
    database: OvnDatabase,
    address: IpAddr,
    socket: PathBuf,
    files: Files,
    request: Request,
}

impl DatabaseCertificate {
    /// One for this address, with its files in the directory of sockets.
    pub(crate) fn new(
        database: OvnDatabase,
        address: IpAddr,
        namespace: &str,
        client: kube::Client,
        run: &Path,
    ) -> Self {
        let (name, clients) = match database {
            OvnDatabase::Northbound => ("northbound", Role::Central),
            OvnDatabase::Southbound => ("southbound", Role::Chassis),
        };
        let files = Files::new(run.join(format!("{name}-tls")));
        let request = Request::new(client, namespace, Wanted::server(address, clients), files.clone());
        Self { database, address, socket: database.socket(run), files, request }
    }

    /// Where a server listens that may have one.
    pub(crate) fn listen(own: Option<&Self>, address: IpAddr) -> Listen {
        Listen { address, tls: own.map(|own| tls_files(&own.files)) }
    }

    pub(crate) fn credentials(&self) -> watch::Receiver<Option<Arc<Credentials>>> {
        self.request.credentials()
    }

    /// Lets a daemon wait until it is there.
    pub(crate) fn awaited_by(&self, daemon: Daemon) -> Daemon {
        let mut first = self.credentials();
        daemon.after(move || async move {
            // It ends before that only with the process.
            let _ = first.wait_for(Option::is_some).await;
        })
    }

    /// Keeps it, and where controllers reach the southbound database by it.
    pub(crate) async fn keep(self) -> anyhow::Result<Beside> {
        let front = match self.database {
            OvnDatabase::Northbound => None,
            OvnDatabase::Southbound => {
                let address = SocketAddr::new(self.address, CONTROLLERS_PORT);
                let front = Front::bind(address, self.socket, Clients::All).await;
                Some(front.with_context(|| format!("cannot listen at {address} for controllers"))?)
            }
        };
        let credentials = self.request.credentials();
        let request = self.request.keep();
        Ok(Box::pin(async move {
            let front = async {
                match front {
                    Some(front) => front.serve(credentials).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = request => ended.context("nobody keeps the certificate any more"),
                never = front => match never {},
            }
        }))
    }
}

/// ovn-controller with the certificate that it needs, which names its chassis.
pub(crate) async fn controller(
    certificates: Certificates,
    api: &ApiServerArguments,
    switch: PathBuf,
    run: &Path,
) -> anyhow::Result<(Daemon, Beside)> {
    let Some(namespace) = certificates.namespace else {
        return Ok((ovn_controller(&switch, run, None), Box::pin(std::future::pending())));
    };
    let files = Files::new(run.join("ovn-controller-tls"));
    let daemon = ovn_controller(&switch, run, Some(&tls_files(&files)));
    let api = api.reach("portolan-ovn-controller").await?;
    let client = api.client()?;
    let (tell_name, name) = oneshot::channel();
    let (tell_written, written) = oneshot::channel();
    let daemon = daemon.after(move || async move {
        // Nobody listens, or tells, any more only if the process ends.
        let _ = tell_name.send(chassis_name(&switch).await);
        let _ = written.await;
    });
    let beside = async move {
        let named = async {
            let Ok(name) = name.await else { return std::future::pending().await };
            name
        };
        let api = api.follow();
        let mut api = std::pin::pin!(api);
        let name = tokio::select! {
            name = named => name,
            ended = &mut api => match ended? {},
        };
        let request = Request::new(client, &namespace, Wanted::chassis(name), files);
        let mut credentials = request.credentials();
        let tell = async {
            if credentials.wait_for(Option::is_some).await.is_ok() {
                let _ = tell_written.send(());
            }
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            ended = request.keep() => ended.context("nobody keeps the certificate any more"),
            never = tell => match never {},
            ended = api => ended,
        }
    };
    Ok((daemon, Box::pin(beside)))
}

fn tls_files(files: &Files) -> TlsFiles {
    let portolan_ovn_tls::Paths { private_key, certificate, trusted } = files.paths();
    TlsFiles { private_key, certificate, trusted }
}
