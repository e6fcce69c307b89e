//! All followers of one API server, supervised.

use std::collections::BTreeMap;

use kube::Client;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

use crate::definitions::Definitions;
use crate::existence::Kind;
use crate::follower::Follower;
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
        let mut followers = Followers {
            client,
            definitions: Definitions::new(),
            recovery: Recovery::new(),
            status: Status::new(),
            tasks: JoinSet::new(),
            kinds: BTreeMap::new(),
        };
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

    /// Follows a kind for as long as this value lives. `consume` is called with every change, one after the other, first with
    /// a list; while it runs, nothing more is read.
    pub fn follow<K, F>(&mut self, selection: Selection, consume: impl FnMut(Change<K>) -> F + Send + 'static)
    where
        K: Object,
        F: Future<Output = ()> + Send,
    {
        let kind = Kind::of::<K>().to_string();
        let follower = Follower::new(
            self.client.clone(),
            selection,
            self.definitions.clone(),
            self.recovery.clone(),
            self.status.add(kind.clone()),
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
