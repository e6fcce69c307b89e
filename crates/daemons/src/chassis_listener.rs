//! Where the southbound database listens for nodes with TLS: with OVN's access control, by which a client may do what its role allows to
//! whom its certificate names.
//!
//! The role cannot be said on a command line, only by a row of the database itself. That row lasts, so the server is told to look at such
//! rows only when nodes may come: [`Gate`] says when.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::completeness::{Gate, Look};
use crate::daemon::Report;
use crate::error::Error;
use crate::json_rpc::{changed, control as daemon_control, transact};
use crate::ovn_central::OvnDatabase;
use crate::transport::Transport;

/// What has the server listen as the rows say.
const REMOTE: &str = "db:OVN_Southbound,SB_Global,connections";
/// The role whose rights ovn-northd keeps in the database.
const ROLE: &str = "ovn-controller";
/// The database.
const DATABASE: &str = "OVN_Southbound";
/// What a row says.
const COLUMNS: [&str; 2] = ["target", "role"];
/// Pauses while the server does not answer.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// A server that is to listen for nodes.
pub(crate) struct ChassisListener {
    pub(crate) socket: PathBuf,
    pub(crate) address: IpAddr,
    pub(crate) gate: Gate,
}

impl ChassisListener {
    /// Has the server listen once nodes may come, and keeps the one row that says where.
    pub(crate) async fn keep(self, control: PathBuf, report: Report) -> Infallible {
        let [first, longest] = PAUSES;
        let mut pause = first;
        loop {
            let step = self.step(&control, &report).await;
            match step {
                Ok(()) => pause = first,
                Err(error) => {
                    tell(&report, Err(error.to_string()));
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(longest);
                }
            }
        }
    }

    /// Does what is to be done, and waits until something has changed.
    async fn step(&self, control: &Path, report: &Report) -> Result<(), Error> {
        let listens = is_listening(control).await?;
        let outcome = match self.gate.look(&self.socket).await? {
            Look::Complete => Ok(()),
            // It was complete once in the life of this server.
            Look::Incomplete { .. } if listens => Ok(()),
            Look::Incomplete { rows } => Err(rows),
        };
        match outcome {
            Ok(()) => {
                self.write_row().await?;
                if !listens {
                    daemon_control(control, "ovsdb-server/add-remote", &[REMOTE]).await?;
                    tracing::info!(address = %self.address, role = ROLE, "the southbound database listens for nodes");
                }
                tell(report, Ok(()));
                changed(&self.socket, DATABASE, ("Connection", &COLUMNS), &self.rows()).await?;
            }
            Err(rows) => {
                let why = "nodes wait until a controller has filled the northbound database and ovn-northd has taken that over";
                tell(report, Err(why.into()));
                changed(&self.socket, DATABASE, ("SB_Global", &["options"]), &rows).await?;
            }
        }
        Ok(())
    }

    /// The rows that there are to be. Whatever listens without a role would let everybody do everything, so there are no others. The same
    /// for every member of a cluster, so it is at every address of this one's family.
    fn rows(&self) -> Value {
        let any = match self.address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        json!([{"target": Transport::Tls.listen(any, OvnDatabase::Southbound.port()), "role": ROLE}])
    }

    async fn write_row(&self) -> Result<(), Error> {
        let rows = self.rows();
        let select = json!({"op": "select", "table": "Connection", "where": [], "columns": COLUMNS});
        let found = transact(&self.socket, DATABASE, [select]).await?;
        if found[0]["rows"] == rows {
            return Ok(());
        }
        // Refused if there is the one row already, which is as well: ovn-northd may have made it.
        let none = json!({"op": "wait", "table": "SB_Global", "where": [], "columns": ["_uuid"], "until": "==", "rows": [], "timeout": 0});
        let global = json!({"op": "insert", "table": "SB_Global", "row": {}});
        let _ = transact(&self.socket, DATABASE, [none, global]).await;
        let insert = json!({"op": "insert", "table": "Connection", "uuid-name": "row", "row": rows[0]});
        let only = json!({"connections": ["named-uuid", "row"]});
        let update = json!({"op": "update", "table": "SB_Global", "where": [], "row": only});
        transact(&self.socket, DATABASE, [insert, update]).await?;
        tracing::info!(listen = %rows[0]["target"], role = ROLE, "where the southbound database listens for nodes is written");
        Ok(())
    }
}

/// Whether this server listens as the rows say.
async fn is_listening(control: &Path) -> Result<bool, Error> {
    let remotes = daemon_control(control, "ovsdb-server/list-remotes", &[]).await?;
    Ok(remotes.lines().any(|line| line.trim() == REMOTE))
}

fn tell(report: &Report, outcome: Result<(), String>) {
    let is_new = report.send_if_modified(|before| {
        let is_new = *before != outcome;
        before.clone_from(&outcome);
        is_new
    });
    if let Err(why) = outcome
        && is_new
    {
        tracing::info!("the southbound database does not listen for nodes: {why}");
    }
}
