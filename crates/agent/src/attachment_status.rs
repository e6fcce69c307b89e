//! The status of the node's `NetworkAttachment`s: which interface each has, and whether it carries traffic.
//!
//! The controller writes to the same status: address, MAC address and the condition `Addressed`. Each of the two compares and writes what is
//! its own, to the version that it read, so neither answers the other's writes.

use std::convert::Infallible;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use ovsdb::Uuid;
use portolan_api::Domain;
use portolan_api::condition::ConditionStatus::{self, False, True, Unknown};
use portolan_api::condition::{ConditionUpdate, READY, set_condition};
use portolan_api::portolan::{NetworkAttachment, NetworkAttachmentStatus};
use portolan_model::{Attachment, Requester};
use portolan_plan::host::{HolderTag, LinkName, Tag};
use portolan_watch::Plain;
use serde_json::{Value, json};

use crate::cluster::Known;
use crate::holders::Said;
use crate::pending::{Checked, Since};
use crate::server::Agent;
use crate::vswitch::Progress;
use crate::wanted::mtu_unknown;

/// The namespace of the names of Events.
const EVENTS: Uuid = Uuid::from_u128(0x51c0_84c5_7f0e_4a0b_8a53_1d6c_77aa_0b1e);
/// The longest name that an Event is given, besides what makes it unique.
const LONGEST_NAME: usize = 200;
/// The API server refuses longer notes.
const LONGEST_NOTE: usize = 1024;

/// What a `NetworkAttachment` should say about its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    status: ConditionStatus,
    reason: &'static str,
    message: String,
    timing: Timing,
    concern: Concern,
}

/// When it should be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    Now,
    /// If it lasts: it usually passes by itself.
    IfItLasts,
}

/// Whether an Event tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Concern {
    Event,
    /// Nobody has to do anything, or the controller's Events tell.
    None,
}

impl Finding {
    fn new(status: ConditionStatus, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into(), timing: Timing::Now, concern: Concern::None }
    }

    fn if_it_lasts(self) -> Self {
        Self { timing: Timing::IfItLasts, ..self }
    }

    fn with_event(self) -> Self {
        Self { concern: Concern::Event, ..self }
    }
}

/// Writes for as long as the agent runs.
pub(crate) async fn run(agent: &Agent) -> Infallible {
    // What is not known yet after a start is not missing: what was said stays until then.
    agent.vswitch.ready().await;
    agent.cluster.status().in_step().await;
    agent.engine.has_observed(agent.vswitch.revision()).await;
    let news = agent.engine.news();
    let write = async |link: LinkName, since| {
        let written = write(agent, &link, since).await;
        written.inspect_err(|error| {
            tracing::warn!(%link, error, "cannot write the status of a NetworkAttachment yet");
        })
    };
    // Where other nodes send traffic to is in every status.
    let encapsulation = async {
        let mut chassis = agent.chassis.subscribe();
        let mut before = None;
        loop {
            let address = host_ip(agent);
            if address != before {
                before = address;
                check_all(agent);
            }
            chassis.changed().await.expect("invariant: the agent keeps the sender alive");
        }
    };
    // So is whether Open vSwitch can be reached at all.
    let reachable = async {
        let mut status = agent.vswitch.connected();
        let mut before = agent.vswitch.behind();
        loop {
            status.changed().await;
            let behind = agent.vswitch.behind();
            if behind.is_some() != before.is_some() {
                check_all(agent);
            }
            before = behind;
        }
    };
    tokio::select! {
        never = news.serve(write) => match never {},
        never = encapsulation => never,
        never = reachable => never,
    }
}

/// Something that is in every status, or in the way of every interface, changed.
fn check_all(agent: &Agent) {
    let links = agent.cluster.read(|known| known.holders.links().cloned().collect::<Vec<_>>());
    links.into_iter().for_each(|link| agent.engine.news().check(link));
}

