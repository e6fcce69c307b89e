//! A machine of a lab: a network and mount namespace on the underlay, with the directories that each machine has for itself.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};

use crate::command::Command;
use crate::control_group::ControlGroup;
use crate::error::{Result, Trying};
use crate::lab::Lab;
use crate::namespace::Namespace;
use crate::underlay::Underlay;

/// The link to the underlay.
pub(crate) const LINK: &str = "eth0";

/// A machine that runs. Cloning gives another handle to the same one; it ends with the last, or when it is switched off.
///
/// Its `/run`, `/var/lib` and `/var/log` are its own and empty at first; `/etc` and `/opt` show the files of the machine that the
/// lab runs on, and what is written there stays in this one. So do the settings of the kernel that a kubelet changes and that are not of a
/// namespace: they show what was written, and have no effect. The rest of the file system is that machine's.
#[derive(Clone, Debug)]
pub struct Machine {
    name: String,
    address: Ipv4Addr,
    namespace: Namespace,
    run: PathBuf,
    control_group: Option<ControlGroup>,
}

/// How a machine shall be. It can be started again after it was switched off.
#[derive(Clone, Debug)]
#[must_use = "no machine runs until it is started"]
pub struct MachineBuilder {
    name: String,
    address: Option<Ipv4Addr>,
    disk: Disk,
    processes: Processes,
}

/// Settings of the kernel that are the whole machine's, and that a kubelet changes.
const SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// Where a machine keeps its changes to `/etc` and `/opt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    /// In memory, which works on every file system below.
    Memory,
    /// In the lab's scratch directory, which must be on a file system that an overlay can write to.
    Kept,
}

/// How a machine's processes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Processes {
    /// By the mark of the lab.
    Marked,
    /// By its control group.
    Grouped,
}

impl Machine {
    /// A machine of this name, which must be unique in the lab.
    pub fn builder(name: impl Into<String>) -> MachineBuilder {
        MachineBuilder { name: name.into(), address: None, disk: Disk::Memory, processes: Processes::Marked }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address on the underlay. It is put on a link by [`Machine::take_address`], or by Open vSwitch.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Its namespaces.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// A command to run on it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// Its `/run` as seen from outside: Unix sockets in it can be connected to from anywhere.
    pub fn run_directory(&self) -> &Path {
        &self.run
    }

    /// Any of its paths, as seen from outside.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.namespace.file(path)
    }

    /// The control group of all its processes, if it has one.
    pub fn control_group(&self) -> Option<&ControlGroup> {
        self.control_group.as_ref()
    }

    /// Puts its address on its link to the underlay.
    pub fn take_address(&self) -> Result<()> {
        let address = format!("{}/{}", self.address, Underlay::PREFIX_LENGTH);
        self.namespace.ip(&format!("address add {address} dev {LINK}"))
    }

    /// Unplugs it and kills all its processes, containers and all. Its disk stays. For machines with a control group.
    pub fn switch_off(self) -> Result<()> {
        // First, so that nobody sees one process after the other end.
        self.namespace.ip(&format!("link delete {LINK}"))?;
        self.control_group.map_or(Ok(()), |group| group.end())
    }
}

