//! The file of a database, as the server that is installed wants it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::error::{Doing as _, Error};

/// A database in a file.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseFile {
    /// The file.
    pub(crate) file: PathBuf,
    /// The schema that is installed.
    pub(crate) schema: PathBuf,
}

impl DatabaseFile {
    /// Makes the file if there is none, and converts one of another version of the schema. Killed at any point, it does the rest the next time.
    /// Blocks while files are copied: nothing else is to be done meanwhile.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        let Self { file, schema } = self;
        let parent = file.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent).doing("make directory", parent)?;
        if !std::fs::exists(file).doing("look for", file)? {
            let made = self.beside("new");
            remove(&made)?;
            tool(&["create".as_ref(), made.as_ref(), schema.as_ref()]).await?;
            std::fs::rename(&made, file).doing("move a new database to", file)?;
            tracing::info!(file = %file.display(), "database made");
            return Ok(());
        }
        let answer = tool(&["needs-conversion".as_ref(), file.as_ref(), schema.as_ref()]).await?;
        if answer.trim() != "yes" {
            return Ok(());
        }
        // A schema without a table or a column loses what was in it, so what there was is kept.
        let (backup, converted) = (self.beside("before-conversion"), self.beside("converted"));
        remove(&converted)?;
        std::fs::copy(file, &backup).doing("copy the database to", &backup)?;
        tool(&["convert".as_ref(), file.as_ref(), schema.as_ref(), converted.as_ref()]).await?;
        std::fs::rename(&converted, file).doing("move the converted database to", file)?;
        tracing::info!(file = %file.display(), backup = %backup.display(), "database converted to the schema of this version");
        Ok(())
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

async fn tool(arguments: &[&OsStr]) -> Result<String, Error> {
    let program = "ovsdb-tool";
    let mut command = Command::new(program);
    let output = command.args(arguments).kill_on_drop(true).output().await;
    let output = output.map_err(|error| Error::Start { program: program.into(), error })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Tool { what: format!("{program} {}", words.join(" ")), said })
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
