//! `external_ids` of ports and interfaces that agents make: whose they are.

use std::collections::BTreeMap;

use portolan_plan::host::{HolderTag, Note, Sandbox, Tag};

const SANDBOX: &str = "portolan/sandbox";
const CALL: &str = "portolan/call";
const INTERFACE: &str = "portolan/interface";
const NETWORK: &str = "portolan/network";
const FUNCTION: &str = "portolan/function";
pub(super) const OWNER: &str = "portolan/owner";
pub(super) const POD: &str = "portolan/pod";
const NETWORK_ATTACHMENT: &str = "portolan/network-attachment";

/// Whose a port is by its tags, if agents made it.
pub(super) fn tag(mut tags: BTreeMap<String, String>) -> Option<Tag> {
    if let Some(name) = tags.remove(NETWORK_ATTACHMENT) {
        let (namespace, name) = name.split_once('/')?;
        return Some(Tag::Holder(HolderTag::of_attachment(namespace, name, &tags.remove(OWNER)?)));
    }
    let sandbox = Sandbox { container: tags.remove(SANDBOX)?, call: tags.remove(CALL)? };
    let interface = tags.remove(INTERFACE)?;
    let (pod_uid, network) = (tags.remove(OWNER), tags.remove(NETWORK).unwrap_or_default());
    let function = tags.remove(FUNCTION).and_then(|text| text.parse().ok());
    Some(Tag::Sandbox(Note { sandbox, interface, pod_uid, network, function }))
}

/// By what a port and its interface are found again.
pub(super) fn tags_of(tag: &Tag, pod: &str) -> BTreeMap<String, String> {
    let owner = (OWNER, tag.owner().unwrap_or_default().to_owned());
    let tags = match tag {
        Tag::Sandbox(Note { sandbox, interface, network, function, .. }) => {
            let mut tags = vec![
                (SANDBOX, sandbox.container.clone()),
                (CALL, sandbox.call.clone()),
                (INTERFACE, interface.clone()),
                (NETWORK, network.clone()),
                (POD, pod.to_owned()),
                owner,
            ];
            tags.extend(function.as_ref().map(|function| (FUNCTION, function.to_string())));
            tags
        }
        Tag::Holder(HolderTag { name, .. }) => {
            let (namespace, name) = name.clone().unwrap_or_default();
            vec![(NETWORK_ATTACHMENT, format!("{namespace}/{name}")), owner]
        }
    };
    tags.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
