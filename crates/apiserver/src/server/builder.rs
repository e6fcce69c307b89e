//! Putting a server together.

use std::fmt;
use std::sync::Arc;

use apistore::{Change, Expect, Store, StoreError};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};

use super::initial_events::InitialPages;
use super::limits::{InFlight, Limits};
use super::tasks::Tasks;
use super::{Server, Shared};
use crate::admission::{Admission, AdmissionChain};
use crate::api::Api;
use crate::audit::{AuditLog, AuditQueue};
use crate::authn::{Authenticator, ClientCertificates};
use crate::authz::Authorizer;
use crate::crd::{self, Definitions};
use crate::health::{Dispatch, Health, NeededFor};
use crate::metrics::Metrics;
use crate::reflector::{Cache, InformerTask, Progress};
use crate::registry::{Registry, Resource};
use crate::storage::Storage;
use crate::version::VersionInfo;
use crate::watch::{Hub, HubLimits};

/// Why a server could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The store does not answer.
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// Nothing says who may do what.
    #[error(
        "the server has no authorizer: give it one with ServerBuilder::authorizer, AlwaysAllow if everybody may do everything"
    )]
    NoAuthorizer,
    /// The thread that writes the audit log cannot be started.
    #[error("the audit log cannot be written: {0}")]
    Audit(std::io::Error),
    /// The store was written by another version of this crate.
    #[error("the store is of format {0:?}, which this server does not know")]
    Format(String),
}

/// Puts a server together. It needs a store and an authorizer.
pub struct ServerBuilder {
    storage: Storage,
    resources: Vec<Resource>,
    admission: Vec<Arc<dyn Admission>>,
    authenticators: Vec<Box<dyn Authenticator>>,
    authorizer: Option<Arc<dyn Authorizer>>,
    audit: Option<AuditLog>,
    limits: Limits,
    hub_limits: HubLimits,
    tls: Option<Arc<rustls::ServerConfig>>,
    version: VersionInfo,
    health: Health,
    before_start: Vec<BeforeStart>,
    tasks: Vec<(String, Task)>,
}

/// Something that is done before anything else.
type BeforeStart = Box<dyn FnOnce(Api) -> BoxFuture<'static, Result<(), StoreError>> + Send>;

/// Something that works beside the requests.
type Task = Box<dyn FnOnce(Api) -> BoxFuture<'static, ()> + Send>;

impl Server {
    /// Starts to put a server together.
    pub fn builder<S: Store>(store: S) -> ServerBuilder {
        Server::on(Storage::new(store))
    }

    /// Starts to put a server together on a store that others use too.
    pub fn on(storage: Storage) -> ServerBuilder {
        ServerBuilder {
            storage,
            resources: Vec::new(),
            admission: Vec::new(),
            authenticators: vec![Box::new(ClientCertificates)],
            authorizer: None,
            audit: None,
            limits: Limits::default(),
            hub_limits: HubLimits::default(),
            tls: None,
            version: VersionInfo::default(),
            health: Health::default(),
            before_start: Vec::new(),
            tasks: Vec::new(),
        }
    }
}

impl ServerBuilder {
    /// Serves these resources too.
    pub fn resources(mut self, resources: impl IntoIterator<Item = Resource>) -> ServerBuilder {
        self.resources.extend(resources);
        self
    }

    /// Asks this plug-in about writes, after those that were given before.
    pub fn admission(mut self, plugin: impl Admission + 'static) -> ServerBuilder {
        self.admission.push(Arc::new(plugin));
        self
    }

    /// Asks this one who a client is, after those that were given before.
    pub fn authenticator(mut self, authenticator: impl Authenticator + 'static) -> ServerBuilder {
        self.authenticators.push(Box::new(authenticator));
        self
    }

    /// Asks this one what a user may do.
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> ServerBuilder {
        self.authorizer = Some(Arc::new(authorizer));
        self
    }

    /// Writes every request to this log.
    pub fn audit(mut self, log: Option<AuditLog>) -> ServerBuilder {
        self.audit = log;
        self
    }

    /// Takes no more than this at once.
    pub fn limits(mut self, limits: Limits) -> ServerBuilder {
        self.limits = limits;
        self
    }

    /// Leaves watchers no further behind than this.
    pub fn watch_limits(mut self, limits: HubLimits) -> ServerBuilder {
        self.hub_limits = limits;
        self
    }

    /// Serves over TLS; without, in the clear.
    pub fn tls(mut self, config: Arc<rustls::ServerConfig>) -> ServerBuilder {
        self.tls = Some(config);
        self
    }

    /// Says that it is this version.
    pub fn version(mut self, version: VersionInfo) -> ServerBuilder {
        self.version = version;
        self
    }

    /// Serves custom resources. Those of definitions in the store are served before any task starts: to a controller, a kind that
    /// is not served looks like one without objects.
    pub fn definitions(mut self, definitions: &Definitions) -> ServerBuilder {
        let (load, run) = (definitions.clone(), definitions.clone());
        self.before_start.push(Box::new(|api| async move { load.load(&api).await }.boxed()));
        self.resources([crd::resource()])
            .admission(definitions.clone())
            .in_sync("customresourcedefinitions", definitions.progress())
            .task("customresourcedefinitions", |api| run.run(api))
    }

