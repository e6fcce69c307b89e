//! Virtual functions of network cards and their representors, as sysfs shows them.
//!
//! ```text
//!  bus/pci/devices/0000:03:00.2/physfn   -> ../0000:03:00.0     the physical function
//!                              /driver   -> …/vfio-pci          who has the function
//!                              /net/enp3s0f0v0                  its link, while that is in this network namespace
//!  bus/pci/devices/0000:03:00.0/virtfn0  -> ../0000:03:00.2     which of its functions it is
//!                              /net/enp3s0f0np0                 the uplink
//!  class/net/<link>/phys_switch_id, phys_port_name              a representor: the uplink's switch, and pf0vf0 or 0
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::rtnetlink::{Link, LinkKind};

/// Where the kernel shows its devices.
const SYSFS: &str = "/sys";
/// Drivers that leave a function to a program or a virtual machine: it has no link.
const FOR_USER_SPACE: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// The address of a PCI device, as sysfs writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress(String);

/// The text is not the address of a PCI device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is not the address of a PCI device as in 0000:03:00.2: domain, bus, device and function, in lower case"
)]
pub struct NotAPciAddress;

impl PciAddress {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number of the function of its device.
    fn function(&self) -> Option<u32> {
        self.0.rsplit('.').next()?.parse().ok()
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PciAddress {
    type Err = NotAPciAddress;

    fn from_str(text: &str) -> std::result::Result<Self, NotAPciAddress> {
        let is_hex = |text: &str, lengths: std::ops::RangeInclusive<usize>| {
            let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
            lengths.contains(&text.len()) && text.bytes().all(digit)
        };
        let parts: Vec<&str> = text.splitn(4, ':').collect();
        let [domain, bus, rest] = parts[..] else { return Err(NotAPciAddress) };
        let (device, function) = rest.split_once('.').ok_or(NotAPciAddress)?;
        let is_function = matches!(function.as_bytes(), [b'0'..=b'7']);
        // Domains of five digits are those of volume management devices.
        let fits = is_hex(domain, 4..=5) && is_hex(bus, 2..=2) && is_hex(device, 2..=2) && is_function;
        if fits { Ok(Self(text.to_owned())) } else { Err(NotAPciAddress) }
    }
}

/// A virtual function of a network card that is a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualFunction {
    /// Its address.
    pub address: PciAddress,
    /// Which of the functions of its physical function it is.
    pub index: u32,
    /// The link of its physical function.
    pub uplink: String,
    /// The link at the switch that what the function sends comes out of.
    pub representor: String,
    /// Whether a driver for user space has it, so that it has no link.
    pub is_for_user_space: bool,
}

/// The kernel's devices, or for tests a directory that is made up like them.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self::at(SYSFS)
    }
}

