//! The ways between a member of a cluster and the others.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use portolan_daemons::OvnDatabase;
use portolan_ovn_tls::{Clients, Credentials, Front, Remote};
use portolan_watch::Observed;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::membership::Membership;
use crate::ovn_addresses::CONTROLLERS_PORT;

/// A member's ways for one database.
pub(super) struct Peers {
    front: Front,
    remotes: Vec<Remote>,
    targets: Vec<Target>,
    observed: watch::Receiver<Observed<ConfigMap>>,
}

/// Where one way leads to.
struct Target {
    member: String,
    port: u16,
    told: watch::Sender<Option<SocketAddr>>,
}

/// Where members speak raft with each other: at a port of its own, which trusts nobody but servers.
fn raft_port(database: OvnDatabase) -> u16 {
    match database {
        OvnDatabase::Northbound => 6644,
        OvnDatabase::Southbound => 6645,
    }
}

/// Where a server takes clients that may do everything.
fn client_port(database: OvnDatabase) -> u16 {
    match database {
        OvnDatabase::Northbound => database.port(),
        OvnDatabase::Southbound => CONTROLLERS_PORT,
    }
}

impl Peers {
    /// Begins to listen for the others at this address, and for whom on this host the others are to be reached.
    pub(super) async fn bind(membership: &Membership, address: IpAddr) -> anyhow::Result<Self> {
        let Membership { database, member, others, run, map, .. } = membership;
        std::fs::create_dir_all(run).with_context(|| format!("cannot make {}", run.display()))?;
        let at = SocketAddr::new(address, raft_port(*database));
        let front = Front::bind(at, database.raft_socket(run, member.ordinal), Clients::Servers).await;
        let front = front.with_context(|| format!("cannot listen at {at} for other members"))?;
        let (mut remotes, mut targets) = (Vec::new(), Vec::new());
        for ordinal in others {
            for (socket, port) in [
                (database.raft_socket(run, *ordinal), raft_port(*database)),
                (database.socket_of(run, *ordinal), client_port(*database)),
            ] {
                let (told, target) = watch::channel(None);
                let remote = Remote::bind(&socket, target);
                remotes.push(remote.with_context(|| format!("cannot listen at {}", socket.display()))?);
                targets.push(Target { member: member.sibling(*ordinal).name, port, told });
            }
        }
        Ok(Self { front, remotes, targets, observed: map.observed() })
    }

    /// Serves for as long as it is polled.
    pub(super) async fn serve(self, credentials: watch::Receiver<Option<Arc<Credentials>>>) -> Infallible {
        let Self { front, remotes, targets, mut observed } = self;
        let mut tasks = JoinSet::new();
        tasks.spawn(front.serve(credentials.clone()));
        for remote in remotes {
            tasks.spawn(remote.serve(credentials.clone()));
        }
        tasks.spawn(async move {
            loop {
                // What is not known now may be what it was.
                if let Observed::Present(map) = &*observed.borrow_and_update() {
                    targets.iter().for_each(|target| target.follow(map));
                }
                if observed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        });
        match tasks.join_next().await {
            Some(Ok(never)) => match never {},
            Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
            None => std::future::pending().await,
        }
    }
}

impl Target {
    fn follow(&self, map: &ConfigMap) {
        let text = map.data.as_ref().and_then(|data| data.get(&self.member));
        let address: Option<IpAddr> = text.and_then(|text| text.trim().parse().ok());
        let target = address.map(|address| SocketAddr::new(address, self.port));
        self.told.send_if_modified(|before| std::mem::replace(before, target) != target);
    }
}
