//! Network functions as pods' ends of interfaces, and how they are noted on their representors.

use std::fmt;
use std::str::FromStr;

use super::names::NotANote;

/// A virtual function of a network card. Its link is the pod's end of an interface, and its representor the host-side link.
///
/// Both get other names while they are used. What they were called before must outlive the agent: it is part of the note on the
/// representor, which stays on the node whatever becomes of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// Its PCI address.
    pub address: String,
    /// The representor, as it was.
    pub representor: FormerLink,
    /// The function's own link, as it was; none if it has none, as a driver for user space has the function.
    pub link: Option<FormerLink>,
    /// The MAC address that the card had for one without a link, if it said so: the card keeps what is set for a pod.
    pub mac: Option<[u8; 6]>,
    /// Whether a sandbox has it.
    pub used: Use,
}

/// A link as it was before a pod had the function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormerLink {
    /// Its name.
    pub name: String,
    /// Its MAC address and its MTU; none if there was no room to note them.
    pub settings: Option<([u8; 6], u32)>,
}

/// Whether a sandbox has a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// It does, or is to have it.
    InUse,
    /// Not any more; but its namespace, which nobody can tell any more, still has the function's link. The kernel gives it back when the
    /// namespace ends.
    Returning,
}

/// Links are never named with any of these.
const BETWEEN: char = '/';
const SETTING: char = ':';
const IN_USE: char = '/';
const RETURNING: char = '~';

impl Function {
    /// What is noted of it, in at most `room` bytes if that can be.
    pub(super) fn to_words(&self, room: usize) -> String {
        let text = self.to_string();
        if text.len() <= room {
            return text;
        }
        let without = |link: &FormerLink| FormerLink { settings: None, ..link.clone() };
        let (representor, link) = (without(&self.representor), self.link.as_ref().map(without));
        Function { representor, link, mac: None, ..self.clone() }.to_string()
    }
}

/// `/0000:03:00.2/enp3s0f0npf0vf0:02000000000a:1500/enp3s0f0v0:02000000001a:1500`; without a link
/// `/0000:03:00.2/enp3s0f0npf0vf0:02000000000a:1500/:02000000001a`
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = match self.used {
            Use::InUse => IN_USE,
            Use::Returning => RETURNING,
        };
        write!(f, "{first}{}{BETWEEN}{}", self.address, self.representor)?;
        match (&self.link, &self.mac) {
            (Some(link), _) => write!(f, "{BETWEEN}{link}"),
            // A link has a name.
            (None, Some(mac)) => write!(f, "{BETWEEN}{SETTING}{}", Digits(mac)),
            (None, None) => Ok(()),
        }
    }
}

impl FromStr for Function {
    type Err = NotANote;

    fn from_str(text: &str) -> Result<Self, NotANote> {
        let (used, rest) = match text.strip_prefix(IN_USE) {
            Some(rest) => (Use::InUse, rest),
            None => (Use::Returning, text.strip_prefix(RETURNING).ok_or(NotANote)?),
        };
        let words: Vec<&str> = rest.split(BETWEEN).collect();
        let (address, representor, (link, mac)) = match words[..] {
            [address, representor] => (address, representor, (None, None)),
            [address, representor, rest] => match rest.strip_prefix(SETTING) {
                Some(mac) => (address, representor, (None, Some(parse_mac(mac)?))),
                None => (address, representor, (Some(rest.parse()?), None)),
            },
            _ => return Err(NotANote),
        };
        if address.is_empty() {
            return Err(NotANote);
        }
        Ok(Self { address: address.to_owned(), representor: representor.parse()?, link, mac, used })
    }
}

impl fmt::Display for FormerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let Some((mac, mtu)) = self.settings else { return Ok(()) };
        write!(f, "{SETTING}{}{SETTING}{mtu}", Digits(&mac))
    }
}

impl FromStr for FormerLink {
    type Err = NotANote;

    fn from_str(text: &str) -> Result<Self, NotANote> {
        let words: Vec<&str> = text.split(SETTING).collect();
        let (name, settings) = match words[..] {
            [name] => (name, None),
            [name, mac, mtu] => (name, Some((parse_mac(mac)?, mtu.parse().map_err(|_| NotANote)?))),
            _ => return Err(NotANote),
        };
        if name.is_empty() { Err(NotANote) } else { Ok(Self { name: name.to_owned(), settings }) }
    }
}

/// A MAC address in twelve hexadecimal digits.
struct Digits<'a>(&'a [u8; 6]);

impl fmt::Display for Digits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn parse_mac(text: &str) -> Result<[u8; 6], NotANote> {
    if text.len() != 12 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(NotANote);
    }
    let mut mac = [0; 6];
    for (at, byte) in mac.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| NotANote)?;
    }
    Ok(mac)
}
