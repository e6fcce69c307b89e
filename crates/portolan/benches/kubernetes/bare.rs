//! What the same ports cost OVN and Open vSwitch where a script makes them by the tools of both: on the same switches, one after another on
//! each node, on all nodes at once.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use portolan_testbed::kubernetes::KubernetesNode;

use crate::components::{self, Component};
use crate::side::Side;

/// What it costs without any, over some time: heartbeats, and traffic of the nodes themselves.
const IDLE: Duration = Duration::from_secs(5);

/// Seconds of a core, by component.
pub(crate) struct Bare {
    pub(crate) cpu: BTreeMap<Component, f64>,
    /// In how much time.
    pub(crate) took: f64,
    /// In one second in which nothing happens.
    pub(crate) idle: BTreeMap<Component, f64>,
}

/// Makes so many ports, on all nodes together, and removes them again.
pub(crate) fn ports(side: &Side, count: usize) -> Bare {
    let now = || components::now(side.lab.path());
    let before = now();
    thread::sleep(IDLE);
    let mut idle = components::cpu_between(&before, &now());
    idle.values_mut().for_each(|cpu| *cpu /= IDLE.as_secs_f64());

    let (before, begun) = (now(), Instant::now());
    let each = count / side.cluster.nodes().len();
    on_every_node(side, |node| run(side, node, MAKE, each));
    side.settle();
    let (cpu, took) = (components::cpu_between(&before, &now()), begun.elapsed().as_secs_f64());
    on_every_node(side, |node| run(side, node, REMOVE, each));
    side.settle();
    Bare { cpu, took, idle }
}

fn on_every_node(side: &Side, body: impl Fn(&KubernetesNode) + Sync) {
    thread::scope(|scope| {
        for node in side.cluster.nodes() {
            scope.spawn(|| body(node));
        }
    });
}

fn run(side: &Side, node: &KubernetesNode, script: &str, count: usize) {
    let northbound =
        side.cluster.ovn().unwrap().nb().tcp_endpoint(side.cluster.underlay().home_address().into());
    let prefix = side.cluster.kubectl(&["get", "node", node.name(), "-o=jsonpath={.spec.podCIDR}"]).unwrap();
    let network = prefix.trim_end_matches("0/24");
    let command = node.command("bash").unwrap().args(["-euc", script]).env("NODE", node.name());
    let command = command.env("NB", northbound).env("NETWORK", network).env("COUNT", count.to_string());
    command.read().unwrap();
}

const MAKE: &str = r#"
for number in $(seq "$COUNT"); do
  port=bare-$NODE-$number link=bare$number
  addresses="$(printf '0a:58:ff:00:00:%02x' "$number") $NETWORK$((100 + number))"
  ip link add "$link" type veth peer name "peer$number"
  ip link set "peer$number" up
  ip link set "$link" up
  ovn-nbctl --timeout=60 --db="$NB" lsp-add "node:$NODE" "$port" \
    -- lsp-set-addresses "$port" "$addresses" -- lsp-set-port-security "$port" "$addresses"
  ovs-vsctl --timeout=60 add-port br-int "$link" -- set Interface "$link" external-ids:iface-id="$port"
done
for number in $(seq "$COUNT"); do
  ovs-vsctl --timeout=60 wait-until Interface "bare$number" external-ids:ovn-installed=true
done
"#;

const REMOVE: &str = r#"
for number in $(seq "$COUNT"); do
  ovs-vsctl --timeout=60 del-port br-int "bare$number"
  ovn-nbctl --timeout=60 --db="$NB" lsp-del "bare-$NODE-$number"
  ip link delete "bare$number"
done
"#;
