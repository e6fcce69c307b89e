//! The audit log of a server that is asked for one on the command line.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use http::Method;
use portolan_testbed::{Lab, Test};
use serde_json::Value;

use crate::apiserver::server::{Server, request};

/// A log that has this many bytes of whole lines already.
fn log_of(bytes: usize, lab: &Lab) -> PathBuf {
    let log = lab.directory("audit").unwrap().join("audit.log");
    fs::write(&log, format!("{}{{}}\n", "{}\n".repeat(bytes / 3 - 1))).unwrap();
    log
}

fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_large_audit_log_is_moved_away() {
    Test::new().run(async |lab| {
        let log = log_of(1 << 20, &lab);
        let path = log.to_str().unwrap();
        let flags = ["--audit-log", path, "--audit-log-maxsize", "1", "--audit-log-maxbackup", "1"];
        let server = Server::start_with(&lab, &flags);
        let backup = PathBuf::from(format!("{path}.1"));
        let before = fs::read(&log).unwrap();
        server.client().await.request_text(request(Method::GET, "/livez", None)).await.unwrap();
        assert_eq!(fs::read(&backup).unwrap(), before);
        let [line] = lines(&log).try_into().unwrap();
        assert_eq!(
            (&line["requestURI"], &line["user"]["username"]),
            (&"/livez".into(), &"kubernetes-admin".into())
        );
        for file in [&log, &backup] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
        }
    });
}

#[test]
fn requests_are_answered_while_the_audit_log_has_no_room_and_the_log_says_so_later() {
    // The most that a file may have, in the shell's blocks of 512 bytes. The store needs less.
    const BLOCKS: usize = 32 << 10;
    Test::new().run(async |lab| {
        let log = log_of(BLOCKS * 512 - 100, &lab);
        let before = fs::metadata(&log).unwrap().len();
        let server = Server::start_with_file_limit(&lab, BLOCKS, &["--audit-log", log.to_str().unwrap()]);
        let client = server.client().await;
        let get = async |path| client.request_text(request(Method::GET, path, None)).await.unwrap();
        get("/livez").await;
        assert!(get("/metrics").await.contains("apiserver_audit_error_total 1\n"));
        assert_eq!(fs::metadata(&log).unwrap().len(), before, "there is no part of a line");

        File::options().write(true).open(&log).unwrap().set_len(0).unwrap();
        get("/readyz").await;
        let [lost, kept] = lines(&log).try_into().unwrap();
        assert_eq!(lost["annotations"]["audit.portolan.dev/lost-events"], "2");
        assert_eq!(kept["requestURI"], "/readyz");
    });
}
