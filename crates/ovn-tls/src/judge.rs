//! Whether a request is to be signed, and what the certificate says. No IO.
//!
//! A requester can have what follows from its token: Kubernetes writes into a request who made it, and on which node its pod is. Nothing of
//! the request itself is believed but its public key, of which it shows that it has the private one.

use std::net::IpAddr;

use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use portolan_authority::{Leaf, Usages};
use rcgen::{
    CertificateSigningRequestParams, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKey, PublicKeyData as _, SanType,
};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject as _;

use crate::nodes::NodeFacts;
use crate::{LIFE, ORGANIZATION, Role};

/// Who made a request, by the token that was used: Kubernetes 1.30 and later say this of tokens of pods.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";
/// The longest request that is looked at. Those that are made here have a few hundred bytes.
const LONGEST_REQUEST: usize = 8 * 1024;
/// The longest name of a chassis, as long as a Node's may be.
const LONGEST_NAME: usize = 253;
/// The name of servers.
pub(crate) const SERVER_NAME: &str = "ovn-central";

/// Why a request is denied: a word, and what is wrong and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

fn denied<T>(reason: &'static str, message: impl Into<String>) -> Result<T, Denial> {
    Err(Denial { reason, message: message.into() })
}

/// The node of a requester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) node: String,
    uid: Option<String>,
}

/// Who made a request, if it is one who may.
pub(crate) fn requester(
    request: &CertificateSigningRequest,
    role: Role,
    namespace: &str,
) -> Result<Requester, Denial> {
    let expected = format!("system:serviceaccount:{namespace}:{}", role.account());
    let user = request.spec.username.as_deref().unwrap_or_default();
    if user != expected {
        let message = format!("{user:?} may have no certificate of {role}: only {expected} may");
        return denied("RequesterNotAllowed", message);
    }
    let extra = |key: &str| match request.spec.extra.as_ref().and_then(|extra| extra.get(key)) {
        Some(values) => match values.as_slice() {
            [value] if !value.is_empty() => Some(value.clone()),
            _ => None,
        },
        None => None,
    };
    match extra(NODE_NAME) {
        Some(node) => Ok(Requester { node, uid: extra(NODE_UID) }),
        None => denied(
            "NodeUnknown",
            "the token that was used does not name the node of its pod: use the one that Kubernetes 1.30 or later mounts into the pod",
        ),
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) common_name: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) key: PublicKey,
}

/// Reads what a request asks for. What a certificate of this role never has is refused.
pub(crate) fn asked(request: &CertificateSigningRequest, role: Role) -> Result<Asked, Denial> {
    let may_serve = role == Role::Central;
    let usages = request.spec.usages.iter().flatten();
    for usage in usages {
        match usage.as_str() {
            "digital signature" | "client auth" => {}
            "server auth" if may_serve => {}
            other => {
                return denied(
                    "UsageNotAllowed",
                    format!("spec.usages: {other:?} is none that {role} gives"),
                );
            }
        }
    }
    let encoded = &request.spec.request.0;
    let invalid =
        |problem: String| Denial { reason: "InvalidRequest", message: format!("spec.request: {problem}") };
    if encoded.len() > LONGEST_REQUEST {
        return Err(invalid(format!("it has {} bytes, more than {LONGEST_REQUEST}", encoded.len())));
    }
    let der =
        CertificateSigningRequestDer::from_pem_slice(encoded).map_err(|error| invalid(error.to_string()))?;
    let CertificateSigningRequestParams { params, public_key: key } =
        CertificateSigningRequestParams::from_der(&der).map_err(|error| invalid(error.to_string()))?;
    // The bytes of a point on that curve, not compressed.
    let is_point = key.der_bytes().len() == 65 && key.der_bytes()[0] == 4;
    if key.algorithm() != &PKCS_ECDSA_P256_SHA256 || !is_point {
        return Err(invalid("its key is no ECDSA key on the curve P-256".into()));
    }
    if matches!(params.is_ca, IsCa::Ca(_)) {
        return Err(invalid("it asks for the certificate of an authority".into()));
    }
    if params.key_usages.iter().any(|usage| *usage != KeyUsagePurpose::DigitalSignature) {
        return Err(invalid("it asks for a key usage besides digital signatures".into()));
    }
    for usage in &params.extended_key_usages {
        match usage {
            ExtendedKeyUsagePurpose::ClientAuth => {}
            ExtendedKeyUsagePurpose::ServerAuth if may_serve => {}
            other => return Err(invalid(format!("{other:?} is no usage that {role} gives"))),
        }
    }
    let mut common_name = None;
    for (kind, value) in params.distinguished_name.iter() {
        let text = match value {
            DnValue::Utf8String(text) => Some(text.as_str()),
            DnValue::PrintableString(text) => Some(text.as_str()),
            _ => None,
        };
        match (kind, text) {
            (DnType::CommonName, Some(text)) => common_name = Some(text.to_owned()),
            _ => return Err(invalid("its subject has more than a common name".into())),
        }
    }
    let common_name = common_name.ok_or_else(|| invalid("its subject has no common name".into()))?;
    let mut addresses = Vec::new();
    for name in &params.subject_alt_names {
        match name {
            SanType::IpAddress(address) if may_serve => addresses.push(*address),
            other => return Err(invalid(format!("{other:?} is no name that {role} vouches for"))),
        }
    }
    Ok(Asked { common_name, addresses, key })
}

