//! The parts of a cluster that can be killed and started again.

use std::path::Path;

use super::api_server::ApiServer;
use super::{Cluster, Inner};
use crate::error::Result;
use crate::node::Node;
use crate::process::Process;
use crate::runtime::NodeRuntime;

/// A part of a cluster. Its name is that of its log.
pub struct Component<'a> {
    part: Part<'a>,
    probe: Option<Box<dyn Fn() -> Result<String, String> + Send + Sync + 'a>>,
}

enum Part<'a> {
    Process(&'a Process),
    Runtime { name: String, runtime: &'a NodeRuntime },
}

/// How a component is, in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// As it should be.
    Good(String),
    /// Not as it should be.
    Bad(String),
}

impl Cluster {
    /// All components: those of the home namespace first, then node by node.
    pub fn components(&self) -> Vec<Component<'_>> {
        let inner = &*self.inner;
        let mut components = inner.api_components();
        for database in [inner.central.nb(), inner.central.sb()] {
            components.extend(database.servers().iter().map(|server| {
                let list = move || server.control("ovsdb-server/list-dbs", &[]).map(|_| "serves".to_owned());
                Component::process(server).probe(move || list().map_err(|error| error.to_string()))
            }));
        }
        let northd = || inner.central.northd_control("status", &[]).map(|said| without_label(&said));
        components.push(
            Component::process(inner.central.northd())
                .probe(move || northd().map_err(|error| error.to_string())),
        );
        components.extend(inner.controller.as_ref().map(Component::process));
        for (index, node) in inner.nodes.iter().enumerate() {
            components.push(Component::process(node.ovsdb_server()));
            components.push(Component::process(node.vswitchd()));
            components.extend(node.ovn_controller().map(|controller| {
                Component::process(controller).probe(move || connection_of(node, controller))
            }));
            components.extend(inner.agents.get(index).map(|agent| {
                Component::process(agent).probe(move || {
                    let namespace = node.namespace().clone();
                    let status = async move { NodeRuntime::plugin_status(&namespace).await };
                    inner.tasks.wait(status).map(|()| "serves the CNI plugin".to_owned())
                })
            }));
            components.extend(inner.runtimes.get(index).map(|runtime| {
                let name = format!("{}/runtime", node.name());
                Component { part: Part::Runtime { name, runtime }, probe: None }
            }));
        }
        components
    }

    /// The component of this name, or of which the name ends with this after a slash, if there is one such.
    ///
    /// # Errors
    /// The names that could be meant.
    pub fn component(&self, name: &str) -> std::result::Result<Component<'_>, Vec<String>> {
        let ending = format!("/{name}");
        let (mut exact, mut ends, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for component in self.components() {
            all.push(component.name().to_owned());
            if component.name() == name {
                exact.push(component);
            } else if component.name().ends_with(&ending) {
                ends.push(component);
            }
        }
        let mut found = if exact.is_empty() { ends } else { exact };
        match (found.len(), found.pop()) {
            (1, Some(component)) => Ok(component),
            (0, _) => Err(all),
            (_, last) => Err(found.iter().chain(&last).map(|one| one.name().to_owned()).collect()),
        }
    }
}

impl Inner {
    fn api_components(&self) -> Vec<Component<'_>> {
        let ready = move || {
            let client = self.client.clone();
            self.tasks.wait(async move {
                let request = kube::core::Request::new("").get("readyz", &kube::api::GetParams::default());
                let request = request.map_err(|error| error.to_string())?;
                client.request_text(request).await.map_err(|error| error.to_string())
            })
        };
        let ready = move || ready().map(|said| if said == "ok" { "ready".into() } else { said });
        let ApiServer::Lab(server) = &self.api else { return Vec::new() };
        let mut components: Vec<_> = server.processes().into_iter().map(Component::process).collect();
        // The last is the server itself; those before it are what it needs.
        components
            .pop()
            .map(|server| server.probe(ready))
            .into_iter()
            .for_each(|server| components.push(server));
        components
    }
}

impl<'a> Component<'a> {
    fn process(process: &'a Process) -> Self {
        Self { part: Part::Process(process), probe: None }
    }

    fn probe(mut self, probe: impl Fn() -> Result<String, String> + Send + Sync + 'a) -> Self {
        self.probe = Some(Box::new(probe));
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match &self.part {
            Part::Process(process) => process.name(),
            Part::Runtime { name, .. } => name,
        }
    }

    /// Its process, if it runs and has one of its own.
    pub fn pid(&self) -> Option<u32> {
        match &self.part {
            Part::Process(process) => process.pid(),
            Part::Runtime { .. } => None,
        }
    }

    /// Its log, if it has one of its own.
    pub fn log(&self) -> Option<&Path> {
        match &self.part {
            Part::Process(process) => Some(process.log()),
            Part::Runtime { .. } => None,
        }
    }

    /// How it is. Asks it, if it can be asked.
    pub fn health(&self) -> Health {
        let ended = match &self.part {
            Part::Process(process) => process.ended(),
            Part::Runtime { runtime, .. } if runtime.is_alive() => None,
            Part::Runtime { .. } => return Health::Bad("killed".into()),
        };
        match (ended, &self.probe) {
            (Some(status), _) => Health::Bad(format!("ended ({status})")),
            (None, None) => Health::Good("runs".into()),
            (None, Some(probe)) => probe().map_or_else(Health::Bad, Health::Good),
        }
    }

    /// Kills it with SIGKILL and waits for its end. Nothing happens if it does not run.
    pub fn kill(&self) -> Result<()> {
        match &self.part {
            Part::Process(process) => process.kill(),
            Part::Runtime { runtime, .. } => {
                runtime.kill();
                Ok(())
            }
        }
    }

    /// Starts it again, unless it runs, and waits until it is ready.
    pub fn start(&self) -> Result<()> {
        match &self.part {
            Part::Process(process) if process.is_alive() => Ok(()),
            Part::Process(process) => process.restart(),
            Part::Runtime { runtime, .. } => {
                runtime.resume();
                Ok(())
            }
        }
    }
}

impl std::fmt::Debug for Component<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Component").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// What ovn-controller says about its connection to the southbound database.
fn connection_of(node: &Node, controller: &Process) -> Result<String, String> {
    let pid = controller.pid().ok_or("it has just ended")?;
    let socket = node.run_directory().join(format!("ovn/ovn-controller.{pid}.ctl"));
    let said = crate::json_rpc::control(&socket, "connection-status", &[], super::PATIENCE);
    match said.map_err(|error| error.to_string())?.trim() {
        "connected" => Ok("connected".into()),
        other => Err(other.to_owned()),
    }
}

/// `active` of `Status: active`.
fn without_label(said: &str) -> String {
    said.split_once(':').map_or(said, |(_, value)| value).trim().to_owned()
}
