//! Objects whose status is ours to write: what their conditions say, what they should say, and how both groups store them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client, ResourceExt};
use portolan_api::condition::{self, ADDRESSED, ConditionStatus, ConditionUpdate, READY};
use portolan_api::kubeovn::support::{
    unsupported_ip_pool, unsupported_subnet, unsupported_vip, unsupported_vpc,
};
use portolan_api::portolan::NetworkAttachment;
use portolan_api::{kubeovn, portolan};
use portolan_model::{FirstInterface, Source, doors};
use portolan_watch::Object;
use serde::Serialize;

use crate::engine::status_fields::StatusFields;
use crate::engine::{HasKind, Kind};

/// What one condition of an object should say about one generation of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredCondition {
    /// Which condition.
    pub type_: &'static str,
    /// The generation this was decided for.
    pub generation: Option<i64>,
    /// What it says; none: the object should not have the condition.
    pub says: Option<Statement>,
}

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, as one word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

/// What of its status an object should have otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusUpdate {
    /// The kind of the object.
    pub kind: Kind,
    /// Its name; `namespace/name` if its kind has namespaces.
    pub name: String,
    /// Its UID: another object of its name is left alone.
    pub uid: String,
    /// The conditions, each of another type.
    pub conditions: Vec<DesiredCondition>,
    /// Other fields of its status, those of the conditions' generation or of none.
    pub fields: StatusFields,
}

/// An object whose status is ours to write.
pub trait HasConditions: HasKind + Source + Object + Serialize {
    /// The condition that says most: whether it is in effect.
    const MAIN: &'static str = READY;
    /// What the World knows an object by, from its name as [`StatusUpdate::name`] has it.
    fn key_of(name: &str) -> Self::Key;
    /// How to read and write an object of that name, and its name there.
    fn api(client: Client, name: &str) -> (Api<Self>, &str);
    /// The conditions as they should be stored, if they are to change.
    fn updated(&self, desired: &[DesiredCondition], now: &Time) -> Option<serde_json::Value>;
    /// What the condition of a type says, and about which generation.
    fn says(&self, type_: &str) -> Option<Said>;
    /// The fields that are set and have no effect yet.
    fn unsupported(&self, first: FirstInterface) -> Vec<String>;
    /// The VPCs that it names: that of a subnet, the remote ones of a VPC. Or why it cannot be understood.
    fn names_vpcs(&self) -> Result<Vec<String>, String>;
    /// The fields of its status that are ours, as they are; none if it has no status, for then it lacks also those of no value.
    fn fields(&self) -> StatusFields;
}

/// What a stored condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    status: String,
    reason: String,
    message: String,
    generation: Option<i64>,
}

impl Said {
    /// About which generation.
    pub(in crate::engine) fn generation(&self) -> Option<i64> {
        self.generation
    }

    /// Why it says so.
    pub(in crate::engine) fn reason(&self) -> &str {
        &self.reason
    }

    /// Why it says so, for people.
    pub(in crate::engine) fn message(&self) -> &str {
        &self.message
    }
}

impl DesiredCondition {
    pub(in crate::engine) fn is_said_by(&self, said: Option<&Said>) -> bool {
        match (&self.says, said) {
            (None, None) => true,
            (Some(statement), Some(said)) => {
                said.status == statement.status.as_str()
                    && said.reason == statement.reason
                    && said.message == statement.message
                    && said.generation == self.generation
            }
            _ => false,
        }
    }

    fn as_update(&self) -> Option<ConditionUpdate<'_>> {
        let says = self.says.as_ref()?;
        let (status, reason, message) = (says.status, says.reason, says.message.as_str());
        Some(ConditionUpdate { type_: self.type_, status, reason, message, generation: self.generation })
    }
}

