//! Any history of any World, with interference and sudden deaths, ends in the database that the World asks for.

use portolan_model::{FirstInterface, Settings, World};
use portolan_plan::northbound::DATABASE;
use portolan_plan::{Diff, Plan, plan};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::driver::{made_at_once, ours};
use crate::history::{Event, History, event, foreign_rows, slot};
use crate::support::northbound;

/// Few cases every time; more by `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let asked_for = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig { max_shrink_iters: 4000, ..ProptestConfig::default() };
    if asked_for { default } else { ProptestConfig { cases: 192, ..default } }
}

fn first_interface() -> impl Strategy<Value = FirstInterface> {
    prop_oneof![Just(FirstInterface::Other), Just(FirstInterface::Portolan)]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_history_ends_in_the_database_that_the_world_asks_for(
        events in vec(event(), 1..60), limit in 1..20_usize, order in any::<u64>(), first in first_interface(),
    ) {
        let mut history = History::new(first);
        for event in &events {
            history.happen(event);
        }
        history.driver.settle(limit);

        // The database is what the World asks for, as if it had been made at once; and there is nothing left to do.
        let wanted = made_at_once(&history.driver.world);
        prop_assert_eq!(ours(history.driver.database.content()), ours(&wanted));
        prop_assert_eq!(history.driver.diff_of_all(), Diff::default());

        // When everything is taken away, in any order, only what is not ours is left.
        let mut present = history.present.clone();
        while !present.is_empty() {
            let slot = present.remove(usize::try_from(order).unwrap_or(7) % present.len());
            history.delete(slot, &[]);
            if order % 3 == 0 {
                history.driver.round(limit, None);
            }
        }
        history.driver.settle(limit);
        let nothing = made_at_once(&World::new(Settings { first_interface: first }));
        prop_assert_eq!(ours(history.driver.database.content()), ours(&nothing));
        if first == FirstInterface::Other {
            let mut theirs = northbound();
            theirs.transact(&foreign_rows()).unwrap();
            prop_assert_eq!(history.driver.database.content(), theirs.content());
        }
    }

    #[test]
    fn a_plan_is_the_same_every_time_and_its_uuids_are_all_different(
        slots in vec(slot(), 1..30), first in first_interface(),
    ) {
        let mut history = History::new(first);
        for slot in slots {
            history.happen(&Event::Apply(slot));
        }
        let world = &history.driver.world;
        let mut seen = std::collections::BTreeSet::new();
        for unit in world.units() {
            let planned = plan(&unit, world, &portolan_plan::Settings::default());
            prop_assert_eq!(&planned, &plan(&unit, world, &portolan_plan::Settings::default()));
            if let Plan::Desired(rows) = planned {
                for row in &rows {
                    prop_assert!(seen.insert(row.uuid()), "{} twice", row.uuid());
                }
            }
        }
        // A diff does not depend on the order in which units are given.
        let rows: Vec<_> = world.units().filter_map(|unit| match plan(&unit, world, &portolan_plan::Settings::default()) {
            Plan::Desired(rows) => Some(rows),
            _ => None,
        }).collect();
        let cache = northbound().cache(DATABASE.indexes());
        let reversed: Vec<_> = rows.iter().rev().cloned().collect();
        let (forth, back) = (DATABASE.diff(&rows, &[], &cache), DATABASE.diff(&reversed, &[], &cache));
        prop_assert_eq!(forth.waiting.len(), back.waiting.len());
        prop_assert_eq!(forth.atoms.len(), back.atoms.len());
    }
}
