//! The Secret with the authority: all replicas follow it; the first that finds none creates it.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use portolan_watch::{Followers, Observed};
use serde_json::json;
use tokio::sync::watch;

use crate::authority::Authority;
use crate::pauses;

/// How often the authority's age is looked at. A sleep of that length does not count the time that a machine was suspended.
pub const LOOK: Duration = Duration::from_secs(3600);

/// The annotation of Secrets whose authority was made here, and is therefore replaced here.
const GENERATED: (&str, &str) = ("portolan.dev/generated", "true");

/// Which Secret has the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthoritySecret {
    /// Its namespace.
    pub namespace: String,
    /// Its name, which is also the authority's.
    pub name: String,
}

impl fmt::Display for AuthoritySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret {}/{}", self.namespace, self.name)
    }
}

impl AuthoritySecret {
    pub(crate) fn api(&self, client: &Client) -> Api<Secret> {
        Api::namespaced(client.clone(), &self.namespace)
    }
}

/// Follows the authority in a Secret, creates it where there is none, and replaces it before it expires if it was made here; all
/// for as long as the future is polled. A Secret with something else is left alone, and logged. While the Secret is missing or
/// unusable, the last authority stays in use.
pub fn keep_authority(
    client: &Client,
    followers: &mut Followers,
    secret: AuthoritySecret,
) -> (watch::Receiver<Option<Arc<Authority>>>, impl Future<Output = Infallible> + use<>) {
    let observed = followers.follow_one(secret.api(client), &secret.name);
    let (authority, receiver) = watch::channel(None);
    let keeper = Keeper { api: secret.api(client), secret, authority };
    (receiver, keeper.run(observed))
}

struct Keeper {
    api: Api<Secret>,
    secret: AuthoritySecret,
    authority: watch::Sender<Option<Arc<Authority>>>,
}

impl Keeper {
    async fn run(self, mut observed: watch::Receiver<Observed<Secret>>) -> Infallible {
        let mut pauses = pauses();
        loop {
            let seen = observed.borrow_and_update().clone();
            let look_again = match self.step(seen).await {
                Ok(()) => {
                    pauses.reset();
                    LOOK
                }
                Err(error) => {
                    let pause = pauses.lengthen();
                    tracing::warn!(%error, ?pause, "{}: the authority cannot be kept; trying again", self.secret);
                    pause
                }
            };
            let changed = async {
                if observed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(look_again) => {}
            }
        }
    }

    async fn step(&self, seen: Observed<Secret>) -> Result<(), portolan_watch::Error> {
        let secret = match seen {
            Observed::NotRead => return Ok(()),
            // Creating is what decides: if the Secret is there after all, that fails.
            Observed::Absent => self.create().await?,
            Observed::Present(secret) => secret,
        };
        match Authority::read(&secret) {
            Err(problem) => {
                tracing::error!(
                    "{} has no usable authority: {problem}; delete it, and a new one is created",
                    self.secret
                );
            }
            Ok(authority) => {
                let authority = Arc::new(authority);
                // Before it is replaced: that may fail for long, and what is about to expire is good until then.
                self.publish(Arc::clone(&authority));
                if authority.is_due(Timestamp::now()) {
                    self.replace(&secret, &authority).await?;
                }
            }
        }
        Ok(())
    }

    /// Replaces an authority that is due, if it was made here.
    async fn replace(&self, secret: &Secret, authority: &Authority) -> Result<(), portolan_watch::Error> {
        let is_marked = secret.annotations().get(GENERATED.0).is_some_and(|value| value == GENERATED.1);
        // The mark alone may be left from before somebody put another authority into the Secret.
        if is_marked && authority.is_named(&self.secret.name) {
            return self.renew(secret, authority).await;
        }
        let expires = authority.expires();
        tracing::warn!(
            %expires,
            "{}: the authority soon expires or has expired, and is not replaced as it was not made here: put another into the Secret, or delete the Secret, and a new one is created",
            self.secret
        );
        Ok(())
    }

    fn publish(&self, authority: Arc<Authority>) {
        self.authority.send_if_modified(|current| {
            let is_new = current
                .as_ref()
                .is_none_or(|current| !current.is_same(&authority) || current.bundle() != authority.bundle());
            if is_new {
                *current = Some(authority);
            }
            is_new
        });
    }

