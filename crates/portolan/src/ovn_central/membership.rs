//! The file of a member of a cluster: made, joined or replaced before its server starts, and judged while it runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use portolan_daemons::{ClusterServer, DatabaseFile, OvnDatabase, begin_life_of_cluster};
use portolan_watch::Observed;
use serde_json::Value;
use tokio::sync::watch;

use super::decision::{Member, Step, announcement, is_over, step};
use super::map::{Map, Written, pauses};
use super::record::{Annotations, Published, Record, cluster_key, patch, recovery_key, server_key};

/// What a member is part of.
#[derive(Clone)]
pub(super) struct Membership {
    pub(super) database: OvnDatabase,
    pub(super) member: Member,
    /// The ordinals of the others.
    pub(super) others: Vec<u8>,
    pub(super) file: DatabaseFile,
    pub(super) run: PathBuf,
    pub(super) map: Map,
    state: Arc<State>,
}

struct State {
    /// There is no cluster yet, and somebody else makes it.
    idle: watch::Sender<bool>,
    /// The server that is started, once it is.
    server: watch::Sender<Option<ClusterServer>>,
}

/// Why there is no next step.
enum Failed {
    /// To be tried again.
    Asked(String),
    /// To be looked at by somebody: the process ends with it.
    File(portolan_daemons::Error),
}

impl From<portolan_daemons::Error> for Failed {
    fn from(error: portolan_daemons::Error) -> Self {
        Failed::File(error)
    }
}

impl From<String> for Failed {
    fn from(error: String) -> Self {
        Failed::Asked(error)
    }
}

impl Membership {
    pub(super) fn new(
        database: OvnDatabase,
        member: Member,
        members: u8,
        file: DatabaseFile,
        run: &Path,
        map: Map,
    ) -> Self {
        let others = (0..members).filter(|other| *other != member.ordinal).collect();
        let state = State { idle: watch::channel(false).0, server: watch::channel(None).0 };
        Self { database, member, others, file, run: run.into(), map, state: Arc::new(state) }
    }

    /// Whether there is nothing yet that this member could be part of.
    pub(super) fn idle(&self) -> watch::Receiver<bool> {
        self.state.idle.subscribe()
    }

    /// Does all that is to be done before the server starts.
    pub(super) async fn prepare(self) -> Result<(), portolan_daemons::Error> {
        let mut pause = pauses();
        loop {
            match self.advance().await {
                Ok(None) => pause.reset(),
                Ok(Some(server)) => {
                    if self.database == OvnDatabase::Northbound {
                        begin_life_of_cluster(&self.run, &server.cluster)?;
                    }
                    tracing::info!(
                        cluster = server.cluster,
                        server = server.server,
                        "the server of this member is known"
                    );
                    self.state.server.send_replace(Some(server));
                    return Ok(());
                }
                Err(Failed::File(error)) => return Err(error),
                Err(Failed::Asked(error)) => {
                    tracing::warn!(error, "the cluster of this database is not known yet; trying again");
                    pause.wait().await;
                }
            }
        }
    }

