//! How much an attachment may send and receive: rules of its subnet's switch, which the chassis of the attachment enforces by meters.

use std::collections::BTreeMap;

use ovn_schema::nb::QoS;
use portolan_api::{Rate, Rates};

/// Rules of one port match only its own packets, so their order does not matter.
const PRIORITY: i64 = 1000;
/// How much may pass at once after a pause: what passes in half a second. TCP, which takes every loss for congestion, reaches half of the
/// rate with a tenth of a second, nine tenths with a fifth, and all of it with a half; a longer one shows in means.
const BURSTS_PER_SECOND: i64 = 2;

/// The rules of a port, by their keys.
pub(super) fn rules(port: &str, rates: Rates) -> impl Iterator<Item = (&'static str, QoS)> {
    // ARP always passes: without it a pod that sends too much would lose its neighbours, not only what is too much.
    let rule = |key, direction: &str, field, rate: Rate| {
        let bandwidth = BTreeMap::from([
            ("rate".to_owned(), rate.kilobits()),
            ("burst".to_owned(), rate.kilobits() / BURSTS_PER_SECOND),
        ]);
        let r#match = format!("{field} == \"{port}\" && ip");
        let qos =
            QoS { bandwidth, direction: direction.into(), r#match, priority: PRIORITY, ..Default::default() };
        (key, qos)
    };
    let ingress = rates.ingress.map(|rate| rule("ingress", "to-lport", "outport", rate));
    let egress = rates.egress.map(|rate| rule("egress", "from-lport", "inport", rate));
    ingress.into_iter().chain(egress)
}
