//! The API groups that subnets and VPCs come from.

use std::fmt;

/// Which API group an object is of. Where two objects of one name are equally old, the first of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// `portolan.dev`.
    Portolan,
    /// `kubeovn.io`.
    KubeOvn,
    /// The core group: the pod prefixes of a Node. Their subnets have names that no object can have.
    Core,
}

impl Group {
    /// The other one of the two groups that share one space of names.
    pub fn other(self) -> Option<Self> {
        match self {
            Group::Portolan => Some(Group::KubeOvn),
            Group::KubeOvn => Some(Group::Portolan),
            Group::Core => None,
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Group::Portolan => portolan_api::portolan::GROUP,
            Group::KubeOvn => portolan_api::kubeovn::GROUP,
            Group::Core => "core",
        })
    }
}
