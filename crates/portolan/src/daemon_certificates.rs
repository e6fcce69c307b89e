//! Certificates of OVN's daemons in containers: `--tls` of `portolan ovn-central` and `portolan ovn-controller`.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use anyhow::Context as _;
use clap::Args;
use portolan_daemons::{Daemon, Listen, OvnDatabase, TlsFiles, chassis_name, ovn_controller, ovn_database};
use portolan_ovn_tls::{Files, Front, Request, Role, Wanted};
use tokio::sync::oneshot;

use crate::cluster;
use crate::ovn_addresses::CONTROLLERS_PORT;

/// By whom certificates are signed.
#[derive(Debug, Args)]
pub(crate) struct Certificates {
    /// Speak TLS, with a certificate that is asked for by a CertificateSigningRequest; controllers with `--ovn-tls` of this namespace
    /// sign it. It is kept in the directory of sockets, which should be in memory, and replaced in time.
    #[arg(long = "tls", value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// What goes on beside a daemon. It ends only with an error.
pub(crate) type Beside = Pin<Box<dyn Future<Output = anyhow::Result<Infallible>> + Send>>;

/// The server of a database with the certificate that it needs.
pub(crate) async fn database(
    database: OvnDatabase,
    listen: Option<IpAddr>,
    certificates: Certificates,
    kubeconfig: Option<&Path>,
    [run, data, schemas]: [&Path; 3],
) -> anyhow::Result<(Daemon, Beside)> {
    let Some((address, namespace)) = listen.zip(certificates.namespace) else {
        let listen = listen.map(|address| Listen { address, tls: None });
        return Ok((ovn_database(database, listen, run, data, schemas), Box::pin(std::future::pending())));
    };
    let (name, clients) = match database {
        OvnDatabase::Northbound => ("northbound", Role::Central),
        OvnDatabase::Southbound => ("southbound", Role::Chassis),
    };
    let files = Files::new(run.join(format!("{name}-tls")));
    let listen = Listen { address, tls: Some(tls_files(&files)) };
    let client = client(kubeconfig, "portolan-ovn-central").await?;
    let request = Request::new(client, &namespace, Wanted::server(address, clients), files);
    let credentials = request.credentials();
    let mut first = credentials.clone();
    let daemon = ovn_database(database, Some(listen), run, data, schemas).after(move || async move {
        // It ends before that only with the process.
        let _ = first.wait_for(Option::is_some).await;
    });
    let socket = database.socket(run);
    let beside = async move {
        let front = match database {
            OvnDatabase::Northbound => None,
            OvnDatabase::Southbound => Some(front(address, socket).await?),
        };
        let front = async {
            match front {
                Some(front) => front.serve(credentials).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = request.keep() => ended.context("nobody keeps the certificate any more"),
            never = front => match never {},
        }
    };
    Ok((daemon, Box::pin(beside)))
}

/// Where controllers reach the southbound database.
async fn front(address: IpAddr, socket: PathBuf) -> anyhow::Result<Front> {
    let address = SocketAddr::new(address, CONTROLLERS_PORT);
    Front::bind(address, socket).await.with_context(|| format!("cannot listen at {address} for controllers"))
}

/// ovn-controller with the certificate that it needs, which names its chassis.
pub(crate) async fn controller(
    certificates: Certificates,
    kubeconfig: Option<&Path>,
    switch: PathBuf,
    run: &Path,
) -> anyhow::Result<(Daemon, Beside)> {
    let Some(namespace) = certificates.namespace else {
        return Ok((ovn_controller(&switch, run, None), Box::pin(std::future::pending())));
    };
    let files = Files::new(run.join("ovn-controller-tls"));
    let daemon = ovn_controller(&switch, run, Some(&tls_files(&files)));
    let client = client(kubeconfig, "portolan-ovn-controller").await?;
    let (tell_name, name) = oneshot::channel();
    let (tell_written, written) = oneshot::channel();
    let daemon = daemon.after(move || async move {
        // Nobody listens, or tells, any more only if the process ends.
        let _ = tell_name.send(chassis_name(&switch).await);
        let _ = written.await;
    });
    let beside = async move {
        let Ok(name) = name.await else { return std::future::pending().await };
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
        }
    };
    Ok((daemon, Box::pin(beside)))
}

async fn client(kubeconfig: Option<&Path>, name: &'static str) -> anyhow::Result<kube::Client> {
    let config = cluster::config(kubeconfig, name).await?;
    Ok(portolan_watch::client(config)?)
}

fn tls_files(files: &Files) -> TlsFiles {
    let portolan_ovn_tls::Paths { private_key, certificate, trusted } = files.paths();
    TlsFiles { private_key, certificate, trusted }
}
