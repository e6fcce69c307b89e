//! `portolan ovn-central`: one of OVN's databases, or ovn-northd, as the process of a container; alone, or as a member of a cluster.
//!
//! ```text
//!  member 0                                                            member 1
//!  ovsdb-server ── ovnnb_db-1.raft ▶ Remote ══ TLS of central, 6644 ══▶ Front ▶ ovnnb_db-1.raft ── ovsdb-server
//!  ovn-northd ──── ovnnb_db-1.sock ▶ Remote ══ TLS of central, 6641 ══▶ ovsdb-server
//! ```
//!
//! Raft addresses are sockets that are named by the ordinals of members, so that they stay the same wherever a member is. On each member one
//! of them is ovsdb-server's own, and the others lead to where the ConfigMap says that the others are. No port for raft trusts what
//! ovsdb-server trusts at the same time for nodes. Start reading at [`decision`](mod@decision): what a member's file is to be.

mod decision;
mod map;
mod membership;
mod peers;
mod record;
mod recover;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use k8s_openapi::api::core::v1::ConfigMap;
use portolan_daemons::{
    Daemon, DatabaseFile, OvnDatabase, cut_off_from_cluster, northd, ovn_cluster_member, ovn_database,
    remove_from_cluster,
};
use portolan_watch::Followers;

use self::decision::Member;
use self::map::{Map, Turn};
use self::membership::Membership;
use self::peers::Peers;
use self::record::{nothing_of, patch};
use crate::api_servers::ApiServerArguments;
use crate::daemon_certificates::{Beside, Certificates, DatabaseCertificate};
use crate::daemons::{Health, run_daemon};
use crate::ovn_addresses::Place;

/// `portolan ovn-central`.
#[derive(Debug, Args)]
pub(crate) struct OvnCentral {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Serve the northbound database.
    Northbound(Database),
    /// Serve the southbound database.
    Southbound(Database),
    /// Run ovn-northd on both, by their sockets in the same directory.
    Northd(Northd),
    /// Have one member make new clusters of its files, after so many members were lost for good that the others cannot go on.
    Recover(recover::Arguments),
}

#[derive(Debug, Args)]
struct Database {
    /// An address of this host at which to listen for controllers and nodes. Without it: on the Unix socket alone.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// Keep that address, and what others must know of a cluster, in this ConfigMap, NAMESPACE/NAME: controllers and agents with
    /// --ovn-addresses find it there.
    #[arg(long, value_name = "CONFIGMAP", requires_all = ["listen", "member"])]
    publish: Option<Place>,
    /// The key of this address in that ConfigMap; in a cluster it ends with the member's ordinal, as in ovn-central-0.
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    /// The UID of the pod of that name that this is: once another pod has the name, nothing is written any more.
    #[arg(long, value_name = "UID", requires = "member")]
    pod_uid: Option<String>,
    /// How many members the database has.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
    members: u8,
    #[command(flatten)]
    certificates: Certificates,
    #[command(flatten)]
    api: ApiServerArguments,
    /// The directory of the database.
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/ovn")]
    data_dir: PathBuf,
    /// Where the first member's database was in earlier versions; taken from there if there is none in its directory.
    #[arg(long, value_name = "DIRECTORY")]
    former_data_dir: Option<PathBuf>,
    /// The directory of sockets.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/ovn")]
    run_dir: PathBuf,
    /// The directory of OVN's schemas.
    #[arg(long, value_name = "DIRECTORY", default_value = "/usr/share/ovn")]
    schema_dir: PathBuf,
    #[command(flatten)]
    health: Health,
}

#[derive(Debug, Args)]
struct Northd {
    /// The directory of sockets.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/ovn")]
    run_dir: PathBuf,
    /// How many members the databases have.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
    members: u8,
    /// The member that this belongs to.
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    #[command(flatten)]
    health: Health,
}

/// How long a cluster may have no leader before its members say what helps. An election takes seconds, and a member that moves a minute.
const LEADERLESS: Duration = Duration::from_secs(120);

/// Keys of the ConfigMap with addresses to be set, or removed.
type Data = BTreeMap<String, Option<String>>;

