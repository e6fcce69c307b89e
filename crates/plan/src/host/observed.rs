//! What a node has, by the names of links.

use std::collections::{BTreeMap, BTreeSet};

use portolan_api::Mac;

use super::function::{Function, Use};
use super::names::{LinkName, Note, Sandbox, Tag};
use super::planning::Admits;
use super::removals::{Configuration, Removal, Removals};

/// What the agent has seen on its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    links: BTreeMap<LinkName, ObservedLink>,
    ports: BTreeMap<LinkName, ObservedPort>,
    guards: BTreeMap<LinkName, Admits>,
    /// Links that have no note: their making was interrupted, or Open vSwitch has made them just now.
    unnoted: BTreeMap<LinkName, Switched>,
    /// Links and ports by the call that made them.
    by_sandbox: BTreeMap<Sandbox, BTreeSet<LinkName>>,
    /// The same by the UID of the pod.
    by_pod: BTreeMap<String, BTreeSet<LinkName>>,
    /// Links by pod UID and interface; of several the one with the highest index is the newest.
    links_by_pod: BTreeMap<(String, String), BTreeMap<u32, LinkName>>,
    /// The datapath of OVN's bridge; none while there is no bridge.
    datapath: Option<Datapath>,
    removals: Removals,
}

/// How frames get from links to flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datapath {
    /// In the kernel.
    System,
    /// In ovs-vswitchd, which reads them by packet sockets: every link needs a guard.
    Netdev,
}

/// A link of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedLink {
    /// Its number. A link that was made later has a higher one.
    pub index: u32,
    /// What is noted on it.
    pub tag: Tag,
    /// Whether it is set up.
    pub up: bool,
    /// Whether it has no IPv6, and answers ARP for its own addresses only.
    pub is_strict: bool,
    /// Where the pod's end is, of a sandbox's interface.
    pub pod_end: PodEnd,
    /// What it is to the kernel's Open vSwitch.
    pub switched: Switched,
}

/// What a link is to Open vSwitch's datapath in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switched {
    /// Nothing: what comes in by it goes to the node's own stack. On the userspace datapath every link is like this.
    #[default]
    No,
    /// A port: the node's own stack sees nothing of what comes in by it.
    Port,
    /// A port that the datapath has made, and removes with the port: nobody else can.
    Internal,
}

/// Where the pod's end of a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodEnd {
    /// In the sandbox: the kernel would have removed the link otherwise. Or it is a function of which nothing shows where it is.
    InSandbox,
    /// On the node: a function that came back as its sandbox's namespace went, or that has not gone there yet.
    OnNode,
}

impl ObservedLink {
    /// The function whose representor it is, if it is one.
    pub fn function(&self) -> Option<&Function> {
        self.tag.note().and_then(|note| note.function.as_ref())
    }

    /// Whether it is a representor that is done with: nothing is left to do but to give the function its name back.
    pub fn is_returning(&self) -> bool {
        self.function().is_some_and(|function| function.used == Use::Returning)
    }
}

/// A port of OVN's bridge, with its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedPort {
    /// What its tags say.
    pub tag: Tag,
    /// Its pod, as `namespace/name`; empty if it is no pod's.
    pub pod: String,
    /// `iface-id` of its interface.
    pub iface_id: Option<String>,
    /// The link that Open vSwitch makes for it, if it makes one.
    pub internal: Option<Internal>,
}

/// A link that Open vSwitch makes for a port, and keeps like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Internal {
    /// Its MAC address.
    pub mac: Option<Mac>,
    /// Its MTU.
    pub mtu: Option<u16>,
}

impl Observed {
    /// A link, if it exists.
    pub fn link(&self, name: &LinkName) -> Option<&ObservedLink> {
        self.links.get(name)
    }

    /// Whether a unit has its link, and the sandbox that the link was made for is there.
    pub fn has_sandbox(&self, name: &LinkName) -> bool {
        self.links.get(name).is_some_and(|link| link.pod_end == PodEnd::InSandbox)
    }

