//! OVN's databases, and ovn-northd between them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::chassis_listener::ChassisListener;
use crate::checks::{answers, serves};
use crate::cluster;
use crate::completeness::{Gate, Life};
use crate::daemon::{Control, Daemon};
use crate::database::DatabaseFile;
use crate::transport::Listen;

/// One of OVN's databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OvnDatabase {
    /// What there is to be.
    Northbound,
    /// What northd made of it.
    Southbound,
}

impl OvnDatabase {
    /// Its name in its schema.
    pub fn name(self) -> &'static str {
        match self {
            OvnDatabase::Northbound => "OVN_Northbound",
            OvnDatabase::Southbound => "OVN_Southbound",
        }
    }

    /// The stem of its files, as the packages of OVN have it: its tools find it there.
    fn stem(self) -> &'static str {
        match self {
            OvnDatabase::Northbound => "ovnnb_db",
            OvnDatabase::Southbound => "ovnsb_db",
        }
    }

    fn schema(self) -> &'static str {
        match self {
            OvnDatabase::Northbound => "ovn-nb.ovsschema",
            OvnDatabase::Southbound => "ovn-sb.ovsschema",
        }
    }

    /// The port that clients expect it at.
    pub fn port(self) -> u16 {
        match self {
            OvnDatabase::Northbound => 6641,
            OvnDatabase::Southbound => 6642,
        }
    }

    /// Its Unix socket in a directory, at which everything is allowed.
    pub fn socket(self, run: &Path) -> PathBuf {
        run.join(format!("{}.sock", self.stem()))
    }

    /// Where another member of the same cluster has this one's socket for clients.
    pub fn socket_of(self, run: &Path, ordinal: u8) -> PathBuf {
        run.join(format!("{}-{ordinal}.sock", self.stem()))
    }

    /// The raft address of a member, which is the same on all of them: only the first listens there itself.
    pub fn raft_socket(self, run: &Path, ordinal: u8) -> PathBuf {
        run.join(format!("{}-{ordinal}.raft", self.stem()))
    }

    /// Its file.
    pub fn file(self, data: &Path, schemas: &Path) -> DatabaseFile {
        DatabaseFile { file: data.join(format!("{}.db", self.stem())), schema: schemas.join(self.schema()) }
    }
}

/// The server of one of OVN's databases, standing alone. `listen` is where it listens for controllers and nodes; on its Unix socket it
/// does so in any case.
pub fn ovn_database(database: OvnDatabase, listen: Option<Listen>, run: &Path, file: DatabaseFile) -> Daemon {
    let life = Life::of(run);
    server(database, listen, run, &file).prepare(move || async move {
        if database == OvnDatabase::Northbound {
            life.of_pod()?;
        }
        file.prepare().await
    })
}

/// The server of one member of a cluster. Whoever starts it has its file prepared first, by [`Daemon::prepare`], and says by
/// [`begin_life_of_cluster`] which cluster it is.
pub fn ovn_cluster_member(
    database: OvnDatabase,
    listen: Option<Listen>,
    run: &Path,
    file: &DatabaseFile,
) -> Daemon {
    let (socket, schema) = (database.socket(run), file.schema.clone());
    server(database, listen, run, file)
        .check("cluster", {
            let socket = socket.clone();
            move |_| cluster::is_connected(socket.clone(), database.name())
        })
        .begin(move |_| cluster::convert(socket.clone(), database.name(), schema.clone()))
}

/// Says which cluster the northbound database of a member is.
pub fn begin_life_of_cluster(run: &Path, cluster: &str) -> Result<(), crate::Error> {
    Life::of(run).of_cluster(cluster)
}

