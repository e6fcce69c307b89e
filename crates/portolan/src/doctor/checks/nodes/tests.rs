use super::super::super::finding::Level;
use super::super::example::{examined, facts, known, levels, not_installed};
use super::*;
use portolan_agent::examine::facts::{Process, TunnelLink};

/// The findings of one check on node1, after something was changed there.
fn found(check: &str, change: impl FnOnce(&mut NodeFacts)) -> Vec<Finding> {
    found_with(check, &facts(), change)
}

fn found_with(check: &str, facts: &Facts, change: impl FnOnce(&mut NodeFacts)) -> Vec<Finding> {
    let mut one = examined("node1");
    change(one.facts.as_mut().expect("it was examined"));
    examination("node1", &one, facts).into_iter().filter(|finding| finding.check == check).collect()
}

fn primary() -> Facts {
    let mut facts = facts();
    if let Outcome::Found(Some(installed)) = &mut facts.installation {
        installed.is_primary = true;
    }
    facts
}

fn listener(port: u16, protocol: Protocol, name: Option<&str>) -> Listener {
    let process = name.map(|name| Process { pid: 42, name: name.into() });
    Listener { port, protocol, address: [0, 0, 0, 0].into(), process }
}

#[test]
fn what_a_node_says_of_itself_is_told() {
    let of = |change: &dyn Fn(&mut Node)| {
        let mut node = super::super::example::node("node1", 1);
        change(&mut node);
        let said = said(&node, &facts());
        said.into_iter()
            .filter(|one| one.level != Level::Ok)
            .map(|one| (one.check, one.level))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&|_| {}), []);
    assert_eq!(of(&|node| node.is_ready = false), [("node", Level::Error)]);
    assert_eq!(of(&|node| node.agent = None), [("agent", Level::Error)]);
    assert_eq!(of(&|node| node.agent = Some(AgentState::NotReady)), [("agent", Level::Error)]);
    let annotated = |key: &'static str, value: &'static str| {
        move |node: &mut Node| drop(node.annotations.insert(key.into(), value.into()))
    };
    assert_eq!(of(&annotated("portolan.dev/problem", "no InternalIP")), [("problem", Level::Error)]);
    assert_eq!(of(&annotated("portolan.dev/datapath", "netdev")), [("datapath", Level::Warning)]);
    let now = facts().now;
    assert_eq!(of(&|node| node.renewed = Some(now + 60)), [("clock", Level::Warning)]);
    assert_eq!(of(&|node| node.renewed = Some(now - 60)), [("clock", Level::Warning)]);
    assert_eq!(of(&|node| node.renewed = Some(now - 11)), []);
    let mut away = super::super::example::node("node1", 1);
    (away.is_ready, away.renewed, away.agent) = (false, Some(now - 600), None);
    assert_eq!(
        levels(&said(&away, &not_installed())),
        [Level::Error],
        "of a node that is away its clock says nothing"
    );
}

#[test]
fn a_cluster_that_has_no_network_yet_can_have_portolan() {
    let of = |message: Option<&str>, facts: &Facts| {
        let mut node = super::super::example::node("node1", 1);
        (node.is_ready, node.not_ready) = (false, message.map(str::to_owned));
        readiness(&node, facts).expect("it is not ready").level
    };
    let no_network = "container runtime network not ready: NetworkReady=false: cni plugin not initialized";
    assert_eq!(of(Some(no_network), &not_installed()), Level::Warning);
    assert_eq!(of(Some(no_network), &facts()), Level::Error);
    assert_eq!(of(Some("PLEG is not healthy"), &not_installed()), Level::Error);
    assert_eq!(of(None, &not_installed()), Level::Error);
}

#[test]
fn different_versions_of_open_vswitch_are_told() {
    assert_eq!(versions(&facts()), []);
    let mut facts = facts();
    if let Outcome::Found(nodes) = &mut facts.nodes {
        nodes[1].annotations.insert("portolan.dev/ovs-version".into(), "3.2.0".into());
    }
    assert_eq!(levels(&versions(&facts)), [Level::Warning]);
}

