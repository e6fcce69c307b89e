//! Followers: one for every kind of the table, each feeds the engine.

use std::sync::Arc;

use kube::Client;
use portolan_watch::{Followers, Object, Page, Selection};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use crate::control::Message;
use crate::engine::{Engine, Observed, for_each_kind};

/// How many pages of a list may be on their way to the engine: while it takes one in, the next is read.
const PAGES: usize = 2;

/// Follows every kind.
pub(crate) fn follow_all(client: Client, engine: &Sender<Message>) -> Followers {
    let mut followers = Followers::new(client);
    macro_rules! follow {
        ($($kind:ident: $object:ty),* $(,)?) => { $(follow::<$object>(&mut followers, engine);)* };
    }
    for_each_kind!(follow);
    followers
}

fn follow<K: Observed + Object>(followers: &mut Followers, engine: &Sender<Message>) {
    let (engine, pages) = (engine.clone(), engine.clone());
    let consume = move |change| {
        let engine = engine.clone();
        async move { send(&engine, move |engine| engine.feed::<K>(&change)).await }
    };
    if K::IN_PAGES {
        let room = Arc::new(Semaphore::new(PAGES));
        let take_page = move |page: Page<K>| {
            let (engine, room) = (pages.clone(), Arc::clone(&room));
            async move {
                // The semaphore is never closed.
                let permit = room.acquire_owned().await.ok();
                let take_in = move |engine: &mut Engine| {
                    engine.feed_page(page);
                    drop(permit);
                };
                send(&engine, take_in).await;
            }
        };
        followers.follow_in_pages(Selection::all(), take_page, consume);
    } else {
        followers.follow(Selection::all(), consume);
    }
}

/// A loop that has ended needs no changes.
async fn send(engine: &Sender<Message>, take_in: impl FnOnce(&mut Engine) + Send + 'static) {
    drop(engine.send(Message::new(take_in)).await);
}
