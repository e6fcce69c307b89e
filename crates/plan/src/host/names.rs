//! Names of what is made on a node, and the tags by which it is found again.

use std::fmt;
use std::str::FromStr;

use ovsdb_core::{SmolStr, Uuid};

use super::function::Function;

/// The namespace of the UUIDs of rows that agents make.
const ROWS: Uuid = Uuid::from_u128(0x8f5a_3d1c_6e0b_4c57_9b7e_2d40_51c6_a3f8);
/// What the notes of links begin with: of sandboxes, and of ports of the node itself.
const PREFIX: &str = "portolan";
const HOLDER_PREFIX: &str = "portolan-holder";
/// What the names of links begin with: of sandboxes, and of ports of the node itself.
const OF_SANDBOX: &str = "pt";
const OF_HOLDER: &str = "pn";
/// How many hexadecimal digits follow.
const DIGITS: usize = 12;
/// The kind of holder that has ports of the node itself.
const NETWORK_ATTACHMENT: &str = "NetworkAttachment";
/// The longest alias that the kernel accepts.
const LONGEST_NOTE: usize = 255;
/// Stands for a pod UID that is not known yet.
const UNKNOWN: &str = "-";

/// The container and the interface name of a CNI call: everything that the call makes is tagged with both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sandbox {
    /// The container's id.
    pub container: String,
    /// The interface that the call names. It may make others besides.
    pub call: String,
}

impl Sandbox {
    /// The host-side link of one of its interfaces.
    pub fn link(&self, interface: &str) -> LinkName {
        LinkName::new(&self.container, interface)
    }
}

/// The name of a link of the node, also that of its port and of its guard: the host-side link of a sandbox's interface, or a port of the
/// node itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName(SmolStr);

impl LinkName {
    /// Of a sandbox's interface: a function of the container's id and the interface's name. `pt` and twelve hexadecimal digits.
    pub fn new(container: &str, interface: &str) -> Self {
        Self::of(OF_SANDBOX, row("link", container, interface))
    }

    /// Of a `NetworkAttachment`: a function of its UID, so that one that is made again under its name has another. `pn` and twelve
    /// hexadecimal digits.
    pub fn of_attachment(uid: &str) -> Self {
        Self::of(OF_HOLDER, row("link", NETWORK_ATTACHMENT, uid))
    }

    fn of(prefix: &str, unique: Uuid) -> Self {
        LinkName(format!("{prefix}{}", &unique.simple().to_string()[..DIGITS]).into())
    }

    /// The text, if it can be such a name.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = [OF_SANDBOX, OF_HOLDER].iter().find_map(|prefix| text.strip_prefix(prefix))?;
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (digits.len() == DIGITS && digits.bytes().all(is_digit)).then(|| LinkName(text.into()))
    }

    /// Whether it is a port of the node itself, which the engine makes; every other link is made by a CNI call.
    pub fn is_of_holder(&self) -> bool {
        self.0.starts_with(OF_HOLDER)
    }

    /// As the kernel and Open vSwitch have it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The UUID of a row of `table` for an interface of a container, or for a holder of a kind.
fn row(table: &str, container: &str, interface: &str) -> Uuid {
    Uuid::new_v5(&ROWS, format!("{table}\0{container}\0{interface}").as_bytes())
}

/// Whose a link or a port is: what is noted on the link, as its alias, and what the tags of the port say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag {
    /// An interface of a sandbox.
    Sandbox(Note),
    /// A port of the node itself.
    Holder(HolderTag),
}

impl Tag {
    /// The note of a sandbox's interface.
    pub fn note(&self) -> Option<&Note> {
        match self {
            Tag::Sandbox(note) => Some(note),
            Tag::Holder(_) => None,
        }
    }

    /// The UID of the object it is for, if it is known: of a pod, or of the holder of its addresses.
    pub fn owner(&self) -> Option<&str> {
        match self {
            Tag::Sandbox(note) => note.pod_uid.as_deref(),
            Tag::Holder(holder) => Some(&holder.uid),
        }
    }

    /// The link.
    pub fn link(&self) -> LinkName {
        match self {
            Tag::Sandbox(note) => note.link(),
            Tag::Holder(holder) => holder.link(),
        }
    }

    /// The UUID of the row of its port.
    pub fn port_row(&self) -> Uuid {
        self.row("Port")
    }

    /// The UUID of the row of its interface.
    pub fn interface_row(&self) -> Uuid {
        self.row("Interface")
    }

