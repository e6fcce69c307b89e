//! Generated files that are committed, and whether they are what they should be.
//!
//! [`GENERATORS`] lists what is generated. A generator is a function from the workspace's sources to files; it writes
//! nothing itself. To add one (CRD manifests, a page of documentation), write its function in a file of its own under
//! `codegen/` and add it to the list.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

mod api;
mod core_kinds;
mod field_reference;
mod installation;
mod ovn_schema;
mod rustfmt;

/// A file as it should be.
#[derive(Debug)]
struct Generated {
    /// Where it is, relative to the workspace's root.
    path: PathBuf,
    content: String,
}

/// Something that makes files.
struct Generator {
    /// Folders in which every file is generated; what else is found there is left over from before.
    owns: &'static [&'static str],
    /// The files, given the workspace's root.
    generate: fn(&Path) -> anyhow::Result<Vec<Generated>>,
}

const GENERATORS: &[Generator] = &[
    Generator {
        owns: &["crates/ovn-schema/src/nb", "crates/ovn-schema/src/sb", "crates/ovn-schema/src/vswitch"],
        generate: ovn_schema::generate,
    },
    Generator { owns: &["deploy/crds"], generate: api::manifests },
    Generator { owns: &[], generate: api::pages },
    Generator { owns: &[], generate: field_reference::generate },
    Generator { owns: &[], generate: core_kinds::generate },
    Generator {
        owns: &["deploy/harvester", "deploy/helm/portolan/crds", "deploy/helm/portolan/templates"],
        generate: installation::generate,
    },
];

/// A file that is not as it should be, by its path.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Problem {
    Missing(PathBuf),
    Stale(PathBuf),
    Extra(PathBuf),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Missing(path) => write!(f, "missing: {}", path.display()),
            Problem::Stale(path) => write!(f, "stale: {}", path.display()),
            Problem::Extra(path) => write!(f, "extra: {}", path.display()),
        }
    }
}

/// Makes every generated file what it should be, and tells what had to change.
pub(crate) fn write(root: &Path) -> anyhow::Result<Vec<Problem>> {
    let findings = run(root, GENERATORS)?;
    for (problem, content) in &findings {
        let (Problem::Missing(path) | Problem::Stale(path) | Problem::Extra(path)) = problem;
        fix(&root.join(path), content.as_deref()).with_context(|| path.display().to_string())?;
    }
    Ok(findings.into_iter().map(|(problem, _)| problem).collect())
}

fn fix(path: &Path, content: Option<&str>) -> io::Result<()> {
    let Some(content) = content else { return fs::remove_file(path) };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}

/// Each problem with the content the file should have.
fn run(root: &Path, generators: &[Generator]) -> anyhow::Result<Vec<(Problem, Option<String>)>> {
    let mut problems = Vec::new();
    for generator in generators {
        let files = (generator.generate)(root)?;
        problems.extend(compare(root, generator.owns, files)?);
    }
    problems.sort();
    Ok(problems)
}

fn compare(
    root: &Path,
    owns: &[&str],
    files: Vec<Generated>,
) -> anyhow::Result<Vec<(Problem, Option<String>)>> {
    let mut left_over = BTreeSet::new();
    for folder in owns {
        left_over.extend(files_in(root, folder).with_context(|| (*folder).to_owned())?);
    }
    let mut problems = Vec::new();
    for Generated { path, content } in files {
        left_over.remove(&path);
        match fs::read_to_string(root.join(&path)) {
            Ok(present) if present == content => {}
            Ok(_) => problems.push((Problem::Stale(path), Some(content))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                problems.push((Problem::Missing(path), Some(content)));
            }
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        }
    }
    problems.extend(left_over.into_iter().map(|path| (Problem::Extra(path), None)));
    Ok(problems)
}

fn files_in(root: &Path, folder: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(root.join(folder)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries?,
    };
    entries.map(|entry| Ok(Path::new(folder).join(entry?.file_name()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: &str) -> Generated {
        Generated { path: path.into(), content: content.into() }
    }

    #[test]
    fn the_committed_files_are_what_is_generated() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let problems: Vec<_> =
            run(root, GENERATORS).unwrap().into_iter().map(|(problem, _)| problem.to_string()).collect();
        assert!(problems.is_empty(), "run `make codegen` and commit the result: {problems:#?}");
    }

    #[test]
    fn each_file_that_differs_is_named_and_then_put_right() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("owned")).unwrap();
        for (path, content) in
            [("owned/same", "1"), ("owned/stale", "old"), ("owned/extra", ""), ("other", "")]
        {
            fs::write(root.path().join(path), content).unwrap();
        }
        let desired = || {
            let files = vec![file("owned/same", "1"), file("owned/stale", "new"), file("new/missing", "2")];
            compare(root.path(), &["owned", "absent"], files).unwrap()
        };
        let mut problems = desired();
        problems.sort();
        let named: Vec<_> = problems.iter().map(|(problem, _)| problem.to_string()).collect();
        assert_eq!(named, ["missing: new/missing", "stale: owned/stale", "extra: owned/extra"]);

        for (Problem::Missing(path) | Problem::Stale(path) | Problem::Extra(path), content) in &problems {
            fix(&root.path().join(path), content.as_deref()).unwrap();
        }
        assert_eq!(desired(), []);
        assert!(root.path().join("other").exists());
    }
}