/// The MAC address of the link to the underlay.
pub(crate) fn link_mac(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

impl MachineBuilder {
    /// Gives it this address, which is one of [`Underlay::node_address`]. Without this it takes the next.
    pub fn address(mut self, address: Ipv4Addr) -> Self {
        self.address = Some(address);
        self
    }

    /// Its disk is kept when it is switched off, and is there when it is started again: all of its directories but `/run`.
    pub fn keep_disk(mut self) -> Self {
        self.disk = Disk::Kept;
        self
    }

    /// Puts all its processes into a control group, so that they are found and ended also when they are those of containers.
    pub fn control_group(mut self) -> Self {
        self.processes = Processes::Grouped;
        self
    }

    /// Starts it on an underlay.
    pub fn start(&self, underlay: &Underlay) -> Result<Machine> {
        let lab = underlay.lab();
        let address = self.address.map_or_else(|| underlay.node_address(), Ok)?;
        let control_group = match self.processes {
            Processes::Marked => None,
            Processes::Grouped => Some(ControlGroup::of(lab, &self.name)),
        };
        control_group.iter().try_for_each(ControlGroup::make)?;
        let mounts = Mounts::make(lab, &self.name, self.disk)?;
        let run = mounts.run.clone();
        let entrance = control_group.as_ref().map(ControlGroup::entrance);
        let namespace =
            Namespace::network_and_mounts(lab.scratch(), &self.name, entrance, move || mounts.mount())?;
        underlay.plug(&namespace, LINK)?;
        // A machine that is switched on again has the card that it had.
        namespace.ip(&format!("link set {LINK} address {}", link_mac(address)))?;
        Ok(Machine { name: self.name.clone(), address, namespace, run, control_group })
    }
}

/// The directories that a machine has for itself.
struct Mounts {
    run: PathBuf,
    var_lib: PathBuf,
    var_log: PathBuf,
    layers: PathBuf,
    settings: PathBuf,
    disk: Disk,
}

impl Mounts {
    fn make(lab: &Lab, machine: &str, disk: Disk) -> Result<Self> {
        let directory = |name: &str| lab.directory(format!("{machine}/{name}"));
        let run = directory("run")?;
        // As every machine does when it starts.
        std::fs::remove_dir_all(&run).trying(|| format!("empty {}", run.display()))?;
        for name in ["run/lock", "run/netns", "run/ovn", "run/openvswitch", "var/lib/openvswitch"] {
            directory(name)?;
        }
        Ok(Self {
            run,
            var_lib: directory("var/lib")?,
            var_log: directory("var/log")?,
            layers: directory("layers")?,
            settings: directory("settings")?,
            disk,
        })
    }

    /// Puts them in place in the calling thread's mount namespace.
    fn mount(&self) -> Result<()> {
        let recursively = |propagation| MountPropagationFlags::REC | propagation;
        // Private first: nothing mounted here may show on the machine. Then shared: what a process of the node mounts must
        // show in those that it starts with mount namespaces of their own. Both before our mounts, so that they are part of it.
        mount_change("/", recursively(MountPropagationFlags::PRIVATE))
            .trying(|| "make mounts private".into())?;
        mount_change("/", recursively(MountPropagationFlags::SHARED))
            .trying(|| "make mounts shared".into())?;
        if self.disk == Disk::Memory {
            mount("tmpfs", &self.layers, "tmpfs", MountFlags::empty(), None)
                .trying(|| format!("mount {}", self.layers.display()))?;
        }
        for (path, made) in [("/etc", "cni/net.d"), ("/opt", "cni/bin")] {
            self.overlay(Path::new(path), made)?;
        }
        for (from, to) in [(&self.run, "/run"), (&self.var_lib, "/var/lib"), (&self.var_log, "/var/log")] {
            mount_bind(from, to).trying(|| format!("mount {to}"))?;
        }
        SETTINGS.iter().try_for_each(|setting| self.own_setting(Path::new(setting)))
    }

    /// Puts a plain file in the place of a setting of the kernel.
    fn own_setting(&self, setting: &Path) -> Result<()> {
        // A kernel may have been built without it.
        let Ok(value) = std::fs::read(setting) else { return Ok(()) };
        let file = self.settings.join(setting.file_name().unwrap_or_default());
        std::fs::write(&file, value).trying(|| format!("write {}", file.display()))?;
        mount_bind(&file, setting).trying(|| format!("mount {}", setting.display()))
    }

    /// Lets the machine write to `path`, and make the directory `made` in it, while the lab's machine's stays as it is.
    fn overlay(&self, path: &Path, made: &str) -> Result<()> {
        let layers = self.layers.join(path.strip_prefix("/").unwrap_or(path));
        let (upper, work) = (layers.join("upper"), layers.join("work"));
        for directory in [&upper, &work] {
            std::fs::create_dir_all(directory).trying(|| format!("make {}", directory.display()))?;
        }
        let options =
            format!("lowerdir={},upperdir={},workdir={}\0", path.display(), upper.display(), work.display());
        let options = std::ffi::CString::from_vec_with_nul(options.into_bytes())
            .map_err(std::io::Error::other)
            .trying(|| "name the layers of an overlay".into())?;
        mount("overlay", path, "overlay", MountFlags::empty(), options.as_c_str())
            .trying(|| format!("mount an overlay on {}", path.display()))?;
        let made = path.join(made);
        std::fs::create_dir_all(&made).trying(|| format!("make {}", made.display()))
    }
}
