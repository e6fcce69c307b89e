//! A peering: a pair of router ports that name each other. The routes over it are the VPCs' own.

use ovn_schema::nb::{LogicalRouter, LogicalRouterPort};
use portolan_api::Mac;
use portolan_model::Unit;
use portolan_model::peering::PeeringEnd;
use portolan_model::view::PeeringView;

use super::names;
use crate::rows::Rows;

pub(super) fn rows(unit: &Unit, view: PeeringView<'_>) -> Rows {
    let mut rows = Rows::new(unit, view.peering.owner());
    let [first, second] = &view.peering.ends;
    for (end, other) in [(first, second), (second, first)] {
        let router = names::router_row(&end.vpc, &end.owner);
        rows.child(&end.vpc, router.column(LogicalRouter::PORTS), router_port(end, other));
    }
    rows
}

fn router_port(end: &PeeringEnd, other: &PeeringEnd) -> LogicalRouterPort {
    let first = end.local_connect.nets().next().expect("invariant: a pair has at least one network");
    LogicalRouterPort {
        name: names::peer_port(&end.vpc, &other.vpc),
        mac: Mac::derive(first.addr(), None).to_string(),
        networks: end.local_connect.nets().map(|network| network.to_string()).collect(),
        peer: Some(names::peer_port(&other.vpc, &end.vpc)),
        ..Default::default()
    }
}
