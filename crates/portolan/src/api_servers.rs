//! How a server process reaches its cluster's API servers: which it begins with, whether it follows where they are, and where it keeps that
//! for its next start.
//!
//! The file is a node's, not a process's: all processes of a node write the same to it, so it is there for one that comes to the node when
//! the address that it was given is gone. Nobody gets in by what is written there, as every server is verified by its certificate.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use portolan_watch::{ApiServers, NAMES_NONE, Pause};
use tokio::sync::watch;

use crate::cluster::named;

/// More than the addresses of all API servers of any cluster need.
const LARGEST: u64 = 1 << 16;
/// The pauses before what could not be written is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "API server")]
pub(crate) struct ApiServerArguments {
    /// How to reach the API server. Without it: the cluster that this runs in, or the user's own kubeconfig.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Connect to any API server of the cluster that answers, as it lists them (EndpointSlices of Service default/kubernetes). Default: true
    /// in a pod or with --api-servers-file, otherwise false.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    follow_api_servers: Option<bool>,
    /// Keep the addresses of API servers in this file, to begin with the next time when the given address is gone.
    #[arg(long, value_name = "FILE")]
    api_servers_file: Option<PathBuf>,
}

/// The API servers of a process.
pub(crate) struct Reached {
    pub(crate) servers: ApiServers,
    kept: Option<Kept>,
}

/// Where a configuration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Kubeconfig,
    Pod,
}

impl ApiServerArguments {
    /// Says how the API servers are reached. Nothing is asked of them yet.
    pub(crate) async fn reach(&self, component: &'static str) -> anyhow::Result<Reached> {
        let is_file_unused = self.follow_api_servers == Some(false) && self.api_servers_file.is_some();
        anyhow::ensure!(!is_file_unused, "--api-servers-file is of no use with --follow-api-servers=false");
        let (config, origin) = self.config().await?;
        let config = named(config, component);
        if !self.follows(origin) {
            return Ok(Reached { servers: config.into(), kept: None });
        }
        if self.follow_api_servers == Some(true) && !ApiServers::names_one(&config) {
            anyhow::bail!("--follow-api-servers: {NAMES_NONE}: {}", config.cluster_url);
        }
        let kept = self.api_servers_file.clone().map(|path| Kept { path, component });
        let last_known = kept.as_ref().map(Kept::read).unwrap_or_default();
        Ok(Reached { servers: ApiServers::followed(config, &last_known), kept })
    }

    fn follows(&self, origin: Origin) -> bool {
        self.follow_api_servers.unwrap_or(origin == Origin::Pod || self.api_servers_file.is_some())
    }

    async fn config(&self) -> anyhow::Result<(kube::Config, Origin)> {
        let options = KubeConfigOptions::default();
        if let Some(path) = &self.kubeconfig {
            let file =
                Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
            return Ok((kube::Config::from_custom_kubeconfig(file, &options).await?, Origin::Kubeconfig));
        }
        // As `kube::Config::infer` does, which does not say what it found.
        let (mut config, origin) = match kube::Config::from_kubeconfig(&options).await {
            Ok(config) => (config, Origin::Kubeconfig),
            Err(no_file) => {
                let in_pod = kube::Config::incluster().with_context(|| {
                    format!(
                        "no cluster is configured: no kubeconfig ({no_file}), and not in a pod; give --kubeconfig"
                    )
                });
                (in_pod?, Origin::Pod)
            }
        };
        config.apply_debug_overrides();
        Ok((config, origin))
    }
}

impl Reached {
    /// A client of any of them.
    pub(crate) fn client(&self) -> anyhow::Result<kube::Client> {
        Ok(self.servers.client()?)
    }

    /// Follows which there are, and keeps that; ends only with an error.
    pub(crate) async fn follow(self) -> anyhow::Result<Infallible> {
        let Self { servers, kept } = self;
        let (tell, told) = watch::channel(Vec::new());
        let follow = servers.follow(move |listed: &[SocketAddr]| drop(tell.send_replace(listed.to_vec())));
        let error = tokio::select! {
            error = follow => error,
            never = keep(kept, told) => match never {},
        };
        Err(error).context("nobody follows the API servers any more")
    }
}

/// Keeps what is told. What could not be written is tried again.
async fn keep(kept: Option<Kept>, mut told: watch::Receiver<Vec<SocketAddr>>) -> Infallible {
    let Some(kept) = kept.map(Arc::new) else { return std::future::pending().await };
    let mut pause = Pause::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut is_written = true;
    loop {
        let news = async {
            if told.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        if is_written {
            news.await;
        } else {
            tokio::select! {
                () = news => {}
                () = pause.wait() => {}
            }
        }
        let (kept, listed) = (Arc::clone(&kept), told.borrow_and_update().clone());
        let written = tokio::task::spawn_blocking(move || kept.write(&listed)).await;
        is_written = matches!(written, Ok(Written::Done));
        if is_written {
            pause.reset();
        }
    }
}

/// The file with the addresses, one a line.
struct Kept {
    path: PathBuf,
    /// Whoever else writes it has another name.
    component: &'static str,
}

/// What came of writing the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// There is nothing to be done any more.
    Done,
    /// It may succeed later.
    Failed,
}

