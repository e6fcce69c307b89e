//! What is killed, and started again at once.

use std::time::Duration;

use portolan_testbed::{Database, Process, Testbed};

pub(crate) enum Victim<'a> {
    Process(&'a Process),
    /// The member of the raft cluster of the northbound database that leads it.
    NorthboundLeader(&'a Testbed),
    /// The member of etcd that leads it.
    EtcdLeader(&'a Testbed),
    ApiServer(&'a Testbed),
    Northd(&'a Testbed),
}

impl Victim<'_> {
    pub(crate) fn name(&self) -> String {
        match self {
            Victim::Process(process) => process.name().to_owned(),
            Victim::NorthboundLeader(_) => "the leader of the northbound database".into(),
            Victim::EtcdLeader(_) => "the leader of etcd".into(),
            Victim::ApiServer(_) => "the API server".into(),
            Victim::Northd(_) => "ovn-northd".into(),
        }
    }

    /// SIGKILL, and a new start. Returns when it is ready again.
    pub(crate) fn kill_and_start(&self) {
        match self {
            Victim::Process(process) => restart(process),
            Victim::NorthboundLeader(testbed) => {
                let Database::Raft(cluster) = testbed.central().nb() else { panic!("a raft cluster") };
                let leader = cluster.leader(Duration::from_secs(30)).unwrap();
                restart(&cluster.members()[leader]);
            }
            Victim::EtcdLeader(testbed) => {
                let (leader, _) = etcd_members(testbed).into_iter().max_by_key(|(_, term)| *term).unwrap();
                let leader = testbed.component(&leader).unwrap();
                leader.kill().unwrap();
                leader.start().unwrap();
            }
            Victim::ApiServer(testbed) => {
                let server = testbed.component("kube-apiserver").unwrap();
                server.kill().unwrap();
                server.start().unwrap();
            }
            Victim::Northd(testbed) => restart(testbed.central().northd()),
        }
    }
}

fn restart(process: &Process) {
    process.kill().unwrap();
    process.restart().unwrap();
}

/// The members of etcd, with the last term in which each became the leader.
fn etcd_members(testbed: &Testbed) -> Vec<(String, Option<u64>)> {
    let components = testbed.components();
    let members = components.iter().filter(|component| component.name().starts_with("etcd/"));
    let term = |log: &str| {
        let terms = log.split("became leader at term ").skip(1);
        terms.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).max()
    };
    members
        .map(|member| {
            let log = std::fs::read(member.log().unwrap()).unwrap();
            (member.name().to_owned(), term(&String::from_utf8_lossy(&log)))
        })
        .collect()
}
