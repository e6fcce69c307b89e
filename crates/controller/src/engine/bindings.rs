//! Ports that another chassis has bound than the one that they are for: an Event of the guest's object says so.

use std::collections::BTreeMap;

use portolan_model::Requester;

use super::reports::Topic;
use super::{Engine, Subject};

/// The reason of the Event.
const BOUND_ELSEWHERE: &str = "BoundElsewhere";

/// What is wrong with the ports of objects, by subject and UID, and then by port.
pub(super) type Bindings = BTreeMap<(Subject, String), BTreeMap<String, String>>;

impl Engine {
    /// A port is bound by another chassis than the one that it is for, or no longer, as was found in this term.
    pub fn port_bound_elsewhere(&mut self, term: u64, port: &str, problem: Option<String>) {
        // Whoever found it in another term finds it anew in this one, or does not.
        if self.term() != Some(term) {
            return;
        }
        let key = match problem {
            Some(problem) => {
                // Of what is none of Portolan's, the log is enough.
                let Some(key) = self.object_of_port(port) else { return };
                self.bindings.entry(key.clone()).or_default().insert(port.to_owned(), problem);
                key
            }
            None => {
                let Some(key) = self.bindings.iter().find(|(_, ports)| ports.contains_key(port)) else {
                    return;
                };
                let key = key.0.clone();
                self.bindings.entry(key.clone()).and_modify(|ports| drop(ports.remove(port)));
                self.bindings.retain(|_, ports| !ports.is_empty());
                key
            }
        };
        let problems = self.bindings.get(&key).into_iter().flat_map(BTreeMap::values);
        let problems = problems.map(|problem| (BOUND_ELSEWHERE, problem.clone())).collect();
        let (subject, uid) = key;
        self.report(subject, uid, Topic::Binding, problems);
    }

    /// The object whose port has this name.
    fn object_of_port(&self, port: &str) -> Option<(Subject, String)> {
        let parts: Vec<_> = port.strip_prefix("port:")?.split('/').collect();
        let (requester, uid) = match *parts.as_slice() {
            [namespace, name, _, piece] => {
                let is_its = |uid: &str| uid.starts_with(piece);
                if let Some(one) =
                    self.world.network_attachment(namespace, name).filter(|one| is_its(&one.uid))
                {
                    let requester =
                        Requester::NetworkAttachment { namespace: namespace.into(), name: name.into() };
                    (requester, one.uid.clone())
                } else if let Some(one) = self.world.machine(namespace, name).filter(|one| is_its(&one.uid)) {
                    (
                        Requester::VirtualMachine { namespace: namespace.into(), name: name.into() },
                        one.uid.clone(),
                    )
                } else {
                    // Of a StatefulSet the name is the pod's too.
                    let pod = self.world.pod(namespace, name)?;
                    (Requester::pod(namespace, name), pod.uid.to_string())
                }
            }
            [name, _, _] => (Requester::node(name), self.world.node(name)?.uid.clone()),
            _ => return None,
        };
        Some((Subject::from(&requester), uid))
    }
}