/// The differences between both groups are in how they store conditions, and in which fields have no effect.
macro_rules! has_conditions {
    ($object:ty, $set:path, |$o:ident| $stored:expr, |$u:ident, $first:pat_param| $unsupported:expr, |$v:ident| $vpc:expr) => {
        has_conditions!($object, $set, |$o| $stored, |$u, $first| $unsupported, |$v| $vpc, {
            fn key_of(name: &str) -> String {
                name.to_owned()
            }

            fn api(client: Client, name: &str) -> (Api<Self>, &str) {
                (Api::all(client), name)
            }
        });
    };
    ($object:ty, $set:path, |$o:ident| $stored:expr, |$u:ident, $first:pat_param| $unsupported:expr, |$v:ident| $vpc:expr, { $($own:item)* }) => {
        impl HasConditions for $object {
            $($own)*

            fn updated(&self, desired: &[DesiredCondition], now: &Time) -> Option<serde_json::Value> {
                let $o = self;
                let mut conditions = $stored;
                let mut changed = false;
                for desired in desired.iter().filter(|desired| desired.generation == self.metadata.generation)
                {
                    match desired.as_update() {
                        Some(update) => changed |= $set(&mut conditions, update, now),
                        None => {
                            let before = conditions.len();
                            conditions.retain(|condition| condition.type_ != desired.type_);
                            changed |= conditions.len() != before;
                        }
                    }
                }
                changed.then(|| serde_json::json!(conditions))
            }

            fn says(&self, type_: &str) -> Option<Said> {
                let $o = self;
                let found = $stored.into_iter().find(|condition| condition.type_ == type_)?;
                let (reason, message) = (found.reason.into(), found.message.into());
                let text = |text: Option<String>| text.unwrap_or_default();
                Some(Said {
                    status: found.status,
                    reason: text(reason),
                    message: text(message),
                    generation: found.observed_generation,
                })
            }

            fn unsupported(&self, $first: FirstInterface) -> Vec<String> {
                let $u = self;
                $unsupported
            }

            fn names_vpcs(&self) -> Result<Vec<String>, String> {
                let $v = self;
                match $vpc {
                    Ok(vpcs) => Ok(vpcs.into_iter().collect()),
                    Err(errors) => Err(errors.to_string()),
                }
            }

            fn fields(&self) -> StatusFields {
                self.status.as_ref().map(StatusFields::from).unwrap_or_default()
            }
        }
    };
}

has_conditions!(
    portolan::Subnet,
    condition::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions,
    |_u, _| Vec::new(),
    |v| doors::portolan::subnet(v).map(|subnet| subnet.config.vpc)
);
has_conditions!(
    portolan::Vpc,
    condition::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions,
    |_u, _| Vec::new(),
    |v| doors::portolan::vpc(v).map(|vpc| vpc.config.peerings.into_iter().map(|peering| peering.remote_vpc))
);
has_conditions!(
    kubeovn::Subnet,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u, first| {
        let reports = unsupported_subnet(&u.spec, first.egress(u.spec.vpc()));
        reports.iter().map(ToString::to_string).collect()
    },
    |v| doors::kubeovn::subnet(v).map(|subnet| subnet.config.vpc)
);
has_conditions!(
    kubeovn::Vpc,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u, _| unsupported_vpc(&u.spec).iter().map(ToString::to_string).collect(),
    |v| doors::kubeovn::vpc(v).map(|vpc| vpc.config.peerings.into_iter().map(|peering| peering.remote_vpc))
);

has_conditions!(
    kubeovn::IPPool,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u, _| unsupported_ip_pool(&u.spec).iter().map(ToString::to_string).collect(),
    |_v| Ok::<Option<String>, String>(None)
);

has_conditions!(
    kubeovn::Vip,
    kubeovn::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions.unwrap_or_default(),
    |u, _| unsupported_vip(&u.spec).iter().map(ToString::to_string).collect(),
    |_v| Ok::<Option<String>, String>(None)
);

has_conditions!(
    NetworkAttachment,
    condition::set_condition,
    |o| o.status.clone().unwrap_or_default().conditions,
    |_u, _| Vec::new(),
    |_v| Ok::<Option<String>, String>(None),
    {
        // `Ready` is the business of the agent of its node.
        const MAIN: &'static str = ADDRESSED;

        fn key_of(name: &str) -> (String, String) {
            let (namespace, name) = split(name);
            (namespace.to_owned(), name.to_owned())
        }

        fn api(client: Client, name: &str) -> (Api<Self>, &str) {
            let (namespace, name) = split(name);
            (Api::namespaced(client, namespace), name)
        }
    }
);

/// The namespace and the name of an object of a kind with namespaces.
pub(in crate::engine) fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or_default()
}

/// The name of an object, with its namespace if it has one.
pub(super) fn name_of(object: &impl ResourceExt) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

impl std::fmt::Display for DesiredCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.says {
            None => write!(f, "{} removed", self.type_),
            Some(Statement { status, message, .. }) => {
                write!(f, "{}={status}", self.type_)?;
                if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
            }
        }
    }
}
