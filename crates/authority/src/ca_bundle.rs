//! What others trust: `caBundle`, by which the API server knows the certificates of a server, or a ConfigMap. It is a copy of what the
//! Secret has.

mod config_map;
mod webhook_configuration;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use portolan_watch::{Followers, Object, Observed};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

pub use self::config_map::BUNDLE;
use crate::authority::Authority;
use crate::pauses;
use crate::secret::AuthoritySecret;

/// An object that says which authorities to trust.
pub trait HasCaBundle: Object + Serialize {
    /// What to change so that it has this bundle; none if it has it.
    fn with_bundle(&self, bundle: &str) -> Option<Value>;

    /// A new one of this name with this bundle, where it is made again if somebody deletes it; none where it is part of an installation.
    fn made(name: &str, bundle: &str) -> Option<Self> {
        let _ = (name, bundle);
        None
    }

    /// How that is merged into the object.
    fn patch(change: Value) -> Patch<Value> {
        Patch::Merge(change)
    }
}

impl HasCaBundle for APIService {
    fn with_bundle(&self, bundle: &str) -> Option<Value> {
        let present = self.spec.as_ref().and_then(|spec| spec.ca_bundle.as_ref());
        if present.is_some_and(|present| present.0 == bundle.as_bytes()) {
            return None;
        }
        let bundle = ByteString(bundle.as_bytes().to_vec());
        Some(json!({"spec": {"caBundle": bundle, "insecureSkipTLSVerify": false}}))
    }
}

/// Keeps the bundle of an object what the Secret says, for as long as the future is polled. The object itself is created only if it is of
/// a kind that says how ([`HasCaBundle::made`]).
pub fn keep_ca_bundle<K: HasCaBundle>(
    client: &Client,
    followers: &mut Followers,
    (api, name): (Api<K>, &str),
    secret: AuthoritySecret,
    authority: watch::Receiver<Option<Arc<Authority>>>,
) -> impl Future<Output = Infallible> + use<K> {
    let observed = followers.follow_one(api.clone(), name);
    let keeper = Keeper { client: client.clone(), api, name: name.to_owned(), secret };
    keeper.run(observed, authority)
}

struct Keeper<K> {
    client: Client,
    api: Api<K>,
    name: String,
    secret: AuthoritySecret,
}

/// What a step did.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// There is nothing to do until something changes.
    Done,
    /// Another was faster. Its change is on the way here.
    Overtaken,
    /// The Secret has no authority now. If it gets the same one again, that is no change to whoever follows it, so it is looked at
    /// again.
    NoAuthority,
}

impl<K: HasCaBundle> Keeper<K> {
    async fn run(
        self,
        mut observed: watch::Receiver<Observed<K>>,
        mut authority: watch::Receiver<Option<Arc<Authority>>>,
    ) -> Infallible {
        let mut pauses = pauses();
        loop {
            let seen = observed.borrow_and_update().clone();
            let followed = authority.borrow_and_update().clone();
            let pause = match self.step(seen, followed).await {
                Ok(Step::Done) => {
                    pauses.reset();
                    None
                }
                Ok(Step::Overtaken | Step::NoAuthority) => Some(pauses.lengthen()),
                Err(error) => {
                    let pause = pauses.lengthen();
                    let kind = K::kind(&());
                    tracing::warn!(%error, ?pause, "{kind} {}: the certificates to trust cannot be written; trying again", self.name);
                    Some(pause)
                }
            };
            // Both senders live as long as the followers do; without them nothing changes any more.
            tokio::select! {
                Ok(()) = observed.changed() => {}
                Ok(()) = authority.changed() => {}
                () = tokio::time::sleep(pause.unwrap_or(Duration::MAX)), if pause.is_some() => {}
                else => std::future::pending().await,
            }
        }
    }

