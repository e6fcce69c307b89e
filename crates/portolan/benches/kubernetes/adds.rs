//! How long containerd waited for the CNI plugins of each pod, by its log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::side::Side;

/// What containerd says before and after it calls the plugins.
const BEGIN: &str = r#"msg="begin cni setup""#;
const END: &str = r#"msg="cni result: "#;

/// The logs of all nodes, from where they ended.
pub(crate) struct Adds(Vec<(PathBuf, u64)>);

impl Adds {
    pub(crate) fn begin(side: &Side) -> Self {
        let logs = side.cluster.nodes().iter().map(|node| {
            let log = node.running().unwrap().containerd().log().to_owned();
            let length = log.metadata().unwrap().len();
            (log, length)
        });
        Self(logs.collect())
    }

    /// Of each pod since, in seconds.
    pub(crate) fn taken(&self) -> Vec<f64> {
        self.0.iter().flat_map(|(log, from)| pairs(&rest(log, *from))).collect()
    }
}

/// What was written to a file after a place in it.
pub(crate) fn rest(file: &Path, from: u64) -> String {
    let (mut file, mut bytes) = (File::open(file).unwrap(), Vec::new());
    file.seek(SeekFrom::Start(from)).unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn pairs(log: &str) -> Vec<f64> {
    let (mut begun, mut taken) = (BTreeMap::new(), Vec::new());
    for line in log.lines() {
        let Some((_, sandbox)) = line.rsplit_once("podsandboxid=") else { continue };
        if line.contains(BEGIN) {
            begun.insert(sandbox, second_of_day(line));
        } else if line.contains(END)
            && let Some(begin) = begun.remove(sandbox)
        {
            // Over midnight too.
            taken.push((second_of_day(line) - begin).rem_euclid(86_400.0));
        }
    }
    taken
}

/// From `time="2026-01-02T03:04:05.678901234Z"`.
fn second_of_day(line: &str) -> f64 {
    let time = line.split_once("time=\"").unwrap().1.split_once('"').unwrap().0;
    let time = time.split_once('T').unwrap().1;
    let time = time.split(['Z', '+', '-']).next().unwrap();
    time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap())
}
