//! Of each node: what its Node says, and what was found on it.

use std::collections::{BTreeMap, BTreeSet};

use portolan_agent::examine::facts::{
    Configurations, Listener, Module, NodeFacts, Outcome, Plugin, Protocol, Space, Switch,
};
use portolan_manifests::PARTS;

use super::super::facts::{AgentState, Examined, Facts, Installed, Known, Node};
use super::super::finding::{Finding, Group};

/// A kubelet renews its Lease every ten seconds, and is not ready without for forty.
const RENEWED_AT_LEAST: i64 = 25;
/// How far a clock may be ahead.
const AHEAD: i64 = 5;
/// What should be free where databases are.
const FREE_BYTES: u64 = 512 << 20;
const FREE_FILES: u64 = 1000;
/// The port of tunnels.
const TUNNELS: u16 = 6081;

pub(super) fn all(known: &Known) -> Vec<Finding> {
    let facts = &known.cluster;
    let mut findings: Vec<Finding> =
        facts.all_nodes().filter(|node| node.is_linux).flat_map(|node| said(node, facts)).collect();
    findings.extend(versions(facts));
    let Some(examined) = &known.nodes else { return findings };
    for (name, one) in examined {
        findings.extend(examination(name, one, facts));
    }
    findings
}

/// What the Node object says.
fn said(node: &Node, facts: &Facts) -> Vec<Finding> {
    let group = || Group::Node(node.name.clone());
    let mut findings = Vec::new();
    findings.extend(readiness(node, facts));
    if let Some(renewed) = node.renewed {
        let ahead = renewed - facts.now;
        let why = "certificates are valid between two times, and Leases by clocks";
        let remedy = "let time be synchronised on the node (chrony, systemd-timesyncd)";
        if ahead > AHEAD {
            let found = format!("its clock is {ahead} s ahead of the API server's");
            findings.push(Finding::warning(group(), "clock", found, why, remedy));
        } else if node.is_ready && -ahead > RENEWED_AT_LEAST {
            let found = format!(
                "its kubelet lives, and its Lease is of {} s ago: its clock is behind the API server's",
                -ahead
            );
            findings.push(Finding::warning(group(), "clock", found, why, remedy));
        }
    }
    if facts.installed().is_none() {
        return findings;
    }
    findings.push(match node.agent {
        None => Finding::error(
            group(),
            "agent",
            "there is no agent on this node",
            "its pods get no interfaces of Portolan",
            format!("`kubectl describe daemonset -n {} portolan-agent` says why it has no pod here", facts.namespace),
        ),
        Some(AgentState::NotReady) => Finding::error(
            group(),
            "agent",
            "the agent is not ready",
            "new pods of the node wait for it; those that run go on",
            format!(
                "`kubectl get pods -n {0} -l app=portolan-agent --field-selector spec.nodeName={1}`, and the log of that pod; `/readyz?verbose` of the \
                 agent names what is missing (docs/agent.md)",
                facts.namespace, node.name
            ),
        ),
        Some(AgentState::Ready) => Finding::ok(group(), "agent", "the agent is ready"),
    });
    if let Some(problem) = node.annotations.get("portolan.dev/problem") {
        let finding = Finding::error(
            group(),
            "problem",
            problem.clone(),
            "the agent says so itself (annotation portolan.dev/problem)",
            "docs/agent.md has what to do about each",
        );
        findings.push(finding);
    }
    if node.annotations.get("portolan.dev/datapath").is_some_and(|datapath| datapath == "netdev") {
        findings.push(Finding::warning(
            group(),
            "datapath",
            "Open vSwitch's userspace datapath is in use",
            "it is slower than the kernel's, and traffic stops when ovs-vswitchd starts anew",
            "install a kernel with the module openvswitch; bridge br-int keeps its datapath until the node is cleaned (docs/agent.md)",
        ));
    }
    findings
}

