//! Calls of plugins as a container runtime makes them, the same for all.

use portolan_testbed::{Namespace, Node, Sandbox, Testbed};
use serde_json::{Value, json};

/// Where Debian has the reference plugins.
const REFERENCE_PLUGINS: &str = "/usr/lib/cni";

pub(crate) struct Caller<'a> {
    testbed: &'a Testbed,
    node: &'a Node,
}

/// A network namespace that is to have an interface.
pub(crate) enum Container {
    Reference { name: String, netns: Namespace },
    Portolan(Sandbox),
}

impl<'a> Caller<'a> {
    pub(crate) fn new(testbed: &'a Testbed) -> Self {
        Self { testbed, node: &testbed.nodes()[0] }
    }

    /// One container for the reference plugins, and one of a pod.
    pub(crate) fn containers(&self, name: &str) -> [Container; 2] {
        let reference = format!("{name}-reference");
        let netns = self.node.namespace().network_beside(&reference).unwrap();
        self.testbed.pod(name).on(self.node.name()).nad("sea").create().unwrap();
        [
            Container::Reference { name: reference, netns },
            Container::Portolan(self.testbed.sandbox(name).unwrap()),
        ]
    }

    /// ADD by the reference plugins.
    pub(crate) fn add_reference(&self, container: &Container) {
        let Container::Reference { name, netns } = container else { panic!("not theirs") };
        self.reference("ADD", name, netns);
    }

    /// ADD by Portolan.
    pub(crate) fn add(&self, container: &Container) {
        let Container::Portolan(sandbox) = container else { panic!("not ours") };
        sandbox.call("ADD").unwrap();
    }

    /// DEL, by whoever made it.
    pub(crate) fn del(&self, container: &Container) {
        match container {
            Container::Reference { name, netns } => self.reference("DEL", name, netns),
            Container::Portolan(sandbox) => drop(sandbox.call("DEL").unwrap()),
        }
    }

    fn reference(&self, command: &str, name: &str, netns: &Namespace) {
        let program = format!("{REFERENCE_PLUGINS}/bridge");
        let output = self
            .node
            .command(program)
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", name)
            .env("CNI_NETNS", netns.path())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", REFERENCE_PLUGINS)
            .stdin(reference().to_string())
            .output()
            .unwrap();
        assert!(output.status.success(), "{command} {name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

fn reference() -> Value {
    json!({"cniVersion": "1.0.0", "name": "reference", "type": "bridge", "bridge": "cni0", "isGateway": true,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}})
}
