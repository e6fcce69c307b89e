//! OVN's databases with three members: real databases on machines of their own, certified as in an installation, with an API server and a
//! controller.

use std::time::Duration;

use portolan_testbed::{Result, Test, TestLab};
use serde_json::{Value, json};

use super::member::{DATA, DATABASES, MAP, Member};
use super::stage::{Client, NAMESPACE, Stage};
use crate::installation::PORTOLAN;

impl Stage<'_> {
    /// Whether somebody with these files gets an answer at the port of a member at which servers speak with each other.
    fn is_answered(&self, member: &Member<'_>, port: u16, files: &[String; 3]) -> bool {
        let [key, certificate, _] =
            files.clone().map(|argument| argument.split_once('=').unwrap().1.to_owned());
        let address = format!("{}:{port}", member.machine.address());
        let client =
            self.lab.command("timeout").args(["5", "openssl", "s_client", "-quiet", "-connect", &address]);
        let echo = json!({"id": "here", "method": "echo", "params": []}).to_string();
        let client = client.args(["-key", &key, "-cert", &certificate]).stdin(echo);
        let output = client.output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("\"here\"")
    }
}

/// One member becomes three; they are killed, moved and lost; and three become one.
#[test]
fn three_members_keep_what_one_had_and_go_on_without_one_of_them() {
    Test::new().deadline(Duration::from_secs(500)).run(async |lab: TestLab| -> Result<()> {
        let stage = Stage::new(&lab)?;
        let controller = stage.controller(&[])?;
        let mut members =
            [0, 1, 2].map(|ordinal| Member::new(&stage, ordinal, &format!("host{ordinal}")).unwrap());

        // As earlier versions had it: its file is in the common directory.
        members[0].begin(1)?;
        members[0].wait_until_ready()?;
        members[0].nbctl("unix:/run/ovn/ovnnb_db.sock", &["--wait=sb", "ls-add", "harbour"]).read()?;
        members[0].kill()?;
        for stem in ["ovnnb_db", "ovnsb_db"] {
            let data = members[0].machine.file(DATA);
            std::fs::rename(data.join(format!("ovn-central-0/{stem}.db")), data.join(format!("{stem}.db")))
                .unwrap();
        }

        // The others come first, and wait.
        for ordinal in [2, 1, 0] {
            members[ordinal].begin(3)?;
        }
        members.iter().try_for_each(Member::wait_until_ready)?;
        for member in &members {
            assert!(member.switches()?.contains("harbour"), "{}", member.name());
        }
        a_raft_port_is_for_servers_alone(&stage, &members[1])?;

        one_leads_no_more(&mut members)?;
        all_are_killed(&mut members)?;
        a_member_moves_and_one_loses_its_disk(&stage, &mut members)?;
        what_is_published_is_kept(&stage, &members)?;
        two_are_lost_for_good(&stage, &mut members)?;

        for member in &mut members {
            member.kill()?;
        }
        members[0].begin(1)?;
        members[0].wait_until_ready()?;
        assert!(members[0].switches()?.contains("harbour"));
        let is_alone = |map: &Value| {
            let keys: Vec<_> = map["data"].as_object().unwrap().keys().collect();
            keys == ["ovn-central-0"] && !map["metadata"]["annotations"].to_string().contains("-cluster")
        };
        while !is_alone(&stage.map()?) {
            assert!(controller.is_alive(), "{}", controller.log_tail());
        }
        Ok(())
    });
}

/// A chassis has no certificate that this port's authority has signed; a controller has one, and is no server.
fn a_raft_port_is_for_servers_alone(stage: &Stage<'_>, member: &Member<'_>) -> Result<()> {
    let [central, chassis] =
        [stage.authority("ovn-central-authority")?, stage.authority("ovn-chassis-authority")?];
    let client = |authority, name| -> Client { stage.client(authority, name, 0) };
    for port in [6644, 6645] {
        assert!(
            stage.is_answered(member, port, &client(&central, "ovn-central").arguments),
            "a server at {port}"
        );
        for (who, client) in [
            ("a controller", client(&central, "portolan-controller")),
            ("a chassis", client(&chassis, "host1")),
            ("a chassis that is called as servers are", client(&chassis, "ovn-central")),
        ] {
            assert!(!stage.is_answered(member, port, &client.arguments), "{who} at {port}");
        }
    }
    Ok(())
}

