//! Judging subnets: lists, and what the engine says about them.

use kube::Client;
use portolan_watch::{Plain, list};

use super::Actor;
use crate::engine::{Candidates, Engine, Lists};

impl Actor {
    /// Lists, and asks the engine. Its verdicts come back as conditions to be written.
    pub(super) async fn validate_subnets(&self, candidates: Candidates) {
        match lists(&self.client).await {
            Ok(lists) => self.answer(move |engine| engine.judge_and_write(&candidates, &lists)).await,
            Err(error) => {
                tracing::warn!(error = %Plain(&error), "cannot list the subnets to validate new ones");
                self.answer(Engine::not_judged).await;
            }
        }
    }
}

/// Subnets and VPCs that cannot be decoded are no reason to let the others wait: an address that one of them has is locked.
async fn lists(client: &Client) -> kube::Result<Lists> {
    Ok(Lists {
        subnets: list(client).await?.objects,
        kubeovn_subnets: list(client).await?.objects,
        vpcs: list(client).await?.objects,
        kubeovn_vpcs: list(client).await?.objects,
    })
}