impl Sysfs {
    /// The devices that are shown in this directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A virtual function with its representor, or why it is none that can be used.
    pub fn virtual_function(&self, address: &PciAddress) -> Result<VirtualFunction> {
        let wrong = |problem: String| Error::Device { address: address.to_string(), problem };
        let directory = self.device(address);
        if !directory.is_dir() {
            return Err(wrong("does not exist on this node".into()));
        }
        let physical = link_target(&directory.join("physfn")).and_then(|name| name.parse().ok());
        let physical: PciAddress = physical.ok_or_else(|| {
            let is_physical = directory.join("sriov_numvfs").exists();
            let what =
                if is_physical { "a physical function" } else { "no virtual function of a network card" };
            wrong(format!("is {what}; pods get virtual functions: let the device plugin offer these"))
        })?;
        let index = self.index_of(address, &physical);
        let index = index.ok_or_else(|| wrong(format!("is not among the functions of {physical}")))?;
        let uplinks = self.links_of(&physical);
        let switch = uplinks.iter().find_map(|link| Some((link, self.attribute(link, "phys_switch_id")?)));
        let (uplink, switch) = switch.ok_or_else(|| {
            wrong(format!(
                "has no representor, as its network card {physical} is no switch: run devlink dev eswitch set pci/{physical} mode switchdev"
            ))
        })?;
        let is_representor = |link: &String| {
            self.attribute(link, "phys_switch_id").as_ref() == Some(&switch)
                && self
                    .attribute(link, "phys_port_name")
                    .is_some_and(|port| is_port_of(&port, physical.function(), index))
        };
        // Representors belong to the physical function, says the kernel, if the driver says so. Otherwise all links of the node are looked at.
        let of_physical = uplinks.iter().filter(|link| is_representor(link)).cloned().collect::<Vec<_>>();
        let found = match of_physical.is_empty() {
            false => of_physical,
            true => names_in(&self.root.join("class/net")).into_iter().filter(is_representor).collect(),
        };
        let representor = match &found[..] {
            [one] => one.clone(),
            [] => {
                return Err(wrong(format!(
                    "has no representor in the node's network namespace: no link has phys_switch_id {switch} and phys_port_name \
                     pf{}vf{index}",
                    physical.function().unwrap_or_default()
                )));
            }
            several => return Err(wrong(format!("has several representors: {}", several.join(", ")))),
        };
        let driver = link_target(&directory.join("driver"));
        let is_for_user_space = driver.is_some_and(|driver| FOR_USER_SPACE.contains(&driver.as_str()));
        Ok(VirtualFunction {
            address: address.clone(),
            index,
            // Of several links, such as representors, that of the physical function itself is the one that names no function.
            uplink: self.uplink_among(&uplinks).unwrap_or(uplink).clone(),
            representor,
            is_for_user_space,
        })
    }

    /// The names of the links that a device has in this network namespace.
    pub fn links_of(&self, address: &PciAddress) -> Vec<String> {
        names_in(&self.device(address).join("net"))
    }

    /// Whether a link, of whichever namespace, is that of a device. In a directory that is made up the kernel knows nothing of the device:
    /// there a link that belongs to no device at all is taken for it.
    pub fn is_link_of(&self, link: &Link, address: &PciAddress) -> bool {
        match &link.device {
            Some(device) => device == address.as_str(),
            None => self.root != Path::new(SYSFS),
        }
    }

    /// Whether a link may be that of a device at all. A pair of links is of none; where devices are made up, it stands for one.
    pub fn may_be_of_device(&self, link: &Link) -> bool {
        link.kind != LinkKind::Veth || self.root != Path::new(SYSFS)
    }

    /// Whether a link of this network namespace is that of a virtual function, and no representor: a pod may have had it, and may have
    /// named and noted it as it liked.
    pub fn is_of_function(&self, link: &Link) -> bool {
        let address = link.device.as_deref().and_then(|device| device.parse().ok());
        address
            .is_some_and(|address: PciAddress| link_target(&self.device(&address).join("physfn")).is_some())
    }

    fn device(&self, address: &PciAddress) -> PathBuf {
        self.root.join("bus/pci/devices").join(address.as_str())
    }

    fn index_of(&self, address: &PciAddress, physical: &PciAddress) -> Option<u32> {
        let directory = self.device(physical);
        let names = names_in(&directory);
        let is_it = |name: &&String| link_target(&directory.join(name)).as_deref() == Some(address.as_str());
        let mut functions = names.iter().filter(|name| name.starts_with("virtfn"));
        functions.find(is_it)?.strip_prefix("virtfn")?.parse().ok()
    }

