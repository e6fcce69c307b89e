//! The wire format: `Trace` of `trace.portolan.dev/v1alpha1`, a question with its answer.
//!
//! A Trace is created and never stored, like a SubjectAccessReview: `spec` is the question, `status` the answer. Its namespace is
//! that of the sending pod.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The API group.
pub const GROUP: &str = "trace.portolan.dev";
/// The version of the API group.
pub const VERSION: &str = "v1alpha1";
/// The resource's name in URLs and in RBAC rules.
pub const RESOURCE: &str = "traces";
/// The kind.
pub const KIND: &str = "Trace";
/// `apiVersion` of a Trace.
pub const API_VERSION: &str = "trace.portolan.dev/v1alpha1";

/// How long an answer may take, the wait for its turn included. Less than the minute after which kube-apiserver gives up.
pub const DEADLINE: Duration = Duration::from_secs(50);

/// A question about traffic, with its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always [`KIND`].
    pub kind: String,
    /// The namespace of the sending pod.
    #[serde(default)]
    pub metadata: Metadata,
    /// The question.
    pub spec: TraceSpec,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TraceStatus>,
}

/// What a Trace has of `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The namespace of the sending pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// A question about traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceSpec {
    /// The pod that sends, in the Trace's namespace.
    pub from: Sender,
    /// The end that should receive it: a pod or an address. Exactly one is set; services will be a third.
    pub to: Receiver,
    /// What is sent: `ICMP` (an echo request), `TCP` or `UDP`.
    #[serde(default)]
    pub protocol: Protocol,
    /// The receiver's port, for TCP and UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// A network attachment definition, `NAME` or `NAMESPACE/NAME`: the interfaces to use where pods have several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

/// The sending end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sender {
    /// The pod's name.
    pub pod: String,
}

/// The receiving end. Exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Receiver {
    /// A pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodReference>,
    /// An address, whatever has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// A pod by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodReference {
    /// Its namespace; that of the Trace if it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// An echo request.
    #[default]
    Icmp,
    /// The first packet of a TCP connection.
    Tcp,
    /// A UDP datagram.
    Udp,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceStatus {
    /// What becomes of the traffic.
    pub verdict: Verdict,
    /// The question in words: `ping from default/a to default/b`.
    pub question: String,
    /// From the sender to the receiver.
    pub forward: Leg,
    /// From the receiver to the sender, if the first packet arrives at a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Leg>,
}

/// What becomes of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It arrives, and the reply arrives.
    Reachable,
    /// It or its reply does not arrive, and that is what the objects ask for.
    NotReachable,
    /// OVN does not have what the objects ask for: see `differences`.
    Disagreement,
    /// It cannot be told: see `cause` and `error`.
    Unknown,
}

/// One direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leg {
    /// Whether the packet arrives; absent if that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrives: Option<bool>,
    /// What the packet passes, the sender first.
    pub path: Vec<Hop>,
    /// Why the packet does not arrive, or why that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// How OVN's databases differ from what the objects ask for, as far as it concerns this path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// What was assumed, and what else a reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why OVN could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Something that a packet passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Hop {
    /// The pod that sends or receives.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The interface that the packet leaves or enters by.
        interface: String,
        /// The pod's address in the packet.
        address: IpAddr,
        /// Its node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
    },
    /// A Subnet's logical switch.
    Switch {
        /// The Subnet, or OVN's name of a switch that is not Portolan's.
        name: String,
        /// The rules that applied.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<Rule>,
    },
    /// A VPC's logical router.
    Router {
        /// The VPC, or OVN's name of a router that is not Portolan's.
        name: String,
        /// The rules that applied.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<Rule>,
    },
    /// The connection of two VPCs.
    Peering {
        /// The VPC that it comes from.
        from: String,
        /// The VPC that it goes to.
        to: String,
    },
    /// The tunnel between two nodes.
    Tunnel {
        /// The sending node.
        from: String,
        /// The receiving node.
        to: String,
        /// Protocol and addresses, as OVN has them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encapsulation: Option<String>,
    },
}

/// A rule that applied to a packet: a logical flow, traced back to the object that it was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The rule in words: `static route 10.9.0.0/24 via 169.254.0.2`.
    pub text: String,
    /// The object that asks for it; absent for a rule that is not Portolan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectReference>,
}

/// A Kubernetes object, or two where a rule needs both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// `Vpc`, `Subnet`, `Pod`…
    pub kind: String,
    /// Its namespace, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The field that the rule comes from, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// Why a packet does not arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// One word for programs.
    pub reason: Reason,
    /// What happens, and where.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// The object whose rule stops the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectReference>,
    /// The stage of OVN's pipeline that stops the packet, such as `lr_in_policy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
}

/// Why a packet does not arrive, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The pod has no route to the destination.
    PodHasNoRoute,
    /// The sending pod itself has the destination's address.
    SameAddress,
    /// Nothing on the switch answers for the next hop.
    NoNeighbour,
    /// The switch has no router.
    NoRouter,
    /// A router has no route.
    NoRoute,
    /// A router sends it to a next hop that does not answer.
    NextHopUnknown,
    /// A policy route drops it.
    PolicyRoute,
    /// An access rule of a switch drops it.
    Acl,
    /// Port security drops it.
    PortSecurity,
    /// Routers send it in a circle.
    RoutingLoop,
    /// Another port receives it.
    DeliveredElsewhere,
    /// A pod receives it that has to route it itself.
    HandedToPod,
    /// OVN rejects it with a reset or an ICMP error.
    Rejected,
    /// A router shares the load among next hops of which some lead to the receiver.
    LoadShared,
    /// Another stage of OVN's pipeline drops it.
    Dropped,
}

/// How OVN differs from what the objects ask for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// What differs.
    pub message: String,
    /// The object that asks for something else, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectReference>,
}

impl Trace {
    /// A question.
    pub fn new(namespace: impl Into<String>, spec: TraceSpec) -> Self {
        Self {
            api_version: API_VERSION.into(),
            kind: KIND.into(),
            metadata: Metadata { namespace: namespace.into() },
            spec,
            status: None,
        }
    }
}

impl TraceStatus {
    /// Both directions, as far as they were traced.
    pub fn legs(&self) -> impl Iterator<Item = &Leg> {
        std::iter::once(&self.forward).chain(&self.reply)
    }
}
