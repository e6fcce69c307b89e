//! The scratch directory of a lab, and the warden that removes it whatever becomes of us.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result, Trying};
use crate::remains::Remains;

/// Every process of a lab carries its scratch directory in this environment variable: this is how the warden knows them,
/// also those that were started by a component and are no children of ours.
pub(crate) const MARK: &str = "PORTOLAN_LAB";

/// When set, scratch directories stay on disk.
const KEEP: &str = "PORTOLAN_LAB_KEEP";

/// A Unix socket's path must fit in 108 bytes, and components put theirs a few levels below the scratch directory.
const LONGEST_PARENT: usize = 32;

/// Makes the directory, says its name, and waits until we close its standard input or die. Then it ends whatever still
/// carries the mark or is in a control group of the lab, and removes the groups and the directory. A process that is ending
/// shows no environment, so an empty search means that nobody can write there any more. Nor can one be missed that was being
/// started as we died: between fork and exec it holds our end of the pipe, and from exec on it carries the mark; and what a
/// marked process starts without the mark begins in its group.
const WARDEN: &str = r#"
trap '' INT TERM HUP
d=$(mktemp -d "$1/portolan-XXXXXX") && chmod 755 "$d" && echo "$d" || exit 1
cat >/dev/null
n=${d##*/}
in_groups() {
  for g in "/sys/fs/cgroup/$n" /sys/fs/cgroup/*/"$n"; do
    [ ! -d "$g" ] || find "$g" -depth "$@" 2>/dev/null
  done
}
while
  for f in $(in_groups -name freezer.state); do echo THAWED >"$f"; done 2>/dev/null
  found=$(
    for e in $(grep -lzxsF "$2=$d" /proc/[0-9]*/environ); do e=${e#/proc/}; echo "${e%/environ}"; done
    in_groups -name cgroup.procs -exec cat {} + | grep -vx 0
  )
  [ -n "$found" ]
do
  for p in $found; do kill -KILL "$p" 2>/dev/null; done
  sleep 0.01
done
tries=0
while [ -n "$(in_groups -type d -print -exec rmdir {} +)" ] && [ "$tries" -lt 1000 ]; do
  tries=$((tries + 1))
  sleep 0.01
done
[ -n "$3" ] || rm -rf -- "$d"
"#;

/// A directory that is removed when this is dropped, or when this process dies, however it dies.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    warden: Mutex<Option<Child>>,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        let keep = std::env::var_os(KEEP).unwrap_or_default();
        // Its own session: neither a terminal's interrupt nor the end of our process group reaches it.
        let mut warden = Command::new("setsid")
            .args(["sh", "-c", WARDEN, "warden"])
            .arg(parent_directory())
            .arg(MARK)
            .arg(keep)
            .env_remove(MARK)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .trying(|| "start the warden of a scratch directory".into())?;
        let mut path = Vec::new();
        if let Some(stdout) = warden.stdout.take() {
            BufReader::new(stdout)
                .read_until(b'\n', &mut path)
                .trying(|| "read the name of a scratch directory".into())?;
        }
        if path.pop() != Some(b'\n') {
            return Err(Error::Refused { peer: "mktemp".into(), answer: "no scratch directory".into() });
        }
        Ok(Self { path: PathBuf::from(OsStr::from_bytes(&path)), warden: Mutex::new(Some(warden)) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory below this one.
    pub(crate) fn directory(&self, name: impl AsRef<Path>) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).trying(|| format!("make {}", path.display()))?;
        Ok(path)
    }

    /// What a process that did not raise the lab needs to know to clear it away.
    pub(crate) fn remains(&self) -> Remains {
        let warden = self.warden.lock().unwrap_or_else(PoisonError::into_inner);
        Remains { directory: self.path.clone(), warden: warden.as_ref().map(Child::id) }
    }

    /// Ends every process of the lab and removes the directory. Returns when that is done.
    pub(crate) fn close(&self) {
        let warden = self.warden.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut warden) = warden {
            drop(warden.stdin.take());
            let _ = warden.wait();
        }
    }

    /// Whether the directory will stay on disk.
    pub(crate) fn is_kept() -> bool {
        std::env::var_os(KEEP).is_some_and(|value| !value.is_empty())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.close();
    }
}

fn parent_directory() -> PathBuf {
    let parent = std::env::temp_dir();
    if parent.as_os_str().len() <= LONGEST_PARENT { parent } else { PathBuf::from("/tmp") }
}
