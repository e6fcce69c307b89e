//! Followers: one for every kind of the table, each feeds the engine.

use kube::Client;
use portolan_watch::{Followers, Object, Selection};
use tokio::sync::mpsc::Sender;

use crate::control::Message;
use crate::engine::{Observed, for_each_kind};

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
    let engine = engine.clone();
    followers.follow::<K, _>(Selection::all(), move |change| {
        let engine = engine.clone();
        async move {
            // A loop that has ended needs no changes.
            drop(engine.send(Message::new(move |engine| engine.feed(&change))).await);
        }
    });
}