    async fn step(
        &self,
        seen: Observed<K>,
        followed: Option<Arc<Authority>>,
    ) -> Result<Step, portolan_watch::Error> {
        let Some(followed) = followed else { return Ok(Step::Done) };
        let is_done = match &seen {
            Observed::NotRead => true,
            Observed::Absent => K::made(&self.name, followed.bundle()).is_none(),
            Observed::Present(object) => object.with_bundle(followed.bundle()).is_none(),
        };
        if is_done {
            return Ok(Step::Done);
        }
        // The watch of the Secret may be behind: another replica may have replaced the authority and written the bundle already.
        let secrets = self.secret.api(&self.client);
        let read = portolan_watch::get(&self.client, &secrets, &self.secret.name)
            .await
            .map_err(portolan_watch::Error::from)?;
        let Some(Ok(authority)) = read.as_ref().map(Authority::read) else { return Ok(Step::NoAuthority) };
        let written = match seen {
            Observed::Present(object) => {
                let Some(mut patch) = object.with_bundle(authority.bundle()) else { return Ok(Step::Done) };
                // Only over what was compared.
                patch["metadata"] = json!({"resourceVersion": object.meta().resource_version});
                self.api.patch(&self.name, &PatchParams::default(), &K::patch(patch)).await
            }
            Observed::NotRead | Observed::Absent => {
                let Some(object) = K::made(&self.name, authority.bundle()) else { return Ok(Step::Done) };
                self.api.create(&PostParams::default(), &object).await
            }
        };
        match written.map_err(portolan_watch::Error::from) {
            Ok(_) => {
                tracing::info!(
                    "{} {}: the certificates to trust are what {} says",
                    K::kind(&()),
                    self.name,
                    self.secret
                );
                Ok(Step::Done)
            }
            Err(error) if error.code() == Some(409) => Ok(Step::Overtaken),
            // It has just been deleted. If it comes again, the watch shows it.
            Err(error) if error.code() == Some(404) => Ok(Step::Done),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::core::ObjectMeta;
    use portolan_watch::fake::FakeApi;
    use tokio::task::JoinSet;

    use super::*;
    use crate::secret::{LOOK, keep_authority};

    const NAME: &str = "v1.example.io";
    const SECRET: &str = "GET /api/v1/namespaces/system/secrets/ca";

    /// Waits for a value; time is not real here, so a failure costs none.
    async fn soon<T>(waiting: impl Future<Output = Result<T, watch::error::RecvError>>) {
        assert!(tokio::time::timeout(LOOK * 10, waiting).await.expect("it never comes").is_ok());
    }

    fn reference() -> AuthoritySecret {
        AuthoritySecret { namespace: "system".into(), name: "ca".into() }
    }

    fn secret() -> Secret {
        let metadata =
            ObjectMeta { namespace: Some("system".into()), name: Some("ca".into()), ..ObjectMeta::default() };
        let data = Authority::make("ca", None, jiff::Timestamp::now()).unwrap();
        Secret { metadata, data: Some(data), ..Secret::default() }
    }

    fn service(bundle: Option<&Authority>) -> APIService {
        let mut service = APIService::default();
        service.metadata.name = Some(NAME.into());
        service.spec.get_or_insert_default().ca_bundle =
            bundle.map(|authority| ByteString(authority.bundle().as_bytes().to_vec()));
        service
    }

    fn stored(api: &FakeApi) -> APIService {
        serde_json::from_value(api.stored::<APIService>("", NAME).unwrap()).unwrap()
    }

    fn keeper(api: &FakeApi) -> Keeper<APIService> {
        let client = api.client();
        Keeper { api: Api::all(client.clone()), client, name: NAME.into(), secret: reference() }
    }

    fn has(authority: &Authority) -> impl FnMut(&Observed<APIService>) -> bool + '_ {
        |seen| matches!(seen, Observed::Present(seen) if seen.with_bundle(authority.bundle()).is_none())
    }

    #[tokio::test(start_paused = true)]
    async fn two_replicas_write_what_the_secret_says_and_stop() {
        let api = FakeApi::default();
        api.put(&service(None));
        let mut tasks = JoinSet::new();
        let mut all_followers = Vec::new();
        for _ in 0..2 {
            let client = api.client();
            let mut followers = Followers::of_built_in_kinds(client.clone());
            let (authority, kept) = keep_authority(&client, &mut followers, reference());
            tasks.spawn(kept);
            let target = (Api::<APIService>::all(client.clone()), NAME);
            tasks.spawn(keep_ca_bundle(&client, &mut followers, target, reference(), authority));
            all_followers.push(followers);
        }
        let mut observer = Followers::of_built_in_kinds(api.client());
        let mut seen = observer.follow_one::<APIService>(Api::all(api.client()), NAME);
        let is_set = |seen: &Observed<APIService>| matches!(seen, Observed::Present(seen) if seen.spec.as_ref().is_some_and(|spec| spec.ca_bundle.is_some()));
        soon(seen.wait_for(is_set)).await;
        // Somebody replaces the Secret, and somebody the bundle.
        api.put(&secret());
        let replaced =
            Authority::read(&serde_json::from_value(api.stored::<Secret>("system", "ca").unwrap()).unwrap());
        let replaced = replaced.unwrap();
        soon(seen.wait_for(has(&replaced))).await;
        api.put(&service(None));
        soon(seen.wait_for(has(&replaced))).await;
        // Whoever was overtaken has looked again by then.
        tokio::time::sleep(Duration::from_secs(600)).await;
        let written = api.requests("PATCH").len();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(api.requests("PATCH").len(), written, "they do not write against each other");
        assert!(stored(&api).with_bundle(replaced.bundle()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_config_map_that_is_deleted_is_made_again_and_what_an_installation_brings_is_not() {
        let api = FakeApi::default();
        api.put(&secret());
        let client = api.client();
        let mut followers = Followers::of_built_in_kinds(client.clone());
        let (authority, kept) = keep_authority(&client, &mut followers, reference());
        let mut tasks = JoinSet::new();
        tasks.spawn(kept);
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "system");
        let services: Api<APIService> = Api::all(client.clone());
        tasks.spawn(keep_ca_bundle(
            &client,
            &mut followers,
            (services, NAME),
            reference(),
            authority.clone(),
        ));
        tasks.spawn(keep_ca_bundle(
            &client,
            &mut followers,
            (maps.clone(), "ca"),
            reference(),
            authority.clone(),
        ));
        let mut seen = followers.follow_one::<ConfigMap>(maps, "ca");
        let is_there = |seen: &Observed<ConfigMap>| match seen {
            Observed::Present(map) => map.data.as_ref().is_some_and(|data| data.contains_key(BUNDLE)),
            Observed::NotRead | Observed::Absent => false,
        };
        soon(seen.wait_for(is_there)).await;
        api.remove::<ConfigMap>("system", "ca");
        api.requested("POST /api/v1/namespaces/system/configmaps", 2).await;
        soon(seen.wait_for(is_there)).await;
        let again = api.stored::<ConfigMap>("system", "ca").unwrap();
        assert_eq!(
            again["metadata"]["labels"]["app.kubernetes.io/part-of"], "portolan",
            "or it is not removed"
        );
        assert_eq!(api.stored::<APIService>("", NAME), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_whose_watch_is_behind_does_not_put_back_what_was_replaced() {
        let api = FakeApi::default();
        let (former, current) = (secret(), secret());
        let (former, current_authority) =
            (Authority::read(&former).unwrap(), Authority::read(&current).unwrap());
        api.put(&current);
        api.put(&service(Some(&current_authority)));
        // This replica knows the former authority, and will hear of no other.
        let (_sender, authority) = watch::channel(Some(Arc::new(former)));
        let mut followers = Followers::of_built_in_kinds(api.client());
        let observed = followers.follow_one(Api::all(api.client()), NAME);
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper(&api).run(observed, authority));
        api.requested(SECRET, 1).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(api.requests("PATCH").len(), 0);
        assert!(stored(&api).with_bundle(current_authority.bundle()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_that_comes_back_as_it_was_is_written() {
        let mut unusable = secret();
        unusable.data = None;
        for gone in [None, Some(unusable)] {
            let api = FakeApi::default();
            api.put(&service(None));
            if let Some(unusable) = &gone {
                api.put(unusable);
            }
            let current = secret();
            let current_authority = Authority::read(&current).unwrap();
            // This replica has the authority from before, and so hears of no other.
            let (_sender, authority) = watch::channel(Some(Arc::new(Authority::read(&current).unwrap())));
            let mut followers = Followers::of_built_in_kinds(api.client());
            let mut observed = followers.follow_one(Api::all(api.client()), NAME);
            let mut tasks = JoinSet::new();
            tasks.spawn(keeper(&api).run(observed.clone(), authority));
            api.requested(SECRET, 1).await;
            // The step that found no authority is over.
            tokio::time::sleep(Duration::from_millis(1)).await;
            api.put(&current);
            soon(observed.wait_for(has(&current_authority))).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_version_that_was_compared_is_overwritten() {
        let api = FakeApi::default();
        let current = secret();
        api.put(&current);
        api.put(&service(None));
        let compared = stored(&api);
        api.put(&service(None));
        let authority = Arc::new(Authority::read(&current).unwrap());
        let step = keeper(&api).step(Observed::Present(compared), Some(Arc::clone(&authority))).await;
        assert_eq!(step.unwrap(), Step::Overtaken);
        assert!(stored(&api).with_bundle(authority.bundle()).is_some(), "nothing was written");
        let step = keeper(&api).step(Observed::Present(stored(&api)), Some(Arc::clone(&authority))).await;
        assert_eq!(step.unwrap(), Step::Done);
        assert!(stored(&api).with_bundle(authority.bundle()).is_none());
    }
}
