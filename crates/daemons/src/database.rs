//! The file of a database, as the server that is installed wants it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::error::{Doing as _, Error};

/// How long members of a cluster do without a word of their leader before they elect another. Longer than a leader that is busy with a
/// large transaction is silent.
const ELECTION_MILLISECONDS: u32 = 3000;

/// Tables of the southbound database that list which options of DHCP an ovn-northd knows.
const CONSTANTS: [&str; 2] = ["DHCP_Options", "DHCPv6_Options"];

/// A database in a file.
#[derive(Clone, Debug)]
pub struct DatabaseFile {
    /// The file.
    pub(crate) file: PathBuf,
    /// The schema that is installed.
    pub(crate) schema: PathBuf,
}

/// What is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// There is none.
    Nothing,
    /// A database of one server.
    Alone,
    /// A server of a cluster.
    Member(ClusterServer),
}

/// A server of a cluster, by the ids that were given to both when they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterServer {
    /// The cluster's.
    pub cluster: String,
    /// The server's.
    pub server: String,
}

impl DatabaseFile {
    /// Makes the file if there is none, and converts one of another version of the schema, or of a cluster. Killed at any point, it does the rest the next time.
    /// Blocks while files are copied: nothing else is to be done meanwhile.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        let Self { file, schema } = self;
        self.make_directory()?;
        if !std::fs::exists(file).doing("look for", file)? {
            let made = self.beside("new");
            remove(&made)?;
            tool(&["create".as_ref(), made.as_ref(), schema.as_ref()]).await?;
            std::fs::rename(&made, file).doing("move a new database to", file)?;
            tracing::info!(file = %file.display(), "database made");
            return Ok(());
        }
        if let Stored::Member(_) = self.stored().await? {
            self.leave_cluster().await?;
        }
        let answer = tool(&["needs-conversion".as_ref(), file.as_ref(), schema.as_ref()]).await?;
        if answer.trim() != "yes" {
            return Ok(());
        }
        // A schema without a table or a column loses what was in it, so what there was is kept.
        let (backup, converted) = (self.beside("before-conversion"), self.beside("converted"));
        remove(&converted)?;
        std::fs::copy(file, &backup).doing("copy the database to", &backup)?;
        match self.convert(file, &converted).await {
            Ok(()) => {}
            Err(_) if self.convert_without_constants(&converted).await.is_ok() => {}
            Err(error) if self.is_made_of_objects().await? => {
                tracing::warn!(
                    %error, file = %file.display(), backup = %backup.display(),
                    "what a newer version wrote does not fit the schema of this one: the database begins empty, and is filled anew"
                );
                remove(&converted)?;
                tool(&["create".as_ref(), converted.as_ref(), schema.as_ref()]).await?;
            }
            Err(error) => return Err(error),
        }
        tracing::info!(file = %file.display(), backup = %backup.display(), "database has the schema of this version");
        std::fs::rename(&converted, file).doing("move the converted database to", file)
    }

    async fn convert(&self, from: &Path, to: &Path) -> Result<(), Error> {
        remove(to)?;
        tool(&["convert".as_ref(), from.as_ref(), self.schema.as_ref(), to.as_ref()]).await.map(drop)
    }

    /// Converts a southbound database without the constants of the ovn-northd that wrote it, which any other one writes anew. What nodes go by, such as
    /// the numbers of networks and ports in tunnels, stays the same.
    async fn convert_without_constants(&self, to: &Path) -> Result<(), Error> {
        let without = self.beside("without-constants");
        std::fs::copy(&self.file, &without).doing("copy the database to", &without)?;
        let deletions =
            CONSTANTS.map(|table| format!(r#"{{"op": "delete", "table": "{table}", "where": []}}"#));
        let deletions = format!(r#"["OVN_Southbound", {}]"#, deletions.join(", "));
        let deleted = tool(&["transact".as_ref(), without.as_ref(), deletions.as_ref()]).await;
        // A conversion takes every change in the file up again, also those that were undone.
        let compacted = match deleted {
            Ok(_) => tool(&["compact".as_ref(), without.as_ref()]).await,
            Err(error) => Err(error),
        };
        let converted = match compacted {
            Ok(_) => self.convert(&without, to).await,
            Err(error) => Err(error),
        };
        remove(&without)?;
        converted
    }

    /// Whether all that is in it can be made again from the objects of the API: so with OVN's databases, and not with that of a node's Open vSwitch.
    async fn is_made_of_objects(&self) -> Result<bool, Error> {
        let name = tool(&["db-name".as_ref(), self.file.as_ref()]).await?;
        Ok(["OVN_Northbound", "OVN_Southbound"].contains(&name.trim()))
    }

    /// What there is.
    pub async fn stored(&self) -> Result<Stored, Error> {
        let Self { file, .. } = self;
        if !std::fs::exists(file).doing("look for", file)? {
            return Ok(Stored::Nothing);
        }
        let name: &OsStr = file.as_ref();
        if !succeeds(&["db-is-clustered".as_ref(), name]).await? {
            // A file that is no database at all is named by this.
            tool(&["db-name".as_ref(), name]).await?;
            return Ok(Stored::Alone);
        }
        let cluster = tool(&["db-cid".as_ref(), name]).await?.trim().to_owned();
        let server = tool(&["db-sid".as_ref(), name]).await?.trim().to_owned();
        Ok(Stored::Member(ClusterServer { cluster, server }))
    }

    /// Makes a cluster of this one server out of what there is, whether that is nothing, a database of one server or a server of another
    /// cluster. What there was is kept beside it.
    pub async fn make_cluster(&self, address: &Path) -> Result<ClusterServer, Error> {
        let (made, alone) = (self.beside("new"), self.beside("alone"));
        self.make_directory()?;
        remove(&made)?;
        let contents = match self.stored().await? {
            Stored::Nothing => &self.schema,
            Stored::Alone => &self.file,
            Stored::Member(_) => {
                self.write_alone(&alone).await?;
                &alone
            }
        };
        let address = raft(address);
        let election = format!("--election-timer={ELECTION_MILLISECONDS}");
        tool(&[
            election.as_ref(),
            "create-cluster".as_ref(),
            made.as_ref(),
            contents.as_ref(),
            address.as_ref(),
        ])
        .await?;
        remove(&alone)?;
        self.replace_by(&made).await.inspect(
            |made| tracing::info!(file = %self.file.display(), cluster = made.cluster, "cluster made"),
        )
    }

    /// Makes a server that will join a cluster when it starts. What there was is kept beside it.
    pub async fn join_cluster(
        &self,
        database: &str,
        cluster: &str,
        address: &Path,
        others: &[PathBuf],
    ) -> Result<ClusterServer, Error> {
        let made = self.beside("new");
        self.make_directory()?;
        remove(&made)?;
        let cluster = format!("--cid={cluster}");
        let addresses: Vec<_> =
            std::iter::once(raft(address)).chain(others.iter().map(|other| raft(other))).collect();
        let mut arguments: Vec<&OsStr> =
            vec![cluster.as_ref(), "join-cluster".as_ref(), made.as_ref(), database.as_ref()];
        arguments.extend(addresses.iter().map(AsRef::<OsStr>::as_ref));
        tool(&arguments).await?;
        let made = self.replace_by(&made).await?;
        tracing::info!(file = %self.file.display(), server = made.server, "made a server that joins the cluster");
        Ok(made)
    }

    /// Makes a database of one server of a server of a cluster.
    pub async fn leave_cluster(&self) -> Result<(), Error> {
        let alone = self.beside("alone");
        self.write_alone(&alone).await?;
        self.keep_former()?;
        std::fs::rename(&alone, &self.file).doing("move a database to", &self.file)?;
        tracing::info!(file = %self.file.display(), "the database has one server again");
        Ok(())
    }

    /// Writes what a server of a cluster has as a database of one server.
    async fn write_alone(&self, alone: &Path) -> Result<(), Error> {
        remove(alone)?;
        tool(&["cluster-to-standalone".as_ref(), alone.as_ref(), self.file.as_ref()]).await?;
        // A server that has not joined yet has nothing, not even a schema, and what is written of it is no database.
        if std::fs::metadata(alone).doing("look at", alone)?.len() == 0 {
            remove(alone)?;
            tool(&["create".as_ref(), alone.as_ref(), self.schema.as_ref()]).await?;
        }
        Ok(())
    }

    /// Takes a file from another directory if there is none here.
    pub fn take_from(&self, directory: &Path) -> Result<(), Error> {
        let Some(name) = self.file.file_name() else { return Ok(()) };
        let other = directory.join(name);
        if std::fs::exists(&self.file).doing("look for", &self.file)?
            || !std::fs::exists(&other).doing("look for", &other)?
        {
            return Ok(());
        }
        self.make_directory()?;
        std::fs::rename(&other, &self.file).doing("move", &other)?;
        tracing::info!(from = %other.display(), to = %self.file.display(), "database moved");
        Ok(())
    }

    fn make_directory(&self) -> Result<(), Error> {
        let parent = self.file.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent).doing("make directory", parent)
    }

    /// Puts a file that was made in the place of what there is.
    async fn replace_by(&self, made: &Path) -> Result<ClusterServer, Error> {
        self.keep_former()?;
        std::fs::rename(made, &self.file).doing("move a new database to", &self.file)?;
        match self.stored().await? {
            Stored::Member(server) => Ok(server),
            other => {
                Err(Error::Tool { what: "making a cluster".into(), said: format!("the file is {other:?}") })
            }
        }
    }

    /// Keeps what there is, of which there is one generation: a link, so that the file is never missing.
    fn keep_former(&self) -> Result<(), Error> {
        let former = self.beside("former");
        remove(&former)?;
        match std::fs::hard_link(&self.file, &former) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).doing("keep", &former),
            _ => Ok(()),
        }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.file.clone().into_os_string();
        name.push(".");
        name.push(ending);
        name.into()
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).doing("remove", path),
        _ => Ok(()),
    }
}

