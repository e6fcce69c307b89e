//! `portolan apiserver`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use apiserver::audit::Rotation;
use apiserver::authn::UserInfo;
use apiserver::server::Limits;
use apiserver_builtin::Embedded;
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where everything is kept: objects, certificates, the administrator's kubeconfig. Made if it is not there.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Where to listen; port 0 takes any that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Another name or address that clients know the server by; may be repeated.
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Users with bearer tokens, one per line: `token,user,uid,"group1,group2"`.
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    #[command(flatten)]
    audit: AuditArguments,
    #[command(flatten)]
    limits: LimitArguments,
}

/// What is written about requests.
#[derive(Debug, Args)]
#[command(next_help_heading = "Audit")]
struct AuditArguments {
    /// A file that gets a line of JSON for every request; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// How large the audit log becomes before it is moved to FILE.1, and what was there to FILE.2. 0: it is never moved, as logrotate
    /// does it.
    #[arg(long, value_name = "MEBIBYTES", default_value_t = Rotation::default().max_bytes >> 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=1 << 20))]
    audit_log_maxsize: u64,
    /// How many audit logs that were moved away are kept. Files of higher numbers are left alone.
    #[arg(long, value_name = "NUMBER", default_value_t = Rotation::default().backups)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    audit_log_maxbackup: u32,
}

/// How much is accepted at once, and for how long a client is waited for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct LimitArguments {
    /// Open connections; fewer if the process may not have as many files open. Further ones are closed at once.
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// Requests under way that change nothing; a watch counts until its response begins. Further ones get 429.
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().reading)]
    max_requests_inflight: usize,
    /// Requests under way that change something. Further ones get 429.
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().mutating)]
    max_mutating_requests_inflight: usize,
    /// Watches under way. Further ones get 429.
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().watches)]
    max_watches: usize,
    /// How long a request may take until its response begins.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().request.as_secs())]
    request_timeout: u64,
    /// How long a client may take to begin its first request, and for the headers of every request. The TLS handshake may take as
    /// long, but no longer than 10 seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().headers.as_secs())]
    header_timeout: u64,
    /// How long a connection may stay open without a request under way.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().idle.as_secs())]
    idle_timeout: u64,
    /// How long a client may leave a part of a response unread before its connection is closed.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().write.as_secs())]
    write_timeout: u64,
}

impl LimitArguments {
    fn limits(&self) -> Limits {
        // Nobody waits longer than a year; what is longer may not fit into a clock.
        let seconds = |seconds: u64| Duration::from_secs(seconds.min(365 * 24 * 3600));
        let defaults = Limits::default();
        Limits {
            connections: self.max_connections,
            reading: self.max_requests_inflight,
            mutating: self.max_mutating_requests_inflight,
            watches: self.max_watches,
            request: seconds(self.request_timeout),
            headers: seconds(self.header_timeout),
            handshake: seconds(self.header_timeout).min(defaults.handshake),
            idle: seconds(self.idle_timeout),
            write: seconds(self.write_timeout),
            ..defaults
        }
    }
}

pub(crate) async fn run(arguments: Arguments, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let mut embedded = Embedded::new(arguments.data_dir);
    embedded.listen = arguments.listen;
    embedded.names = arguments.name;
    let AuditArguments { audit_log, audit_log_maxsize, audit_log_maxbackup } = arguments.audit;
    embedded.audit_log = audit_log;
    embedded.audit_rotation = Rotation { max_bytes: audit_log_maxsize << 20, backups: audit_log_maxbackup };
    embedded.limits = arguments.limits.limits();
    if let Some(path) = &arguments.token_auth_file {
        embedded.tokens = tokens(path)?;
    }
    let running = embedded.start().await?;
    let (address, kubeconfig) = (running.address, running.kubeconfig.display());
    let told = format!(
        "Serving at https://{address}. To use it:\n\n  export KUBECONFIG={kubeconfig}\n  kubectl get namespaces\n"
    );
    // Whether somebody reads it or not.
    let _ = std::io::stdout().write_all(told.as_bytes());
    crate::notify::ready();
    running.serve(stop).await?;
    Ok(())
}

fn tokens(path: &Path) -> anyhow::Result<Vec<(String, UserInfo)>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            parse(line).with_context(|| {
                format!("{}, line {}: expected token,user,uid[,\"group,…\"]", path.display(), number + 1)
            })
        })
        .collect()
}

/// Reads `token,user,uid,"group1,group2"`.
fn parse(line: &str) -> Option<(String, UserInfo)> {
    let mut fields = line.splitn(4, ',').map(str::trim);
    let (token, name, uid) = (fields.next()?, fields.next()?, fields.next()?);
    if token.is_empty() || name.is_empty() {
        return None;
    }
    let groups = fields.next().unwrap_or_default().trim_matches('"');
    let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty()).map(String::from);
    let user = UserInfo { uid: uid.to_owned(), ..UserInfo::new(name, groups) };
    Some((token.to_owned(), user))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{AuditArguments, parse};

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        audit: AuditArguments,
    }

    #[test]
    fn the_rotation_of_the_audit_log_can_be_switched_off() {
        let maxsize = |value: &str| {
            let parsed = CommandLine::try_parse_from(["apiserver", "--audit-log-maxsize", value]);
            parsed.ok().map(|line| line.audit.audit_log_maxsize)
        };
        assert_eq!((maxsize("0"), maxsize("1"), maxsize("-1")), (Some(0), Some(1), None));
    }

    #[test]
    fn a_line_is_a_token_a_user_and_groups() {
        let (token, user) = parse(r#"s3cret,ann,42,"crew,captains""#).unwrap();
        assert_eq!((token.as_str(), user.name.as_str(), user.uid.as_str()), ("s3cret", "ann", "42"));
        assert_eq!(user.groups, ["crew", "captains", "system:authenticated"]);
        assert_eq!(parse("t,bob,1").unwrap().1.groups, ["system:authenticated"]);
        for wrong in ["", "t", "t,bob", ",bob,1", "t,,1"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
