//! Doors: from the objects of each API to values, or to the reasons that go on the object.
//!
//! A door has no state and does no IO. Nothing that Kubernetes can store makes it fail otherwise than by such reasons.

pub mod attachment;
pub mod kubeovn;
pub mod kubevirt;
pub mod nad;
pub mod node;
pub mod ovn4nfv;
pub mod pod;
pub mod portolan;
pub mod service;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::ResourceExt;
use portolan_api::{FieldErrors, FieldPath, Reason, VpcConfig};

use crate::group::Group;
use crate::life::Life;
use crate::ovn_match::Match;
use crate::vpc::Vpc;

/// What the World keeps of an object beside its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The object's UID; empty for one that was never stored.
    pub uid: String,
    /// When it was created, in seconds; never for one that was not.
    pub created: Option<i64>,
    /// Which spec it has.
    pub generation: Option<i64>,
    /// Whether it may vanish.
    pub life: Life,
}

impl Meta {
    /// Of any object.
    pub fn of(object: &impl ResourceExt) -> Self {
        Self::of_metadata(object.meta())
    }

    pub(crate) fn of_metadata(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0.as_second()),
            generation: metadata.generation,
            life: Life::of(metadata),
        }
    }
}

/// What both groups do once a Vpc's own fields are parsed.
fn vpc(
    name: String,
    group: Group,
    meta: &Meta,
    config: Result<VpcConfig, FieldErrors>,
) -> Result<Vpc, FieldErrors> {
    let config = config?;
    let mut errors = FieldErrors::new();
    let spec = FieldPath::SPEC;
    let routes = spec.field("policyRoutes");
    let mut matches = Vec::with_capacity(config.policy_routes.len());
    for (i, route) in config.policy_routes.iter().enumerate() {
        match Match::parse(&route.matches) {
            Ok(parsed) => matches.push(parsed),
            Err(error) => {
                let at = routes.index(i);
                errors.add(&at.field("match"), &route.matches, Reason::Invalid, error.to_string());
            }
        }
    }
    let (uid, generation) = (meta.uid.clone(), meta.generation);
    errors.into_result(Vpc { name, uid, generation, group, config, matches, life: meta.life })
}