/// Writes what differs. The version that was read is a precondition, so nobody else's is ever overwritten.
async fn write(agent: &Agent, link: &LinkName, since: Since) -> Result<Checked, String> {
    let Some((tag, said, finding)) = agent.cluster.read(|known| look(agent, known, link)) else {
        return Ok(Checked::Done);
    };
    let Some((namespace, name)) = &tag.name else { return Ok(Checked::Done) };
    let Some(status) = difference(agent, &tag, &said, &finding) else { return Ok(Checked::Done) };
    if finding.timing == Timing::IfItLasts && since == Since::Now {
        return Ok(Checked::Passes);
    }
    if finding.concern == Concern::Event {
        tell(agent, &tag, &finding).await?;
    }
    let metadata = json!({ "uid": tag.uid, "resourceVersion": said.resource_version });
    let patch = Patch::Merge(json!({ "metadata": metadata, "status": status }));
    let api = Api::<NetworkAttachment>::namespaced(agent.client.clone(), namespace);
    match api.patch_status(name, &PatchParams::default(), &patch).await {
        Ok(object) => {
            tracing::info!(namespace, name, %link, ready = %finding.status, reason = finding.reason, "wrote the status of a NetworkAttachment");
            agent.cluster.wrote(&said.resource_version, &object);
            Ok(Checked::Done)
        }
        Err(error) if portolan_watch::is_not_found::<NetworkAttachment>(&error, name) => Ok(Checked::Done),
        // It would be refused again.
        Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => {
            tracing::warn!(
                namespace,
                name,
                error = status.message,
                "the status of a NetworkAttachment is refused"
            );
            Ok(Checked::Done)
        }
        Err(error) => Err(Plain(&error).to_string()),
    }
}

/// Whose a link is, what that object says, and what it should say; none of one that is gone or cannot be decoded.
fn look(agent: &Agent, known: &Known, link: &LinkName) -> Option<(HolderTag, Said, Finding)> {
    let (tag, said) = (known.holders.get(link)?, known.holders.said(link)?);
    Some((tag.clone(), said.clone(), find(agent, known, link, tag)?))
}

fn find(agent: &Agent, known: &Known, link: &LinkName, tag: &HolderTag) -> Option<Finding> {
    let (namespace, name) = tag.name.as_ref()?;
    let object = known.world.network_attachment(namespace, name).filter(|object| object.uid == tag.uid)?;
    if let Err(errors) = &object.config {
        // The controller has an Event about that already.
        return Some(Finding::new(False, "InvalidSpec", errors.to_string()));
    }
    let ids = known.world.holdings_of(&Requester::network_attachment(namespace, name));
    let held = ids.iter().filter(|id| *id.uid() == tag.uid).find_map(|id| known.world.attachment(id));
    let Some(attachment) = held else {
        let message = "it has no addresses that are in effect; see the condition Addressed";
        return Some(Finding::new(False, "NotAddressed", message).if_it_lasts());
    };
    let subnet = known.world.subnet(attachment.subnet())?;
    if matches!(subnet.domain, Domain::Vni(_)) {
        let message = format!(
            "spec.subnet: {:?} has a vni, and the VXLAN fabric is not built yet; choose a Subnet without one",
            subnet.name
        );
        return Some(Finding::new(False, "VniNotSupported", message).with_event());
    }
    // First of all: what could not be sent failed too.
    if let Some(behind) = agent.vswitch.behind() {
        return Some(Finding::new(Unknown, "OpenVSwitchUnreachable", behind).if_it_lasts());
    }
    if let Some(error) = agent.engine.failure(link) {
        return Some(Finding::new(False, "InterfaceFailed", error).if_it_lasts().with_event());
    }
    let has_mtu = subnet.config.mtu.or(agent.config.mtu_of_subnets(known)).is_some();
    Some(of_port(agent, link, tag, attachment, has_mtu))
}