    /// Whether all that is left of a unit is a function that has not come back from its sandbox.
    pub fn is_returning(&self, name: &LinkName) -> bool {
        self.links.get(name).is_some_and(ObservedLink::is_returning) && !self.ports.contains_key(name)
    }

    /// The links that are representors.
    pub fn representors(&self) -> impl Iterator<Item = (&LinkName, &ObservedLink)> {
        self.links.iter().filter(|(_, link)| link.function().is_some())
    }

    /// Whether there is a link of this name without a note.
    pub fn is_unnoted(&self, name: &LinkName) -> bool {
        self.unnoted.contains_key(name)
    }

    /// What the link of a unit is to the kernel's Open vSwitch, whether it is noted or not; none if there is no link.
    pub fn switched(&self, name: &LinkName) -> Option<Switched> {
        self.links.get(name).map(|link| link.switched).or_else(|| self.unnoted.get(name).copied())
    }

    /// A port, if it exists.
    pub fn port(&self, name: &LinkName) -> Option<&ObservedPort> {
        self.ports.get(name)
    }

    /// The removal of a port, as long as ovs-vswitchd may not have seen it.
    pub fn removal(&self, name: &LinkName) -> Option<Removal> {
        self.removals.of(name.as_str())
    }

    /// Whether a link has a guard, or had one: it may outlive the link.
    pub fn is_guarded(&self, name: &LinkName) -> bool {
        self.guards.contains_key(name)
    }

    /// What the guard of a link lets through, if it has one.
    pub fn guard(&self, name: &LinkName) -> Option<Admits> {
        self.guards.get(name).copied()
    }

    /// The datapath of OVN's bridge; none while there is no bridge.
    pub fn datapath(&self) -> Option<Datapath> {
        self.datapath
    }

    /// What the port or the link of a unit says about itself.
    pub fn tag(&self, name: &LinkName) -> Option<&Tag> {
        let link = self.links.get(name).map(|link| &link.tag);
        link.or_else(|| self.ports.get(name).map(|port| &port.tag))
    }

    /// The same of a sandbox's interface.
    pub fn note(&self, name: &LinkName) -> Option<&Note> {
        self.tag(name).and_then(Tag::note)
    }

    /// True if anything of a unit exists.
    pub fn has(&self, name: &LinkName) -> bool {
        self.links.contains_key(name)
            || self.ports.contains_key(name)
            || self.guards.contains_key(name)
            || self.unnoted.contains_key(name)
    }

    /// Every unit of which something exists.
    pub fn units(&self) -> BTreeSet<LinkName> {
        let noted = self.links.keys().chain(self.ports.keys());
        noted.chain(self.guards.keys()).chain(self.unnoted.keys()).cloned().collect()
    }

    /// The units of which something exists and that a call made.
    pub fn units_of(&self, sandbox: &Sandbox) -> BTreeSet<LinkName> {
        let made = self.by_sandbox.get(sandbox).into_iter().flatten().cloned();
        // Of the link that the call names, what has no note is known by its name alone.
        let named = Some(sandbox.link(&sandbox.call)).filter(|name| self.has(name));
        made.chain(named).collect()
    }

    /// The ports, by name.
    pub fn ports(&self) -> impl Iterator<Item = (&LinkName, &ObservedPort)> {
        self.ports.iter()
    }

    /// The links of a pod's interface, the newest last.
    pub fn links_of_pod(&self, uid: &str, interface: &str) -> impl Iterator<Item = &LinkName> {
        self.links_by_pod.get(&(uid.to_owned(), interface.to_owned())).into_iter().flat_map(BTreeMap::values)
    }

    /// Every unit of a pod, by its UID.
    pub fn units_of_pod(&self, uid: &str) -> BTreeSet<LinkName> {
        self.by_pod.get(uid).cloned().unwrap_or_default()
    }