/// Whether the node of a requester is known, and still the same.
pub(crate) fn of_node<'a>(
    requester: &Requester,
    node: Option<&'a NodeFacts>,
) -> Result<&'a NodeFacts, Denial> {
    match node {
        Some(node) if requester.uid.as_ref().is_none_or(|uid| *uid == node.uid) => Ok(node),
        Some(_) => denied(
            "NodeGone",
            format!("node {} was deleted and made again since the pod began", requester.node),
        ),
        None => denied("NodeGone", format!("there is no node {}", requester.node)),
    }
}

/// Whether a node is to be asked about others before its chassis is certified: a name that is not its own could be that of another.
pub(crate) fn may_clash(node: &NodeFacts) -> bool {
    node.chassis != node.name
}

/// Whether it is to be written on a node that its chassis is certified, before it is: so that no other node can take that away.
pub(crate) fn is_to_be_noted(node: &NodeFacts) -> bool {
    may_clash(node) && node.certified.as_ref() != Some(&node.chassis)
}

/// What the certificate says that a requester on this node may have.
pub(crate) fn leaf(
    role: Role,
    asked: &Asked,
    node: &NodeFacts,
    nodes: &[NodeFacts],
    life: SignedDuration,
) -> Result<Leaf, Denial> {
    let usages = match role {
        Role::Central => {
            server(asked, node)?;
            Usages::ServerAndClient
        }
        Role::Chassis => {
            chassis(asked, node, nodes)?;
            Usages::Client
        }
    };
    Ok(Leaf {
        common_name: asked.common_name.clone(),
        organization: Some(ORGANIZATION.into()),
        dns_names: Vec::new(),
        addresses: asked.addresses.clone(),
        usages,
        life,
    })
}

fn server(asked: &Asked, node: &NodeFacts) -> Result<(), Denial> {
    if asked.common_name != SERVER_NAME {
        let message = format!("the common name is {:?} instead of {SERVER_NAME:?}", asked.common_name);
        return denied("NameNotAllowed", message);
    }
    if asked.addresses.is_empty() {
        return denied("AddressMissing", "a server's certificate needs the address at which it listens");
    }
    match asked.addresses.iter().find(|address| !node.addresses.contains(address)) {
        None => Ok(()),
        Some(address) => {
            let own: Vec<_> = node.addresses.iter().map(ToString::to_string).collect();
            let message = format!(
                "{address} is no address of node {}, which has {}: --listen must be one of them",
                node.name,
                own.join(", ")
            );
            denied("AddressNotOfNode", message)
        }
    }
}

fn chassis(asked: &Asked, node: &NodeFacts, nodes: &[NodeFacts]) -> Result<(), Denial> {
    let name = &asked.common_name;
    // Open vSwitch reads a name up to a NUL.
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(fits) {
        let message = format!(
            "{name:?} is no name of a chassis that is certified: external_ids:system-id of Open vSwitch may have letters, digits and -._: only"
        );
        return denied("NameNotAllowed", message);
    }
    if *name != node.chassis {
        let message = format!(
            "{name} is not the chassis of node {0}, which is {1}: its agent writes external_ids:system-id of Open vSwitch on the Node as {2}",
            node.name,
            node.chassis,
            portolan_model::node::CHASSIS_ANNOTATION,
        );
        return denied("ChassisNotOfNode", message);
    }
    // A node whose name it is has it, whatever others say; and then the one that had it before, alone. Otherwise who came first is not known, and
    // none gets it.
    let has_it = |node: &NodeFacts| node.chassis == *name && node.certified.as_ref() == Some(name);
    let takes_it = |other: &NodeFacts| other.chassis == *name && (has_it(other) || !has_it(node));
    let other =
        nodes.iter().find(|other| other.name != node.name && (other.name == *name || takes_it(other)));
    match other.filter(|_| may_clash(node)) {
        None => Ok(()),
        Some(other) => denied(
            "ChassisTwice",
            format!(
                "nodes {} and {} both say to be chassis {name}: delete the Node that is gone, or set another external_ids:system-id in the \
                 Open vSwitch of one",
                node.name, other.name
            ),
        ),
    }
}

/// How long the certificate may be valid.
pub(crate) fn life(request: &CertificateSigningRequest, longest: SignedDuration) -> SignedDuration {
    let asked = request.spec.expiration_seconds.map(|seconds| SignedDuration::from_secs(seconds.into()));
    asked.map_or(longest, |asked| asked.min(longest)).min(LIFE)
}

#[cfg(test)]
mod tests;