/// A cluster that has no network yet has no node that is ready.
fn readiness(node: &Node, facts: &Facts) -> Option<Finding> {
    let group = Group::Node(node.name.clone());
    if node.is_ready {
        return None;
    }
    let describe = format!("`kubectl describe node {}` says why", node.name);
    let Some(message) = &node.not_ready else {
        let found = "its kubelet does not answer";
        return Some(Finding::error(group, "node", found, "nobody knows what runs there", describe));
    };
    let found = format!("the Node is not ready: {message}");
    let lacks_network = ["cni", "network"].iter().any(|word| message.to_lowercase().contains(word));
    Some(if facts.installed().is_none() && lacks_network {
        Finding::warning(
            group,
            "node",
            found,
            "beside another network, that one comes first; as the primary network, Portolan makes the node ready",
            "install the cluster's network first, or Portolan with `--mode primary`",
        )
    } else {
        Finding::error(group, "node", found, "no pods start there", describe)
    })
}

/// Versions of Open vSwitch that differ between nodes.
fn versions(facts: &Facts) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in facts.all_nodes() {
        if let Some(version) = node.annotations.get("portolan.dev/ovs-version") {
            versions.entry(version).or_default().push(&node.name);
        }
    }
    if versions.len() < 2 {
        return Vec::new();
    }
    let list = versions
        .iter()
        .map(|(version, nodes)| format!("{version} on {}", super::some(nodes.iter().copied())));
    vec![Finding::warning(
        Group::Cluster,
        "ovs-version",
        format!("nodes have different versions of Open vSwitch: {}", list.collect::<Vec<_>>().join("; ")),
        "an update that has not come to its end; they work with each other",
        format!(
            "node by node, when its traffic may be interrupted: `kubectl delete pod -n {} -l app=ovs --field-selector spec.nodeName=NODE`",
            facts.namespace
        ),
    )]
}

/// What was found on the node.
fn examination(name: &str, examined: &Examined, facts: &Facts) -> Vec<Finding> {
    let node = On { name, installed: facts.installed() };
    let mut findings = Vec::new();
    if let Some(problem) = &examined.problem {
        findings.push(node.warning(
            "examination",
            format!("not examined, or not wholly: {problem}"),
            "what is wrong with the node itself does not show",
            "if an image is missing, give `--image`; otherwise see whether the node is ready, and try again",
        ));
    }
    let Some(found) = &examined.facts else { return findings };
    findings.extend(node.kernel(found));
    findings.extend(node.settings(found));
    findings.extend(node.seen("forward", &found.forward_drops, |chains| node.forward(chains)));
    findings.extend(node.seen("ports", &found.listeners, |listeners| node.ports(listeners)));
    findings.extend(node.seen("ovs", &found.switch, |switch| node.switch(switch.as_ref())));
    findings.extend(node.seen("cni", &found.configurations, |configurations| node.cni(configurations)));
    findings.extend(node.seen("tunnel-address", &found.tunnel, |tunnel| match tunnel {
        Some(tunnel) => vec![
            node.ok("tunnel-address", format!("{} on {}, MTU {}", tunnel.address, tunnel.link, tunnel.mtu)),
        ],
        None => vec![node.error(
            "tunnel-address",
            "no interface of the node has the address at which its tunnels would end",
            "other nodes send packets of pods there",
            "correct the Node's InternalIP, or choose another address: docs/agent.md, `--encap`",
        )],
    }));
    findings.extend(node.seen("space", &found.space, |space| node.space(space)));
    findings
}

/// A node, and whether there is an installation.
struct On<'a> {
    name: &'a str,
    installed: Option<&'a Installed>,
}

