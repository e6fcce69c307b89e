//! `kubeovn.io/v1` as clients of Kube-OVN write and read it.
//!
//! Every field of Kube-OVN's schema is accepted and kept, and so are fields of versions to come: each struct
//! ends in a map of what it does not know. All fields are optional and integers are wide, because an object
//! that Kube-OVN's own, laxer definition let in must still be read: one bad object must not stop the others.
//! [`support`] tells which fields have an effect here.

mod condition;
mod ip_pool;
mod subnet;
pub mod support;
mod vip;
mod vpc;

use std::collections::BTreeMap;

pub use condition::{Condition, set_condition};
pub use ip_pool::{IPPool, IpPoolConfig, IpPoolSpec, IpPoolStatus};
pub use subnet::{
    Acl, NatOutgoingPolicyMatch, NatOutgoingPolicyRule, NatOutgoingPolicyRuleStatus, Subnet, SubnetSpec,
    SubnetStatus, U2oFeatures,
};
pub use support::{FieldReport, FieldSupport, SUPPORT, Support, kubeovn_support_markdown};
pub use vip::{Vip, VipConfig, VipSpec, VipStatus};
pub use vpc::{
    BfdPort, BfdPortStatus, DynamicRouting, PolicyRoute, StaticRoute, Vpc, VpcPeering, VpcSpec, VpcStatus,
};

/// The API group.
pub const GROUP: &str = "kubeovn.io";
/// Its version.
pub const VERSION: &str = "v1";

/// Fields that this version of Portolan does not know. They are kept as they are.
pub type UnknownFields = BTreeMap<String, serde_json::Value>;

/// A text that Go clients leave empty rather than out.
fn filled(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}