    /// Keeps an informer up to date, and is ready only while it is in sync.
    pub fn informer<C: Cache>(self, name: &str, informer: InformerTask<C>) -> ServerBuilder {
        self.in_sync(name, informer.progress()).task(name, |_| informer.run())
    }

    /// Is ready only while this is in sync with the store.
    pub fn in_sync(self, name: &str, progress: &Progress) -> ServerBuilder {
        let progress = progress.clone();
        self.health.add(&format!("informer-sync/{name}"), NeededFor::Readiness, move || progress.in_sync());
        self
    }

    /// Runs this beside the requests, from the build to the end of the server: a controller. When it ends, so does the server.
    pub fn task<F>(mut self, name: &str, task: impl FnOnce(Api) -> F + Send + 'static) -> ServerBuilder
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.push((name.to_owned(), Box::new(|api| task(api).boxed())));
        self
    }

    /// The server. Its tasks run from here on; requests are answered once [`Server::serve`] is called.
    ///
    /// # Errors
    /// When there is no authorizer, or the store cannot be used.
    pub async fn build(self) -> Result<Server, BuildError> {
        let authorizer = self.authorizer.ok_or(BuildError::NoAuthorizer)?;
        check_format(&self.storage).await?;
        let (hub, feed) = Hub::new(self.storage.clone(), self.hub_limits).await?;
        let counted = self.limits.reading.saturating_add(self.limits.mutating);
        let audit = self.audit.map(|log| AuditQueue::start(log, counted));
        let (audit, audit_ended) = audit.transpose().map_err(BuildError::Audit)?.unzip();
        let metrics =
            Metrics::new(hub.clone(), self.storage.clone(), audit.as_ref().map(AuditQueue::metrics));
        let registry = Arc::new(Registry::new(self.resources));
        let api = Api::new(self.storage, hub, registry, AdmissionChain::new(self.admission));
        for prepare in self.before_start {
            prepare(api.clone()).await?;
        }
        add_checks(&self.health, &api);
        let mut tasks = Tasks::default();
        tasks.spawn("watch dispatch", feed);
        if let Some(ended) = audit_ended {
            tasks.spawn("audit log", ended);
        }
        for (name, task) in self.tasks {
            tasks.spawn(&name, task(api.clone()));
        }
        let shared = Shared {
            api,
            authenticators: self.authenticators,
            authorizer,
            audit,
            limits: InFlight::new(self.limits),
            initial_pages: InitialPages::default(),
            health: self.health,
            metrics,
            version: self.version,
        };
        Ok(Server { shared: Arc::new(shared), tls: self.tls, tasks })
    }
}

/// What every server needs: a store that takes writes, and events that reach watchers.
fn add_checks(health: &Health, api: &Api) {
    let storage = api.storage().clone();
    health.add("store", NeededFor::Liveness, move || storage.writable());
    let (storage, hub, dispatch) = (api.storage().clone(), api.hub().clone(), Dispatch::default());
    health.add("watch-dispatch", NeededFor::Liveness, move || {
        let position = hub.position();
        dispatch.check(position, storage.revision())
    });
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServerBuilder").field("storage", &self.storage).finish_non_exhaustive()
    }
}

const FORMAT_KEY: &[u8] = b"/apiserver/format";
const FORMAT: &[u8] = b"1";

/// A store is marked with the format of what is in it. The mark is the first change, so that no list ever shows revision zero,
/// which clients take to mean any revision.
async fn check_format(storage: &Storage) -> Result<(), BuildError> {
    let key = Bytes::from_static(FORMAT_KEY);
    let change = Change { key: key.clone(), expect: Expect::Absent, value: Some(Bytes::from_static(FORMAT)) };
    let existing = match storage.get(&key).await?.entry {
        Some(entry) => entry.value,
        None => {
            storage.commit(change).await?;
            return Ok(());
        }
    };
    if existing == FORMAT {
        return Ok(());
    }
    Err(BuildError::Format(String::from_utf8_lossy(&existing).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::audit::Rotation;
    use crate::authz::AlwaysAllow;

    #[tokio::test]
    async fn the_end_of_the_thread_that_writes_the_audit_log_is_that_of_a_task() {
        let directory = tempfile::tempdir().unwrap();
        let (store, log) = (directory.path().join("store.redb"), directory.path().join("audit.log"));
        let open = || apistore::Redb::open(store, apistore::Options::default()).unwrap();
        let Server { shared, mut tasks, .. } =
            Server::builder(tokio::task::spawn_blocking(open).await.unwrap())
                .authorizer(AlwaysAllow)
                .audit(Some(AuditLog::open(log, Rotation::default()).unwrap()))
                .build()
                .await
                .unwrap();
        // The thread has nobody left to write for.
        drop(shared);
        let ended = async { while tasks.ended().await.task != "audit log" {} };
        tokio::time::timeout(Duration::from_secs(30), ended).await.expect("it is one of the server's tasks");
    }
}