    fn row(&self, table: &str) -> Uuid {
        match self {
            Tag::Sandbox(note) => row(table, &note.sandbox.container, &note.interface),
            Tag::Holder(holder) => row(table, NETWORK_ATTACHMENT, &holder.uid),
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tag::Sandbox(note) => note.fmt(f),
            Tag::Holder(holder) => holder.fmt(f),
        }
    }
}

impl FromStr for Tag {
    type Err = NotANote;

    fn from_str(text: &str) -> Result<Self, NotANote> {
        text.parse().map(Tag::Holder).or_else(|_| text.parse().map(Tag::Sandbox))
    }
}

/// Whose a port of the node itself is: the holder of its addresses, which is a `NetworkAttachment`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderTag {
    /// Its UID.
    pub uid: String,
    /// Its namespace and name; none if a note has no room for them.
    pub name: Option<(String, String)>,
}

impl HolderTag {
    /// Of a `NetworkAttachment`.
    pub fn of_attachment(namespace: &str, name: &str, uid: &str) -> Self {
        let name = Some((namespace.to_owned(), name.to_owned()));
        Self { uid: uid.to_owned(), name }
    }

    /// Its link.
    pub fn link(&self) -> LinkName {
        LinkName::of_attachment(&self.uid)
    }
}

impl fmt::Display for HolderTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{HOLDER_PREFIX} {NETWORK_ATTACHMENT} {}", self.uid);
        let name = self.name.as_ref().map(|(namespace, name)| format!(" {namespace}/{name}"));
        f.write_str(&text)?;
        f.write_str(&name.filter(|name| text.len() + name.len() <= LONGEST_NOTE).unwrap_or_default())
    }
}

impl FromStr for HolderTag {
    type Err = NotANote;

    fn from_str(text: &str) -> Result<Self, NotANote> {
        let words: Vec<_> = text.split(' ').collect();
        let (uid, name) = match *words.as_slice() {
            [HOLDER_PREFIX, NETWORK_ATTACHMENT, uid] => (uid, None),
            [HOLDER_PREFIX, NETWORK_ATTACHMENT, uid, name] => {
                (uid, Some(name.split_once('/').ok_or(NotANote)?))
            }
            _ => return Err(NotANote),
        };
        if uid.is_empty() {
            return Err(NotANote);
        }
        let name = name.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        Ok(Self { uid: uid.to_owned(), name })
    }
}

/// What is noted on the host-side link of a sandbox's interface: all that is needed to make its port again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    /// The call that made it.
    pub sandbox: Sandbox,
    /// The interface in the pod.
    pub interface: String,
    /// The pod's UID; none until it is known.
    pub pod_uid: Option<String>,
    /// The name of the CNI network; empty if it is not known.
    pub network: String,
    /// The function whose representor the link is; none for a link that was made for the interface.
    pub function: Option<Function>,
}

impl Note {
    /// The host-side link.
    pub fn link(&self) -> LinkName {
        self.sandbox.link(&self.interface)
    }

    /// The UUID of the row of its interface.
    pub fn interface_row(&self) -> Uuid {
        row("Interface", &self.sandbox.container, &self.interface)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { sandbox: Sandbox { container, call }, interface, pod_uid, network, function } = self;
        let uid = pod_uid.as_deref().unwrap_or(UNKNOWN);
        let function_before = |rest: &str| match function {
            // Its former settings go first if there is no room for all.
            Some(function) => function.to_words(LONGEST_NOTE.saturating_sub(PREFIX.len() + rest.len())),
            None => String::new(),
        };
        let rest = format!(" {container} {call} {interface} {uid}");
        let text = format!("{PREFIX}{}{rest}", function_before(&rest));
        f.write_str(&text)?;
        if text.len() + 1 + network.len() <= LONGEST_NOTE {
            write!(f, " {network}")?;
        }
        Ok(())
    }
}

/// The text is not a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not the note of a Portolan link")]
pub struct NotANote;

impl FromStr for Note {
    type Err = NotANote;

    fn from_str(text: &str) -> Result<Self, NotANote> {
        let mut words = text.splitn(6, ' ');
        let mut next = || words.next().filter(|word| !word.is_empty()).map(str::to_owned).ok_or(NotANote);
        let function = match next()?.strip_prefix(PREFIX).ok_or(NotANote)? {
            "" => None,
            words => Some(words.parse()?),
        };
        let sandbox = Sandbox { container: next()?, call: next()? };
        let (interface, uid) = (next()?, next()?);
        let network = next().unwrap_or_default();
        Ok(Note { sandbox, interface, pod_uid: Some(uid).filter(|uid| uid != UNKNOWN), network, function })
    }
}