/// How a raft address is written.
fn raft(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

const TOOL: &str = "ovsdb-tool";

async fn output(arguments: &[&OsStr]) -> Result<std::process::Output, Error> {
    let mut command = Command::new(TOOL);
    let output = command.args(arguments).kill_on_drop(true).output().await;
    output.map_err(|error| Error::Start { program: TOOL.into(), error })
}

/// A question that is answered by the exit code.
async fn succeeds(arguments: &[&OsStr]) -> Result<bool, Error> {
    Ok(output(arguments).await?.status.success())
}

async fn tool(arguments: &[&OsStr]) -> Result<String, Error> {
    let output = output(arguments).await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Tool { what: format!("{TOOL} {}", words.join(" ")), said })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    const OLD: &str = r#"{"name": "D", "version": "1.0.0", "cksum": "1 1", "tables": {"T": {"columns": {"a": {"type": "string"}}, "isRoot": true}}}"#;
    const NEW: &str = r#"{"name": "D", "version": "1.1.0", "cksum": "2 2",
        "tables": {"T": {"columns": {"a": {"type": "string"}, "b": {"type": "string"}}, "isRoot": true}}}"#;

    async fn version(file: &Path) -> String {
        tool(&["db-version".as_ref(), file.as_ref()]).await.unwrap().trim().to_owned()
    }

    #[tokio::test]
    async fn a_database_is_made_kept_and_converted() {
        let place = tempfile::tempdir().unwrap();
        let (file, schema) = (place.path().join("deep/d.db"), place.path().join("schema"));
        std::fs::write(&schema, OLD).unwrap();
        let database = DatabaseFile { file: file.clone(), schema: schema.clone() };
        database.prepare().await.unwrap();
        let row = r#"["D", {"op": "insert", "table": "T", "row": {"a": "kept"}}]"#;
        tool(&["transact".as_ref(), file.as_ref(), row.as_ref()]).await.unwrap();
        let before = std::fs::read(&file).unwrap();
        database.prepare().await.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), before, "a second start changes nothing");

        std::fs::write(&schema, NEW).unwrap();
        // One that was killed while it converted.
        std::fs::write(place.path().join("deep/d.db.converted"), "half").unwrap();
        database.prepare().await.unwrap();
        assert_eq!(version(&file).await, "1.1.0");
        let query = r#"["D", {"op": "select", "table": "T", "where": []}]"#;
        let rows = tool(&["query".as_ref(), file.as_ref(), query.as_ref()]).await.unwrap();
        assert!(rows.contains("kept"), "{rows}");
        assert_eq!(version(&place.path().join("deep/d.db.before-conversion")).await, "1.0.0");
    }

    #[tokio::test]
    async fn a_database_of_ovn_that_does_not_fit_an_older_schema_begins_empty_and_others_are_kept() {
        for (name, begins_empty) in [("OVN_Southbound", true), ("Open_vSwitch", false)] {
            let place = tempfile::tempdir().unwrap();
            let (file, schema) = (place.path().join("d.db"), place.path().join("schema"));
            let named = |schema: &str| schema.replace(r#""name": "D""#, &format!(r#""name": "{name}""#));
            std::fs::write(&schema, named(NEW)).unwrap();
            let database = DatabaseFile { file: file.clone(), schema: schema.clone() };
            database.prepare().await.unwrap();
            let row = format!(r#"["{name}", {{"op": "insert", "table": "T", "row": {{"a": "newer"}}}}]"#);
            tool(&["transact".as_ref(), file.as_ref(), row.as_ref()]).await.unwrap();
            let before = std::fs::read(&file).unwrap();

            let narrow = r#"{"a": {"type": {"key": {"type": "string", "enum": ["set", ["", "older"]]}}}}"#;
            let older = named(OLD).replace(r#"{"a": {"type": "string"}}"#, narrow);
            assert_ne!(older, named(OLD));
            std::fs::write(&schema, older).unwrap();
            let outcome = database.prepare().await;
            assert_eq!(outcome.is_ok(), begins_empty, "{outcome:?}");
            if begins_empty {
                assert_eq!(version(&file).await, "1.0.0");
                let query = format!(r#"["{name}", {{"op": "select", "table": "T", "where": []}}]"#);
                let rows = tool(&["query".as_ref(), file.as_ref(), query.as_ref()]).await.unwrap();
                assert!(!rows.contains("newer"), "{rows}");
                assert_eq!(std::fs::read(place.path().join("d.db.before-conversion")).unwrap(), before);
            } else {
                assert_eq!(std::fs::read(&file).unwrap(), before);
            }
        }
    }

    #[tokio::test]
    async fn options_that_an_older_ovn_northd_does_not_know_cost_nothing_else() {
        let schema_of = |types: &str| {
            let options = |name: &str| {
                format!(
                    r#""{name}": {{"columns": {{"type": {{"type": {{"key": {{"type": "string", "enum": ["set", [{types}]]}}}}}}}}, "isRoot": true}}"#
                )
            };
            let others = r#""T": {"columns": {"a": {"type": "string"}}, "isRoot": true}"#;
            let tables = [options("DHCP_Options"), options("DHCPv6_Options"), others.to_owned()].join(", ");
            format!(
                r#"{{"name": "OVN_Southbound", "version": "1.0.{}", "tables": {{{tables}}}}}"#,
                types.len()
            )
        };
        let place = tempfile::tempdir().unwrap();
        let (file, schema) = (place.path().join("d.db"), place.path().join("schema"));
        std::fs::write(&schema, schema_of(r#""str", "domain""#)).unwrap();
        let database = DatabaseFile { file: file.clone(), schema: schema.clone() };
        database.prepare().await.unwrap();
        let rows = r#"["OVN_Southbound", {"op": "insert", "table": "DHCP_Options", "row": {"type": "domain"}},
            {"op": "insert", "table": "T", "row": {"a": "kept"}}]"#;
        tool(&["transact".as_ref(), file.as_ref(), rows.as_ref()]).await.unwrap();

        std::fs::write(&schema, schema_of(r#""str""#)).unwrap();
        database.prepare().await.unwrap();
        let query = r#"["OVN_Southbound", {"op": "select", "table": "T", "where": []}, {"op": "select", "table": "DHCP_Options", "where": []}]"#;
        let rows = tool(&["query".as_ref(), file.as_ref(), query.as_ref()]).await.unwrap();
        assert!(rows.contains("kept") && !rows.contains("domain"), "{rows}");
        let mut left: Vec<_> =
            std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let left: Vec<_> = left
            .iter()
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| !name.contains(".lock") && !name.starts_with("."))
            .collect();
        assert_eq!(left, ["d.db", "d.db.before-conversion", "schema"]);
    }

    #[tokio::test]
    async fn a_server_that_has_not_joined_yet_becomes_a_cluster_or_a_database_of_one_server() {
        for is_cluster in [true, false] {
            let place = tempfile::tempdir().unwrap();
            let (file, schema) = (place.path().join("d.db"), place.path().join("schema"));
            std::fs::write(&schema, OLD).unwrap();
            let database = DatabaseFile { file: file.clone(), schema };
            let (own, other) = (place.path().join("own"), place.path().join("other"));
            let lost = "6d4a4a5e-9a0a-4a0f-8f5e-0c5d0f6a1b2c";
            let joining = database.join_cluster("D", lost, &own, &[other]).await.unwrap();
            assert_eq!(database.stored().await.unwrap(), Stored::Member(joining.clone()));
            if is_cluster {
                let made = database.make_cluster(&own).await.unwrap();
                assert_ne!(made.cluster, joining.cluster);
                // It can be started: it has the schema.
                database.leave_cluster().await.unwrap();
            } else {
                database.prepare().await.unwrap();
            }
            assert_eq!(database.stored().await.unwrap(), Stored::Alone);
            assert_eq!(version(&file).await, "1.0.0");
        }
    }

    #[tokio::test]
    async fn a_file_that_is_no_database_stays_and_is_named() {
        let place = tempfile::tempdir().unwrap();
        let (file, schema) = (place.path().join("d.db"), place.path().join("schema"));
        std::fs::write(&schema, OLD).unwrap();
        std::fs::write(&file, "somebody's").unwrap();
        let said = DatabaseFile { file: file.clone(), schema }.prepare().await.unwrap_err().to_string();
        assert!(said.contains(&file.display().to_string()), "{said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "somebody's");
    }

    #[tokio::test]
    async fn a_missing_schema_is_named_and_leaves_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let (file, schema) = (place.path().join("d.db"), place.path().join("schema"));
        let said = DatabaseFile { file: file.clone(), schema: schema.clone() }.prepare().await.unwrap_err();
        assert!(said.to_string().contains(&schema.display().to_string()), "{said}");
        assert!(!file.exists());
    }
}
