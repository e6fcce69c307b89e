//! What agents say on their Nodes that somebody has to do something about: Events of the Node say it too.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use portolan_model::{FirstInterface, Requester};
use portolan_watch::Change;

use super::reports::{Problem, Topic};
use super::{Engine, Subject};

/// The reasons of the Events.
const PROBLEM: &str = "NodeProblem";
const DISAGREES: &str = "PrimaryDisagrees";

impl Engine {
    /// Takes in a change of a Node.
    pub(super) fn observe_agents(&mut self, change: &Change<Node>) {
        match change {
            Change::Applied(node) => self.report_agent_of(&node.name_any()),
            Change::Listed(_) => {
                let names: Vec<_> = self.world.nodes().map(|node| node.name.clone()).collect();
                names.iter().for_each(|name| self.report_agent_of(name));
            }
            Change::Unreadable(_) | Change::Deleted(_) => {}
        }
    }

    fn report_agent_of(&mut self, name: &str) {
        let Some(node) = self.world.node(name) else { return };
        let mut problems: Vec<Problem> =
            node.problem.iter().map(|problem| (PROBLEM, problem.clone())).collect();
        let we_are = self.world.settings().first_interface == FirstInterface::Portolan;
        if node.agent_is_primary.is_some_and(|agent_is| agent_is != we_are) {
            problems.push((DISAGREES, disagreement(name, we_are)));
        }
        let uid = node.uid.clone();
        self.report(Subject::from(&Requester::node(name)), uid, Topic::Agent, problems);
    }
}

fn disagreement(node: &str, controller_is: bool) -> String {
    let (agent, controller) = if controller_is { ("without", "with") } else { ("with", "without") };
    format!(
        "the agent of node {node} runs {agent} --primary, and the controller {controller} it: pods there wait for interfaces or get none; start both alike"
    )
}