/// How far the port of an attachment is.
fn of_port(
    agent: &Agent,
    link: &LinkName,
    tag: &HolderTag,
    attachment: &Attachment,
    has_mtu: bool,
) -> Finding {
    match agent.vswitch.progress(link, row_of(tag), &attachment.iface_id()) {
        Progress::Missing(_) if !has_mtu => {
            Finding::new(False, "MtuUnknown", mtu_unknown(&agent.config.node)).if_it_lasts()
        }
        Progress::Missing(why) => Finding::new(False, "NotPlugged", why).if_it_lasts(),
        Progress::Unusable(why) => Finding::new(False, "InterfaceFailed", why).with_event(),
        Progress::Waiting(why) => Finding::new(False, "WaitingForOvn", why).if_it_lasts(),
        Progress::Installed => {
            let link_is = agent.engine.observed(|observed| match observed.link(link) {
                Some(link) => Some(link.up && link.is_strict),
                None => observed.is_unnoted(link).then_some(false),
            });
            match link_is {
                Some(true) => Finding::new(True, "InEffect", ""),
                Some(false) => {
                    let message = format!("link {link} is not guarded and set up yet");
                    Finding::new(False, "NotPlugged", message).if_it_lasts()
                }
                // Whoever moved it to another namespace uses it there, and nobody can tell whether it still exists.
                None => {
                    let message = format!(
                        "link {link} is not in the node's network namespace: it was moved to another, or removed; \
                         remove port {link} from Open vSwitch to have it made again"
                    );
                    Finding::new(True, "NotInNodeNamespace", message).if_it_lasts()
                }
            }
        }
    }
}

/// What of the status is to be written, if anything.
fn difference(agent: &Agent, tag: &HolderTag, said: &Said, finding: &Finding) -> Option<Value> {
    let link = tag.link();
    let NetworkAttachmentStatus { interface: is, host_ip: host_is, .. } = &said.status;
    let (interface, host_ip) = match agent.vswitch.has_port(row_of(tag)) {
        Some(true) => (Some(link.to_string()), host_ip(agent).or_else(|| host_is.clone())),
        Some(false) => (None, None),
        // Nobody knows: what was said stays.
        None => (is.clone(), host_is.clone()),
    };
    let mut conditions = said.status.conditions.clone();
    let (status, reason, message) = (finding.status, finding.reason, finding.message.as_str());
    let update = ConditionUpdate { type_: READY, status, reason, message, generation: said.generation };
    let changed = set_condition(&mut conditions, update, &Time(Timestamp::now()));
    let differs = changed || *is != interface || *host_is != host_ip;
    differs.then(|| json!({ "interface": interface, "hostIP": host_ip, "conditions": conditions }))
}

/// The row of its interface.
fn row_of(tag: &HolderTag) -> Uuid {
    Tag::Holder(tag.clone()).interface_row()
}

/// The address that other nodes send the node's traffic to.
fn host_ip(agent: &Agent) -> Option<String> {
    let chassis = agent.chassis.borrow();
    let encapsulation = chassis.report.as_ref()?.encapsulation.as_ref()?;
    Some(encapsulation.address.to_string())
}

/// Tells of a problem by an Event, once.
async fn tell(agent: &Agent, tag: &HolderTag, finding: &Finding) -> Result<(), String> {
    let Some((namespace, name)) = &tag.name else { return Ok(()) };
    let text = [&tag.uid, finding.reason, &finding.message].join("\0");
    let unique = Uuid::new_v5(&EVENTS, text.as_bytes()).simple();
    let short: String = name.chars().take(LONGEST_NAME).collect();
    let event = Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{unique}", short.trim_end_matches(['.', '-']))),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        regarding: Some(ObjectReference {
            api_version: Some("portolan.dev/v1alpha1".into()),
            kind: Some("NetworkAttachment".into()),
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            uid: Some(tag.uid.clone()),
            ..ObjectReference::default()
        }),
        type_: Some("Warning".into()),
        reason: Some(finding.reason.into()),
        action: Some("Plug".into()),
        note: Some(finding.message.chars().take(LONGEST_NOTE).collect()),
        reporting_controller: Some("portolan-agent".into()),
        reporting_instance: Some(agent.config.node.clone()),
        event_time: Some(MicroTime(Timestamp::now())),
        ..Event::default()
    };
    let api = Api::<Event>::namespaced(agent.client.clone(), namespace);
    match api.create(&PostParams::default(), &event).await {
        Ok(_) => Ok(()),
        // It was told before, or its namespace is gone; or it would be refused again.
        Err(kube::Error::Api(status)) if [400, 403, 404, 409, 422].contains(&status.code) => {
            tracing::debug!(namespace, name, error = status.message, "an Event is not written");
            Ok(())
        }
        Err(error) => Err(Plain(&error).to_string()),
    }
}
