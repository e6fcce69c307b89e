//! A network card with virtual functions, made up: no machine that runs tests needs one.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use portolan_lab::{Namespace, Node, Result};
use serde_json::Value;

/// The physical function, and the beginning of the addresses of its functions.
const PHYSICAL: &str = "0000:03:00.0";
const SWITCH: &str = "b8cef60300fa1c80";

/// A directory that shows a network card in switchdev mode as `/sys` would, and a pair of links on a node for each of its functions: one
/// stands for the function's own link, the other for its representor.
///
/// The kernel keeps `/sys` in step as links come, go and are renamed. Here the test does, with [`NetworkCard::function_has_link`] and
/// [`NetworkCard::rename_representor`]. And the kernel removes a pair of links with a namespace, while it gives back the links of real
/// functions.
#[derive(Debug)]
pub struct NetworkCard {
    root: PathBuf,
    node: Namespace,
}

impl NetworkCard {
    /// Puts a card into a node. The link of function 0 is `vf0`, its representor `rep0`, and so on; at most six.
    ///
    /// # Panics
    /// When the directory cannot be made.
    pub fn new(node: &Node, functions: usize) -> Result<Self> {
        let card = Self { root: node.run_directory().join("sys"), node: node.namespace().clone() };
        card.make_tree(functions).expect("a directory can be made in the node's run directory");
        card.node.ip("link add pf0 type veth peer name pf0-wire")?;
        for index in 0..functions {
            let (function, representor) = (format!("vf{index}"), format!("rep{index}"));
            card.node.ip(&format!("link add {representor} type veth peer name {function}"))?;
        }
        Ok(card)
    }

    fn make_tree(&self, functions: usize) -> io::Result<()> {
        fs::create_dir_all(self.device(PHYSICAL).join("net/pf0"))?;
        fs::write(self.device(PHYSICAL).join("sriov_numvfs"), format!("{functions}\n"))?;
        self.show_port("pf0", "p0")?;
        for index in 0..functions {
            let address = self.address(index);
            fs::create_dir_all(self.device(&address).join("net").join(format!("vf{index}")))?;
            symlink(format!("../{PHYSICAL}"), self.device(&address).join("physfn"))?;
            symlink(format!("../{address}"), self.device(PHYSICAL).join(format!("virtfn{index}")))?;
            self.show_port(&format!("rep{index}"), &format!("pf0vf{index}"))?;
        }
        Ok(())
    }

    fn show_port(&self, link: &str, port: &str) -> io::Result<()> {
        let directory = self.root.join("class/net").join(link);
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("phys_switch_id"), format!("{SWITCH}\n"))?;
        fs::write(directory.join("phys_port_name"), format!("{port}\n"))
    }

    fn device(&self, address: &str) -> PathBuf {
        self.root.join("bus/pci/devices").join(address)
    }

    /// The directory.
    pub fn sysfs(&self) -> &Path {
        &self.root
    }

    /// The address of the card itself.
    pub fn physical(&self) -> &'static str {
        PHYSICAL
    }

    /// The address of a function.
    pub fn address(&self, index: usize) -> String {
        format!("0000:03:00.{}", index + 2)
    }

    /// Shows a link of this name, or none, as that of a function.
    ///
    /// # Panics
    /// When the directory cannot be changed.
    pub fn function_has_link(&self, index: usize, name: Option<&str>) {
        let directory = self.device(&self.address(index)).join("net");
        let shown = fs::remove_dir_all(&directory).and_then(|()| fs::create_dir(&directory));
        shown
            .and_then(|()| name.map_or(Ok(()), |name| fs::create_dir(directory.join(name))))
            .expect("it can be changed");
    }

    /// Shows a function as bound to a driver.
    ///
    /// # Panics
    /// When the directory cannot be changed.
    pub fn bind(&self, index: usize, driver: &str) {
        let target = format!("../../../drivers/{driver}");
        symlink(target, self.device(&self.address(index)).join("driver")).expect("it can be changed");
    }

    /// Shows a representor under another name.
    ///
    /// # Panics
    /// When the directory cannot be changed.
    pub fn rename_representor(&self, from: &str, to: &str) {
        let links = self.root.join("class/net");
        fs::rename(links.join(from), links.join(to)).expect("it can be changed");
    }

    /// What the node's links are like: the name, MAC address, MTU, note and flags of each that is of the card, in order.
    ///
    /// # Panics
    /// When the node's links cannot be listed.
    pub fn links(&self) -> Vec<String> {
        let text =
            self.node.command("ip").args(["-json", "-details", "link"]).read().expect("links can be listed");
        let links: Value = serde_json::from_str(&text).expect("ip prints JSON");
        let of_card = |link: &&Value| {
            let name = link["ifname"].as_str().unwrap_or_default();
            ["vf", "rep"].iter().any(|start| name.starts_with(start))
        };
        let shown = |link: &Value| {
            let up = link["flags"].as_array().is_some_and(|flags| flags.contains(&"UP".into()));
            let (name, mac, note) = (&link["ifname"], &link["address"], &link["ifalias"]);
            format!("{name} {mac} {} {note} {}", link["mtu"], if up { "up" } else { "down" })
        };
        let mut links: Vec<_> = links.as_array().into_iter().flatten().filter(of_card).map(shown).collect();
        links.sort();
        links
    }
}