#[test]
fn a_node_that_was_not_examined_is_told_with_the_reason() {
    let mut known = known();
    let nodes = known.nodes.as_mut().expect("they were examined");
    nodes.insert("node1".into(), Examined { problem: Some("ErrImagePull".into()), ..Examined::default() });
    let found = all(&known);
    let finding = found.iter().find(|one| one.check == "examination").expect("it is told");
    assert!(finding.level == Level::Warning && finding.found.contains("ErrImagePull"), "{finding:?}");
    known.nodes = None;
    assert!(all(&known).iter().all(|one| one.check != "kernel"), "nobody asked");
}

#[test]
fn kernels_with_and_without_the_modules() {
    let of = |openvswitch: Outcome<bool>, geneve: Module| {
        levels(&found("kernel", |node| (node.kernel.openvswitch, node.kernel.geneve) = (openvswitch, geneve)))
    };
    assert_eq!(of(Outcome::Found(true), Module::Loaded), [Level::Ok]);
    assert_eq!(of(Outcome::Found(true), Module::Available), [Level::Ok]);
    assert_eq!(of(Outcome::Found(true), Module::Missing), [Level::Warning]);
    assert_eq!(of(Outcome::Found(false), Module::Missing), [Level::Warning]);
    assert_eq!(of(Outcome::Unknown("no right".into()), Module::Missing), [Level::Unknown]);
}

#[test]
fn settings_of_the_kernel_that_stand_in_the_way() {
    let set = |name: &str, value: &str, facts: &Facts| {
        let (name, value) = (name.to_owned(), value.to_owned());
        levels(&found_with("sysctl", facts, |node| drop(node.settings.insert(name, value))))
    };
    assert_eq!(set("net.ipv4.ip_forward", "1", &facts()), [Level::Ok]);
    assert_eq!(set("net.ipv4.ip_forward", "0", &facts()), [Level::Warning]);
    assert_eq!(set("net.ipv4.ip_forward", "0", &primary()), [Level::Error]);
    assert_eq!(set("net.ipv6.conf.all.disable_ipv6", "1", &facts()), [Level::Warning]);
}

#[test]
fn a_firewall_that_forwards_nothing_matters_to_the_primary_network() {
    let drops = |node: &mut NodeFacts| node.forward_drops = Outcome::Found(vec!["ip filter FORWARD".into()]);
    assert_eq!(found("forward", drops), []);
    assert_eq!(levels(&found_with("forward", &primary(), drops)), [Level::Warning]);
    assert_eq!(found_with("forward", &primary(), |_| {}), []);
    assert_eq!(
        levels(&found("forward", |node| node.forward_drops = Outcome::Unknown("no nft".into()))),
        [Level::Unknown]
    );
}

#[test]
fn ports_that_somebody_else_has_are_named_with_the_process() {
    let with = |facts: &Facts, one: Listener| {
        found_with("ports", facts, |node| node.listeners = Outcome::Found(vec![one]))
    };
    let agent = || listener(10691, Protocol::Tcp, Some("portolan"));
    assert_eq!(levels(&with(&facts(), agent())), [Level::Ok]);
    assert_eq!(
        levels(&with(&not_installed(), agent())),
        [Level::Error],
        "another installation, or what is left of one"
    );
    let taken = with(&facts(), listener(9444, Protocol::Tcp, Some("nginx")));
    assert_eq!(levels(&taken), [Level::Error]);
    assert!(
        taken[0].found.contains("9444 is taken by nginx (process 42)") && taken[0].remedy.contains("webhook"),
        "{taken:?}"
    );
    assert_eq!(levels(&with(&facts(), listener(9444, Protocol::Udp, Some("nginx")))), [Level::Ok]);
    assert_eq!(
        levels(&with(&facts(), listener(9444, Protocol::Tcp, None))),
        [Level::Ok],
        "nothing is concluded"
    );
    assert_eq!(levels(&with(&facts(), listener(6642, Protocol::Tcp, Some("ovsdb-server")))), [Level::Ok]);
    assert_eq!(
        levels(&with(&not_installed(), listener(6081, Protocol::Udp, Some("vxland")))),
        [Level::Error]
    );
    assert_eq!(levels(&with(&facts(), listener(6081, Protocol::Udp, None))), [Level::Ok], "the kernel's");
}

