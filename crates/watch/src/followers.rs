//! All followers of one API server, supervised.

use std::collections::BTreeMap;
use std::future::Ready;

use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

use crate::definitions::Definitions;
use crate::existence::Kind;
use crate::follower::{Follower, Page, Pages};
use crate::one::Observed;
use crate::pause::Recovery;
use crate::{Change, Error, Object, Selection, Status};

/// The followers of one API server. Dropping it ends them.
pub struct Followers {
    client: Client,
    definitions: Definitions,
    recovery: Recovery,
    status: Status,
    tasks: JoinSet<()>,
    kinds: BTreeMap<Id, String>,
}

impl Followers {
    /// Begins with following which kinds there are.
    pub fn new(client: Client) -> Self {
        let mut followers = Self::with(client, Definitions::new());
        let definitions = followers.definitions.clone();
        followers.follow(Selection::all(), move |change| {
            definitions.take_definition(change);
            std::future::ready(())
        });
        let definitions = followers.definitions.clone();
        followers.follow(Selection::all(), move |change| {
            definitions.take_service(change);
            std::future::ready(())
        });
        followers
    }

    /// Follows kinds of which none is ever taken for absent: built-in ones. Needs no right to read definitions of others.
    pub fn of_built_in_kinds(client: Client) -> Self {
        Self::with(client, Definitions::not_followed())
    }

    fn with(client: Client, definitions: Definitions) -> Self {
        Followers {
            client,
            definitions,
            recovery: Recovery::new(),
            status: Status::new(),
            tasks: JoinSet::new(),
            kinds: BTreeMap::new(),
        }
    }

    /// Follows one object, and tells what is known of it.
    pub fn follow_one<K: Object>(&mut self, api: Api<K>, name: &str) -> watch::Receiver<Observed<K>> {
        let (sender, receiver) = watch::channel(Observed::NotRead);
        let name = name.to_owned();
        // The selector is what limits the rights that this needs; the filter is for servers that do not know it.
        let selection = Selection::fields(format!("metadata.name={name}"));
        self.follow_api(api, selection, move |change| {
            if let Some(observed) = Observed::after(change, &name) {
                sender.send_replace(observed);
            }
            std::future::ready(())
        });
        receiver
    }

    /// Follows a kind for as long as this value lives. `consume` is called with every change, one after the other, first with
    /// a list; while it runs, nothing more is read.
    pub fn follow<K, F>(&mut self, selection: Selection, consume: impl FnMut(Change<K>) -> F + Send + 'static)
    where
        K: Object,
        F: Future<Output = ()> + Send,
    {
        self.follow_api(Api::all(self.client.clone()), selection, consume);
    }

    /// Like [`Followers::follow`], for a kind of which there may be more objects than should be in memory at once: the pages of a
    /// list are given to `take_page` as they come, and a [`Change::Listed`] without objects says that they were all.
    pub fn follow_in_pages<K, F, G>(
        &mut self,
        selection: Selection,
        take_page: impl FnMut(Page<K>) -> G + Send + 'static,
        consume: impl FnMut(Change<K>) -> F + Send + 'static,
    ) where
        K: Object,
        F: Future<Output = ()> + Send,
        G: Future<Output = ()> + Send,
    {
        let api = Api::all(self.client.clone());
        self.start(api, selection, Pages::Reported(take_page), consume);
    }

    pub(crate) fn follow_api<K, F>(
        &mut self,
        api: Api<K>,
        selection: Selection,
        consume: impl FnMut(Change<K>) -> F + Send + 'static,
    ) where
        K: Object,
        F: Future<Output = ()> + Send,
    {
        let pages: Pages<fn(Page<K>) -> Ready<()>> = Pages::Collected;
        self.start(api, selection, pages, consume);
    }

    fn start<K, F, G>(
        &mut self,
        api: Api<K>,
        selection: Selection,
        pages: Pages<impl FnMut(Page<K>) -> G + Send + 'static>,
        consume: impl FnMut(Change<K>) -> F + Send + 'static,
    ) where
        K: Object,
        F: Future<Output = ()> + Send,
        G: Future<Output = ()> + Send,
    {
        let kind = Kind::of::<K>().to_string();
        let follower = Follower::new(
            api,
            selection,
            self.definitions.clone(),
            self.recovery.clone(),
            self.status.add(kind.clone()),
            pages,
            consume,
        );
        let task = self.tasks.spawn(async move { match follower.run().await {} });
        self.kinds.insert(task.id(), kind);
    }

    /// Which followers are in step.
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// Tells whenever a request got through after failures: the time to repeat what failed elsewhere.
    pub fn recoveries(&self) -> Recoveries {
        Recoveries(self.recovery.subscribe())
    }

    /// Waits for the end of a follower. There is none but by a panic: whoever runs followers should end with this error, as
    /// nothing would be reported of that kind any more.
    pub async fn ended(&mut self) -> Error {
        let ended = self.tasks.join_next_with_id().await;
        let (id, why) = match ended {
            Some(Ok((id, ()))) => (Some(id), "it returned".to_owned()),
            Some(Err(error)) => (Some(error.id()), error.to_string()),
            None => (None, "there is none".to_owned()),
        };
        let kind = id.and_then(|id| self.kinds.get(&id)).cloned().unwrap_or_default();
        Error::Ended { kind, why }
    }
}

/// Recoveries after a point in time.
#[derive(Clone, Debug)]
pub struct Recoveries(watch::Receiver<u64>);

impl Recoveries {
    /// Waits for the next one. Cancel-safe.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