pub(crate) async fn run(arguments: OvnCentral, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    match arguments.part {
        Part::Northbound(arguments) => serve(OvnDatabase::Northbound, arguments, stop).await,
        Part::Southbound(arguments) => serve(OvnDatabase::Southbound, arguments, stop).await,
        Part::Northd(Northd { run_dir, members, member, health }) => {
            let own = member.as_deref().and_then(Member::named).map_or(0, |member| member.ordinal);
            let others: Vec<u8> = (0..members).filter(|other| *other != own).collect();
            run_daemon(northd(&run_dir, &others), health, stop, Box::pin(std::future::pending())).await
        }
        Part::Recover(arguments) => recover::run(arguments).await,
    }
}

/// Serves a database.
async fn serve(
    database: OvnDatabase,
    arguments: Database,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let file = database.file(&arguments.data_dir, &arguments.schema_dir);
    let member = arguments.member.as_deref().and_then(Member::named);
    if let Some(former) = &arguments.former_data_dir
        && member.as_ref().is_some_and(|member| member.ordinal == 0)
    {
        file.take_from(former)?;
    }
    let needs_api = arguments.publish.is_some() || arguments.certificates.namespace.is_some();
    let mut besides: Vec<Beside> = Vec::new();
    let client = if needs_api {
        let api = arguments.api.reach(component(database)).await?;
        let client = api.client()?;
        besides.push(Box::pin(api.follow()));
        Some(client)
    } else {
        None
    };
    let certificate = match (arguments.listen, &arguments.certificates.namespace, &client) {
        (Some(address), Some(namespace), Some(client)) => {
            Some(DatabaseCertificate::new(database, address, namespace, client.clone(), &arguments.run_dir))
        }
        _ => None,
    };
    let mut followers =
        client.clone().filter(|_| arguments.publish.is_some()).map(Followers::of_built_in_kinds);
    let map = match (&arguments.publish, &client, &mut followers) {
        (Some(place), Some(client), Some(followers)) => {
            let turn = arguments.pod_uid.clone().zip(arguments.member.clone());
            let turn = turn.map(|(uid, pod)| Turn { pod, uid });
            Some(Map::follow(client.clone(), followers, place.clone(), turn))
        }
        _ => None,
    };
    let daemon = if arguments.members == 1 {
        alone(database, &arguments, file, map, certificate.as_ref(), &mut besides)
    } else {
        let (Some(member), Some(map), Some(certificate)) = (member, map, certificate.as_ref()) else {
            anyhow::bail!(
                "--members needs --listen, --tls, --publish, and --member with an ordinal, as in ovn-central-0"
            );
        };
        anyhow::ensure!(
            member.ordinal < arguments.members,
            "there is no member {} of {}",
            member.name,
            arguments.members
        );
        let membership = Membership::new(database, member, arguments.members, file, &arguments.run_dir, map);
        in_cluster(&arguments, membership, certificate, &mut besides).await?
    };
    let daemon = match &certificate {
        Some(certificate) => certificate.awaited_by(daemon),
        None => daemon,
    };
    if let Some(certificate) = certificate {
        besides.push(certificate.keep().await?);
    }
    if let Some(mut followers) = followers {
        besides.push(Box::pin(
            async move { Err::<Infallible, _>(anyhow::Error::from(followers.ended().await)) },
        ));
    }
    run_daemon(daemon, arguments.health, stop, all(besides)).await
}

/// What audit logs show. Both of one pod must be told apart: each keeps the addresses of API servers.
fn component(database: OvnDatabase) -> &'static str {
    match database {
        OvnDatabase::Northbound => "portolan-ovn-central-northbound",
        OvnDatabase::Southbound => "portolan-ovn-central-southbound",
    }
}

/// Of a database of one server.
fn alone(
    database: OvnDatabase,
    arguments: &Database,
    file: DatabaseFile,
    map: Option<Map>,
    certificate: Option<&DatabaseCertificate>,
    besides: &mut Vec<Beside>,
) -> Daemon {
    let listen = arguments.listen.map(|address| DatabaseCertificate::listen(certificate, address));
    if let (Some(map), Some(name), Some(address)) = (map, arguments.member.clone(), arguments.listen) {
        let correction = move |map: &ConfigMap| {
            let data = addresses(map, database, &name, address, 1);
            // It was a cluster before.
            let annotations = nothing_of(map, database);
            (!data.is_empty() || !annotations.is_empty()).then(|| patch(map, &annotations, &data))
        };
        besides.push(endless(map.keep(correction)));
    }
    ovn_database(database, listen, &arguments.run_dir, file)
}