    /// Does the next step; the server if there is none.
    async fn advance(&self) -> Result<Option<ClusterServer>, Failed> {
        let mut observed = self.map.observed();
        observed.mark_unchanged();
        let map = self.map.read().await?;
        let record = Record::of(&map, self.database);
        let next = step(&self.file.stored().await?, record, &self.member);
        self.state.idle.send_replace(next == Step::Wait);
        let address = |ordinal| self.database.raft_socket(&self.run, ordinal);
        match next {
            Step::Start(server) => return Ok(Some(server)),
            Step::Wait => {
                tracing::info!("waiting until {} has made a cluster", self.member.sibling(0).name);
                // The map as it was read has none, so one comes with a change.
                if observed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            Step::Make => {
                let made = self.file.make_cluster(&address(self.member.ordinal)).await?;
                self.say(map, &made, true).await?;
            }
            Step::Claim(server) => self.say(map, &server, true).await?,
            Step::Publish(server) => self.say(map, &server, false).await?,
            Step::Join(cluster) => {
                let others: Vec<_> = self.others.iter().map(|other| address(*other)).collect();
                let name = self.database.name();
                let own = address(self.member.ordinal);
                let made = self.file.join_cluster(name, &cluster, &own, &others).await?;
                self.say(map, &made, false).await?;
            }
        }
        Ok(None)
    }

    /// Says which server this member has, and which cluster the database is if it has made that. Only as long as nobody has said otherwise
    /// since the decision; then the next one is another.
    async fn say(&self, mut map: ConfigMap, made: &ClusterServer, claims: bool) -> Result<(), Failed> {
        let decided = self.basis(&map);
        loop {
            let said = announcement(made, Record::of(&map, self.database), &self.member);
            let mut annotations = self.announce(&said);
            if claims {
                annotations.insert(cluster_key(self.database), Some(made.cluster.clone()));
                annotations.insert(recovery_key(self.database), None);
            }
            match self.map.write(patch(&map, &annotations, &[].into())).await? {
                Written::Done => return Ok(()),
                Written::Overtaken => map = self.map.read().await?,
            }
            if self.basis(&map) != decided {
                return Ok(());
            }
        }
    }

    fn announce(&self, said: &Published) -> Annotations {
        let said = serde_json::to_string(said).ok();
        [(server_key(self.database, &self.member.name), said)].into()
    }

    /// What decisions are made by.
    fn basis(&self, map: &ConfigMap) -> (Option<String>, Option<String>, Option<Published>) {
        let record = Record::of(map, self.database);
        let owned = |text: Option<&str>| text.map(str::to_owned);
        (owned(record.cluster()), owned(record.recovery()), record.server(&self.member.name))
    }

    /// What is to be said again of the server that runs, if somebody has removed it.
    pub(super) fn lost(&self, map: &ConfigMap) -> Annotations {
        let Some(server) = self.state.server.borrow().clone() else { return Annotations::new() };
        let record = Record::of(map, self.database);
        let mut lost = Annotations::new();
        if record.cluster().is_none() {
            lost.insert(cluster_key(self.database), Some(server.cluster.clone()));
        }
        if record.server(&self.member.name).is_none() {
            lost.extend(self.announce(&Published::first(&server)));
        }
        lost
    }

    /// The servers that the cluster is to forget.
    pub(super) fn replaced(&self) -> Vec<String> {
        let Some(server) = self.state.server.borrow().clone() else { return Vec::new() };
        match &*self.map.observed().borrow() {
            Observed::Present(map) => Record::of(map, self.database).replaced(&server.cluster),
            Observed::NotRead | Observed::Absent => Vec::new(),
        }
    }

    /// Waits until the server that runs is to be started anew, and says why.
    pub(super) async fn over(&self) -> String {
        let (mut observed, mut pause) = (self.map.observed(), pauses());
        let mut started = self.state.server.subscribe();
        let started = started.wait_for(Option::is_some).await.map(|server| server.clone());
        let Ok(Some(server)) = started else { return std::future::pending().await };
        loop {
            let is_suspected = match &*observed.borrow_and_update() {
                Observed::Present(map) => {
                    is_over(&server, Record::of(map, self.database), &self.member).is_some()
                }
                Observed::NotRead | Observed::Absent => false,
            };
            // What was seen may be older than what this member has said meanwhile.
            let read = if is_suspected { self.map.read().await.map(Some) } else { Ok(None) };
            let again = match read {
                Ok(None) => None,
                Ok(Some(map)) => match is_over(&server, Record::of(&map, self.database), &self.member) {
                    Some(why) => return why,
                    None => None,
                },
                Err(_) => Some(pause.lengthen()),
            };
            tokio::select! {
                Ok(()) = observed.changed() => {}
                () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// What is to be corrected in the map besides what belongs to the process.
    pub(super) fn correction(&self, map: &ConfigMap, data: &super::Data) -> Option<Value> {
        let lost = self.lost(map);
        (!lost.is_empty() || !data.is_empty()).then(|| patch(map, &lost, data))
    }
}