    fn uplink_among<'a>(&self, links: &'a [String]) -> Option<&'a String> {
        let names_a_function = |port: String| port.contains("vf") || port.bytes().all(|b| b.is_ascii_digit());
        links.iter().find(|link| !self.attribute(link, "phys_port_name").is_some_and(names_a_function))
    }

    /// What a link says about itself. Reading it fails for links that have no such thing to say.
    fn attribute(&self, link: &str, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.root.join("class/net").join(link).join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

/// Whether a port of a switch leads to a virtual function: `pf<physical>vf<index>`, or as older drivers write it the index alone.
fn is_port_of(port: &str, physical: Option<u32>, index: u32) -> bool {
    let number = |text: &str| text.parse::<u32>().ok();
    match port.strip_prefix("pf").and_then(|rest| rest.split_once("vf")) {
        Some((of, function)) => number(of) == physical && number(function) == Some(index),
        None => number(port) == Some(index),
    }
}

/// The last part of what a symbolic link points to.
fn link_target(path: &Path) -> Option<String> {
    std::fs::read_link(path).ok()?.file_name()?.to_str().map(str::to_owned)
}

/// The names in a directory, in order; none if it cannot be read.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const PF: &str = "0000:03:00.1";
    const VF: &str = "0000:03:00.3";

    struct Tree(PathBuf);

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    impl Tree {
        /// A card with two ports, of which the second one has two functions.
        fn new(name: &str) -> Self {
            let tree = Self(std::env::temp_dir().join(format!("portolan-pci-{}-{name}", std::process::id())));
            for device in [PF, VF, "0000:03:00.2", "0000:00:1f.0"] {
                fs::create_dir_all(tree.device(device).join("net")).unwrap();
            }
            fs::write(tree.device(PF).join("sriov_numvfs"), "2\n").unwrap();
            for (index, function) in ["0000:03:00.2", VF].into_iter().enumerate() {
                symlink(format!("../{function}"), tree.device(PF).join(format!("virtfn{index}"))).unwrap();
                symlink(format!("../{PF}"), tree.device(function).join("physfn")).unwrap();
            }
            for (link, switch, port) in [
                ("p1", "0a", "p1"),
                ("p1_0", "0a", "pf1vf0"),
                ("p1_1", "0a", "pf1vf1"),
                ("p0_1", "0a", "pf0vf1"),
                ("x", "0b", "pf1vf1"),
            ] {
                tree.link(link, switch, port);
            }
            for link in ["p1", "p1_0", "p1_1"] {
                fs::create_dir(tree.device(PF).join("net").join(link)).unwrap();
            }
            fs::create_dir(tree.device(VF).join("net/v1")).unwrap();
            tree
        }

        fn device(&self, address: &str) -> PathBuf {
            self.0.join("bus/pci/devices").join(address)
        }

        fn link(&self, name: &str, switch: &str, port: &str) {
            let directory = self.0.join("class/net").join(name);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("phys_switch_id"), format!("{switch}\n")).unwrap();
            fs::write(directory.join("phys_port_name"), format!("{port}\n")).unwrap();
        }

        fn function(&self, address: &str) -> std::result::Result<VirtualFunction, String> {
            Sysfs::at(&self.0).virtual_function(&address.parse().unwrap()).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn a_function_is_found_with_the_representor_of_its_own_port_and_switch() {
        let tree = Tree::new("found");
        let found = tree.function(VF).unwrap();
        assert_eq!((found.index, found.representor.as_str(), found.uplink.as_str()), (1, "p1_1", "p1"));
        assert!(!found.is_for_user_space);
        assert_eq!(Sysfs::at(&tree.0).links_of(&found.address), ["v1"]);
        // As older drivers name ports.
        tree.link("p1_1", "0a", "1");
        assert_eq!(tree.function(VF).unwrap().representor, "p1_1");
        symlink("../../../drivers/vfio-pci", tree.device(VF).join("driver")).unwrap();
        assert!(tree.function(VF).unwrap().is_for_user_space);
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason() {
        let tree = Tree::new("refused");
        let refused = |address: &str, reason: &str| {
            let error = tree.function(address).unwrap_err();
            assert!(
                error.starts_with(&format!("PCI device {address} ")) && error.contains(reason),
                "{error}"
            );
        };
        refused("0000:09:00.0", "does not exist on this node");
        refused(PF, "is a physical function; pods get virtual functions");
        refused("0000:00:1f.0", "is no virtual function of a network card");
        tree.link("other", "0a", "pf1vf1");
        assert_eq!(tree.function(VF).unwrap().representor, "p1_1", "the one that is known to be the card's");
        fs::remove_dir(tree.device(PF).join("net/p1_1")).unwrap();
        refused(VF, "has several representors: other, p1_1");
        for link in ["other", "p1_1"] {
            fs::remove_dir_all(tree.0.join("class/net").join(link)).unwrap();
        }
        refused(VF, "no link has phys_switch_id 0a and phys_port_name pf1vf1");
        for link in ["p1", "p1_0"] {
            fs::remove_file(tree.0.join("class/net").join(link).join("phys_switch_id")).unwrap();
        }
        refused(VF, "devlink dev eswitch set pci/0000:03:00.1 mode switchdev");
        fs::remove_file(tree.device(PF).join("virtfn1")).unwrap();
        refused(VF, "is not among the functions of 0000:03:00.1");
    }

    #[test]
    fn a_link_of_no_device_is_a_functions_only_where_devices_are_made_up() {
        let address: PciAddress = VF.parse().unwrap();
        let of = |device: Option<&str>| Link { device: device.map(str::to_owned), ..Link::default() };
        let (real, made_up) = (Sysfs::default(), Sysfs::at("/tmp"));
        assert!(real.is_link_of(&of(Some(VF)), &address) && made_up.is_link_of(&of(Some(VF)), &address));
        assert!(!real.is_link_of(&of(Some(PF)), &address) && !made_up.is_link_of(&of(Some(PF)), &address));
        assert!(!real.is_link_of(&of(None), &address) && made_up.is_link_of(&of(None), &address));
        let pair = Link { kind: LinkKind::Veth, ..Link::default() };
        assert!(!real.may_be_of_device(&pair) && made_up.may_be_of_device(&pair));
        assert!(real.may_be_of_device(&of(None)));
    }

    #[test]
    fn only_what_sysfs_writes_is_an_address() {
        for address in [VF, "10000:e1:00.0", "ffff:ff:1f.7"] {
            assert_eq!(address.parse::<PciAddress>().unwrap().as_str(), address);
        }
        for other in [
            "",
            ".",
            "..",
            "../../etc",
            "03:00.2",
            "0000:03:00",
            "0000:03:00.8",
            "0000:03:00.10",
            "0000:03:0G.1",
            "0000:0A:00.2",
            " 0000:03:00.2",
            "0000:03:00.2\n",
            "0000:03:00.2/..",
            "0000:03:00:00.2",
            "mlx5_core.sf.4",
            "0000:03:é.2",
        ] {
            assert_eq!(other.parse::<PciAddress>(), Err(NotAPciAddress), "{other:?}");
        }
        assert!("0".repeat(1 << 20).parse::<PciAddress>().is_err());
    }

    #[test]
    fn a_link_is_known_by_the_device_that_the_kernel_names() {
        let address: PciAddress = VF.parse().unwrap();
        let link = |device: Option<&str>| Link { device: device.map(str::to_owned), ..Link::default() };
        assert!(Sysfs::default().is_link_of(&link(Some(VF)), &address));
        assert!(!Sysfs::default().is_link_of(&link(Some(PF)), &address));
        // What somebody made in a pod, under the name that the function's link had.
        assert!(!Sysfs::default().is_link_of(&link(None), &address));
        assert!(Sysfs::at("/tmp/made-up").is_link_of(&link(None), &address));
        assert!(!Sysfs::at("/tmp/made-up").is_link_of(&link(Some(PF)), &address));
        let tree = Tree::new("of-function");
        assert!(Sysfs::at(&tree.0).is_of_function(&link(Some(VF))));
        assert!(!Sysfs::at(&tree.0).is_of_function(&link(Some(PF))));
        assert!(!Sysfs::at(&tree.0).is_of_function(&link(None)));
    }
}
