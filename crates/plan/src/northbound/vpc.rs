//! A VPC: a logical router with its static routes and policy routes.

use std::collections::{BTreeMap, BTreeSet};

use ovn_schema::nb::{LogicalRouter, LogicalRouterPolicy, LogicalRouterStaticRoute};
use portolan_api::vpc_config::{PolicyAction, PolicyRouteConfig, RoutePolicy, StaticRouteConfig};
use portolan_model::Unit;
use portolan_model::view::VpcView;

use super::{Settings, names, primary};
use crate::rows::Rows;

/// After how many seconds a router forgets a neighbour that it learned.
const MAC_BINDING_AGE: &str = "300";

pub(super) fn rows(unit: &Unit, view: VpcView<'_>, settings: &Settings) -> Rows {
    let vpc = view.vpc;
    let mut rows = Rows::new(unit, view.owner);
    let router = rows.root(
        names::THE_ONE,
        LogicalRouter {
            name: names::router(&vpc.name),
            // Neighbours are known from the database. Learning from every ARP request would make a MAC_Binding per
            // guest, and each makes northd compute everything anew.
            options: BTreeMap::from([
                ("always_learn_from_arp_request".into(), "false".into()),
                ("mac_binding_age_threshold".into(), MAC_BINDING_AGE.into()),
            ]),
            ..Default::default()
        },
    );
    for route in &vpc.config.static_routes {
        let policy = policy(route.policy);
        let key = format!("{policy} {} {}", route.prefix, route.next_hop);
        rows.child(&key, router.column(LogicalRouter::STATIC_ROUTES), static_route(route, policy));
    }
    for route in &vpc.config.policy_routes {
        let key = format!("{} {}", route.priority, route.matches);
        rows.child(&key, router.column(LogicalRouter::POLICIES), policy_route(route));
    }
    if view.is_primary {
        primary::add_exits(&mut rows, &router, vpc, settings);
        primary::add_services(&mut rows, settings);
    }
    rows
}

/// Several routes with one prefix and policy share the load, each a row of its own.
fn static_route(route: &StaticRouteConfig, policy: &str) -> LogicalRouterStaticRoute {
    let symmetric = route.symmetric_reply.then(|| ("ecmp_symmetric_reply".to_owned(), "true".to_owned()));
    LogicalRouterStaticRoute {
        ip_prefix: route.prefix.to_string(),
        nexthop: route.next_hop.to_string(),
        policy: Some(policy.to_owned()),
        options: symmetric.into_iter().collect(),
        ..Default::default()
    }
}

pub(super) fn policy(policy: RoutePolicy) -> &'static str {
    match policy {
        RoutePolicy::Destination => "dst-ip",
        RoutePolicy::Source => "src-ip",
    }
}

fn policy_route(route: &PolicyRouteConfig) -> LogicalRouterPolicy {
    let (action, nexthops) = match &route.action {
        PolicyAction::Allow => ("allow", BTreeSet::new()),
        PolicyAction::Drop => ("drop", BTreeSet::new()),
        PolicyAction::Reroute(hops) => ("reroute", hops.iter().map(ToString::to_string).collect()),
    };
    LogicalRouterPolicy {
        priority: i64::from(route.priority),
        r#match: route.matches.clone(),
        action: action.to_owned(),
        nexthops,
        ..Default::default()
    }
}