    /// A link was seen, or seen to be gone. Answers the units that this concerns: which of several links of one pod's interface is the
    /// newest may have changed.
    pub fn set_link(&mut self, name: &LinkName, link: Option<&ObservedLink>) -> BTreeSet<LinkName> {
        let mut concerned = BTreeSet::from([name.clone()]);
        let was_unnoted = self.unnoted.remove(name).is_some();
        if !was_unnoted && link.is_some() && self.links.get(name) == link {
            return BTreeSet::new();
        }
        self.unindex(name);
        let old = match link {
            Some(new) => self.links.insert(name.clone(), new.clone()),
            None => self.links.remove(name),
        };
        self.index(name);
        let key = |link: &ObservedLink| {
            let note = link.tag.note().filter(|_| !link.is_returning())?;
            Some((note.pod_uid.clone()?, note.interface.clone()))
        };
        if let Some((key, old)) = old.as_ref().and_then(|old| Some((key(old)?, old)))
            && let Some(links) = self.links_by_pod.get_mut(&key)
        {
            links.remove(&old.index);
            concerned.extend(links.values().cloned());
            if links.is_empty() {
                self.links_by_pod.remove(&key);
            }
        }
        if let Some((key, new)) = link.and_then(|new| Some((key(new)?, new))) {
            let links = self.links_by_pod.entry(key).or_default();
            links.insert(new.index, name.clone());
            concerned.extend(links.values().cloned());
        }
        concerned
    }

    /// A link without a note was seen. One of a sandbox that had a note keeps it: somebody else removed it. One of the node itself may be
    /// another by now, which Open vSwitch made in its place.
    pub fn set_unnoted(&mut self, name: &LinkName, switched: Switched) {
        if name.is_of_holder() {
            self.set_link(name, None);
        }
        if !self.links.contains_key(name) {
            self.unnoted.insert(name.clone(), switched);
        }
    }

    /// A port was seen, or seen to be gone.
    pub fn set_port(&mut self, name: &LinkName, port: Option<ObservedPort>) {
        self.unindex(name);
        match port {
            Some(port) => drop(self.ports.insert(name.clone(), port)),
            None if self.ports.remove(name).is_some() => self.removals.removed(name.as_str()),
            None => {}
        }
        self.index(name);
    }

    /// The numbers of Open vSwitch's configuration were seen, no earlier than what is said of ports after this. True if who waits for a
    /// removal to be seen is to be compared again.
    pub fn set_configuration(&mut self, now: Configuration) -> bool {
        self.removals.configured(now)
    }

    /// What is noted on a link and its port: the same, unless somebody changed one.
    fn notes(&self, name: &LinkName) -> Vec<Note> {
        let (link, port) = (self.links.get(name), self.ports.get(name));
        let tags = [link.map(|link| &link.tag), port.map(|port| &port.tag)];
        tags.into_iter().flatten().filter_map(Tag::note).cloned().collect()
    }

    fn unindex(&mut self, name: &LinkName) {
        for note in self.notes(name) {
            remove(&mut self.by_sandbox, &note.sandbox, name);
            if let Some(uid) = &note.pod_uid {
                remove(&mut self.by_pod, uid, name);
            }
        }
    }

    fn index(&mut self, name: &LinkName) {
        for note in self.notes(name) {
            self.by_sandbox.entry(note.sandbox).or_default().insert(name.clone());
            if let Some(uid) = note.pod_uid {
                self.by_pod.entry(uid).or_default().insert(name.clone());
            }
        }
    }

    /// A guard was made or removed.
    pub fn set_guard(&mut self, name: &LinkName, guard: Guard) {
        match guard {
            Guard::Present(admits) => drop(self.guards.insert(name.clone(), admits)),
            Guard::Absent => drop(self.guards.remove(name)),
        }
    }

    /// The bridge was seen, or seen to be gone. True if that is a change.
    pub fn set_datapath(&mut self, datapath: Option<Datapath>) -> bool {
        std::mem::replace(&mut self.datapath, datapath) != datapath
    }
}

fn remove<K: Ord>(index: &mut BTreeMap<K, BTreeSet<LinkName>>, key: &K, name: &LinkName) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

/// Whether a guard exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// It does, and lets this through.
    Present(Admits),
    /// It does not, or it is not as guards are.
    Absent,
}
