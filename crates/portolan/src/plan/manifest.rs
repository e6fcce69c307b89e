//! Manifests: YAML and JSON documents, each with the place that it stands at.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exit::Failure;

/// An object of a manifest, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) place: Place,
    pub(super) object: Value,
}

/// Where an object stands: a file, and which document of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    file: String,
    document: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}", self.file, self.document)
    }
}

/// The objects of a file, of the files in a directory and below, or of standard input.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Document>> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
        return parse("standard input", &text);
    }
    let mut documents = Vec::new();
    for file in files(path)? {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(&file)
            .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
        documents.extend(parse(&name, &text)?);
    }
    Ok(documents)
}

/// A file, or what a directory has of YAML and JSON, by name.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    files_in(path)
}

/// What a directory has of YAML and JSON, by name. Links to other directories are not followed: they may lead back.
fn files_in(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(failed)?;
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let is_manifest =
            path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|one| end == *one));
        if path.is_dir() && !path.is_symlink() {
            found.extend(files_in(&path)?);
        } else if is_manifest && !path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

/// The objects of a text. Lists are their items.
pub(super) fn parse(file: &str, text: &str) -> anyhow::Result<Vec<Document>> {
    let values = serde_saphyr::from_multiple::<Value>(text)
        .map_err(|error| Failure::usage(format!("{file} is not YAML: {}", error.to_string().trim())))?;
    let mut documents = Vec::new();
    for (number, object) in values.into_iter().enumerate() {
        let place = Place { file: file.to_owned(), document: number + 1 };
        if object.is_null() {
            continue;
        }
        let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match object.get("items") {
            Some(Value::Array(items)) if is_list => {
                documents
                    .extend(items.iter().map(|item| Document { place: place.clone(), object: item.clone() }));
            }
            _ => documents.push(Document { place, object }),
        }
    }
    Ok(documents)
}
