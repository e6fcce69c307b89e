//! The ConfigMap of the addresses, as a member of `ovn-central` reads and writes it.

use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use portolan_watch::{Followers, Observed, Pause, Plain, get};
use serde_json::Value;
use tokio::sync::watch;

use crate::ovn_addresses::Place;

/// The map, and whether this process may write to it.
#[derive(Clone)]
pub(super) struct Map {
    client: Client,
    api: Api<ConfigMap>,
    pub(super) place: Place,
    turn: Option<Turn>,
    observed: watch::Receiver<Observed<ConfigMap>>,
}

/// A pod of a StatefulSet. Another one of the same name takes its place, and an old one that was cut off must not speak for that.
#[derive(Clone)]
pub(super) struct Turn {
    pub(super) pod: String,
    pub(super) uid: String,
}

/// What became of a change.
pub(super) enum Written {
    Done,
    /// Somebody else has changed the map since it was read.
    Overtaken,
}

/// The pauses between attempts that fail.
pub(super) fn pauses() -> Pause {
    Pause::new(Duration::from_millis(100), Duration::from_secs(5))
}

impl Map {
    /// Follows the map as long as the followers live.
    pub(super) fn follow(
        client: Client,
        followers: &mut Followers,
        place: Place,
        turn: Option<Turn>,
    ) -> Self {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &place.namespace);
        let observed = followers.follow_one(api.clone(), &place.name);
        Self { client, api, place, turn, observed }
    }

    /// What is known of it.
    pub(super) fn observed(&self) -> watch::Receiver<Observed<ConfigMap>> {
        self.observed.clone()
    }

    /// It, as it is now.
    pub(super) async fn read(&self) -> Result<ConfigMap, String> {
        let read = get(&self.client, &self.api, &self.place.name)
            .await
            .map_err(|error| Plain(&error).to_string())?;
        read.ok_or_else(|| format!("there is no ConfigMap {}", self.place))
    }

    /// Changes it, if it is still what was read and this pod is still the member.
    pub(super) async fn write(&self, patch: Value) -> Result<Written, String> {
        if let Some(Turn { pod, uid }) = &self.turn {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.place.namespace);
            let now = get(&self.client, &pods, pod)
                .await
                .map_err(|error| format!("pod {pod}: {}", Plain(&error)))?;
            if now.is_none_or(|now| now.uid().as_ref() != Some(uid)) {
                return Err(format!("another pod is {pod} now: this one writes nothing any more"));
            }
        }
        match self.api.patch(&self.place.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(Written::Done),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Written::Overtaken),
            Err(error) => Err(Plain(&error).to_string()),
        }
    }

    /// Keeps the map as it should be, for ever. `correction` is what to change in it, if something is.
    pub(super) async fn keep(self, correction: impl Fn(&ConfigMap) -> Option<Value>) -> Infallible {
        let (mut observed, mut pause) = (self.observed(), pauses());
        loop {
            let seen = observed.borrow_and_update().clone();
            let wanted = match &seen {
                Observed::Present(map) => correction(map),
                Observed::NotRead | Observed::Absent => None,
            };
            let again = match wanted {
                None => {
                    pause.reset();
                    None
                }
                Some(patch) => match self.write(patch).await {
                    Ok(Written::Done) => {
                        tracing::info!(config_map = %self.place, "what this member says of itself is published");
                        None
                    }
                    // The watch shows it.
                    Ok(Written::Overtaken) => Some(pause.lengthen()),
                    Err(error) => {
                        tracing::warn!(
                            error,
                            "what this member says of itself, such as its address, cannot be written to ConfigMap {}; trying again",
                            self.place
                        );
                        Some(pause.lengthen())
                    }
                },
            };
            tokio::select! {
                Ok(()) = observed.changed() => {}
                () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
                // The follower has ended, which ends the process.
                else => std::future::pending().await,
            }
        }
    }
}
