//! A node's chassis: the row that has the variables of Services there. The Services contribute them one by one.

use ovn_schema::nb::ChassisTemplateVar;
use portolan_model::Unit;
use portolan_model::view::ChassisView;

use super::{ServiceProxy, Settings, names};
use crate::rows::Rows;

pub(super) fn rows(unit: &Unit, view: ChassisView<'_>, settings: &Settings) -> Rows {
    let mut rows = Rows::new(unit, view.node.uid);
    if settings.service_proxy() == ServiceProxy::Portolan {
        let row = ChassisTemplateVar { chassis: view.chassis.to_owned(), ..Default::default() };
        rows.root(names::THE_ONE, row);
    }
    rows
}