impl Kept {
    /// What can be read of it.
    fn read(&self) -> Vec<SocketAddr> {
        let mut text = String::new();
        let read =
            std::fs::File::open(&self.path).and_then(|file| file.take(LARGEST).read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let file = self.path.display();
                tracing::warn!(%file, %error, "the addresses of API servers that were known before cannot be read");
            }
        }
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    fn write(&self, addresses: &[SocketAddr]) -> Written {
        let file = self.path.display();
        let mut text = String::new();
        for address in addresses {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{address}");
        }
        // Another process of the node may have written the same.
        if std::fs::read(&self.path).is_ok_and(|there| there == text.as_bytes()) {
            return Written::Done;
        }
        match self.replace(&text) {
            Ok(()) => Written::Done,
            // Who may only read it has others on the node that keep it.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                tracing::debug!(%file, %error, "others keep the addresses of API servers");
                Written::Done
            }
            Err(error) => {
                tracing::warn!(%file, %error, "the addresses of API servers cannot be kept for the next start");
                Written::Failed
            }
        }
    }

    /// Killed at any point, what was there before is there, whole, or this is.
    fn replace(&self, text: &str) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        let next = directory.join(format!(".{}.next", self.component));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o644).open(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&next, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().expect("it is one")).collect()
    }

    #[test]
    fn a_pod_follows_and_a_kubeconfig_means_its_server_unless_told_otherwise() {
        let arguments = |follow, file: Option<&str>| ApiServerArguments {
            kubeconfig: None,
            follow_api_servers: follow,
            api_servers_file: file.map(PathBuf::from),
        };
        for (follow, file, in_pod, with_kubeconfig) in [
            (None, None, true, false),
            (None, Some("/f"), true, true),
            (Some(true), None, true, true),
            (Some(false), None, false, false),
        ] {
            let arguments = arguments(follow, file);
            let follows = (arguments.follows(Origin::Pod), arguments.follows(Origin::Kubeconfig));
            assert_eq!(follows, (in_pod, with_kubeconfig), "{arguments:?}");
        }
    }

    #[test]
    fn addresses_are_kept_for_the_next_start_of_any_process_of_the_node() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("api-servers/addresses");
        let kept = |component| Kept { path: path.clone(), component };
        assert!(kept("agent").read().is_empty());
        for (component, texts) in
            [("agent", &["192.0.2.1:6443"][..]), ("other", &["192.0.2.2:6443", "[fd00::1]:443"])]
        {
            assert_eq!(kept(component).write(&addresses(texts)), Written::Done);
            assert_eq!(kept("controller").read(), addresses(texts));
        }
        // The file alone, which others may read and not write.
        assert_eq!(std::fs::read_dir(place.path().join("api-servers")).expect("it is there").count(), 1);
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }

    #[test]
    fn what_is_no_address_in_the_file_is_left_out_and_an_interrupted_write_is_done_the_next_time() {
        let place = tempfile::tempdir().expect("a directory");
        let kept = Kept { path: place.path().join("addresses"), component: "agent" };
        std::fs::write(
            &kept.path,
            "192.0.2.1:6443\napi.example.org:6443\n\n192.0.2.2\n 192.0.2.3:1 \n192.0.2.",
        )
        .unwrap();
        assert_eq!(kept.read(), addresses(&["192.0.2.1:6443", "192.0.2.3:1"]));
        std::fs::write(&kept.path, b"\xff").unwrap();
        assert!(kept.read().is_empty());
        std::fs::write(place.path().join(".agent.next"), "192.0.2.9:6443\nand a line that is longer")
            .unwrap();
        assert_eq!(kept.write(&addresses(&["192.0.2.4:1"])), Written::Done);
        assert_eq!(kept.read(), addresses(&["192.0.2.4:1"]));
        // A directory that is not there, and cannot be: it goes on without.
        let kept = Kept { path: "/proc/none/addresses".into(), component: "agent" };
        assert_eq!(kept.write(&addresses(&["192.0.2.4:1"])), Written::Failed);
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_kept_is_tried_again_and_what_is_lost_comes_back_with_the_next_list() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("api-servers");
        let kept = || Kept { path: directory.join("addresses"), component: "agent" };
        std::fs::write(&directory, "in the way").unwrap();
        let (tell, told) = watch::channel(Vec::new());
        let keeps = tokio::spawn(keep(Some(kept()), told));
        let known = addresses(&["192.0.2.1:6443"]);
        tell.send_replace(known.clone());
        tokio::time::sleep(FIRST_PAUSE / 2).await;
        assert!(kept().read().is_empty());
        std::fs::remove_file(&directory).unwrap();
        tokio::time::sleep(FIRST_PAUSE).await;
        assert_eq!(kept().read(), known);
        std::fs::write(directory.join("addresses"), "192.0.2.9:1\n").unwrap();
        tell.send_replace(known.clone());
        tokio::time::sleep(FIRST_PAUSE).await;
        assert_eq!(kept().read(), known);
        keeps.abort();
    }
}
