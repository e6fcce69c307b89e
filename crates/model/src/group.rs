//! The two API groups that share one space of names.

use std::fmt;

/// Which API group an object is of. Where two objects of one name are equally old, the first of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// `portolan.dev`.
    Portolan,
    /// `kubeovn.io`.
    KubeOvn,
}

impl Group {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Group::Portolan => Group::KubeOvn,
            Group::KubeOvn => Group::Portolan,
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Group::Portolan => portolan_api::portolan::GROUP,
            Group::KubeOvn => portolan_api::kubeovn::GROUP,
        })
    }
}
