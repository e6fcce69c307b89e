//! Names of what is made for a sandbox's interface, and the note by which it is found again.

use std::fmt;
use std::str::FromStr;

use ovsdb_core::{SmolStr, Uuid};

/// The namespace of the UUIDs of rows that agents make.
const ROWS: Uuid = Uuid::from_u128(0x8f5a_3d1c_6e0b_4c57_9b7e_2d40_51c6_a3f8);
/// What the notes of links begin with.
const PREFIX: &str = "portolan";
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

/// The name of the host-side link of a sandbox's interface, also that of its port and of its guard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName(SmolStr);

impl LinkName {
    /// A function of the container's id and the interface's name. `pt` and twelve hexadecimal digits.
    pub fn new(container: &str, interface: &str) -> Self {
        let unique = row("link", container, interface).simple().to_string();
        LinkName(format!("pt{}", &unique[..12]).into())
    }

    /// The text, if it can be such a name.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("pt")?;
        let fits =
            digits.len() == 12 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        fits.then(|| LinkName(text.into()))
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

/// The UUID of a row of `table` for an interface of a container.
pub(super) fn row(table: &str, container: &str, interface: &str) -> Uuid {
    Uuid::new_v5(&ROWS, format!("{table}\0{container}\0{interface}").as_bytes())
}

/// What is noted on a host-side link, as its alias: all that is needed to make its port again.
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
}

impl Note {
    /// The host-side link.
    pub fn link(&self) -> LinkName {
        self.sandbox.link(&self.interface)
    }

    /// The UUID of the row of its port.
    pub fn port_row(&self) -> Uuid {
        row("Port", &self.sandbox.container, &self.interface)
    }

    /// The UUID of the row of its interface.
    pub fn interface_row(&self) -> Uuid {
        row("Interface", &self.sandbox.container, &self.interface)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { sandbox: Sandbox { container, call }, interface, pod_uid, network } = self;
        let uid = pod_uid.as_deref().unwrap_or(UNKNOWN);
        let text = format!("{PREFIX} {container} {call} {interface} {uid}");
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
        if next()? != PREFIX {
            return Err(NotANote);
        }
        let sandbox = Sandbox { container: next()?, call: next()? };
        let (interface, uid) = (next()?, next()?);
        let network = next().unwrap_or_default();
        Ok(Note { sandbox, interface, pod_uid: Some(uid).filter(|uid| uid != UNKNOWN), network })
    }
}
