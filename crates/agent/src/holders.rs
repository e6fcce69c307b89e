//! Who asks for ports of the node itself: the `NetworkAttachment`s of the node.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use kube::core::ObjectMeta;
use portolan_api::portolan::{NetworkAttachment, NetworkAttachmentStatus};
use portolan_plan::host::{HolderTag, LinkName};

/// Namespace and name.
type Name = (String, String);

/// What a `NetworkAttachment` says about itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said {
    pub(crate) resource_version: String,
    pub(crate) generation: Option<i64>,
    pub(crate) status: NetworkAttachmentStatus,
}

impl From<&NetworkAttachment> for Said {
    fn from(object: &NetworkAttachment) -> Self {
        Self {
            resource_version: object.resource_version().unwrap_or_default(),
            generation: object.metadata.generation,
            status: object.status.clone().unwrap_or_default(),
        }
    }
}

/// The `NetworkAttachment`s of the node that were seen and not seen deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holders {
    by_link: BTreeMap<LinkName, HolderTag>,
    /// What they say; nothing of one that cannot be decoded.
    said: BTreeMap<LinkName, Said>,
    by_name: BTreeMap<Name, LinkName>,
    was_listed: bool,
}

impl Holders {
    /// All of them by the names of their links; none before they were listed.
    pub(crate) fn listed(&self) -> Option<&BTreeMap<LinkName, HolderTag>> {
        self.was_listed.then_some(&self.by_link)
    }

    /// One of them.
    pub(crate) fn get(&self, link: &LinkName) -> Option<&HolderTag> {
        self.by_link.get(link)
    }

    /// What one of them says about itself.
    pub(crate) fn said(&self, link: &LinkName) -> Option<&Said> {
        self.said.get(link)
    }

    /// One of them says this, as was written to this version of it; unless something newer was seen meanwhile.
    pub(crate) fn says(&mut self, written_to: &str, object: &NetworkAttachment) {
        let link = LinkName::of_attachment(&object.uid().unwrap_or_default());
        if let Some(said) = self.said.get_mut(&link)
            && said.resource_version == written_to
        {
            *said = object.into();
        }
    }

    /// The names of all of their links.
    pub(crate) fn links(&self) -> impl Iterator<Item = &LinkName> {
        self.by_link.keys()
    }

    /// One was seen. Answers its link, and that of an earlier one of its name.
    pub(crate) fn apply(&mut self, metadata: &ObjectMeta, said: Option<Said>) -> BTreeSet<LinkName> {
        let (name, uid) = (name_of(metadata), metadata.uid.clone().unwrap_or_default());
        let tag = HolderTag::of_attachment(&name.0, &name.1, &uid);
        let mut links = self.remove(&name);
        links.insert(tag.link());
        self.by_name.insert(name, tag.link());
        self.said.extend(said.map(|said| (tag.link(), said)));
        self.by_link.insert(tag.link(), tag);
        links
    }

    /// One was deleted, or is another node's now.
    pub(crate) fn delete(&mut self, metadata: &ObjectMeta) -> BTreeSet<LinkName> {
        let name = name_of(metadata);
        let uid = metadata.uid.as_deref().unwrap_or_default();
        match self.by_name.get(&name) == Some(&LinkName::of_attachment(uid)) {
            true => self.remove(&name),
            false => BTreeSet::new(),
        }
    }

    /// These are all there are. Answers their links, and those of the ones that are missing now.
    pub(crate) fn replace<'a>(
        &mut self,
        objects: impl IntoIterator<Item = (&'a ObjectMeta, Option<Said>)>,
    ) -> BTreeSet<LinkName> {
        let mut links: BTreeSet<_> = std::mem::take(self).by_link.into_keys().collect();
        for (metadata, said) in objects {
            links.extend(self.apply(metadata, said));
        }
        self.was_listed = true;
        links
    }

    fn remove(&mut self, name: &Name) -> BTreeSet<LinkName> {
        let Some(link) = self.by_name.remove(name) else { return BTreeSet::new() };
        self.by_link.remove(&link);
        self.said.remove(&link);
        BTreeSet::from([link])
    }
}

fn name_of(metadata: &ObjectMeta) -> Name {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(name: &str, uid: &str) -> ObjectMeta {
        let (namespace, name) = (Some("default".to_owned()), Some(name.to_owned()));
        ObjectMeta { namespace, name, uid: Some(uid.to_owned()), ..ObjectMeta::default() }
    }

    #[test]
    fn one_that_is_made_again_has_another_link_and_a_late_deletion_of_the_first_leaves_it_alone() {
        let [first, second] = ["1", "2"].map(LinkName::of_attachment);
        let mut holders = Holders::default();
        assert_eq!(holders.apply(&metadata("a", "1"), None), [first.clone()].into());
        assert_eq!(holders.apply(&metadata("a", "2"), None), [first.clone(), second.clone()].into());
        assert_eq!(holders.delete(&metadata("a", "1")), BTreeSet::new());
        assert!(holders.get(&second).is_some() && holders.get(&first).is_none());
        assert_eq!(holders.delete(&metadata("a", "2")), [second].into());
        assert_eq!(holders.links().count(), 0);
    }

    #[test]
    fn the_answer_to_a_write_does_not_take_the_place_of_what_was_seen_after_it() {
        let object = |version: &str| NetworkAttachment {
            metadata: ObjectMeta { resource_version: Some(version.to_owned()), ..metadata("a", "1") },
            ..NetworkAttachment::new("a", Default::default())
        };
        let link = LinkName::of_attachment("1");
        let mut holders = Holders::default();
        let version = |holders: &Holders| holders.said(&link).map(|said| said.resource_version.clone());
        holders.apply(&object("1").metadata, Some((&object("1")).into()));
        holders.says("1", &object("2"));
        assert_eq!(version(&holders).as_deref(), Some("2"));
        // The next write is under way when the watch brings the one after it.
        holders.apply(&object("4").metadata, Some((&object("4")).into()));
        holders.says("2", &object("3"));
        assert_eq!(version(&holders).as_deref(), Some("4"));
    }

    #[test]
    fn nothing_is_known_before_a_list_and_what_a_list_lacks_is_concerned() {
        let mut holders = Holders::default();
        holders.apply(&metadata("a", "1"), None);
        assert_eq!(holders.listed(), None);
        let all = [metadata("b", "2")];
        let concerned = holders.replace(all.iter().map(|metadata| (metadata, None)));
        assert_eq!(concerned, ["1", "2"].map(LinkName::of_attachment).into());
        let known = holders.listed().map(|holders| holders.keys().cloned().collect::<Vec<_>>());
        assert_eq!(known, Some(vec![LinkName::of_attachment("2")]));
    }
}