/// Of a member of a cluster.
async fn in_cluster(
    arguments: &Database,
    membership: Membership,
    certificate: &DatabaseCertificate,
    besides: &mut Vec<Beside>,
) -> anyhow::Result<Daemon> {
    let Some(address) = arguments.listen else { anyhow::bail!("--members needs --listen") };
    let (database, run) = (membership.database, arguments.run_dir.clone());
    let listen = DatabaseCertificate::listen(Some(certificate), address);
    let daemon = ovn_cluster_member(database, Some(listen), &run, &membership.file)
        .idle_while(membership.idle())
        .prepare({
            let membership = membership.clone();
            move || membership.prepare()
        });
    let peers = Peers::bind(&membership, address).await?;
    let credentials = certificate.credentials();
    besides.push(endless(peers.serve(credentials)));
    let (name, members) = (membership.member.name.clone(), arguments.members);
    let (publisher, map) = (membership.clone(), membership.map.clone());
    let correction = move |map: &ConfigMap| {
        let data = addresses(map, database, &name, address, members);
        publisher.correction(map, &data)
    };
    besides.push(endless(map.keep(correction)));
    let (directory, name) = (run.clone(), membership.member.name.clone());
    besides.push(endless(async move {
        let hint = || {
            tracing::warn!(
                "the cluster of this database has no leader, or cannot be joined: more than half of its members must run. If so many, or their \
                 files, are lost for good: portolan ovn-central recover --member {name}, or another one whose files have later changes"
            );
        };
        cut_off_from_cluster(database, &directory, LEADERLESS, hint).await
    }));
    let remover = membership.clone();
    besides.push(endless(async move { remove_from_cluster(database, &run, || remover.replaced()).await }));
    besides.push(Box::pin(async move {
        let why = membership.over().await;
        Err::<Infallible, _>(anyhow::anyhow!("{why}; ending, to begin anew"))
    }));
    Ok(daemon)
}

/// What is to be changed of the addresses. The southbound database says for both where they are: they are in one pod.
fn addresses(map: &ConfigMap, database: OvnDatabase, name: &str, address: IpAddr, members: u8) -> Data {
    let mut data = Data::new();
    if database != OvnDatabase::Southbound {
        return data;
    }
    let now = map.data.as_ref();
    let text = address.to_string();
    if now.and_then(|now| now.get(name)) != Some(&text) {
        data.insert(name.to_owned(), Some(text));
    }
    let Some(own) = Member::named(name) else { return data };
    for other in now.into_iter().flat_map(BTreeMap::keys) {
        // Those that there were when there were more.
        let is_over = |other: Member| other.ordinal >= members && own.sibling(other.ordinal) == other;
        if other != name && Member::named(other).is_some_and(is_over) {
            data.insert(other.clone(), None);
        }
    }
    data
}

fn endless(task: impl Future<Output = Infallible> + Send + 'static) -> Beside {
    Box::pin(async move { Ok(task.await) })
}

/// All of them, until one ends, which is an error.
fn all(besides: Vec<Beside>) -> Beside {
    Box::pin(async move {
        let mut tasks = tokio::task::JoinSet::new();
        for beside in besides {
            tasks.spawn(beside);
        }
        match tasks.join_next().await {
            None => std::future::pending::<anyhow::Result<Infallible>>().await,
            Some(ended) => ended.context("a part of this process has failed")?,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_answer_by_the_options_that_servers_of_databases_look_at() {
        use portolan_controller::completeness;
        assert_eq!(completeness::LIFE, portolan_daemons::LIFE);
        assert_eq!(completeness::COMPLETE, portolan_daemons::COMPLETE);
    }

    #[test]
    fn a_member_keeps_its_own_address_and_removes_those_of_members_that_there_are_no_more() {
        let data =
            [("ovn-central-0", "192.0.2.9"), ("ovn-central-1", "192.0.2.2"), ("somebody", "192.0.2.3")];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let map = ConfigMap { data: Some(data), ..ConfigMap::default() };
        let address = "192.0.2.1".parse().expect("an address");
        let changes = |members| addresses(&map, OvnDatabase::Southbound, "ovn-central-0", address, members);
        let own = ("ovn-central-0".to_owned(), Some("192.0.2.1".to_owned()));
        assert_eq!(changes(3), [own.clone()].into());
        assert_eq!(changes(1), [own, ("ovn-central-1".to_owned(), None)].into());
        assert!(addresses(&map, OvnDatabase::Northbound, "ovn-central-0", address, 1).is_empty());
    }
}