fn server(database: OvnDatabase, listen: Option<Listen>, run: &Path, file: &DatabaseFile) -> Daemon {
    let (stem, socket) = (database.stem(), database.socket(run));
    let control = run.join(format!("{stem}.ctl"));
    let mut daemon = Daemon::new("ovsdb-server", Control::At(control.clone()))
        .args(["-vconsole:info", "-vsyslog:off", "-vfile:off", "--no-chdir"])
        .args([
            format!("--pidfile={}", run.join(format!("{stem}.pid")).display()),
            format!("--unixctl={}", control.display()),
            format!("--remote=punix:{}", socket.display()),
        ])
        .args([file.file.clone()])
        .env("OVN_RUNDIR", run);
    if let Some(listen) = listen {
        daemon = listening(daemon, database, &listen, run);
    }
    daemon.check("database", move |_| serves(socket.clone(), database.name()))
}

fn listening(daemon: Daemon, database: OvnDatabase, listen: &Listen, run: &Path) -> Daemon {
    let (address, socket) = (listen.address, database.socket(run));
    let remote = || format!("--remote={}", listen.transport().listen(address, database.port()));
    let Some(tls) = &listen.tls else { return daemon.args([remote()]) };
    let daemon = daemon.args(tls.arguments()).args(["--ssl-protocols=TLSv1.2"]);
    let life = Life::of(run);
    match database {
        OvnDatabase::Northbound => {
            daemon.args([remote()]).keep("life", move |_, report| life.keep(socket, report))
        }
        OvnDatabase::Southbound => {
            let listener = ChassisListener { socket, address, gate: Gate { life } };
            daemon.keep("nodes", move |control, report| listener.keep(control, report))
        }
    }
}

/// Waits until a server of a cluster may have something new to say about who leads, and removes servers from it that others have replaced,
/// if this is the one that leads. `replaced` is asked each time.
pub async fn remove_from_cluster(
    database: OvnDatabase,
    run: &Path,
    replaced: impl Fn() -> Vec<String>,
) -> std::convert::Infallible {
    let control = run.join(format!("{}.ctl", database.stem()));
    cluster::remove(&control, &database.socket(run), database.name(), replaced).await
}

/// Calls `say` each time that a member has been without a cluster, or its cluster without a leader, for so long.
pub async fn cut_off_from_cluster(
    database: OvnDatabase,
    run: &Path,
    time: Duration,
    say: impl Fn(),
) -> std::convert::Infallible {
    cluster::cut_off(&database.socket(run), database.name(), time, say).await
}

/// ovn-northd, for the databases in the same directory. As part of a cluster also for those of the other members, by the sockets that lead
/// to them: it works with the leader, wherever that is. `others` are their ordinals.
pub fn northd(run: &Path, others: &[u8]) -> Daemon {
    let control = run.join("ovn-northd.ctl");
    let sockets = |database: OvnDatabase| {
        let own = std::iter::once(database.socket(run));
        let all = own.chain(others.iter().map(|other| database.socket_of(run, *other)));
        all.map(|socket| format!("unix:{}", socket.display())).collect::<Vec<_>>().join(",")
    };
    let daemon = Daemon::new("ovn-northd", Control::At(control.clone()))
        .args(["-vconsole:info", "-vsyslog:off", "-vfile:off"])
        .args([
            format!("--pidfile={}", run.join("ovn-northd.pid").display()),
            format!("--unixctl={}", control.display()),
            format!("--ovnnb-db={}", sockets(OvnDatabase::Northbound)),
            format!("--ovnsb-db={}", sockets(OvnDatabase::Southbound)),
        ])
        .env("OVN_RUNDIR", run)
        .check("northd", |control| {
            answers(control, "status", |said| said.contains("active") || said.contains("standby"))
        });
    let clusters = [
        (OvnDatabase::Northbound, "northbound-cluster", "nb-cluster-state-reset"),
        (OvnDatabase::Southbound, "southbound-cluster", "sb-cluster-state-reset"),
    ];
    clusters.into_iter().fold(daemon, |daemon, (database, name, command)| {
        let socket = database.socket(run);
        daemon.keep(name, move |control, report| async move {
            // Whether it works does not depend on it.
            drop(report.send_replace(Ok(())));
            cluster::tell_of_another(&socket, database.name(), &control, command).await
        })
    })
}
