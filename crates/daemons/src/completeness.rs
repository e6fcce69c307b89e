//! Whether the southbound database has what users ask for, or less: none of it yet, or what they asked for long ago.
//!
//! A node that connects to a database with less removes what is not there: its traffic stops. While it is not connected it goes on with what
//! it has. So the southbound database does not listen for nodes before this chain is through:
//!
//! ```text
//!  northbound server          controller                    ovn-northd                    southbound server
//!  a life of the database ──▶ nothing differs any more ───▶ options of NB_Global, with ──▶ its SB_Global has
//!  options:portolan-life      options:portolan-complete     all that was there before      complete = this life
//! ```
//!
//! A *life* begins where what is in the file may be old: with a pod, as an earlier one may have left the file; in a cluster, whose members
//! agree on what is new, with the cluster. The northbound server leaves it in a file of their common directory of sockets, which lasts as
//! long as the pod.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::Report;
use crate::error::{Doing as _, Error};
use crate::json_rpc::{Unanswered, changed, transact};

/// The option of `NB_Global` that says which life it is.
pub const LIFE: &str = "portolan-life";
/// The option by which a controller says that everything is there; its value is the life.
pub const COMPLETE: &str = "portolan-complete";

/// Pauses while a server does not answer.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// The life of the databases of this pod.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    file: PathBuf,
}

impl Life {
    pub(crate) fn of(run: &Path) -> Self {
        Self { file: run.join("ovn.life") }
    }

    /// Begins with the pod, unless it has begun.
    pub(crate) fn of_pod(&self) -> Result<(), Error> {
        if self.read().is_some() {
            return Ok(());
        }
        let random = Path::new("/proc/sys/kernel/random/uuid");
        let life = std::fs::read_to_string(random).doing("read", random)?;
        self.write(life.trim())
    }

    /// Is that of a cluster.
    pub(crate) fn of_cluster(&self, cluster: &str) -> Result<(), Error> {
        self.write(cluster)
    }

    fn read(&self) -> Option<String> {
        let life = std::fs::read_to_string(&self.file).ok()?;
        Some(life.trim().to_owned()).filter(|life| !life.is_empty())
    }

    fn write(&self, life: &str) -> Result<(), Error> {
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(directory).doing("make directory", directory)?;
        let new = self.file.with_extension("new");
        std::fs::write(&new, life).doing("write", &new)?;
        std::fs::rename(&new, &self.file).doing("write", &self.file)
    }

    /// Keeps the northbound database saying which life it is.
    pub(crate) async fn keep(self, socket: PathBuf, report: Report) -> Infallible {
        let [first, longest] = PAUSES;
        let mut pause = first;
        loop {
            match self.tell(&socket).await {
                Ok(seen) => {
                    pause = first;
                    drop(report.send_replace(Ok(())));
                    if changed(&socket, "OVN_Northbound", ("NB_Global", &["options"]), &seen).await.is_ok() {
                        continue;
                    }
                }
                Err(error) => drop(report.send_replace(Err(error.to_string()))),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Writes it, and returns the rows as they were seen.
    async fn tell(&self, socket: &Path) -> Result<Value, Unanswered> {
        const DATABASE: &str = "OVN_Northbound";
        // Written before the server began.
        let life = self.read().unwrap_or_default();
        let seen = global(socket, DATABASE, "NB_Global").await?;
        if option(&seen, LIFE) == Some(&life) {
            return Ok(seen);
        }
        if seen.as_array().is_none_or(Vec::is_empty) {
            let none = json!({"op": "wait", "table": "NB_Global", "where": [], "columns": ["_uuid"], "until": "==", "rows": [], "timeout": 0});
            let row = json!({"options": ["map", [[LIFE, life]]]});
            transact(socket, DATABASE, [none, json!({"op": "insert", "table": "NB_Global", "row": row})])
                .await?;
        } else {
            let mutations = json!([
                ["options", "delete", ["set", [LIFE]]],
                ["options", "insert", ["map", [[LIFE, life]]]]
            ]);
            transact(
                socket,
                DATABASE,
                [json!({"op": "mutate", "table": "NB_Global", "where": [], "mutations": mutations})],
            )
            .await?;
        }
        tracing::info!(life, "controllers are asked to say when the northbound database is complete");
        global(socket, DATABASE, "NB_Global").await
    }
}

/// What is to be true before nodes come.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) life: Life,
}

/// Whether it is.
pub(crate) enum Look {
    /// Nodes may come.
    Complete,
    /// Not before these rows of `SB_Global` have changed, or somebody else's life begins.
    Incomplete { rows: Value },
}

impl Gate {
    pub(crate) async fn look(&self, socket: &Path) -> Result<Look, Unanswered> {
        let rows = global(socket, "OVN_Southbound", "SB_Global").await?;
        let life = self.life.read();
        let is_complete = life.is_some() && option(&rows, COMPLETE) == life.as_ref();
        Ok(if is_complete { Look::Complete } else { Look::Incomplete { rows } })
    }
}

/// The rows of a table, as far as options go.
async fn global(socket: &Path, database: &str, table: &str) -> Result<Value, Unanswered> {
    let select = json!({"op": "select", "table": table, "where": [], "columns": ["options"]});
    let mut results = transact(socket, database, [select]).await?;
    Ok(results.first_mut().map(|result| result["rows"].take()).unwrap_or_default())
}

/// An option in the one row.
fn option<'a>(rows: &'a Value, key: &str) -> Option<&'a String> {
    let pairs = rows[0]["options"][1].as_array()?;
    let pair = pairs.iter().find(|pair| pair[0] == key)?;
    match &pair[1] {
        Value::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_lasts_as_long_as_the_directory_and_a_clusters_is_the_clusters() {
        let run = tempfile::tempdir().expect("a directory");
        let life = Life::of(run.path());
        assert_eq!(life.read(), None);
        life.of_pod().expect("it is written");
        let first = life.read();
        assert!(first.as_ref().is_some_and(|life| life.len() == 36), "{first:?}");
        life.of_pod().expect("it is there");
        assert_eq!(life.read(), first, "the same process, started again");
        life.of_cluster("c").expect("it is written");
        assert_eq!(life.read().as_deref(), Some("c"));
        let another = tempfile::tempdir().expect("a directory");
        Life::of(another.path()).of_pod().expect("it is written");
        assert_ne!(Life::of(another.path()).read(), first);
    }

    #[test]
    fn options_are_found_in_the_one_row() {
        let rows = json!([{"options": ["map", [["a", "b"], [COMPLETE, "x"]]]}]);
        assert_eq!(option(&rows, COMPLETE), Some(&"x".to_owned()));
        for rows in [json!([]), json!([{"options": ["map", []]}]), json!(null)] {
            assert_eq!(option(&rows, COMPLETE), None);
        }
    }
}
