//! OVN's databases, and ovn-northd between them.

use std::path::{Path, PathBuf};

use crate::chassis_listener;
use crate::checks::{answers, serves};
use crate::daemon::{Control, Daemon};
use crate::database::DatabaseFile;
use crate::transport::Listen;

/// One of OVN's databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OvnDatabase {
    /// What there is to be.
    Northbound,
    /// What northd made of it.
    Southbound,
}

impl OvnDatabase {
    fn name(self) -> &'static str {
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
}

/// The server of one of OVN's databases, standing alone. `listen` is where it listens for controllers and nodes; on its Unix socket it
/// does so in any case.
pub fn ovn_database(
    database: OvnDatabase,
    listen: Option<Listen>,
    run: &Path,
    data: &Path,
    schemas: &Path,
) -> Daemon {
    let file = DatabaseFile {
        file: data.join(format!("{}.db", database.stem())),
        schema: schemas.join(database.schema()),
    };
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
        .env("OVN_RUNDIR", run)
        .prepare(move || async move { file.prepare().await });
    if let Some(listen) = listen {
        daemon = listening(daemon, database, &listen, socket.clone());
    }
    daemon.check("database", move |_| serves(socket.clone(), database.name()))
}

fn listening(daemon: Daemon, database: OvnDatabase, listen: &Listen, socket: PathBuf) -> Daemon {
    let address = listen.address;
    let daemon = match &listen.tls {
        Some(tls) => daemon.args(tls.arguments()).args(["--ssl-protocols=TLSv1.2"]),
        None => daemon,
    };
    match (database, &listen.tls) {
        (OvnDatabase::Southbound, Some(_)) => daemon
            .args([chassis_listener::REMOTE])
            .begin(move |_| async move { chassis_listener::keep(socket, address).await }),
        _ => {
            let remote = listen.transport().listen(address, database.port());
            daemon.args([format!("--remote={remote}")])
        }
    }
}

/// ovn-northd, for the databases in the same directory.
pub fn northd(run: &Path) -> Daemon {
    let control = run.join("ovn-northd.ctl");
    let socket = |database: OvnDatabase| format!("unix:{}", database.socket(run).display());
    Daemon::new("ovn-northd", Control::At(control.clone()))
        .args(["-vconsole:info", "-vsyslog:off", "-vfile:off"])
        .args([
            format!("--pidfile={}", run.join("ovn-northd.pid").display()),
            format!("--unixctl={}", control.display()),
            format!("--ovnnb-db={}", socket(OvnDatabase::Northbound)),
            format!("--ovnsb-db={}", socket(OvnDatabase::Southbound)),
        ])
        .env("OVN_RUNDIR", run)
        .check("northd", |control| {
            answers(control, "status", |said| said.contains("active") || said.contains("standby"))
        })
}
