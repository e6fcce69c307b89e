//! The node's links as the kernel reports them, told to the engine.

use std::collections::BTreeMap;

use portolan_host::{Link, LinkChange, LinkKind, Rtnetlink};
use portolan_plan::host::{Function, LinkName, ObservedLink, PodEnd, Switched, Tag};

use crate::blocking::until_done;
use crate::engine::Engine;
use crate::functions::Functions;
use crate::reconcile::FIRST_PAUSE;

/// The link that stands for Open vSwitch's datapath in the kernel, of which its ports are a part.
const KERNEL_DATAPATH: &str = "ovs-system";

/// The node's links, by their numbers.
pub(crate) struct NodeLinks<'a> {
    engine: &'a Engine,
    functions: &'a Functions,
    names: BTreeMap<u32, String>,
}

impl<'a> NodeLinks<'a> {
    pub(crate) fn new(engine: &'a Engine, functions: &'a Functions) -> Self {
        Self { engine, functions, names: BTreeMap::new() }
    }

    /// Lists all links.
    pub(crate) async fn list(&mut self) {
        let links = until_done("list links", FIRST_PAUSE, || Rtnetlink::open()?.links()).await;
        self.names = links.iter().map(|link| (link.index, link.name.clone())).collect();
        let observed: BTreeMap<_, _> = links.iter().filter_map(|link| self.observe(link)).collect();
        let unnoted = links.iter().filter_map(|link| Some((unnoted_link(link)?, self.switched(link))));
        let unnoted = unnoted.filter(|(name, _)| !observed.contains_key(name)).collect();
        self.engine.links_listed(&observed, &unnoted);
    }

    /// Reports changes.
    pub(crate) async fn report(&mut self, changes: Vec<LinkChange>) {
        for change in changes {
            match change {
                LinkChange::Present(link) => self.present(&link),
                LinkChange::Removed(link) => {
                    self.names.remove(&link.index);
                    match LinkName::parse(&link.name) {
                        Some(name) => self.engine.link_changed(&name, None),
                        None => self.look_for_functions(&link),
                    }
                }
                LinkChange::Addresses => {}
                LinkChange::Lost => self.list().await,
            }
        }
    }

    fn present(&mut self, link: &Link) {
        let former = self.names.insert(link.index, link.name.clone());
        let is_known = former.as_ref() == Some(&link.name);
        if let Some(former) = former.as_deref().filter(|_| !is_known).and_then(LinkName::parse) {
            self.engine.link_changed(&former, None);
        }
        if let Some((name, observed)) = self.observe(link) {
            self.engine.link_changed(&name, Some(&observed));
        } else if let Some(name) = unnoted_link(link) {
            self.engine.unnoted_link(&name, self.switched(link));
        }
        if !is_known {
            self.look_for_functions(link);
        }
    }

    /// A link came or went, which may be that of a function.
    fn look_for_functions(&self, changed: &Link) {
        // Links of other pods come and go all the time.
        if !self.functions.may_be_function(changed) {
            return;
        }
        let found: Vec<(LinkName, ObservedLink)> = self.engine.observed(|observed| {
            let representors = observed.representors();
            representors.map(|(name, link)| (name.clone(), link.clone())).collect()
        });
        for (name, link) in found {
            let pod_end = self.pod_end(link.function());
            if pod_end != link.pod_end {
                self.engine.link_changed(&name, Some(&ObservedLink { pod_end, ..link }));
            }
        }
    }

    fn pod_end(&self, function: Option<&Function>) -> PodEnd {
        let is_link = |name: &str| self.names.values().any(|link| link == name);
        match function {
            Some(function) if self.functions.is_on_node(function, is_link) => PodEnd::OnNode,
            _ => PodEnd::InSandbox,
        }
    }

    /// A link as the engine knows it, if it has a note of ours.
    fn observe(&self, link: &Link) -> Option<(LinkName, ObservedLink)> {
        let (name, tag) = (LinkName::parse(&link.name)?, link.alias.as_deref()?.parse::<Tag>().ok()?);
        // What somebody copied from another link is no note, nor is what a pod wrote.
        let fits = tag.link() == name || (tag.note().is_some() && !name.is_of_holder());
        if !fits || !self.functions.may_be_host_side(link) {
            return None;
        }
        let pod_end = self.pod_end(tag.note().and_then(|note| note.function.as_ref()));
        let switched = self.switched(link);
        let observed = ObservedLink {
            index: link.index,
            tag,
            up: link.up,
            is_strict: link.is_strict,
            pod_end,
            switched,
        };
        Some((name, observed))
    }

    fn switched(&self, link: &Link) -> Switched {
        let is_datapath = |index: &u32| self.names.get(index).is_some_and(|name| name == KERNEL_DATAPATH);
        match link.kind {
            LinkKind::OpenVSwitch => Switched::Internal,
            _ if link.master.as_ref().is_some_and(is_datapath) => Switched::Port,
            _ => Switched::No,
        }
    }
}

/// The name of a link that is one of ours by its name and kind, and has no note at all: not made yet, or left by a call that was
/// interrupted; or made by Open vSwitch just now. One of the node itself has none either if somebody wrote something else over it: its name
/// says whose it is, and it must not lose its guard. Only for links that are not observed.
fn unnoted_link(link: &Link) -> Option<LinkName> {
    let name = LinkName::parse(&link.name).filter(|name| link.alias.is_none() || name.is_of_holder())?;
    let kinds: &[LinkKind] = match name.is_of_holder() {
        true => &[LinkKind::Tap, LinkKind::OpenVSwitch],
        false => &[LinkKind::Veth],
    };
    kinds.contains(&link.kind).then_some(name)
}