#[test]
fn open_vswitch_runs_is_in_step_and_has_its_bridge() {
    assert_eq!(levels(&found("ovs", |_| {})), [Level::Ok]);
    assert_eq!(levels(&found("ovs", |node| node.switch = Outcome::Found(None))), [Level::Error]);
    assert_eq!(found_with("ovs", &not_installed(), |node| node.switch = Outcome::Found(None)), []);
    assert_eq!(levels(&found_with("ovs", &not_installed(), |_| {})), [Level::Warning], "the host's own");
    let changed = |change: fn(&mut Switch)| {
        levels(&found("ovs", |node| {
            if let Outcome::Found(Some(switch)) = &mut node.switch {
                change(switch);
            }
        }))
    };
    assert_eq!(changed(|switch| switch.in_step = false), [Level::Error]);
    assert_eq!(changed(|switch| switch.bridges.clear()), [Level::Error]);
    assert_eq!(changed(|switch| switch.settings.clear()), [Level::Ok, Level::Error]);
    assert_eq!(levels(&found("ovs", |node| node.switch = Outcome::Unknown("late".into()))), [Level::Unknown]);
}

#[test]
fn the_runtime_takes_portolans_configuration_first() {
    let changed = |facts: &Facts, change: &dyn Fn(&mut Configurations)| {
        found_with("cni", facts, |node| {
            if let Outcome::Found(configurations) = &mut node.configurations {
                change(configurations);
            }
        })
    };
    assert_eq!(levels(&changed(&facts(), &|_| {})), [Level::Ok]);
    let before = changed(&facts(), &|one| one.files.insert(0, "!a.conflist".into()));
    assert_eq!(levels(&before), [Level::Error]);
    assert!(before[0].found.contains("!a.conflist comes before 00-portolan.conflist"), "{before:?}");
    let broken = |one: &mut Configurations| one.first = Some(Outcome::Unknown("EOF".into()));
    assert_eq!(levels(&changed(&facts(), &broken)), [Level::Error]);
    assert_eq!(
        levels(&changed(&facts(), &|one| one.problem = Some("rename that file".into()))),
        [Level::Error]
    );
    assert_eq!(levels(&changed(&facts(), &|one| one.outdated = true)), [Level::Warning]);
    let none = |one: &mut Configurations| {
        one.ours.clear();
        one.files.remove(0);
        one.first = Some(Outcome::Unknown(String::new()));
    };
    assert_eq!(levels(&changed(&facts(), &none)), [Level::Error, Level::Error]);
    for (plugin, level) in [
        (Plugin::Missing, Level::Error),
        (Plugin::Foreign, Level::Error),
        (Plugin::Other, Level::Warning),
        (Plugin::Present, Level::Ok),
    ] {
        assert_eq!(levels(&changed(&facts(), &|one| one.plugin = plugin)), [level], "{plugin:?}");
    }
    let plain = |one: &mut Configurations| {
        one.files.remove(0);
        one.ours.clear();
        one.plugin = Plugin::Missing;
    };
    assert_eq!(levels(&changed(&not_installed(), &plain)), [Level::Ok]);
    let empty = |one: &mut Configurations| {
        one.files.clear();
        one.first = None;
    };
    assert_eq!(levels(&changed(&not_installed(), &empty)), [Level::Warning]);
}

#[test]
fn tunnels_end_at_an_address_of_the_node_and_databases_have_room() {
    assert_eq!(levels(&found("tunnel-address", |_| {})), [Level::Ok]);
    assert_eq!(
        levels(&found("tunnel-address", |node| node.tunnel = Outcome::Found(None::<TunnelLink>))),
        [Level::Error]
    );
    assert_eq!(levels(&found("space", |_| {})), [Level::Ok]);
    let room = |bytes: u64, files: Option<u64>| {
        let space = Space { path: "/var/lib".into(), free_bytes: bytes, free_files: files };
        levels(&found("space", |node| node.space = Outcome::Found(space)))
    };
    assert_eq!(room(1 << 20, None), [Level::Warning]);
    assert_eq!(room(9 << 30, Some(3)), [Level::Warning]);
    assert_eq!(room(9 << 30, None), [Level::Ok]);
}