impl On<'_> {
    fn group(&self) -> Group {
        Group::Node(self.name.to_owned())
    }

    fn ok(&self, check: &'static str, found: impl Into<String>) -> Finding {
        Finding::ok(self.group(), check, found)
    }

    fn warning(
        &self,
        check: &'static str,
        found: impl Into<String>,
        why: &'static str,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding::warning(self.group(), check, found, why, remedy)
    }

    fn error(
        &self,
        check: &'static str,
        found: impl Into<String>,
        why: &'static str,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding::error(self.group(), check, found, why, remedy)
    }

    fn seen<T>(
        &self,
        check: &'static str,
        outcome: &Outcome<T>,
        then: impl FnOnce(&T) -> Vec<Finding>,
    ) -> Vec<Finding> {
        match outcome {
            Outcome::Found(found) => then(found),
            Outcome::Unknown(reason) => vec![Finding::unknown(self.group(), check, reason)],
        }
    }

    fn kernel(&self, found: &NodeFacts) -> Vec<Finding> {
        let kernel = &found.kernel;
        let release = &kernel.release;
        let why = "without them Open vSwitch uses its userspace datapath, which is slower and needs the tunnels' interface as a port of its own";
        vec![match (&kernel.openvswitch, kernel.geneve) {
            (Outcome::Unknown(reason), _) => Finding::unknown(self.group(), "kernel", format!("Linux {release}: {reason}")),
            (Outcome::Found(true), Module::Loaded | Module::Available) => {
                self.ok("kernel", format!("Linux {release}, with openvswitch and geneve"))
            }
            (Outcome::Found(true), Module::Missing) => self.warning(
                "kernel",
                format!("Linux {release} has the module openvswitch, and geneve was not found"),
                "tunnels on the kernel's datapath need geneve",
                "install the rest of the kernel's modules (on Debian and Ubuntu, linux-modules-extra)",
            ),
            (Outcome::Found(false), _) => self.warning(
                "kernel",
                format!("Linux {release} has no module openvswitch"),
                why,
                "install a kernel with the modules openvswitch and geneve; for the userspace datapath see docs/installation.md",
            ),
        }]
    }

    fn settings(&self, found: &NodeFacts) -> Vec<Finding> {
        let is = |name: &str, value: &str| found.settings.get(name).is_some_and(|is| is == value);
        let mut findings = Vec::new();
        if is("net.ipv4.ip_forward", "0") {
            findings.push(if self.installed.is_some_and(|installed| installed.is_primary) {
                self.error(
                    "sysctl",
                    "net.ipv4.ip_forward is 0",
                    "pods do not reach what is outside of the cluster, nor nodes their pods' answers",
                    "something on the node sets it back: the agent sets it to 1 (/etc/sysctl.d)",
                )
            } else {
                self.warning(
                    "sysctl",
                    "net.ipv4.ip_forward is 0",
                    "most networks of pods need it; Portolan as the primary network sets it itself",
                    "look at what the network of the cluster says",
                )
            });
        }
        if is("net.ipv6.conf.all.disable_ipv6", "1") {
            findings.push(self.warning(
                "sysctl",
                "IPv6 is off (net.ipv6.conf.all.disable_ipv6 is 1)",
                "pods of this node cannot have IPv6 addresses on Subnets with IPv6",
                "set it to 0 if the cluster has Subnets with IPv6",
            ));
        }
        if findings.is_empty() {
            findings.push(self.ok("sysctl", "forwarding and IPv6 are set as needed"));
        }
        findings
    }

    fn forward(&self, chains: &[String]) -> Vec<Finding> {
        match self.installed {
            Some(installed) if installed.is_primary && !chains.is_empty() => vec![self.warning(
                "forward",
                format!("what is forwarded is dropped unless a rule accepts it: {}", chains.join(", ")),
                "what pods send out of the cluster is forwarded by the node",
                "accept what comes in or goes out by portolan0, as with `nft insert rule ip filter FORWARD iifname portolan0 accept` and the same for \
                 oifname",
            )],
            _ => Vec::new(),
        }
    }

    fn ports(&self, listeners: &[Listener]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for part in PARTS {
            let at_port =
                listeners.iter().filter(|one| one.port == part.port && one.protocol == Protocol::Tcp);
            let others: BTreeSet<String> = at_port
                .filter(|one| {
                    let name = one.process.as_ref().map(|process| process.name.as_str());
                    self.installed.is_none() || name.is_some_and(|name| !part.programs.contains(&name))
                })
                .map(|one| match &one.process {
                    Some(process) => format!("{} (process {})", process.name, process.pid),
                    None => "a process that cannot be seen".to_owned(),
                })
                .collect();
            if !others.is_empty() {
                let by = others.into_iter().collect::<Vec<_>>().join(", ");
                findings.push(self.error(
                    "ports",
                    format!("TCP port {} is taken by {by}", part.port),
                    "Portolan's pods use the network of their hosts",
                    format!("let that process use another port: this one is for {}", part.name),
                ));
            }
        }
        let tunnels = listeners.iter().find(|one| one.port == TUNNELS && one.protocol == Protocol::Udp);
        if let Some(process) =
            tunnels.and_then(|one| one.process.as_ref()).filter(|one| one.name != "ovs-vswitchd")
        {
            findings.push(self.error(
                "ports",
                format!("UDP port {TUNNELS} is taken by {} (process {})", process.name, process.pid),
                "tunnels between nodes use it",
                "let that process use another port",
            ));
        }
        if findings.is_empty() {
            let found = if self.installed.is_some() { "nobody else has them" } else { "they are free" };
            findings.push(self.ok("ports", found));
        }
        findings
    }

    fn switch(&self, switch: Option<&Switch>) -> Vec<Finding> {
        let Some(switch) = switch else {
            return match self.installed {
                None => Vec::new(),
                Some(_) => vec![self.error(
                    "ovs",
                    "there is no database of Open vSwitch at /run/openvswitch/db.sock",
                    "a node without Open vSwitch has no traffic of Portolan",
                    "look at the pod `ovs` of this node; on hosts that run Open vSwitch themselves, start it",
                )],
            };
        };
        let version = switch.version.as_deref().unwrap_or("of unknown version");
        let Some(_) = self.installed else {
            return vec![self.warning(
                "ovs",
                format!("Open vSwitch {version} runs on the host already"),
                "two cannot share a node; and if it belongs to another OVN, that one's settings would be replaced",
                "install with `--open-vswitch hosts`, or stop the host's; if another OVN (OpenStack, ovn-kubernetes) uses it, do not install here",
            )];
        };
        let mut findings = Vec::new();
        if !switch.in_step {
            findings.push(self.error(
                "ovs",
                format!("ovs-vswitchd {version} has not taken up the last change of its database"),
                "ports of new pods are not made",
                "look at the pod `ovs` of this node: does ovs-vswitchd run, and what does its log say?",
            ));
        }
        match switch.bridges.get("br-int") {
            None => findings.push(self.error(
                "ovs",
                "there is no bridge br-int",
                "pods are plugged into it",
                "the agent makes it: see its log",
            )),
            Some(datapath) if findings.is_empty() => {
                findings.push(
                    self.ok("ovs", format!("Open vSwitch {version}, bridge br-int on datapath {datapath}")),
                );
            }
            Some(_) => {}
        }
        if !switch.settings.contains_key("ovn-remote") {
            findings.push(self.error(
                "ovs",
                "ovn-controller is not told where OVN's southbound database is (external_ids:ovn-remote)",
                "the node does not follow changes of networks",
                "the agent sets it by ConfigMap ovn-central: see its log",
            ));
        }
        findings
    }

    fn cni(&self, found: &Configurations) -> Vec<Finding> {
        let why = "the container runtime takes the first configuration by name, for every pod";
        let mut findings = Vec::new();
        let first_name = found.files.first().map_or("", String::as_str);
        if let Some(Outcome::Unknown(reason)) = &found.first {
            findings.push(self.error(
                "cni",
                format!("{first_name} is the first network configuration and cannot be read: {reason}"),
                why,
                format!("repair {first_name} in the CNI directory of the node, or remove it"),
            ));
        }
        let Some(installed) = self.installed else {
            if let Some(first) = found.first.as_ref().and_then(Outcome::found) {
                let plugins = first.plugins.join(", ");
                findings.push(self.ok(
                    "cni",
                    format!("{first_name} comes first: network {}, plugins {plugins}", first.name),
                ));
            } else if found.files.is_empty() {
                findings.push(self.warning(
                    "cni",
                    "there is no network configuration",
                    "beside another network, Portolan's plugin is chained after it; only as the primary network it needs no other",
                    "install the cluster's network first, or Portolan with `--mode primary`",
                ));
            }
            return findings;
        };
        if let Some(problem) = &found.problem {
            findings.push(self.error(
                "cni",
                problem.clone(),
                why,
                "do what it says; the container `install` of the agent's pod takes it up at once",
            ));
        } else if found.ours.is_empty() {
            let calls_us = found.first.as_ref().and_then(Outcome::found).is_some_and(|first| {
                first
                    .plugins
                    .iter()
                    .any(|plugin| plugin.starts_with("portolan") || plugin.starts_with("multus"))
            });
            if !calls_us {
                findings.push(self.error(
                    "cni",
                    "there is no network configuration of Portolan's",
                    "its plugin is not called for pods",
                    "the container `install` of the agent's pod writes it once the agent is ready: see its log",
                ));
            }
        } else if !found.ours.iter().any(|name| name == first_name) {
            findings.push(self.error(
                "cni",
                format!("{first_name} comes before {}", found.ours.join(", ")),
                why,
                format!("remove {first_name}, or rename it so that it comes later; some networks remove files of others: docs/installation.md"),
            ));
        } else if found.outdated {
            findings.push(self.warning(
                "cni",
                format!("{first_name} is not what it should be now"),
                "it follows the configuration of the cluster's network",
                "the container `install` of the agent's pod corrects it within seconds: if this stays, see its log",
            ));
        }
        match found.plugin {
            Plugin::Current | Plugin::Present => {}
            Plugin::Missing => findings.push(self.error(
                "cni",
                "the plugin portolan-cni is not in the directory of CNI plugins",
                "the runtime cannot start pods with a configuration that calls it",
                "the container `install` of the agent's pod puts it there: see its log",
            )),
            Plugin::Foreign => findings.push(self.error(
                "cni",
                "portolan-cni in the directory of CNI plugins is another program",
                "the runtime calls it in place of Portolan's",
                "remove or rename it",
            )),
            Plugin::Other => findings.push(self.warning(
                "cni",
                "the plugin portolan-cni is of another version",
                "an update puts the new one in place once the new agent is ready",
                "if this stays, see the log of the container `install` of the agent's pod",
            )),
        }
        if findings.is_empty() {
            let how = if installed.is_primary { "alone" } else { "chained" };
            findings.push(
                self.ok(
                    "cni",
                    format!("{first_name} comes first ({how}), and the plugin is of this version"),
                ),
            );
        }
        findings
    }

    fn space(&self, space: &Space) -> Vec<Finding> {
        let short_of_files = space.free_files.is_some_and(|free| free < FREE_FILES);
        if space.free_bytes < FREE_BYTES || short_of_files {
            let files = space.free_files.map(|free| format!(" and {free} files")).unwrap_or_default();
            return vec![self.warning(
                "space",
                format!(
                    "{} MiB{files} are free on the file system of {}",
                    space.free_bytes >> 20,
                    space.path
                ),
                "databases that cannot be written stop",
                "make room",
            )];
        }
        vec![self.ok("space", format!("{} MiB are free", space.free_bytes >> 20))]
    }
}

#[cfg(test)]
mod tests;
