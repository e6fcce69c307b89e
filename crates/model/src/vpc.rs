//! VPCs as the World holds them.

use portolan_api::VpcConfig;

use crate::group::Group;
use crate::life::Life;
use crate::ovn_match::Match;
use crate::subnet::DEFAULT_VPC;

/// A virtual router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vpc {
    /// Its name, one space for both API groups.
    pub name: String,
    /// The UID of the object it comes from.
    pub uid: String,
    /// The generation of the object it comes from.
    pub generation: Option<i64>,
    /// The API group of the object it comes from.
    pub group: Group,
    /// What it asks for.
    pub config: VpcConfig,
    /// The matches of `config.policy_routes`, parsed, in the same order.
    pub matches: Vec<Match>,
    /// Whether it may vanish.
    pub life: Life,
}

impl Vpc {
    /// The VPC of the primary network where there is no object for it.
    pub(crate) fn of_primary_network() -> Self {
        Self {
            name: DEFAULT_VPC.to_owned(),
            uid: String::new(),
            generation: None,
            group: Group::Core,
            config: VpcConfig::default(),
            matches: Vec::new(),
            life: Life::Protected,
        }
    }
}
