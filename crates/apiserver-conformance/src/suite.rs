//! All cases, run side by side.

use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::StreamExt as _;
use serde_json::Value;

use crate::case::{Case, yaml};
use crate::client::Client;
use crate::difference::{Difference, mismatches};
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::pretty::pretty;
use crate::report::{Outcome, Report};
use crate::run::run;

/// How many cases run at once.
const SIDE_BY_SIDE: usize = 16;

/// The cases and their recordings, in a directory with `cases/`, `recordings/` and `differences.yaml`.
#[derive(Debug)]
pub struct Suite {
    directory: PathBuf,
    cases: Vec<Case>,
    differences: Vec<Difference>,
}

impl Suite {
    /// This crate's suite. The variable `CASE` in the environment chooses the cases whose `topic/name` begins with it.
    pub fn load() -> Result<Self> {
        let chosen = std::env::var("CASE").unwrap_or_default();
        Self::load_from(FilePath::new(env!("CARGO_MANIFEST_DIR")), &chosen)
    }

    /// The cases below a directory whose `topic/name` begins with a text.
    pub fn load_from(directory: &FilePath, chosen: &str) -> Result<Self> {
        let names = names_below(&directory.join("cases"), "yaml")?;
        let cases = names.iter().filter(|name| name.starts_with(chosen));
        let cases = cases.map(|name| Case::read(&directory.join("cases"), name)).collect::<Result<_>>()?;
        let file = directory.join("differences.yaml");
        let mut differences: Vec<Difference> = yaml(&read(&file)?)
            .map_err(|problem| Error::Malformed { file: file.display().to_string(), problem })?;
        differences.retain(|difference| difference.case.starts_with(chosen));
        Ok(Self { directory: directory.to_owned(), cases, differences })
    }

    /// Its cases.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Its deliberate differences.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }

    /// Runs the cases and writes down what the server answers. Every case that could not be run is in the report.
    pub async fn record(&self, endpoint: &Endpoint) -> Result<Report> {
        let mut report = Report::default();
        for (case, transcript) in self.run(endpoint).await? {
            let outcome = match transcript {
                Ok(transcript) => {
                    self.write(case, &transcript)?;
                    Outcome::Passed
                }
                Err(error) => Outcome::Broke(error),
            };
            report.outcomes.insert(case.name.clone(), outcome);
        }
        Ok(report)
    }

    /// Runs the cases and compares what the server answers with what kube-apiserver answered. A server that is kube-apiserver
    /// itself has no differences; any other may have those that are listed.
    pub async fn verify(&self, endpoint: &Endpoint, differences: &[Difference]) -> Result<Report> {
        let mut report = Report { stale: differences.to_vec(), ..Report::default() };
        for (case, transcript) in self.run(endpoint).await? {
            let outcome = match transcript {
                Ok(transcript) => self.compare(case, &transcript, differences, &mut report.stale)?,
                Err(error) => Outcome::Broke(error),
            };
            report.outcomes.insert(case.name.clone(), outcome);
        }
        Ok(report)
    }

    /// What was recorded for a case.
    pub fn recording(&self, case: &Case) -> Result<Value> {
        let file = self.recording_file(case);
        serde_json::from_str(&read(&file)?).map_err(|error| Error::Malformed {
            file: file.display().to_string(),
            problem: error.to_string(),
        })
    }

    /// The names of all recordings, also of those whose case is gone.
    pub fn recordings(&self) -> Result<Vec<String>> {
        names_below(&self.directory.join("recordings"), "json")
    }

    async fn run(&self, endpoint: &Endpoint) -> Result<Vec<(&Case, Result<Value>)>> {
        let client = Client::new(endpoint)?;
        // A server may be asked to run the suite more than once.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let of_this_run = format!("{:08x}", now.as_millis() & 0xffff_ffff);
        let runs = self.cases.iter().enumerate().map(|(number, case)| {
            let (client, suffix) = (client.clone(), format!("{of_this_run}-{number:03}"));
            async move { (case, run(case, client, &suffix).await) }
        });
        Ok(futures::stream::iter(runs).buffer_unordered(SIDE_BY_SIDE).collect().await)
    }

    fn compare(
        &self,
        case: &Case,
        transcript: &Value,
        differences: &[Difference],
        stale: &mut Vec<Difference>,
    ) -> Result<Outcome> {
        let mut found = mismatches(&self.recording(case)?, transcript);
        stale.retain(|difference| !found.iter().any(|mismatch| difference.covers(&case.name, mismatch)));
        found.retain(|mismatch| !differences.iter().any(|known| known.covers(&case.name, mismatch)));
        Ok(if found.is_empty() { Outcome::Passed } else { Outcome::Differs(found) })
    }

    fn write(&self, case: &Case, transcript: &Value) -> Result<()> {
        let file = self.recording_file(case);
        let failed = |source| Error::File { file: file.display().to_string(), source };
        fs::create_dir_all(file.parent().unwrap_or(&file)).map_err(failed)?;
        fs::write(&file, pretty(transcript)).map_err(failed)
    }

    fn recording_file(&self, case: &Case) -> PathBuf {
        self.directory.join("recordings").join(format!("{}.json", case.name))
    }
}

fn read(file: &FilePath) -> Result<String> {
    fs::read_to_string(file).map_err(|source| Error::File { file: file.display().to_string(), source })
}

/// `topic/name` of all files with this ending, in order.
fn names_below(directory: &FilePath, ending: &str) -> Result<Vec<String>> {
    let entries = |directory: &FilePath| -> Result<Vec<PathBuf>> {
        let failed = |source| Error::File { file: directory.display().to_string(), source };
        let entries = fs::read_dir(directory).map_err(failed)?;
        entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
    };
    let mut names = Vec::new();
    for topic in entries(directory)?.iter().filter(|topic| topic.is_dir()) {
        for file in entries(topic)?.iter().filter(|file| file.extension().is_some_and(|end| end == ending)) {
            let part = |path: &FilePath| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            names.push(format!("{}/{}", part(topic), part(file)));
        }
    }
    names.sort();
    Ok(names)
}