fn leader(members: &[Member<'_>; 3], database: &str) -> usize {
    loop {
        let leads =
            |member: &Member<'_>| member.cluster(database).is_ok_and(|said| said.contains("Role: leader"));
        if let Some(leader) = members.iter().position(leads) {
            return leader;
        }
    }
}

/// Adds a switch from the host of one member by the way to whichever leads, and waits until ovn-northd has taken it over, which goes by
/// such ways too.
fn add_switch(members: &[Member<'_>; 3], from: usize, name: &str) -> Result<()> {
    let to = leader(members, "northbound");
    let socket = if from == to { "ovnnb_db.sock".to_owned() } else { format!("ovnnb_db-{to}.sock") };
    members[from].nbctl(&format!("unix:/run/ovn/{socket}"), &["--wait=sb", "ls-add", name]).read().map(drop)
}

fn one_leads_no_more(members: &mut [Member<'_>; 3]) -> Result<()> {
    let lost = leader(members, "northbound");
    members[lost].kill()?;
    for other in [(lost + 1) % 3, (lost + 2) % 3] {
        add_switch(members, other, &format!("pier{other}"))?;
    }
    members[lost].begin_containers(3)?;
    members[lost].wait_until_ready()?;
    wait_for_switch(&members[lost], "pier")
}

fn all_are_killed(members: &mut [Member<'_>; 3]) -> Result<()> {
    let servers = |members: &[Member<'_>; 3]| -> Vec<Value> {
        members.iter().map(|member| member.published("southbound").unwrap()).collect()
    };
    let before = servers(members);
    for member in members.iter_mut() {
        member.kill()?;
    }
    for member in members.iter_mut() {
        member.begin(3)?;
    }
    members.iter().try_for_each(Member::wait_until_ready)?;
    assert_eq!(servers(members), before, "each has the server that it had");
    add_switch(members, 0, "mole")?;
    wait_for_switch(&members[2], "harbour")
}

/// Which is seen once it has caught up.
fn wait_for_switch(member: &Member<'_>, switch: &str) -> Result<()> {
    while !member.switches()?.contains(switch) {
        assert!(member.processes[0].is_alive(), "{}", member.processes[0].log_tail());
    }
    Ok(())
}

fn a_member_moves_and_one_loses_its_disk<'a>(
    stage: &'a Stage<'a>,
    members: &mut [Member<'a>; 3],
) -> Result<()> {
    let moved = Member::new(stage, 1, "host9")?;
    members[1].kill()?;
    members[1] = moved;
    for (ordinal, lost) in [(1, false), (2, true)] {
        let before = DATABASES.map(|database| members[ordinal].published(database).unwrap());
        if lost {
            members[ordinal].kill()?;
            members[ordinal].lose_disk();
        }
        members[ordinal].begin(3)?;
        members[ordinal].wait_until_ready()?;
        wait_for_switch(&members[ordinal], "mole")?;
        for (database, before) in DATABASES.into_iter().zip(before) {
            let now = members[ordinal].published(database)?;
            assert_eq!(now["cluster"], before["cluster"]);
            assert_ne!(now["server"], before["server"]);
            // The cluster forgets the one that was replaced.
            let short = &before["server"].as_str().unwrap()[..4];
            let knows = |said: &str| {
                let servers = said.split("Servers:").nth(1).unwrap_or_default();
                servers.lines().filter(|line| line.contains("ovn-central") || line.contains(".raft")).count()
                    != 3
                    || servers.contains(&format!("({short} at"))
            };
            while knows(&members[leader(members, database)].cluster(database)?) {
                assert!(members[0].processes[0].is_alive(), "{}", members[0].processes[0].log_tail());
            }
        }
    }
    add_switch(members, 0, "quay")
}

/// Somebody deletes the ConfigMap, and the manifest is applied again.
fn what_is_published_is_kept(stage: &Stage<'_>, members: &[Member<'_>; 3]) -> Result<()> {
    let before = stage.map()?;
    stage.kubectl(&["delete", "configmap", MAP, "-n", NAMESPACE])?;
    stage.apply(
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MAP, "namespace": NAMESPACE}}),
    )?;
    let clusters = |map: &Value| {
        DATABASES.map(|one| map["metadata"]["annotations"][&format!("portolan.dev/{one}-cluster")].clone())
    };
    let is_again = |map: &Value| map["data"] == before["data"] && clusters(map) == clusters(&before);
    while !is_again(&stage.map()?) {
        assert!(members[0].processes[1].is_alive(), "{}", members[0].processes[1].log_tail());
    }
    // Another pod has the name now: the former one, cut off, says nothing more.
    let name = members[2].name();
    stage.kubectl(&["delete", "pod", &name, "-n", NAMESPACE, "--force"])?;
    stage.pod_named(&name, "ovn-central", members[0].machine.name())?;
    let other = json!({"data": {&name: "192.0.2.99"}}).to_string();
    stage.kubectl(&["patch", "configmap", MAP, "-n", NAMESPACE, "--type=merge", "-p", &other])?;
    while !members[2].processes[1].log_tail().contains("this one writes nothing any more") {
        assert!(members[2].processes[1].is_alive());
    }
    assert_eq!(stage.map()?["data"][&name], "192.0.2.99");
    Ok(())
}

fn two_are_lost_for_good(stage: &Stage<'_>, members: &mut [Member<'_>; 3]) -> Result<()> {
    for ordinal in [0, 2] {
        members[ordinal].kill()?;
        members[ordinal].lose_disk();
    }
    let recover = ["ovn-central", "recover", "--member=ovn-central-1"];
    let portolan = stage.lab.command(PORTOLAN).args(recover).env("KUBECONFIG", stage.api.kubeconfig());
    let said = portolan.read()?;
    assert!(said.contains("ovn-central-1 makes new clusters"), "{said}");
    let template = "jsonpath={.spec.template.metadata.annotations}";
    let restarted =
        stage.kubectl(&["get", "daemonset", "ovn-controller", "-n", NAMESPACE, "-o", template])?;
    assert!(restarted.contains("restartedAt"), "{restarted}");
    for database in &members[1].processes[..2] {
        while database.is_alive() {
            std::thread::yield_now();
        }
        assert!(database.log_tail().contains("a new cluster is to be made"), "{}", database.log_tail());
    }
    members[1].begin_databases(3)?;
    members[1].wait_until_ready()?;
    // Its ovn-northd, which remembers the former clusters, works on the new ones.
    members[1].nbctl("unix:/run/ovn/ovnnb_db.sock", &["--wait=sb", "ls-add", "dock"]).read()?;
    for ordinal in [0, 2] {
        members[ordinal].begin(3)?;
    }
    members.iter().try_for_each(Member::wait_until_ready)?;
    for member in members.iter() {
        for switch in ["harbour", "pier", "mole", "quay"] {
            wait_for_switch(member, switch)?;
        }
    }
    add_switch(members, 0, "jetty")
}
