//! Addresses that Nodes report and that are not believed: an Event of the Node says which, and why.

use portolan_model::{Requester, Unit};

use super::reports::Topic;
use super::{Engine, Subject};

/// The reason of the Event.
const NOT_USED: &str = "InternalIPNotUsed";

impl Engine {
    /// Reports what is not believed of a Node's addresses, which its unit depends on.
    pub(super) fn report_addresses_of_unit(&mut self, unit: &Unit) {
        let Unit::Node(name) = unit else { return };
        let Some(node) = self.world.node(name) else { return };
        let problems = self.world.node_address_problems(node);
        let problems =
            problems.map(|(address, problem)| (NOT_USED, format!("InternalIP {address} {problem}")));
        let (uid, problems) = (node.uid.clone(), problems.collect());
        self.report(Subject::from(&Requester::node(name)), uid, Topic::Addresses, problems);
    }
}