    /// Creates the Secret, or reads the one that another replica created first.
    async fn create(&self) -> Result<Secret, portolan_watch::Error> {
        let Some(data) = self.make(None) else { return Ok(Secret::default()) };
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.secret.name.clone()),
                annotations: Some([(GENERATED.0.to_owned(), GENERATED.1.to_owned())].into()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            type_: Some("kubernetes.io/tls".into()),
            ..Secret::default()
        };
        match self.api.create(&PostParams::default(), &secret).await.map_err(portolan_watch::Error::from) {
            Err(error) if error.code() == Some(409) => {
                self.api.get(&self.secret.name).await.map_err(portolan_watch::Error::from)
            }
            created => created,
        }
    }

    /// Replaces the authority in the Secret as it was read. If another replica was first, the watch shows its authority.
    async fn renew(&self, secret: &Secret, authority: &Authority) -> Result<(), portolan_watch::Error> {
        let Some(data) = self.make(Some(authority)) else { return Ok(()) };
        let patch = json!({"metadata": {"resourceVersion": secret.resource_version()}, "data": data});
        let patched = self
            .api
            .patch(&self.secret.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(portolan_watch::Error::from);
        match patched {
            Ok(_) => {
                tracing::info!("{}: the authority was about to expire and has been replaced", self.secret);
            }
            Err(error) if error.code() == Some(409) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn make(
        &self,
        follows: Option<&Authority>,
    ) -> Option<std::collections::BTreeMap<String, k8s_openapi::ByteString>> {
        let made = Authority::make(&self.secret.name, follows, Timestamp::now());
        made.inspect_err(|error| tracing::error!(%error, "an authority cannot be made")).ok()
    }
}

#[cfg(test)]
mod tests {
    use portolan_watch::fake::{Answer, FakeApi};
    use tokio::task::JoinSet;

    use super::*;

    const SECRETS: &str = "/api/v1/namespaces/system/secrets";

    /// Waits for a value; time is not real here, so a failure costs none.
    async fn soon<T>(waiting: impl Future<Output = Result<T, watch::error::RecvError>>) {
        assert!(tokio::time::timeout(LOOK * 10, waiting).await.expect("it never comes").is_ok());
    }

    fn reference() -> AuthoritySecret {
        AuthoritySecret { namespace: "system".into(), name: "ca".into() }
    }

    /// A Secret with an authority that was made at this time.
    fn secret(made: Timestamp) -> Secret {
        let mut secret = secret_of_others("ca", made);
        secret.annotations_mut().insert("portolan.dev/generated".into(), "true".into());
        secret
    }

    /// A Secret that somebody made with an authority of this name.
    fn secret_of_others(authority: &str, made: Timestamp) -> Secret {
        let metadata =
            ObjectMeta { namespace: Some("system".into()), name: Some("ca".into()), ..ObjectMeta::default() };
        let data = Authority::make(authority, None, made).unwrap();
        Secret { metadata, data: Some(data), ..Secret::default() }
    }

    fn nine_years_ago() -> Timestamp {
        Timestamp::now() - jiff::SignedDuration::from_hours(24 * 365 * 9)
    }

    fn stored(api: &FakeApi) -> Authority {
        let stored = api.stored::<Secret>("system", "ca").unwrap();
        Authority::read(&serde_json::from_value(stored).unwrap()).unwrap()
    }

    struct Replica {
        authority: watch::Receiver<Option<Arc<Authority>>>,
        _followers: Followers,
        _tasks: JoinSet<Infallible>,
    }

    impl Replica {
        fn start(api: &FakeApi) -> Self {
            let client = api.client();
            let mut followers = Followers::of_built_in_kinds(client.clone());
            let (authority, kept) = keep_authority(&client, &mut followers, reference());
            let mut tasks = JoinSet::new();
            tasks.spawn(kept);
            Self { authority, _followers: followers, _tasks: tasks }
        }

        /// Waits until this replica uses an authority.
        async fn uses(&mut self, authority: &Authority) {
            let is_it =
                |used: &Option<Arc<Authority>>| used.as_ref().is_some_and(|used| used.is_same(authority));
            soon(self.authority.wait_for(is_it)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn replicas_that_start_at_once_share_one_authority() {
        let api = FakeApi::default();
        let mut replicas: Vec<_> = (0..3).map(|_| Replica::start(&api)).collect();
        for replica in &mut replicas {
            soon(replica.authority.wait_for(Option::is_some)).await;
        }
        let shared = stored(&api);
        for replica in &mut replicas {
            replica.uses(&shared).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_authority_that_somebody_replaces_or_deletes_is_followed() {
        let api = FakeApi::default();
        let mut replicas = [Replica::start(&api), Replica::start(&api)];
        for replica in &mut replicas {
            soon(replica.authority.wait_for(Option::is_some)).await;
        }
        api.put(&secret(Timestamp::now()));
        let replaced = stored(&api);
        for replica in &mut replicas {
            replica.uses(&replaced).await;
        }
        api.remove::<Secret>("system", "ca");
        for replica in &mut replicas {
            let is_new =
                |used: &Option<Arc<Authority>>| used.as_ref().is_some_and(|used| !used.is_same(&replaced));
            soon(replica.authority.wait_for(is_new)).await;
        }
        let made = stored(&api);
        for replica in &mut replicas {
            replica.uses(&made).await;
        }
        assert!(
            !made.bundle().contains(replaced.bundle()),
            "who deletes an authority does not trust it any more"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_authority_is_replaced_in_time_by_one_replica() {
        let api = FakeApi::default();
        api.put(&secret(nine_years_ago()));
        let former = stored(&api);
        let mut replicas = [Replica::start(&api), Replica::start(&api)];
        for replica in &mut replicas {
            let is_new =
                |used: &Option<Arc<Authority>>| used.as_ref().is_some_and(|used| !used.is_same(&former));
            soon(replica.authority.wait_for(is_new)).await;
        }
        let renewed = stored(&api);
        for replica in &mut replicas {
            replica.uses(&renewed).await;
        }
        assert!(renewed.bundle().contains(former.bundle()), "servers with the former one are still reached");
    }

    #[tokio::test(start_paused = true)]
    async fn an_authority_that_cannot_be_replaced_stays_in_use_and_is_tried_again() {
        let api = FakeApi::default();
        api.put(&secret(nine_years_ago()));
        let former = stored(&api);
        api.always(&format!("PATCH {SECRETS}/ca"), Answer::Code(403));
        let mut replica = Replica::start(&api);
        replica.uses(&former).await;
        api.requested("PATCH", 3).await;
        api.lift();
        let is_new = |used: &Option<Arc<Authority>>| used.as_ref().is_some_and(|used| !used.is_same(&former));
        soon(replica.authority.wait_for(is_new)).await;
        assert!(stored(&api).bundle().contains(former.bundle()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_authority_that_was_not_made_here_is_left_alone() {
        let mut edited = secret(nine_years_ago());
        edited.data = secret_of_others("Example CA", nine_years_ago()).data;
        for own in [
            secret_of_others("Example CA", nine_years_ago()),
            secret_of_others("ca", nine_years_ago()),
            edited,
        ] {
            let api = FakeApi::default();
            api.put(&own);
            let mut replica = Replica::start(&api);
            replica.uses(&stored(&api)).await;
            tokio::time::sleep(LOOK * 2).await;
            assert_eq!(api.requests("PATCH").len(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_authority_that_is_made_here_is_marked() {
        let api = FakeApi::default();
        let mut replica = Replica::start(&api);
        soon(replica.authority.wait_for(Option::is_some)).await;
        let made = api.stored::<Secret>("system", "ca").unwrap();
        assert_eq!(made["metadata"]["annotations"], json!({"portolan.dev/generated": "true"}));
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_used_is_left_alone_and_what_fails_is_tried_again() {
        let api = FakeApi::default();
        let mut broken = secret(Timestamp::now());
        broken.data = None;
        api.put(&broken);
        let mut replica = Replica::start(&api);
        api.requested(&format!("WATCH {SECRETS}"), 1).await;
        tokio::time::sleep(LOOK * 2).await;
        assert!(replica.authority.borrow_and_update().is_none());
        assert_eq!(api.requests("POST").len() + api.requests("PATCH").len(), 0);
        api.script(&format!("POST {SECRETS}"), 2, Answer::Code(403));
        api.remove::<Secret>("system", "ca");
        soon(replica.authority.wait_for(Option::is_some)).await;
        assert_eq!(api.requests(&format!("POST {SECRETS}")).len(), 3);
    }
}
