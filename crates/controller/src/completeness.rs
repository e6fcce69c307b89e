//! Says in the northbound database that all that is asked for is in it.
//!
//! Whoever serves the database writes there which *life* of it this is: what was in it before may be old, or nothing. The southbound database
//! takes nodes in only once both options say the same, as nodes remove what they do not find (`portolan_daemons` has the whole chain).

use ovn_schema::nb::NbGlobal;
use ovsdb::{Cache, Monitor, Rows, Transaction};

/// The option with the life of the database, and that with the life of which all is there, as `portolan_daemons` has them.
pub const LIFE: &str = "portolan-life";
/// See [`LIFE`].
pub const COMPLETE: &str = "portolan-complete";

/// What of the database is read for that.
pub(crate) fn monitor() -> Monitor {
    Monitor::of::<NbGlobal>().columns([NbGlobal::OPTIONS.name()])
}

/// The life of which it is to be said; none if that is said already, or nobody asks.
pub(crate) fn unsaid(cache: &Cache) -> Option<String> {
    let (_, global) = cache.rows::<NbGlobal>().next()?;
    let options = global.ok()?.options;
    let life = options.get(LIFE)?;
    (options.get(COMPLETE) != Some(life)).then(|| life.clone())
}

/// Says it, if it is still the same life. There is one row at most.
pub(crate) fn transaction(life: String, lock: &'static str) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.assert_lock(lock);
    let same = NbGlobal::OPTIONS.includes(&[(LIFE.to_owned(), life.clone())].into());
    let mutations = [
        NbGlobal::OPTIONS.delete_keys([COMPLETE.to_owned()]),
        NbGlobal::OPTIONS.insert([(COMPLETE.to_owned(), life)]),
    ];
    transaction.mutate(Rows::matching([same]), mutations).any();
    transaction.comment("portolan-controller: everything is there");
    transaction
}
