//! Followers: one for every kind of the table, each feeds the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Client;
use portolan_api::{kubeovn, portolan};
use portolan_plan::ServiceProxy;
use portolan_watch::{Followers, Object, Page, Selection, Status};
use tokio::sync::mpsc::Sender;
use tokio::sync::{Semaphore, watch};

use crate::control::Message;
use crate::engine::{Change, Engine, Kind, Observed, for_each_kind};

/// How many pages of a list may be on their way to the engine: while it takes one in, the next is read.
const PAGES: usize = 2;

/// Which kinds were listed once.
type ListedKinds = watch::Sender<BTreeSet<Kind>>;

/// Follows every kind that this controller acts upon.
pub(crate) fn follow_all(client: Client, services: ServiceProxy, engine: &Sender<Message>) -> Followers {
    let mut followers = Followers::new(client);
    let listed = Arc::new(ListedKinds::default());
    macro_rules! follow {
        ($($kind:ident: $object:ty),* $(,)?) => {
            $(if Kind::$kind.is_followed(services) {
                follow::<$object>(&mut followers, services, engine, &listed);
            })*
        };
    }
    for_each_kind!(follow);
    followers
}

/// True if VPCs or Subnets may be there that the engine does not know.
pub(crate) fn networks_are_behind(status: &Status) -> bool {
    status.has_lost::<portolan::Subnet>()
        || status.has_lost::<kubeovn::Subnet>()
        || status.has_lost::<portolan::Vpc>()
        || status.has_lost::<kubeovn::Vpc>()
}

/// Which objects of a kind are followed, and how. Of VPCs and Subnets all that was missed must be on its way to the engine when they are said
/// to be in step: see [`networks_are_behind`].
fn selection<K: Observed>() -> Selection {
    match K::KIND {
        Kind::Subnet | Kind::KubeOvnSubnet | Kind::Vpc | Kind::KubeOvnVpc => {
            Selection::all().listed_after_failures()
        }
        _ => Selection::all(),
    }
}

/// The kinds that come before one in a start.
fn kinds_before<K: Observed>(services: ServiceProxy) -> BTreeSet<Kind> {
    macro_rules! turns {
        ($($kind:ident: $object:ty),* $(,)?) => { [$((Kind::$kind, <$object as Observed>::TURN)),*] };
    }
    let before = for_each_kind!(turns).into_iter().filter(|(_, turn)| *turn < K::TURN);
    before.map(|(kind, _)| kind).filter(|kind| kind.is_followed(services)).collect()
}

fn follow<K: Observed + Object>(
    followers: &mut Followers,
    services: ServiceProxy,
    engine: &Sender<Message>,
    listed: &Arc<ListedKinds>,
) {
    let (engine, pages) = (engine.clone(), engine.clone());
    let (before, told) = (listed.subscribe(), Arc::clone(listed));
    let consume = move |change| {
        let (engine, told) = (engine.clone(), Arc::clone(&told));
        async move {
            let is_list = matches!(change, Change::Listed(_));
            send(&engine, move |engine| engine.feed::<K>(&change)).await;
            if is_list {
                told.send_if_modified(|listed| listed.insert(K::KIND));
            }
        }
    };
    if K::TURN.is_some() {
        let room = Arc::new(Semaphore::new(PAGES));
        let kinds = Arc::new(kinds_before::<K>(services));
        let take_page = move |page: Page<K>| {
            let (engine, room) = (pages.clone(), Arc::clone(&room));
            let (mut before, kinds) = (before.clone(), Arc::clone(&kinds));
            async move {
                // Neither the channel nor the semaphore is ever closed.
                drop(before.wait_for(|listed| kinds.is_subset(listed)).await);
                let permit = room.acquire_owned().await.ok();
                let take_in = move |engine: &mut Engine| {
                    engine.feed_page(page);
                    drop(permit);
                };
                send(&engine, take_in).await;
            }
        };
        followers.follow_in_pages(selection::<K>(), take_page, consume);
    } else {
        followers.follow(selection::<K>(), consume);
    }
}

/// A loop that has ended needs no changes.
async fn send(engine: &Sender<Message>, take_in: impl FnOnce(&mut Engine) + Send + 'static) {
    drop(engine.send(Message::new(take_in)).await);
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use portolan_api::portolan::{IPLock, Subnet};

    use super::*;

    #[test]
    fn locks_come_before_pods_and_after_all_else() {
        let proxy = ServiceProxy::Portolan;
        assert_eq!(kinds_before::<Subnet>(proxy), BTreeSet::new());
        let locks = kinds_before::<IPLock>(proxy);
        assert!(locks.contains(&Kind::KubeOvnSubnet) && !locks.contains(&Kind::IPLock));
        let pods = kinds_before::<Pod>(proxy);
        assert!(pods.is_superset(&locks) && pods.contains(&Kind::IPLock) && !pods.contains(&Kind::Pod));
        assert_eq!(pods.len(), Kind::ALL.len() - 1);
        // What is not followed is not waited for.
        assert_eq!(kinds_before::<Pod>(ServiceProxy::Other).len(), Kind::ALL.len() - 3);
    }
}
